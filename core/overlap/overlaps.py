"""What the people of a pool stand beside: their overlaps with other publishers' groups, and what those ask for.

A person overlaps a group e of somebody else's if their quasi-identifiers lie in one of e's regions and one of their
values is among e's (Baig, Definition 2). Then their own group G must have, with e, at least alpha values in common,
theirs among them, for which w(s, G) + w(s, e) is the same (Baig, Definition 4; DESIGN, G5). w is that of G2: a value
shown as a node v above it counts 1/leaves(v), "*" counts nothing. So what e's regions are no longer matters once the
overlap is found: all that counts is e's *histogram*, and equal ones are kept once.

Layout. A weight is one integer: its whole part, and above it the number of its fraction, 0 for none. Whole numbers can
be added to it as they are, and sums are equal if and only if the weights are.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.groups.pool import Pool
from shoal.core.overlap.external import Externals
from shoal.core.overlap.index import RegionIndex, distinct
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy

_WHOLE = 1 << 40  # more than any count

Shown = tuple[tuple[int, int], ...]
Bits = NDArray[np.uint64]  # sets of leaves, one row each


class Neighbours:
    """What other publishers have released, all of it or some numbers, ready to be looked up in."""

    def __init__(self, policy: Policy, externals: Externals, numbers: Iterable[int] | None = None) -> None:
        records = externals.records()
        groups = [records[number] for number in (records if numbers is None else numbers)]
        self._policy = policy
        self._index = RegionIndex(policy.attributes, groups)
        known: dict[Shown, int] = {}
        self._histogram_of = np.array([known.setdefault(group.shown, len(known)) for group in groups], dtype=np.int64)
        fractions: dict[Fraction, int] = {Fraction(0): 0}
        hierarchy = policy.sensitive.hierarchy
        self.shown = list(known)
        self.histograms = [_weigh(shown, hierarchy, fractions) for shown in known]
        entries = [
            (at, leaf, weight) for at, found in enumerate(self.histograms) for leaf, weight in sorted(found.items())
        ]
        table = np.array(entries, dtype=np.int64).reshape(len(entries), 3)
        self.entry_histogram, self.entry_leaf, self.entry_weight = table[:, 0], table[:, 1], table[:, 2]
        self._keys = table[:, 0] * len(hierarchy.leaves) + table[:, 1]
        self.entry_level = _levels(table, len(hierarchy.leaves))
        self._shows = np.zeros((len(known), self.entry_level.shape[1]), dtype=np.uint64)  # the leaves of each histogram
        np.bitwise_or.at(self._shows, self.entry_histogram, bits_of(self.entry_leaf, len(hierarchy.leaves)))

    def hulls(self, columns: Sequence[Column], rows: Rows) -> tuple[list[Column], list[Column]]:
        """By attribute the lows and highs of the smallest box around each row and every region it lies in."""
        return self._index.hulls(columns, rows)

    def find(self, columns: Sequence[Column], rows: Rows, owner: Rows, leaf: Rows) -> tuple[Rows, Rows]:
        """The overlaps of `rows`, of which `owner[j]` (ascending) has value `leaf[j]`: position and entry, sorted."""
        where, groups = self._index.find(columns, rows)
        histogram = self._histogram_of[groups]
        starts = np.searchsorted(owner, np.arange(len(rows) + 1))
        sizes = np.diff(starts)
        found = [np.zeros(0, dtype=np.int64)]
        most, count = int(sizes.max(initial=0)), max(1, len(self.histograms))
        words = self._shows.shape[1]
        for turn in range(most):  # everybody's first value, everybody's second
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


def _levels(entries: Rows, leaves: int) -> Bits:
    """For each entry (histogram, leaf, weight) the leaves of that histogram with the same weight, as a set of bits."""
    bits = bits_of(entries[:, 1], leaves)
    order = np.lexsort((entries[:, 2], entries[:, 0]))
    histogram, weight = entries[order, 0], entries[order, 2]
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


def neighbours_of(policy: Policy, externals: Externals) -> Neighbours:
    """Everything other publishers have released; made once and kept until there is more."""
    kept = externals.prepared
    if not isinstance(kept, Neighbours):
        kept = externals.prepared = Neighbours(policy, externals)
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
    """w(s, e) of every leaf e may show, as integers that can be compared."""
    first, last = hierarchy.first, hierarchy.last
    if all(last[node] - first[node] == 1 for node, _ in shown):
        return {first[node]: count for node, count in shown}
    found = {}
    for leaf, weight in weights(shown, hierarchy).items():
        whole = int(weight)
        number = fractions.setdefault(Fraction(weight) - whole, len(fractions))
        found[leaf] = whole + _WHOLE * number
    return found


class Beside:
    """The overlaps of one pool. `unit[j]` overlaps a histogram at `entry[j]`, which shows one of its values."""

    def __init__(self, pool: Pool, columns: Sequence[Column], neighbours: Neighbours, alpha: int) -> None:
        self.alpha, self.histograms = alpha, neighbours.histograms
        self.unit, entry = neighbours.find(columns, pool.rows, pool.owner, pool.leaf)
        self.level: Bits = neighbours.entry_level[entry]
        self._histogram = neighbours.entry_histogram[entry]
        self._leaves: list[int] = neighbours.entry_leaf[entry].tolist()  # numbers: pairs would keep the collector busy
        self._histograms: list[int] = self._histogram.tolist()
        self.weight = neighbours.entry_weight[entry]  # of the unit's own value in the histogram
        self.starts = np.searchsorted(self.unit, np.arange(len(pool) + 1))
        self._begins: list[int] = self.starts.tolist()
        self.overlaps = np.diff(self.starts) > 0
        self._neighbours = neighbours
        self._histogram_starts = np.searchsorted(neighbours.entry_histogram, np.arange(len(neighbours.histograms) + 1))

    def needs(self, unit: int) -> list[tuple[int, int]]:
        """(leaf, histogram) of each overlap of a unit."""
        first, last = self._begins[unit], self._begins[unit + 1]
        return list(zip(self._leaves[first:last], self._histograms[first:last], strict=True))

    def possible(self) -> list[frozenset[int]]:
        """The histograms each unit overlaps."""
        return [frozenset(self._histograms[first:last]) for first, last in pairwise(self._begins)]

    def entries(self, overlaps: Rows) -> tuple[Rows, Rows, Rows]:
        """All that is shown beside these overlaps: which of them (by position), leaf and weight."""
        histogram = self._histogram[overlaps]
        starts = self._histogram_starts[histogram]
        sizes = self._histogram_starts[histogram + 1] - starts
        at = np.arange(int(sizes.sum())) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return (
            np.repeat(np.arange(len(overlaps)), sizes),
            self._neighbours.entry_leaf[at],
            self._neighbours.entry_weight[at],
        )

    def is_balanced(self, leaf: int, histogram: int, shown: dict[int, int]) -> bool:
        """Whether a group that shows `shown` (leaf -> count > 0) balances a row of this value beside e."""
        if leaf not in shown:
            return False
        entries = self.histograms[histogram]
        total = shown[leaf] + entries[leaf]
        lacking = self.alpha
        fewer, more = (entries, shown) if len(entries) < len(shown) else (shown, entries)
        for value, count in fewer.items():
            if value in more and count + more[value] == total:
                lacking -= 1
                if not lacking:
                    return True
        return False

    def is_content(self, unit: int, shown: dict[int, int]) -> bool:
        """Whether every overlap of a unit is balanced by a group that shows this."""
        for leaf, histogram in self.needs(unit):  # noqa: SIM110, a generator would take half as long again
            if not self.is_balanced(leaf, histogram, shown):
                return False
        return True
