"""Contrasts: questions about where a value is much more or much less common than elsewhere, and how well they are
answered.

Random COUNT queries (query.py) are answered nearly as well by somebody who sees no groups and only knows how frequent
each value is. A contrast is a question that this cannot answer: in its region the value asked for is at least `RATIO`
times as frequent as everywhere, or at most 1 / `RATIO` times. The region has a condition on one or two attributes, a
node of a category or a stretch of a number, and the value is a node of the hierarchy. By the overall share at least
`LEAST` of all values would be counted, so that few people are not taken for a difference.

Two other answers stand beside a release's, from the same regions: what the overall shares say of them, and what true
values would say if every row showed its own. The second is what the regions alone cost. Between the two lies what
groups can tell, and `kept` is the share of it that a release's answers have.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.cells.tree import Rows
from shoal.core.measure.count import Answers
from shoal.core.measure.entries import Numbers, add_up
from shoal.core.measure.places import ends
from shoal.core.measure.query import Query, Range, Truth, random_range, uniform
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.randomness import Keyed

RATIO: Final = 1.5
LEAST: Final = 0.001  # of all values, and no fewer than FEWEST
FEWEST: Final = 10
WIDTHS: Final = (0.1, 0.2, 0.4)  # of a number's domain
EACH: Final = 2  # of one region, so many contrasts
TRIES: Final = 8  # regions for each contrast that is wanted
NOTHING: Final = 0.1  # of the error of shares alone
AT_ONCE: Final = 1_000_000  # people x cells


class Contrasts(NamedTuple):
    """Questions of a true table, the true answers, and the error below which a difference is not one."""

    queries: tuple[Query, ...]
    truths: Numbers
    sanity: float


class Compared(NamedTuple):
    """Median relative errors of one workload: a release's answers, overall shares alone, true values in the regions."""

    error: float
    alone: float
    true: float

    @property
    def kept(self) -> float | None:
        """The share of what groups can tell that the answers have; None if that is next to nothing."""
        told = self.alone - self.true
        return (self.alone - self.error) / told if told > NOTHING * self.alone else None


def draw_contrasts(policy: Policy, truth: Truth, seed: str, count: int) -> Contrasts:
    """Up to so many different contrasts of a true table; the same for the same seed and table. O(people) each."""
    keyed, hierarchy = Keyed(seed.encode(), policy.table), policy.sensitive.hierarchy
    first, last = np.array(hierarchy.first), np.array(hierarchy.last)
    total = len(truth.leaves)
    overall = _by_node(truth.leaves, first, last) / max(1, total)
    least = max(float(FEWEST), LEAST * total)
    found: dict[Query, int] = {}
    for number in range(TRIES * count if total else 0):
        conditions = _draw_region(policy, keyed, number)
        inside = np.ones(len(truth.columns[0]), dtype=bool)
        for attribute, run in conditions:
            inside &= run.has(truth.columns[attribute])
        there = truth.leaves[inside[truth.people]]
        true, expected = _by_node(there, first, last), len(there) * overall
        is_contrast = (expected >= least) & ((true >= RATIO * expected) | (true * RATIO <= expected))
        nodes = np.flatnonzero(is_contrast)
        order = np.argsort(keyed.draw(nodes.astype(np.uint64), number, "nodes"), kind="stable")
        for node in nodes[order[:EACH]].tolist():
            found.setdefault(Query(conditions, Range(hierarchy.first[node], hierarchy.last[node])), int(true[node]))
        if len(found) >= count:
            break
    queries = tuple(found)[:count]
    return Contrasts(queries, np.array([found[query] for query in queries], dtype=np.float64), least)


