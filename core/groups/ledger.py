"""The ledger: what each person has already paid, kept so that any breach can be recomputed exactly (Wong, section 7).

Layout. A person's account is the chain of groups they were ever published in (see `core/people.py`); a group's
histogram is stored once and shared by everybody who was in it. A group that is carried over is the same draw, so the
chain has it once (docs/design.md, "G2 Global"). From chains and histograms, survival for any value or set of values
follows at any time, also after a guard changed.

Beside the histograms, flat arrays hold the *shares* of each group, group after group: for every protected leaf that it
shows, the log of 1 - w/n. From them the accounts of a whole pool are added up at once.

Floats guide the search for groups; where a float comes near the bound, exact fractions decide. So rounding never spends
more than was promised.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.tuning import (
    CELLS_PER_SHARE,
    NEAR,
    QUESTION_CELLS,
    SHARES_PER_SEARCH,
    SMALLEST_SURVIVAL,
    TABLE_CELLS,
)
from shoal.core.groups.weight import Weight, effective_people, open_leaves, set_aside, weight_of
from shoal.core.policy.policy import Policy
from shoal.core.runs import each_between


class GroupRecord(NamedTuple):
    """A formation as it was published: the release, the people, and (node of the sensitive hierarchy, count) pairs.

    Of what it shows, `counterfeits` are nobody's: they count in w and not among the people (G5).
    """

    formed: int
    people: int
    shown: tuple[tuple[int, int], ...]
    counterfeits: int = 0


class Accounts(NamedTuple):
    """The accounts of many people: a line for each person and each protected leaf that their groups ever showed."""

    person: Rows
    leaf: Rows
    survival: NDArray[np.float64]
    exposures: Rows


class Account(NamedTuple):
    """One person's account for one value or set of values."""

    survival: float
    exposures: int


