"""Growing the tree: strict Mondrian over many leaves at once, one level per round (Pei, section 4).

Which cut. A cut rids every row of the part of the region on its other side. Its *gain* is what that takes off the
release's NCP, summed over the rows; what it costs is that rows which are parted cannot be parted again, most when the
sides are equal. The cut with the largest gain² / (rows on one side x rows on the other) is taken, over all attributes
and places: the median where rows are spread evenly, the edge of the crowd where they are not. It is worked out with
additions, products and quotients alone, which every machine rounds alike.

Layout. The rows of all leaves under work stand in one array, leaf after leaf (a *segment* each), and beside it one line
of codes per attribute (`core/scale.py`). Rows are counted, not sorted: each segment has, for each attribute, a block of
bins, at most twice as many as it has rows or 32; cuts are tried between bins in which there are rows, for all segments
and attributes together. Where no cut between bins leaves enough rows on both sides, one may still be inside the bin in
which the middle row falls, and the search goes on there. There is no Python loop over people, and none over leaves but
for rounding the cuts of float attributes.

Cost: O(rows x attributes) per level. A later release works only on the leaves that received arrivals.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.region import roundest_between
from core.scale import Codes, Scale, Siblings
from core.tree import Column, Rows, Tree

NO_CUT = -1
FEWEST_BITS, MOST_BITS = 5, 7  # of a bin's number


def grow(
    tree: Tree, columns: Sequence[Column], leaf: Rows, leaves: Iterable[tuple[int, Rows]], smallest: int
) -> list[int]:
    """Split these leaves, given with their rows, while both sides keep `smallest` rows; returns the nodes split.

    `leaf` is everybody's leaf and is kept up to date. Equal quasi-identifiers never part (strict), categories are cut
    between siblings only, and a cut in a float attribute is the roundest number between its neighbours.
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


class _Cuts(NamedTuple):
    """For each of some segments the attribute it is cut in, the first code of the right side, and the rows left."""

    segments: Rows
    attributes: Rows
    codes: Codes
    left: Rows