def compare(
    answers: Answers,
    truth: Truth,
    queries: Sequence[Query],
    truths: Numbers,
    sanity: float,
    cells: Rows | None = None,
) -> Compared:
    """How wrong a release answers these queries, and how wrong the two others do. O(cells + values) for each query.

    `cells` are where people are published, if regions alone do not tell.
    """
    if not queries:
        return Compared(0.0, 0.0, 0.0)
    cell = (place(answers.release, truth) if cells is None else cells)[truth.people]
    leaves, cell = truth.leaves[cell >= 0], cell[cell >= 0]
    number = len(answers.release.cell_names)
    alone, true = np.zeros(len(queries)), np.zeros(len(queries))
    for position, query in enumerate(queries):
        share = answers.share_inside(query)
        alone[position] = answers.by_shares_alone(query, share)
        true[position] = add_up(cell, query.sensitive.has(leaves).astype(np.float64), number) @ share
    found = (answers.estimates(queries), alone, true)
    return Compared(*(float(np.median(np.abs(one - truths) / np.maximum(truths, sanity))) for one in found))


def place(release: ReleaseColumns, truth: Truth) -> Rows:
    """The cell in whose region each person is, -1 for none. O((people + cells) log cells) where regions part space."""
    found = np.full(len(truth.columns[0]), -1, dtype=np.int64)
    high = [ends(attribute, one) for attribute, one in zip(release.policy.attributes, release.high, strict=True)]
    waiting = [(np.arange(len(release.cell_names)), np.arange(len(found)))]
    while waiting:
        cells, people = waiting.pop()
        parts = _halves(release, high, cells) if len(cells) * len(people) > AT_ONCE else None
        if parts is None:
            for cell in cells.tolist():
                inside = np.ones(len(people), dtype=bool)
                for column, low, end in zip(truth.columns, release.low, high, strict=True):
                    inside &= (column[people] >= low[cell]) & (column[people] < end[cell])
                found[people[inside]] = cell
            continue
        attribute, cut, left, right = parts
        is_left = truth.columns[attribute][people] < cut
        waiting += [(left, people[is_left]), (right, people[~is_left])]
    return found


def _halves(
    release: ReleaseColumns, high: Sequence[NDArray[np.float64] | Rows], cells: Rows
) -> tuple[int, float, Rows, Rows] | None:
    """The cut that leaves the fewest cells on its fuller side; None if none parts them."""
    best: tuple[int, float, Rows, Rows] | None = None
    for attribute, low in enumerate(release.low):
        cut = float(np.median(low[cells]))
        if cut <= low[cells].min():
            above = low[cells][low[cells] > cut]
            if not len(above):
                continue
            cut = float(above.min())
        left, right = cells[low[cells] < cut], cells[high[attribute][cells] > cut]
        if best is None or max(len(left), len(right)) < max(len(best[2]), len(best[3])):
            best = attribute, cut, left, right
    return best if best is not None and max(len(best[2]), len(best[3])) < len(cells) else None


def _by_node(leaves: Rows, first: Rows, last: Rows) -> Numbers:
    """How many of these values lie below each node."""
    before = np.r_[0.0, np.cumsum(np.bincount(leaves, minlength=int(last[0])))]
    return np.asarray(before[last] - before[first])


def _draw_region(policy: Policy, keyed: Keyed, number: int) -> tuple[tuple[int, Range], ...]:
    attributes = len(policy.attributes)
    width = 1 + int(uniform(keyed, number, "contrast width") * min(2, attributes))
    order = np.argsort(keyed.draw(np.arange(attributes, dtype=np.uint64), number, "contrast on"), kind="stable")
    positions = np.sort(order[:width]).tolist()
    return tuple((at, _draw_part(policy.attributes[at], keyed, number)) for at in positions)


def _draw_part(attribute: Attribute, keyed: Keyed, number: int) -> Range:
    at = uniform(keyed, number, f"contrast {attribute.name}")
    if attribute.hierarchy is not None:
        nodes = len(attribute.hierarchy.labels)
        node = 1 + int(at * (nodes - 1)) if nodes > 1 else 0
        return Range(attribute.hierarchy.first[node], attribute.hierarchy.last[node])
    share = WIDTHS[int(uniform(keyed, number, f"contrast width of {attribute.name}") * len(WIDTHS))]
    low, high = domain(attribute)
    return random_range(low, high, share, at, is_float=attribute.kind == "float")
