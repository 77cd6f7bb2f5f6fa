"""The overlaps of a pool with other publishers' groups, and what they ask of the groups that are formed.

A person overlaps another publisher's group e if their quasi-identifiers lie in one of e's regions and e shows one of
their values (Baig, Definition 2). Then their own group G and e must have at least alpha values in common, the person's
among them, for which w(s, G) + w(s, e) is equal (Baig, Definition 4; docs/design.md, "G5 Composition"). w is the weight
of G2: a value shown as a node v above it counts 1/leaves(v), "*" counts nothing. Once an overlap is found, e's regions
do not matter any more. Only its *histogram* does, and equal histograms are kept once.

Layout. A histogram is a run of *bars*: parallel arrays of histogram, leaf and weight, sorted by the first two. A weight
is one integer: its whole part, and above it the number of its fraction, 0 for none. Whole numbers can be added to such
an integer, and two sums are equal if and only if the weights' sums are.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.groups.pool import Pool
from shoal.core.overlap.external import Externals
from shoal.core.overlap.region_index import RegionIndex, distinct
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy

_WHOLE = 1 << 40  # more than any count

Shown = tuple[tuple[int, int], ...]
Bits = NDArray[np.uint64]  # sets of leaves, one row each


class ExternalIndex:
    """An index over external groups, all of them or some by number: which bars a row overlaps."""

    def __init__(self, policy: Policy, externals: Externals, numbers: Iterable[int] | None = None) -> None:
        records = externals.records()
        groups = [records[number] for number in (records if numbers is None else numbers)]
        self._policy = policy
        self._regions = RegionIndex(policy.attributes, groups)
        known: dict[Shown, int] = {}
        self._histogram_of = np.array([known.setdefault(group.shown, len(known)) for group in groups], dtype=np.int64)
        fractions: dict[Fraction, int] = {Fraction(0): 0}
        hierarchy = policy.sensitive.hierarchy
        self.shown = list(known)
        self.histograms = [_weigh(shown, hierarchy, fractions) for shown in known]
        bars = [
            (at, leaf, weight) for at, found in enumerate(self.histograms) for leaf, weight in sorted(found.items())
        ]
        table = np.array(bars, dtype=np.int64).reshape(len(bars), 3)
        self.bar_histogram, self.bar_leaf, self.bar_weight = table[:, 0], table[:, 1], table[:, 2]
        self._keys = table[:, 0] * len(hierarchy.leaves) + table[:, 1]
        self.bar_equals = _equals(table, len(hierarchy.leaves))
        self._shows = np.zeros((len(known), self.bar_equals.shape[1]), dtype=np.uint64)  # the leaves of each histogram
        np.bitwise_or.at(self._shows, self.bar_histogram, bits_of(self.bar_leaf, len(hierarchy.leaves)))

    def hulls(self, columns: Sequence[Column], rows: Rows) -> tuple[list[Column], list[Column]]:
        """By attribute the lows and highs of the smallest box around each row and every region it lies in."""
        return self._regions.hulls(columns, rows)

    def find(self, columns: Sequence[Column], rows: Rows, owner: Rows, leaf: Rows) -> tuple[Rows, Rows]:
        """The overlaps of `rows`, of which `owner[j]` (ascending) has value `leaf[j]`: position and bar, sorted."""
        where, groups = self._regions.find(columns, rows)
        histogram = self._histogram_of[groups]
        starts = np.searchsorted(owner, np.arange(len(rows) + 1))
        sizes = np.diff(starts)
        found = [np.zeros(0, dtype=np.int64)]
        most, count = int(sizes.max(initial=0)), max(1, len(self.histograms))
        words = self._shows.shape[1]
        for turn in range(most):  # the first value of every row, then the second
            value = leaf[np.minimum(starts[:-1] + turn, len(leaf) - 1)]
            bit = np.where(sizes > turn, np.uint64(1) << (value % 64).astype(np.uint64), np.uint64(0))
            seen = np.take(self._shows, histogram * words + np.take(value // 64, where)) & np.take(bit, where)
            shows = np.flatnonzero(seen)
            found.append((where[shows] * count + histogram[shows]) * most + turn)
        keys = distinct(np.concatenate(found))
        pairs, turns = np.divmod(keys, max(1, most))
        position, histogram = pairs // count, pairs % count
        value = leaf[starts[position] + turns]
        return position, np.searchsorted(self._keys, histogram * len(self._policy.sensitive.hierarchy.leaves) + value)


def _equals(bars: Rows, leaves: int) -> Bits:
    """For each bar (histogram, leaf, weight) the leaves of its histogram with an equal weight, as a set of bits."""
    bits = bits_of(bars[:, 1], leaves)
    order = np.lexsort((bars[:, 2], bars[:, 0]))
    histogram, weight = bars[order, 0], bars[order, 2]
    is_first = np.r_[True, (histogram[1:] != histogram[:-1]) | (weight[1:] != weight[:-1])][: len(order)]
    starts = np.flatnonzero(is_first)
    found = np.zeros_like(bits)
    if len(starts):
        found[order] = np.bitwise_or.reduceat(bits[order], starts)[np.cumsum(is_first) - 1]
    return found


def bits_of(leaves: Rows, count: int) -> Bits:
    """Each leaf as a set with one member, 64 to a word."""
    found = np.zeros((len(leaves), (count + 63) // 64), dtype=np.uint64)
    found[np.arange(len(leaves)), leaves // 64] = np.uint64(1) << (leaves % 64).astype(np.uint64)
    return found


def index_of(policy: Policy, externals: Externals) -> ExternalIndex:
    """The index over everything other publishers have released; made once and kept until there is more."""
    kept = externals.prepared
    if not isinstance(kept, ExternalIndex):
        kept = externals.prepared = ExternalIndex(policy, externals)
    return kept


def weights(shown: Iterable[tuple[int, int]], hierarchy: Hierarchy) -> dict[int, Fraction]:
    """w(s, G) of every leaf s a group may show: 1 for the leaf itself, 1/leaves(v) for each v above it, 0 for "*"."""
    found: dict[int, Fraction] = {}
    for node, count in shown:
        run = range(hierarchy.first[node], hierarchy.last[node]) if node else range(0)
        for leaf in run:
            found[leaf] = found.get(leaf, Fraction(0)) + Fraction(count, len(run))
    return found


def _weigh(shown: Shown, hierarchy: Hierarchy, fractions: dict[Fraction, int]) -> dict[int, int]:
    """w(s, e) of every leaf e may show, as integers (see the layout above)."""
    first, last = hierarchy.first, hierarchy.last
    if all(last[node] - first[node] == 1 for node, _ in shown):
        return {first[node]: count for node, count in shown}
    found = {}
    for leaf, weight in weights(shown, hierarchy).items():
        whole = int(weight)
        number = fractions.setdefault(Fraction(weight) - whole, len(fractions))
        found[leaf] = whole + _WHOLE * number
    return found


class Overlaps:
    """The overlaps of one pool, sorted by unit. Overlap j is that of `unit[j]` with a bar that shows one of its values.

    `equals[j]` is the set of leaves that weigh as much as this bar in its histogram, `weight[j]` the bar's weight.
    """

    def __init__(self, pool: Pool, columns: Sequence[Column], index: ExternalIndex, alpha: int) -> None:
        self.alpha, self.histograms = alpha, index.histograms
        self.unit, bar = index.find(columns, pool.rows, pool.owner, pool.leaf)
        self.equals: Bits = index.bar_equals[bar]
        self._histogram = index.bar_histogram[bar]
        self._leaves: list[int] = index.bar_leaf[bar].tolist()  # ints: tuples would keep the collector busy
        self._histograms: list[int] = self._histogram.tolist()
        self.weight = index.bar_weight[bar]
        self.starts = np.searchsorted(self.unit, np.arange(len(pool) + 1))
        self._begins: list[int] = self.starts.tolist()
        self.is_overlapping = np.diff(self.starts) > 0
        self._index = index
        self._histogram_starts = np.searchsorted(index.bar_histogram, np.arange(len(index.histograms) + 1))

    def of_unit(self, unit: int) -> list[tuple[int, int]]:
        """(leaf, histogram) of each overlap of a unit."""
        first, last = self._begins[unit], self._begins[unit + 1]
        return list(zip(self._leaves[first:last], self._histograms[first:last], strict=True))

    def possible(self) -> list[frozenset[int]]:
        """The histograms each unit overlaps."""
        return [frozenset(self._histograms[first:last]) for first, last in pairwise(self._begins)]

    def bars(self, overlaps: Rows) -> tuple[Rows, Rows, Rows]:
        """All bars of the histograms of these overlaps: the overlap (by position), leaf and weight of each."""
        histogram = self._histogram[overlaps]
        starts = self._histogram_starts[histogram]
        sizes = self._histogram_starts[histogram + 1] - starts
        at = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return (
            np.repeat(np.arange(len(overlaps)), sizes),
            self._index.bar_leaf[at],
            self._index.bar_weight[at],
        )

    def is_balanced(self, leaf: int, histogram: int, shown: dict[int, int]) -> bool:
        """Whether a group that shows `shown` (leaf -> count > 0) balances a row of this value beside a histogram."""
        if leaf not in shown:
            return False
        theirs = self.histograms[histogram]
        total = shown[leaf] + theirs[leaf]
        lacking = self.alpha
        fewer, more = (theirs, shown) if len(theirs) < len(shown) else (shown, theirs)
        for value, count in fewer.items():
            if value in more and count + more[value] == total:
                lacking -= 1
                if not lacking:
                    return True
        return False

    def are_balanced(self, unit: int, shown: dict[int, int]) -> bool:
        """Whether a group that shows `shown` balances every overlap of a unit."""
        for leaf, histogram in self.of_unit(unit):  # noqa: SIM110, a generator would take half as long again
            if not self.is_balanced(leaf, histogram, shown):
                return False
        return True