class _Level:
    """The leaves of one level that may still be cut, with their rows and the runs of codes their regions cover."""

    def __init__(
        self, tree: Tree, columns: Sequence[Column], leaves: Rows, sizes: Rows, rows: Rows, smallest: int
    ) -> None:
        self._tree, self._smallest, self._rows = tree, smallest, rows
        self._scales = [Scale(a, column[rows]) for a, column in zip(tree.attributes, columns, strict=True)]
        self._codes = np.stack([scale.codes for scale in self._scales])
        bounds = [tree.bounds(position, leaves) for position in range(len(self._scales))]
        low, high = (
            np.stack([scale.edges(side[end]) for scale, side in zip(self._scales, bounds, strict=True)])
            for end in (0, 1)
        )
        self._categories = [at for at, scale in enumerate(self._scales) if scale.attribute.hierarchy is not None]
        self._siblings = Siblings([h for scale in self._scales if (h := scale.attribute.hierarchy) is not None])
        self._places = np.concatenate([scale.places for scale in self._scales])
        lengths = np.array([len(scale.places) for scale in self._scales])
        self._places_at = np.cumsum(lengths) - lengths
        self._alone = np.array([scale.alone for scale in self._scales])
        self._start(leaves, sizes, low, high, np.zeros_like(low), np.full(len(leaves), NO_CUT))

    def _start(self, leaves: Rows, sizes: Rows, low: Codes, high: Codes, table: Rows, parted: Rows) -> None:
        """Go on with these leaves; `parted` is the attribute in which each came about."""
        self.leaves, self._sizes, self._low, self._high, self._table = leaves, sizes, low, high, table
        self._starts = np.cumsum(sizes) - sizes
        for category, position in enumerate(self._categories):
            is_new = np.flatnonzero((parted == position) | (parted == NO_CUT))
            if is_new.size:
                runs = low[position, is_new], high[position, is_new]
                table[position, is_new] = self._siblings.table(category, *runs)

    def split(self, leaf: Rows) -> Rows:
        """Cut every leaf that can be cut and go on to the children; returns the leaves cut."""
        found: list[_Cuts] = []
        waiting, codes = np.arange(len(self.leaves)), self._codes
        first, last = self._steps(self._low, self._table), self._steps(self._high - 1, self._table)
        while waiting.size:
            sizes = self._sizes[waiting]
            steps = self._steps(codes, np.repeat(self._table[:, waiting], sizes, axis=1))
            if found:
                np.clip(steps, np.repeat(first, sizes, axis=1), np.repeat(last, sizes, axis=1), out=steps)
            bins = _Bins(steps, first, last, sizes, self._smallest)
            found.append(self._best(bins, waiting))
            is_uncut = np.ones(len(self.leaves), dtype=bool)
            is_uncut[found[-1].segments] = False
            going_on = np.flatnonzero(is_uncut[waiting] & bins.is_coarse)
            first, last = bins.narrowed(going_on)
            waiting = waiting[going_on]
            codes = self._codes[:, _ranges(self._starts[waiting], self._sizes[waiting])]
        cuts = found[0] if len(found) == 1 else _Cuts(*(np.concatenate(part) for part in zip(*found, strict=True)))
        return self._descend(leaf, cuts)

    def _steps(self, codes: Codes, table: Rows) -> Codes:
        """Codes as steps, one line per attribute."""
        if not self._categories:
            return codes
        steps = codes.copy()
        steps[self._categories] = self._siblings.steps(codes[self._categories] + table[self._categories])
        return steps

    def _best(self, bins: "_Bins", segments: Rows) -> _Cuts:
        """Of the places where these segments may be cut, the one of each that gains most for what it costs."""
        block, step, left = bins.between()
        within, attributes = np.divmod(block, len(self._scales))
        owner = segments[within]
        codes = step
        for position in self._categories:
            here = np.flatnonzero(attributes == position)
            codes[here] = self._siblings.codes(self._table[position, owner[here]], step[here])
        right = self._sizes[owner] - left
        low, high = self._low[attributes, owner], self._high[attributes, owner]
        at = self._places_at[attributes]
        place = self._places[at + codes]
        gain = left * (self._places[at + high] - place) + right * (place - self._places[at + low])
        gain += self._alone[attributes] * (left * (codes - low == 1) + right * (high - codes == 1))
        worth = gain * gain / (left * right)
        begins = np.flatnonzero(np.diff(owner, prepend=NO_CUT))
        if not begins.size:
            return _Cuts(owner, attributes, codes, left)
        best = np.maximum.reduceat(worth, begins)
        taken = np.flatnonzero(worth == np.repeat(best, np.diff(begins, append=len(owner))))
        taken = taken[np.diff(owner[taken], prepend=NO_CUT) != 0]  # the first of those that are equally good
        return _Cuts(owner[taken], attributes[taken], codes[taken], left[taken])

    # -- cutting ------------------------------------------------------------------------------------------------

    def _descend(self, leaf: Rows, cuts: _Cuts) -> Rows:
        """Turn the cuts into nodes, tell everybody their new leaf, and keep the children that may be cut again."""
        segments, attributes, codes, left = cuts
        sizes, split = self._sizes[segments], self.leaves[segments]
        at = _ranges(self._starts[segments], sizes)
        chosen = self._codes[np.repeat(attributes, sizes), at]
        is_right = chosen >= np.repeat(codes, sizes)
        children = self._tree.put_many(split, attributes, *self._values(cuts, chosen, is_right)) + np.arange(
            2 * len(split)
        ).reshape(-1, 2)
        order, parts = [], []
        for side, rows, counts in ((0, at[~is_right], left), (1, at[is_right], sizes - left)):
            leaf[self._rows[rows]] = np.repeat(children[:, side], counts)
            kept = counts >= 2 * self._smallest
            order.append(rows[np.repeat(kept, counts)])
            low, high = self._low[:, segments[kept]], self._high[:, segments[kept]]
            (low if side else high)[attributes[kept], np.arange(low.shape[1])] = codes[kept]
            parts.append((children[kept, side], counts[kept], low, high, self._table[:, segments[kept]], attributes[kept]))
        keep = np.concatenate(order)
        self._rows, self._codes = self._rows[keep], self._codes[:, keep]
        self._start(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))
        return split

    def _values(self, cuts: _Cuts, chosen: Codes, is_right: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.float64]]:
        """The cuts as values, whole and real; `chosen` are the codes of the rows in the attribute they are cut in."""
        whole, real = cuts.codes.copy(), np.zeros(len(cuts.codes))
        begins = np.cumsum(self._sizes[cuts.segments]) - self._sizes[cuts.segments]
        for position in np.unique(cuts.attributes).tolist():
            scale, here = self._scales[position], np.flatnonzero(cuts.attributes == position)
            if not scale.is_ranked:
                whole[here] += int(scale.attribute.low)
                continue
            below = np.maximum.reduceat(np.where(is_right, NO_CUT, chosen), begins)[here]
            above = np.minimum.reduceat(np.where(is_right, chosen, scale.span), begins)[here]
            (real if scale.attribute.kind == "float" else whole)[here] = scale.cuts(below, above)
        return whole, real


