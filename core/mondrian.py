"""Growing the tree: strict Mondrian over many leaves at once, one level per round (Pei, section 4).

Layout. The rows of all leaves under work stand in one array, leaf after leaf (a *segment* each), and beside it one code
array per attribute: small non-negative integers that order like the values. One round sorts a single packed integer per
row, `segment | code | position`, so that every segment comes out ordered by the attribute chosen for it; medians and
cuts are then read off by binary search for all segments together. There is no Python loop over people, and none over
leaves but for rounding the cuts of float attributes.

Cost: per level O(rows x attributes) and one sort, so O(n log² n) for a first build. A later release works only on the
leaves that received arrivals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.policy import Attribute
from core.region import domain, roundest_between
from core.tree import Column, Rows, Tree

SMALL_SPAN = 1 << 20  # integer domains up to this size are coded by subtraction, larger ones by rank
NO_CUT = -1
FAR = np.iinfo(np.int64).max


def grow(
    tree: Tree, columns: Sequence[Column], leaf: Rows, leaves: Iterable[tuple[int, Rows]], smallest: int
) -> list[int]:
    """Split these leaves, given with their rows, while both sides keep `smallest` rows; returns the nodes split.

    `leaf` is everybody's leaf and is kept up to date. Mondrian's choice: the attribute whose rows spread widest over
    its domain, cut nearest to the median between two different values, so that equal quasi-identifiers never part
    (strict). Categories are cut between siblings only.
    """
    kept = [(node, rows) for node, rows in leaves if len(rows) >= 2 * smallest]
    split: list[int] = []
    if not kept:
        return split
    work = _Level(
        tree,
        columns,
        np.array([node for node, _ in kept], dtype=np.int64),
        np.array([len(rows) for _, rows in kept], dtype=np.int64),
        np.concatenate([rows for _, rows in kept]),
        smallest,
    )
    while work.leaves.size:
        split.extend(work.split(leaf).tolist())
    return split


class _Coded:
    """One attribute of the rows under work, as codes that order like the values, and back."""

    def __init__(self, attribute: Attribute, values: Column) -> None:
        self.attribute = attribute
        low, high = domain(attribute)
        self.width = float(high - low)
        self._low = int(low)
        self._is_ranked = attribute.kind == "float" or high - low > SMALL_SPAN
        if self._is_ranked:
            self._ranked, inverse = np.unique(values, return_inverse=True)
            self.codes: Rows = inverse.astype(np.int64)
            self.span = len(self._ranked)
        else:
            self.codes = values - self._low
            self.span = int(high - low)

    def values(self, codes: Rows) -> NDArray[Any]:
        return self._ranked[codes] if self._is_ranked else codes + self._low

    def spread(self, starts: Rows) -> NDArray[np.float64]:
        """How much of the domain the rows of each segment span; -1 where they are all equal."""
        lowest, highest = np.minimum.reduceat(self.codes, starts), np.maximum.reduceat(self.codes, starts)
        spans = (self.values(highest) - self.values(lowest)) / self.width
        return np.where(lowest == highest, -1.0, spans)


@dataclass
class _Sorted:
    """Some segments, each sorted by the attribute it is to be cut in."""

    segments: Rows  # which ones, as positions in the level
    begins: Rows
    sizes: Rows
    keys: Rows  # position among these segments << shift | code
    codes: Rows


class _Level:
    """The leaves of one level that may still be cut, with their rows, and the cuts found so far."""

    def __init__(
        self, tree: Tree, columns: Sequence[Column], leaves: Rows, sizes: Rows, rows: Rows, smallest: int
    ) -> None:
        self._tree, self._smallest = tree, smallest
        self._coded = [_Coded(a, column[rows]) for a, column in zip(tree.attributes, columns, strict=True)]
        self._shift = max(1, max(column.span for column in self._coded).bit_length())
        self._rows = rows
        self._start(leaves, sizes)

    def _start(self, leaves: Rows, sizes: Rows) -> None:
        self.leaves, self._sizes = leaves, sizes
        self._starts = np.cumsum(sizes) - sizes
        self._attribute = np.full(len(leaves), NO_CUT, dtype=np.int64)
        self._left = np.zeros(len(leaves), dtype=np.int64)
        self._whole = np.zeros(len(leaves), dtype=np.int64)
        self._real = np.zeros(len(leaves), dtype=np.float64)
        self._order = np.arange(len(self._rows))

    def split(self, leaf: Rows) -> Rows:
        """Cut every leaf that can be cut and go on to the children; returns the leaves cut."""
        spreads = np.stack([column.spread(self._starts) for column in self._coded])
        for choice in np.argsort(-spreads, axis=0, kind="stable"):
            is_open = (self._attribute == NO_CUT) & (spreads[choice, np.arange(len(choice))] > 0)
            wanted = np.flatnonzero(is_open)
            if not wanted.size:
                break
            self._cut(wanted, choice[wanted])
        return self._descend(leaf)

    def _cut(self, segments: Rows, attributes: Rows) -> None:
        """Look for a cut of these segments, each in the attribute it chose."""
        sizes = self._sizes[segments]
        begins = np.cumsum(sizes) - sizes
        within = np.repeat(np.arange(len(segments)), sizes)
        at = np.arange(len(within)) + np.repeat(self._starts[segments] - begins, sizes)
        codes = np.empty(len(at), dtype=np.int64)
        present = np.unique(attributes).tolist()
        for position in present:
            here = slice(None) if len(present) == 1 else (attributes == position)[within]
            codes[here] = self._coded[position].codes[at[here]]
        keys, sorting = _sort((within << self._shift) | codes)
        ordered = _Sorted(segments, begins, sizes, keys, codes[sorting])
        for position in present:
            self._choose(position, np.flatnonzero(attributes == position), ordered)
        is_cut = (self._attribute[segments] != NO_CUT)[within]
        self._order[at[is_cut]] = at[sorting[is_cut]]

    def _choose(self, position: int, here: Rows, ordered: _Sorted) -> None:
        """Of the places where these segments may be cut, take the one nearest to the middle that leaves enough rows."""
        column = self._coded[position]
        if column.attribute.kind == "category":
            chosen, left, cut = self._between_siblings(position, here, ordered)
            self._keep(ordered.segments[chosen], position, left, cut)
            return
        begins, sizes = ordered.begins[here], ordered.sizes[here]
        median = ordered.keys[begins + sizes // 2]
        sides = [np.searchsorted(ordered.keys, median, side=side) - begins for side in ("left", "right")]
        distance = np.stack([self._distance(left, sizes) for left in sides])
        for nearest in np.argsort(distance, axis=0, kind="stable"):
            best = np.choose(nearest, sides)
            can = (self._attribute[ordered.segments[here]] == NO_CUT) & (np.choose(nearest, distance) < FAR)
            chosen, left = here[can], best[can]
            below = column.values(ordered.codes[ordered.begins[chosen] + left - 1])
            above = column.values(ordered.codes[ordered.begins[chosen] + left])
            if column.attribute.kind == "int":
                self._keep(ordered.segments[chosen], position, left, (below + above) // 2 + 1)
                continue
            rounded = [roundest_between(*pair) for pair in zip(below.tolist(), above.tolist(), strict=True)]
            is_cut = np.array([cut is not None for cut in rounded], dtype=bool)
            cuts = np.array([cut for cut in rounded if cut is not None], dtype=np.float64)
            self._keep(ordered.segments[chosen[is_cut]], position, left[is_cut], cuts)

    def _between_siblings(self, position: int, here: Rows, ordered: _Sorted) -> tuple[Rows, Rows, Rows]:
        """All segments' permitted cuts stand in one ragged array, segment after segment; the best of each is taken."""
        hierarchy = self._coded[position].attribute.hierarchy
        assert hierarchy is not None
        lows, highs = self._tree.bounds(position, self.leaves[ordered.segments[here]])
        base = len(hierarchy.leaves) + 1
        runs, which = np.unique(lows * base + highs, return_inverse=True)
        cuts = [hierarchy.cuts(*divmod(run, base)) for run in runs.tolist()]
        lengths = np.array([len(places) for places in cuts], dtype=np.int64)
        can = lengths[which] > 0
        here, which = here[can], which[can]
        if not here.size:
            return here, here, here
        counts = lengths[which]
        flat = np.array([place for places in cuts for place in places], dtype=np.int64)
        allowed = flat[_ranges((np.cumsum(lengths) - lengths)[which], counts)]
        owner = np.repeat(np.arange(len(here)), counts)
        left = np.searchsorted(ordered.keys, (here[owner] << self._shift) | allowed) - ordered.begins[here][owner]
        distance = self._distance(left, ordered.sizes[here][owner])
        best = np.minimum.reduceat(distance, np.cumsum(counts) - counts)
        at = np.flatnonzero((distance == best[owner]) & (distance < FAR))
        at = at[np.r_[True, owner[at[1:]] != owner[at[:-1]]]] if at.size else at
        return here[owner[at]], left[at], allowed[at]

    def _distance(self, left: Rows, sizes: Rows) -> Rows:
        """How far a cut is from the middle; out of reach where a side would be too small."""
        is_small = (left < self._smallest) | (left > sizes - self._smallest)
        return np.where(is_small, FAR, np.abs(2 * left - sizes))

    def _keep(self, segments: Rows, position: int, left: Rows, cuts: NDArray[Any]) -> None:
        self._attribute[segments], self._left[segments] = position, left
        (self._real if self._coded[position].attribute.kind == "float" else self._whole)[segments] = cuts

    def _descend(self, leaf: Rows) -> Rows:
        """Turn the cuts into nodes, tell everybody their new leaf, and keep the children that may be cut again."""
        cut = np.flatnonzero(self._attribute != NO_CUT)
        split = self.leaves[cut]
        first = self._tree.put_many(split, self._attribute[cut], self._whole[cut], self._real[cut])
        leaves = first + np.arange(2 * len(cut))
        sizes = np.stack([self._left[cut], self._sizes[cut] - self._left[cut]], axis=1).ravel()
        begins = np.stack([self._starts[cut], self._starts[cut] + self._left[cut]], axis=1).ravel()
        order = self._order[_ranges(begins, sizes)]
        leaf[self._rows[order]] = np.repeat(leaves, sizes)
        going_on = sizes >= 2 * self._smallest
        order = self._order[_ranges(begins[going_on], sizes[going_on])]
        self._rows = self._rows[order]
        for column in self._coded:
            column.codes = column.codes[order]
        self._start(leaves[going_on], sizes[going_on])
        return split


def _ranges(begins: Rows, sizes: Rows) -> Rows:
    """The positions of all these ranges, one after the other."""
    offsets = np.cumsum(sizes) - sizes
    positions: Rows = np.arange(int(sizes.sum())) + np.repeat(begins - offsets, sizes)
    return positions


def _sort(keys: Rows) -> tuple[Rows, Rows]:
    """Sorted keys and where each came from; packed into one integer with its position where that fits 63 bits."""
    bits = max(1, len(keys).bit_length())
    if int(keys.max()).bit_length() + bits <= 63:
        packed = np.sort((keys << bits) | np.arange(len(keys)))
        return packed >> bits, packed & ((1 << bits) - 1)
    sorting = np.argsort(keys, kind="stable")
    return keys[sorting], sorting