class Ledger:
    """Every group ever formed, and what being in it costs. Groups are numbered from 1."""

    def __init__(self, policy: Policy) -> None:
        self._hierarchy = policy.sensitive.hierarchy
        self._is_open, self._aside = open_leaves(policy), set_aside(policy.sensitive)
        self._leaf_of = np.full(len(self._hierarchy.labels), -1, dtype=np.int64)
        self._leaf_of[list(self._hierarchy.leaf_node)] = np.arange(len(self._hierarchy.leaves))
        self._is_aside = np.zeros(len(self._hierarchy.labels), dtype=bool)
        self._is_aside[list(self._aside)] = True
        self._records: dict[int, GroupRecord] = {}
        self._later: dict[int, GroupRecord] = {}  # a copy's own; the original shares the records above
        self._showing: dict[int, Rows] = {}  # by the node of a permanent value, the groups that showed it
        self._start = np.zeros(2, dtype=np.int64)  # group g's shares begin at start[g] and end at start[g + 1]
        self._leaf = np.zeros(0, dtype=np.int32)
        self._kept = np.zeros(0, dtype=np.float64)
        self._least = np.zeros(1, dtype=np.float64)  # by group, the smallest of its shares' logs

    def copy(self) -> "Ledger":
        """A ledger that can take more groups without changing this one; arrays are replaced, never written into."""
        twin = object.__new__(Ledger)
        twin.__dict__.update(self.__dict__)
        twin._later = dict(self._later)
        return twin

    def merge(self) -> None:
        """Take over a copy's own formations into the shared records, when the copy takes the original's place."""
        self._records.update(self._later)
        self._later = {}

    def extend(self, records: Sequence[tuple[int, GroupRecord]]) -> None:
        """Add formations, in the order of their numbers, which are larger than any so far."""
        if not records:
            return
        first = len(self._start) - 1
        assert records[0][0] >= first
        self._later.update(records)
        groups = np.repeat(np.arange(len(records)), [len(record.shown) for _, record in records])
        flat = chain.from_iterable(chain.from_iterable(record.shown for _, record in records))
        pairs = np.fromiter(flat, dtype=np.int64).reshape(-1, 2)
        node, count = pairs[:, 0], pairs[:, 1].astype(np.float64)
        is_aside = self._is_aside[node]
        hidden = np.bincount(groups[is_aside], weights=count[is_aside], minlength=len(records))
        people = np.maximum(1, np.array([record.people for _, record in records]) - hidden)
        for permanent in self._aside - {0}:
            here = np.array([records[at][0] for at in groups[node == permanent].tolist()], dtype=np.int64)
            self._showing = {**self._showing, permanent: np.concatenate([self.groups_showing(permanent), here])}
        inner = np.flatnonzero((self._leaf_of[node] < 0) & (node != 0)).tolist()
        leaf = self._leaf_of[node]
        kept = (leaf >= 0) & ~self._is_open[leaf]
        for index in inner:  # a raised value weighs on every leaf under it
            under = np.arange(self._hierarchy.first[node[index]], self._hierarchy.last[node[index]])
            leaf = np.concatenate([leaf, under])
            groups = np.concatenate([groups, np.full(len(under), groups[index])])
            count = np.concatenate([count, np.full(len(under), count[index] / len(under))])
            kept = np.concatenate([kept, ~self._is_open[under]])
        keys, where = np.unique(groups[kept] * len(self._is_open) + leaf[kept], return_inverse=True)
        groups, leaf = np.divmod(keys, len(self._is_open))
        weight = np.bincount(where, weights=count[kept], minlength=len(keys))  # of all nodes above a leaf together
        logs = np.log(np.maximum(SMALLEST_SURVIVAL, 1 - weight / people[groups]))
        self._leaf = np.concatenate([self._leaf, leaf.astype(np.int32)])
        self._kept = np.concatenate([self._kept, logs])
        numbers = np.array([number for number, _ in records], dtype=np.int64) - first
        sizes, least = np.zeros(int(numbers[-1]) + 1, dtype=np.int64), np.zeros(int(numbers[-1]) + 1)
        sizes[numbers] = np.bincount(groups, minlength=len(records))
        np.minimum.at(least, numbers[groups], logs)
        self._start = np.concatenate([self._start, self._start[-1] + np.cumsum(sizes)])
        self._least = np.concatenate([self._least, least])

    def node_of(self, leaf: int) -> int:
        """The node of the hierarchy that a value is shown as when it is shown as itself."""
        return self._hierarchy.leaf_node[leaf]

    def groups_showing(self, node: int) -> Rows:
        """Every group that ever showed a permanent value, given by its node."""
        return self._showing.get(node, np.zeros(0, dtype=np.int64))

    def record(self, group: int) -> GroupRecord:
        return self._later[group] if group in self._later else self._records[group]

    def records(self) -> Mapping[int, GroupRecord]:
        return {**self._records, **self._later}

    # -- accounts -----------------------------------------------------------------------------------------------

    def accounts(self, exposed: Rows, exposed_to: Rows) -> Accounts:
        """The accounts of many people, whose exposures are given as (person, group) pairs; persons count from 0.

        Shares are added up in tables of some people by all leaves, so that nothing needs sorting.
        """
        order = np.argsort(exposed, kind="stable")
        person, group = exposed[order], exposed_to[order]
        leaves = len(self._is_open)
        at_once = max(1, TABLE_CELLS // leaves)
        nothing = np.zeros(0, dtype=np.int64)
        parts = [(nothing, nothing, np.zeros(0), nothing)]
        for first in range(0, int(person[-1]) + 1 if len(person) else 0, at_once):
            here = slice(*np.searchsorted(person, [first, first + at_once]).tolist())
            at, cells = self._shares_of(group[here], (person[here] - first) * leaves)
            paid = np.zeros(0, dtype=np.int64)
            if is_sparse := CELLS_PER_SHARE * len(cells) < at_once * leaves:
                paid, cells = np.unique(cells, return_inverse=True)
            times, kept = np.bincount(cells), np.bincount(cells, weights=self._kept[at])
            if not is_sparse:
                paid = np.flatnonzero(times)
                times, kept = times[paid], kept[paid]
            parts.append((first + paid // leaves, paid % leaves, np.exp(kept), times))
        return Accounts(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def standings(
        self, exposed: Rows, exposed_to: Rows, person: Rows, leaf: Rows
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Survival and exposures of these (person, leaf) pairs only; they and the exposures are in order of persons.

        The other people cost nothing, so this is for asking about a few of many.
        """
        begins, ends = np.searchsorted(exposed, person), np.searchsorted(exposed, person, side="right")
        exposures = ends - begins
        is_new = np.diff(person, prepend=-1) != 0  # the first leaf asked of a person
        groups = exposed_to[each_between(begins[is_new], exposures[is_new])]
        if SHARES_PER_SEARCH * int(exposures.sum()) <= int((self._start[groups + 1] - self._start[groups]).sum()):
            asked = np.repeat(np.arange(len(person)), exposures)
            at, is_there = self._find(exposed_to[each_between(begins, exposures)], leaf[asked])
            asked, at = asked[is_there], at[is_there]
        else:
            line = np.cumsum(is_new) - 1
            asked, at = self._go_through(np.repeat(line[is_new], exposures[is_new]), groups, line, leaf)
        survival = np.exp(np.bincount(asked, weights=self._kept[at], minlength=len(person)))
        return survival, np.bincount(asked, minlength=len(person))

    def _find(self, groups: Rows, leaves: Rows) -> tuple[Rows, NDArray[np.bool_]]:
        """Where each group's share of a leaf is, and whether it has one; by halving."""
        low, end = self._start[groups], self._start[groups + 1]
        high = end
        for _ in range(int((end - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            is_before = (low < high) & (self._leaf[np.minimum(middle, len(self._leaf) - 1)] < leaves)
            low, high = np.where(is_before, middle + 1, low), np.where(is_before, high, middle)
        is_there = low < end
        is_there[is_there] = self._leaf[low[is_there]] == leaves[is_there]
        return low, is_there

    def _go_through(self, exposed: Rows, groups: Rows, line: Rows, leaf: Rows) -> tuple[Rows, Rows]:
        """Of all shares of these groups, those that a question is about: which question, and where the share is.

        A question is a (line, leaf) pair: it is about the shares of a leaf in the groups that its line was exposed to.
        """
        leaves = len(self._is_open)
        at_once = max(1, QUESTION_CELLS // leaves)
        lines = int(line[-1]) + 1
        question = np.full(min(lines, at_once) * leaves, -1, dtype=np.int32)  # by cell of a table of persons and leaves
        parts = []
        for first in range(0, lines, at_once):
            here, asked = (slice(*np.searchsorted(of, [first, first + at_once]).tolist()) for of in (exposed, line))
            sought = (line[asked] - first) * leaves + leaf[asked]
            question[sought] = np.arange(asked.start, asked.stop)
            at, cells = self._shares_of(groups[here], (exposed[here] - first) * leaves)
            found = question[cells]
            hit = np.flatnonzero(found >= 0)
            parts.append((found[hit].astype(np.int64), at[hit]))
            question[sought] = -1
        questions, places = zip(*parts, strict=True)
        return np.concatenate(questions), np.concatenate(places)

    def least_survivals(self, exposed: Rows, exposed_to: Rows, people: int) -> NDArray[np.float64]:
        """By person, a lower bound of every value's survival: as if each group's smallest share were of one value."""
        return np.exp(np.bincount(exposed, weights=self._least[exposed_to], minlength=people)) * (1 - NEAR)

    def _shares_of(self, groups: Rows, rows: Rows) -> tuple[Rows, Rows]:
        """Where the shares of these groups are, and for each the cell of its leaf in a row of a table."""
        sizes = self._start[groups + 1] - self._start[groups]
        at = each_between(self._start[groups], sizes)
        cells = np.repeat(rows, sizes)
        cells += self._leaf[at]
        return at, cells

    def account_of(self, exposures: Iterable[int], first: int, last: int) -> Account:
        """Survival and exposures for the set of leaves [first, last), open ones included (G4)."""
        survival, times = 1.0, 0
        for group in exposures:
            share = float(self.share_of(group, first, last))
            if share:
                survival, times = survival * (1.0 - share), times + 1
        return Account(survival, times)

    def share_of(self, group: int, first: int, last: int) -> Fraction:
        """w(A, G) / n(G), capped at 1, for the leaves [first, last)."""
        record = self.record(group)
        weight = weight_of(record.shown, self._hierarchy, first, last, self._aside)
        return min(Fraction(1), weight / effective_people(record.people, record.shown, self._aside))

    def breach(self, exposures: Iterable[int], first: int, last: int) -> Fraction:
        """1 - Π (1 - w/n) over these groups for the leaves [first, last), exactly (G2 for one leaf, G4 for a set)."""
        survival = Fraction(1)
        for group in exposures:
            survival *= 1 - self.share_of(group, first, last)
        return 1 - survival

    def can_afford(
        self,
        exposures: Iterable[int],
        leaves: tuple[int, int],
        survival: float,
        weight: Weight,
        people: int,
        bound: Fraction,
    ) -> bool:
        """Whether one more exposure, to w of n, keeps breach <= bound; exact where floats come near it."""
        floor, after = 1.0 - float(bound), survival * (1.0 - min(1.0, float(weight) / people))
        if after > floor * (1 + NEAR):
            return True
        if after < floor * (1 - NEAR):
            return False
        share = min(Fraction(1), Fraction(weight) / people)
        return (1 - self.breach(exposures, *leaves)) * (1 - share) >= 1 - bound