class _Bins:
    """The rows of some segments, counted: for each segment and attribute a block of bins, each of 2**shift steps.

    `first` and `last` bound the steps of a block.
    """

    def __init__(self, steps: Codes, first: Codes, last: Codes, sizes: Rows, smallest: int) -> None:
        self._first, self._last, self._smallest = first, last, smallest
        attributes = len(first)
        bits = np.clip(_bit_length(sizes), FEWEST_BITS, MOST_BITS)
        self._shift = np.maximum(0, _bit_length(last - first) - bits)
        lengths = (((last - first) >> self._shift) + 1).T.ravel()
        self._begins = np.cumsum(lengths) - lengths
        begins = self._begins.reshape(-1, attributes).T
        self.is_coarse = self._shift.any(axis=0)
        if self.is_coarse.any():
            bins = steps - np.repeat(first, sizes, axis=1)
            bins >>= np.repeat(self._shift, sizes, axis=1)
            bins += np.repeat(begins, sizes, axis=1)
        else:
            bins = steps + np.repeat(begins - first, sizes, axis=1)
        counts = np.bincount(bins.ravel(), minlength=int(lengths.sum()))
        self._filled = np.flatnonzero(counts)
        self._block = np.repeat(np.arange(len(lengths)), lengths)[self._filled]
        rows = np.repeat(sizes, attributes)
        passed = np.cumsum(rows) - rows
        self._left = np.cumsum(counts[self._filled]) - passed[self._block]
        self._right = rows[self._block] - self._left

    def between(self) -> tuple[Rows, Codes, Rows]:
        """The places between two bins with enough rows to either side: block, first step of the right, rows left.

        Where bins between them are empty, the place is in the middle of those.
        """
        can = np.flatnonzero((self._left >= self._smallest) & (self._right >= self._smallest))
        block = self._block[can]
        first, shift = self._first.T.ravel()[block], self._shift.T.ravel()[block]
        below, above = self._filled[can] + 1 - self._begins[block], self._filled[can + 1] - self._begins[block]
        return block, first + (((below + above) << shift) - 1) // 2 + 1, self._left[can]

    def narrowed(self, segments: Rows) -> tuple[Codes, Codes]:
        """The first and last steps in which these segments may yet be cut: the bin in which the middle row falls.

        For segments that cannot be cut between bins; a block of single steps has no such place.
        """
        opens = np.flatnonzero(np.diff(self._block, prepend=NO_CUT))
        under = np.add.reduceat(self._left < self._smallest, opens)
        middle = (self._filled[opens + under] - self._begins).reshape(-1, len(self._first)).T[:, segments]
        first, shift = self._first[:, segments], self._shift[:, segments]
        start = first + (middle << shift)
        return start, np.minimum(self._last[:, segments], start + (1 << shift) - 1)


def _bit_length(numbers: Rows) -> Rows:
    return np.frexp(numbers)[1].astype(np.int64)


def _ranges(begins: Rows, sizes: Rows) -> Rows:
    """The positions of all these ranges, one after the other."""
    offsets = np.cumsum(sizes) - sizes
    positions: Rows = np.arange(int(sizes.sum())) + np.repeat(begins - offsets, sizes)
    return positions
