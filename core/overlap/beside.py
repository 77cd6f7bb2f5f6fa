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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from core.hierarchy import Hierarchy
from core.ledger import weights
from core.overlap.external import Externals
from core.overlap.index import RegionIndex
from core.policy import Policy
from core.pool import Pool
from core.tree import Column, Rows

_WHOLE = 1 << 40  # more than any count

Shown = tuple[tuple[int, int], ...]


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
        leaves = len(hierarchy.leaves)
        self._keys = np.array(
            [at * leaves + leaf for at, found in enumerate(self.histograms) for leaf in sorted(found)], dtype=np.int64
        )

    def find(self, columns: Sequence[Column], rows: Rows, owner: Rows, leaf: Rows) -> tuple[Rows, Rows, Rows]:
        """The overlaps of `rows`, of which `owner[j]` (ascending) has value `leaf[j]`: position, leaf, histogram."""
        where, groups = self._index.find(columns, rows)
        count = max(1, len(self.histograms))
        pairs = np.unique(where * count + self._histogram_of[groups])
        where, histogram = pairs // count, pairs % count
        starts = np.searchsorted(owner, np.arange(len(rows) + 1))
        sizes = (starts[1:] - starts[:-1])[where]
        at = np.arange(int(sizes.sum())) + np.repeat(starts[where] - (np.cumsum(sizes) - sizes), sizes)
        position, value, histogram = np.repeat(where, sizes), leaf[at], np.repeat(histogram, sizes)
        keys = histogram * len(self._policy.sensitive.hierarchy.leaves) + value
        found = np.searchsorted(self._keys, keys)
        shows = self._keys[np.minimum(found, len(self._keys) - 1)] == keys if len(self._keys) else keys < 0
        return position[shows], value[shows], histogram[shows]


def neighbours_of(policy: Policy, externals: Externals) -> Neighbours:
    """Everything other publishers have released; made once and kept until there is more."""
    kept = externals.prepared
    if not isinstance(kept, Neighbours):
        kept = externals.prepared = Neighbours(policy, externals)
    return kept


def _weigh(shown: Shown, hierarchy: Hierarchy, fractions: dict[Fraction, int]) -> dict[int, int]:
    """w(s, e) of every leaf e may show, as integers that can be compared."""
    found = {}
    for leaf, weight in weights(shown, hierarchy).items():
        whole = int(weight)
        number = fractions.setdefault(Fraction(weight) - whole, len(fractions))
        found[leaf] = whole + _WHOLE * number
    return found


class Beside:
    """The overlaps of one pool."""

    def __init__(self, pool: Pool, columns: Sequence[Column], neighbours: Neighbours, alpha: int) -> None:
        self.alpha, self.histograms = alpha, neighbours.histograms
        unit, leaf, histogram = neighbours.find(columns, pool.rows, pool.owner, pool.leaf)
        self._leaf, self._histogram = leaf.tolist(), histogram.tolist()
        self._starts = np.searchsorted(unit, np.arange(len(pool) + 1)).tolist()
        self._unit = unit
        self._size = len(pool)
        self._levels: dict[int, dict[int, int]] = {}

    @cached_property
    def overlaps(self) -> NDArray[np.bool_]:
        """Which units overlap anything."""
        found = np.zeros(self._size, dtype=bool)
        found[self._unit] = True
        return found

    def needs(self, unit: int) -> list[tuple[int, int]]:
        """(leaf, histogram) of each overlap of a unit."""
        here = slice(self._starts[unit], self._starts[unit + 1])
        return list(zip(self._leaf[here], self._histogram[here], strict=True))

    def levels(self, unit: int) -> list[int]:
        """For each overlap, the values that e shows as often as the unit's, as a set of bits; each set once.

        In a group that shows all its values equally often, a unit is balanced if alpha of each of these are among them.
        """
        found = {self._level(histogram, leaf) for leaf, histogram in self.needs(unit)}
        return list(found)

    def _level(self, histogram: int, leaf: int) -> int:
        known = self._levels.get(histogram)
        if known is None:
            by_weight: dict[int, int] = {}
            entries = self.histograms[histogram]
            for value, weight in entries.items():
                by_weight[weight] = by_weight.get(weight, 0) | 1 << value
            known = self._levels[histogram] = {value: by_weight[weight] for value, weight in entries.items()}
        return known[leaf]

    def is_balanced(self, leaf: int, histogram: int, shown: dict[int, int]) -> bool:
        """Whether a group that shows `shown` (leaf -> count > 0) balances a row of this value beside e."""
        if leaf not in shown:
            return False
        entries = self.histograms[histogram]
        total = shown[leaf] + entries[leaf]
        equal = 0
        for value, count in shown.items():
            if value in entries and count + entries[value] == total:
                equal += 1
        return equal >= self.alpha

    def is_content(self, unit: int, shown: dict[int, int]) -> bool:
        """Whether every overlap of a unit is balanced by a group that shows this."""
        return all(self.is_balanced(leaf, histogram, shown) for leaf, histogram in self.needs(unit))
