"""A count over a region and values: an estimate, a range that is likely, and one that is certain.

A count without values counts people: cells say how many they have, and nobody is in two. A count with values counts
people's values, as queries do: a person with two of them counts twice. People who are withheld, and values that are not
shown at all, are in no count.

What is certain. For each group, `certain` rows lie in cells wholly inside the region, and `possible` rows in cells that
meet it. Of the places that it shows, some are nobody's, and nobody knows which.

Lasting. A row is an entry and has at most one value. Let c values that are asked for be shown, and n places be
nobody's. At least c - n of them are real, rows that are not certain take at most one each, so at least
c - n - (rows - certain) are in the region, and at most min(possible, c).

Redrawn. A row is a person, who has a leaf at most once but may have several. A shown node that holds n leaves that are
asked for, c times, is in the region at least c - n (rows - certain) times, before counterfeits are taken from the sum
of these over all nodes, and at most min(c, n possible) times.

A node counts for the lower end only if all leaves below it are asked for, and "*" never, for it may stand for nothing.

What is likely comes from a model of values given attributes (model.py, field.py, likely.py). It is fitted when it is
first needed; `even` asks for the estimate without it (query.py).
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.measure.entries import Numbers, Sides, add_up, sides_of
from shoal.core.measure.field import Field, field_of
from shoal.core.measure.likely import Unsure, likely_range
from shoal.core.measure.model import fit
from shoal.core.measure.places import Flags, Places, Region
from shoal.core.measure.query import Query, estimate
from shoal.core.measure.question import Question, Runs
from shoal.core.measure.release_reader import ReleaseColumns

Method: TypeAlias = Literal["model", "even"]
METHODS: Final = ("model", "even")
KEPT: Final = 64  # sets of values that are worked out once


class Count(NamedTuple):
    """An answer: the truth about what was published is certainly from `low` to `high`, both included, and, nine times
    in ten, within `likely`.
    """

    estimate: float
    low: int
    high: int
    likely: tuple[float, float]


class _Shown(NamedTuple):
    """Some values, as one release shows them."""

    leaves: Rows  # by shown value: how many leaves of it are asked for
    is_whole: Flags  # by shown value: it can be nothing else
    sure: Numbers  # by group: how many are shown that are nothing else
    maybe: Numbers  # by group: how many are shown that may be


class _Expected(NamedTuple):
    """Some values, as the model of one release has them."""

    by_cell: Numbers
    by_group: Numbers
    hidden: Numbers  # by group: the variance of that, as raised and suppressed values and vacant places leave it open
    share: float  # of all values
    variety: float


class Answers:
    """Answers questions about one release, which is arranged and fitted once."""

    def __init__(self, release: ReleaseColumns) -> None:
        self.release = release
        self._places = Places(release)
        self._shown = lru_cache(KEPT)(self._find_shown)
        self._expected = lru_cache(KEPT)(self._expect)

    @cached_property
    def sides(self) -> Sides:
        """The release by group."""
        return sides_of(self.release)

    @cached_property
    def field(self) -> Field:
        """The model's guess for every cell; only if the release has rows."""
        return field_of(self.release, self.sides, fit(self.release, self.sides))

    def count(self, question: Question, method: Method = "model") -> Count:
        """The answer to one question. O(cells + rows by cell + values shown) for each run of the question."""
        region = self._places.region(question.conditions)
        if question.values is None:
            return self._count_people(region, method)
        if not self.release.rows:
            return Count(0.0, 0, 0, (0.0, 0.0))
        low, high = (float(ends.sum()) for ends in self._bounds(question.values, region))
        if method == "even":
            return _even(low, high, float(estimate(self.release, _queries(question)).sum()))
        expected = self._expected(question.values)
        inside = expected.by_cell * region.share
        rows = np.maximum(self.release.group_rows, 1)
        there = np.minimum(1.0, region.rows / rows)
        of_others = np.maximum(0, self.sides.real - expected.by_group)
        unsure = Unsure(
            values=_product(there * (1 - there), expected.by_group * of_others / rows),
            places=_product(inside, 1 - region.share),
            hidden=_product(there, expected.hidden),
            even=_product(there, expected.by_group),
            shares=_product(region.share, self._values_by_cell) * expected.share,
            variety=np.float64(expected.variety),
        )
        return _likely(low, high, float(inside.sum()), unsure)

    def estimates(self, queries: Sequence[Query]) -> Numbers:
        """The estimates alone, of queries. O(cells) each."""
        found = np.zeros(len(queries))
        for position, query in enumerate(queries if self.release.rows else ()):
            found[position] = _product(self.field.by_cell(*query.sensitive), self.share_inside(query))
        return found

    def share_inside(self, query: Query) -> Numbers:
        """By cell, the share of its people who are likely to be in the region of a query. O(cells)."""
        share = np.ones(len(self.release.cell_names))
        for attribute, run in query.conditions:
            share *= self._places.share(attribute, (run,))
        return share

    def by_shares_alone(self, query: Query, share: Numbers) -> float:
        """What somebody answers who sees cells and how frequent values are, and no groups."""
        if not self.release.rows:
            return 0.0
        asked, _ = self.field.shares(*(np.array([end]) for end in query.sensitive))
        return float(_product(self._values_by_cell, share) * asked[0])

    @cached_property
    def _values_by_cell(self) -> Numbers:
        return self.field.by_cell(0, len(self.release.policy.sensitive.hierarchy.leaves))

    @cached_property
    def _nodes(self) -> tuple[Rows, Rows]:
        """The nodes that are shown, and by shown value which of them it is."""
        nodes, of = np.unique(self.release.shown_node, return_inverse=True)
        return nodes, of.reshape(-1)

    def _count_people(self, region: Region, method: Method) -> Count:
        people = self.release.cell_people
        low, high = float(people[region.whole].sum()), float(people[region.meets].sum())
        guess = _product(people, region.share)
        if method == "even":
            return _even(low, high, float(guess))
        zero, places = np.float64(0), _product(people * region.share, 1 - region.share)
        return _likely(low, high, float(guess), Unsure(zero, places, zero, guess, guess, np.float64(1)))

    def _bounds(self, values: Runs, region: Region) -> tuple[Numbers, Numbers]:
        """By group, the fewest and the most that can be in the region."""
        asked, nobodys = self._shown(values), self.sides.shown - self.sides.real
        outside = self.release.group_rows - region.certain
        if self.release.policy.values == "lasting":
            return np.maximum(0, asked.sure - nobodys - outside), np.minimum(region.possible, asked.maybe)
        groups, group, count = len(outside), self.release.shown_group, self.release.shown_count
        sure = np.maximum(0, count - asked.leaves * outside[group]) * asked.is_whole
        maybe = np.minimum(count, asked.leaves * region.possible[group])
        most = sum(run.high - run.low for run in values) * region.possible
        return (
            np.maximum(0, add_up(group, sure, groups) - nobodys),
            np.minimum(add_up(group, maybe, groups), most),
        )

    def _find_shown(self, values: Runs) -> _Shown:
        nodes, of = self._nodes
        first, last = self._ends()
        accepted = np.zeros(len(nodes), dtype=np.int64)
        for run in values:
            accepted += np.maximum(0, np.minimum(last, int(run.high)) - np.maximum(first, int(run.low)))
        is_whole = (accepted == last - first) & (nodes != 0)
        groups, group, count = len(self.release.group_rows), self.release.shown_group, self.release.shown_count
        sure, maybe = (add_up(group[at], count[at], groups) for at in (is_whole[of], (accepted > 0)[of]))
        return _Shown(accepted[of], is_whole[of], sure, maybe)

    def _expect(self, values: Runs) -> _Expected:
        nodes, of = self._nodes
        first, last = self._ends()
        asked, suppressed = np.zeros(len(nodes)), np.zeros(len(nodes))
        for run in values:
            low, high = np.maximum(first, int(run.low)), np.minimum(last, int(run.high))
            parts = self.field.shares(low, np.maximum(low, high))
            asked, suppressed = asked + parts[0], suppressed + parts[1]
        part = np.where(nodes == 0, suppressed, np.minimum(1.0, asked / self.field.shares(first, last)[0]))[of]
        at = np.flatnonzero(part)
        part, group = part[at], self.release.shown_group[at]
        groups, sides = len(self.release.group_rows), self.sides
        is_real = np.divide(sides.real, sides.shown, out=np.zeros(groups), where=sides.shown > 0)
        mine = self.release.shown_count[at] * part * is_real[group]
        by_group = add_up(group, mine, groups)
        hidden = add_up(group, mine * (1 - part), groups)
        # which values the vacant places had: so many drawn from all that are shown
        hidden += (1 - is_real) * by_group * np.maximum(0, sides.real - by_group) / np.maximum(1, sides.shown - 1)
        by_cell = np.sum([self.field.by_cell(*run) for run in values], axis=0)
        share = sum(float(self.field.shares(np.array([run.low]), np.array([run.high]))[0][0]) for run in values)
        return _Expected(by_cell, by_group, hidden, share, self.field.variety(values))

    def _ends(self) -> tuple[Rows, Rows]:
        hierarchy, nodes = self.release.policy.sensitive.hierarchy, self._nodes[0]
        return np.array(hierarchy.first)[nodes], np.array(hierarchy.last)[nodes]


def _product(left: NDArray[Any], right: Numbers) -> np.float64:
    """The scalar product. BLAS would start threads for each of many small ones."""
    return np.float64(np.einsum("i,i->", left, right))


def _queries(question: Question) -> list[Query]:
    """The question as queries, each with one run of each attribute and of the values."""
    runs = [chosen for _, chosen in question.conditions]
    positions = [position for position, _ in question.conditions]
    assert question.values is not None
    return [
        Query(tuple(zip(positions, chosen, strict=True)), values) for *chosen, values in product(*runs, question.values)
    ]


def _even(low: float, high: float, guess: float) -> Count:
    """Without a model nothing that is possible is likelier than the rest."""
    return Count(min(max(guess, low), high), int(low), int(high), (low, high))


def _likely(low: float, high: float, guess: float, unsure: Unsure) -> Count:
    """The guess knows nothing of what is certain, and is moved into it where it takes a row for more than it can be."""
    guess = min(max(guess, low), high)
    begin, end = likely_range(np.float64(guess), np.float64(low), np.float64(high), unsure)
    return Count(guess, int(low), int(high), (float(begin), float(end)))
