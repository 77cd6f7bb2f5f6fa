"""Growing the tree: strict Mondrian over many leaves at once, one level per round (Pei, section 4).

Which cut. A cut frees every row of the part of the region on the other side; its *gain* is the NCP saved by this,
summed over the rows. A cut also has a cost: rows that are parted cannot be parted again, and cuts into halves cost
most. So a cut is worth gain² / (rows on one side x rows on the other), over all attributes and places alike: the median
where rows lie evenly, the edge of a dense part where they do not. Of the cuts worth nearly as much as the best, the one
that parts the rows most evenly is taken, because small cells are the first to fall under k when people leave. Only
sums, products and quotients are used, which every machine rounds alike (docs/decisions/where-to-cut.md has the
figures).

Layout. The rows of all leaves under work stand in one array, leaf after leaf (a *segment* each), and beside it one line
of steps per attribute (`cut_scale.py`). Rows are counted, not sorted: each segment has, for each attribute, a block of
bins, about as many as it has rows, and cuts are tried between the bins with rows, for all segments and attributes
together. Where no such cut leaves enough rows on both sides, one may still be inside the bin of the middle row, and the
search goes on there. How fine the bins are depends on all leaves under work: equal work always gives an equal tree, but
the same leaf among other leaves may be cut a little to the side. There is no Python loop over people, and none over
leaves except for rounding the cuts of float attributes.

Cost: O(rows x attributes) per level. A later release works only on the leaves that received arrivals.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.breadth import Breadth, are_in_proportion, is_wide
from shoal.core.cells.cut_scale import Codes, Scale, Steps
from shoal.core.cells.tree import Column, Rows, Tree
from shoal.core.runs import each_between

NO_CUT = -1
NEARLY = 0.9  # of the best cut's worth: a cut that good may win by being more even
SINGLE_STEPS = 4  # steps per row up to which steps are counted one by one, which needs no shifting
FEWEST_BINS, MOST_BINS = 32, 128  # of an attribute in a segment: fewer miss good cuts, more cost time and find little


def grow(
    tree: Tree, columns: Sequence[Column], leaf: Rows, leaves: Iterable[tuple[int, Rows]], smallest: int
) -> list[int]:
    """Split these leaves, given with their rows, while both sides keep `smallest` rows; returns the nodes split.

    `leaf` is the leaf of every row and is kept up to date. Equal quasi-identifiers never part (strict), categories are
    cut between siblings only, and a cut in a float attribute is the roundest number between its neighbours.
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
    """For each of some segments the attribute it is cut in, the first step on its right, and the rows on its left."""

    segments: Rows
    attributes: Rows
    steps: Codes
    left: Rows


class _Level:
    """The leaves of one level that may still be cut, with their rows and the runs of steps that their regions cover."""

    def __init__(
        self, tree: Tree, columns: Sequence[Column], leaves: Rows, sizes: Rows, rows: Rows, smallest: int
    ) -> None:
        self._tree, self._columns, self._smallest, self._rows = tree, columns, smallest, rows
        self._scales = [Scale(a, column[rows]) for a, column in zip(tree.attributes, columns, strict=True)]
        self._tables = Steps(self._scales)
        self._wide = [at for at, one in enumerate(tree.attributes) if is_wide(one.hierarchy)]
        self._alone = np.array([scale.alone for scale in self._scales])
        self._steps = np.stack([scale.codes for scale in self._scales])
        self.leaves, self._sizes = leaves, sizes
        shape = len(self._scales), len(leaves)
        self._table, self._first, self._last = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for position, scale in enumerate(self._scales):
            low, high = (scale.edges(side) for side in tree.bounds(position, leaves))
            self._set_runs(position, np.arange(len(leaves)), low, high)

    def _set_runs(self, position: int, segments: Rows, low: Codes, high: Codes) -> None:
        """Note which codes of one attribute these segments cover, and turn a category's codes into the steps there."""
        runs = self._tables.runs(position, low, high, self._tree.bounds(position, self.leaves[segments]))
        for known, new in zip((self._table, self._first, self._last), runs, strict=True):
            known[position, segments] = new
        if self._scales[position].attribute.kind == "category":
            at = self._places_of(segments)
            codes = self._scales[position].codes_of(self._columns[position][self._rows[at]])
            self._steps[position, at] = self._tables.steps[np.repeat(runs[0], self._sizes[segments]) + codes]

    def _places_of(self, segments: Rows) -> Rows:
        """The places of the rows of these segments."""
        return each_between((np.cumsum(self._sizes) - self._sizes)[segments], self._sizes[segments])

    def split(self, leaf: Rows) -> Rows:
        """Cut every leaf that can be cut and go on to the children; returns the leaves cut."""
        found: list[_Cuts] = []
        waiting = np.arange(len(self.leaves))
        steps, first, last = self._steps, self._first, self._last
        while waiting.size:
            bins = _Bins(steps, first, last, self._sizes[waiting], self._smallest)
            found.append(self._best(bins, waiting))
            is_open = np.ones(len(self.leaves), dtype=bool)
            is_open[found[-1].segments] = False
            coarse = np.flatnonzero(is_open[waiting] & bins.is_coarse)
            if not coarse.size:
                break
            first, last = bins.narrowed(coarse)
            waiting = waiting[coarse]
            sizes, steps = self._sizes[waiting], self._steps[:, self._places_of(waiting)]
            np.clip(steps, np.repeat(first, sizes, axis=1), np.repeat(last, sizes, axis=1), out=steps)
        return self._descend(leaf, _Cuts(*(np.concatenate(part) for part in zip(*found, strict=True))))

    def _best(self, bins: "_Bins", segments: Rows) -> _Cuts:
        """The best cut of each of these segments that can be cut."""
        within, attributes, steps, left = bins.between()
        table = self._table[attributes, segments[within]]
        if self._tables.closed is not None:
            able = np.flatnonzero(~self._tables.closed[table + steps])
            within, attributes, steps, left, table = (part[able] for part in (within, attributes, steps, left, table))
        if self._wide:
            able = self._in_proportion(segments[within], attributes, table + steps, left)
            within, attributes, steps, left, table = (part[able] for part in (within, attributes, steps, left, table))
        owner = segments[within]
        right = self._sizes[owner] - left
        places, alone = self._tables.places, self._alone[attributes]
        place = places[table + steps]
        on_left = place - places[table + self._first[attributes, owner]]
        on_right = places[table + self._last[attributes, owner] + 1] - place
        # A row on the left is freed of the part on the right; a category that comes down to one leaf loses nothing.
        gain = left * (on_right + alone * (on_left < 1.5 * alone))
        gain += right * (on_left + alone * (on_right < 1.5 * alone))
        worth = gain * gain / (left * right)
        taken = _least(np.abs(right - left), owner, worth >= NEARLY * _most(worth, owner))
        return _Cuts(owner[taken], attributes[taken], steps[taken], left[taken])

    def _in_proportion(self, owner: Rows, attributes: Rows, steps: Rows, left: Rows) -> Rows:
        """Which of these places leave regions that are short enough on both sides."""
        found = np.ones(len(owner), dtype=bool)
        right = self._sizes[owner] - left
        for position in self._wide:
            scale = self._scales[position]
            assert scale.attribute.hierarchy is not None
            breadth = Breadth(scale.attribute.hierarchy, *self._tree.bounds(position, self.leaves))
            labels = np.stack([breadth.labels[owner]] * 2)
            here = np.flatnonzero(attributes == position)
            labels[:, here] = breadth.sides(owner[here], scale.leaf_codes(self._tables.codes[steps[here]]))
            found &= are_in_proportion(labels[0], left) & are_in_proportion(labels[1], right)
        return np.flatnonzero(found)

    # -- cutting ------------------------------------------------------------------------------------------------

    def _descend(self, leaf: Rows, cuts: _Cuts) -> Rows:
        """Turn the cuts into nodes, give every row its new leaf, and keep the children that may be cut again."""
        segments, attributes, steps, left = cuts
        sizes, split = self._sizes[segments], self.leaves[segments]
        at = self._places_of(segments)
        chosen = self._steps.ravel()[np.repeat(attributes * self._steps.shape[1], sizes) + at]
        is_right = chosen >= np.repeat(steps, sizes)
        number = self._tree.put_many(split, attributes, *self._values(cuts, chosen, is_right))
        children = number + np.arange(2 * len(split)).reshape(-1, 2)
        order, parts = [], []
        for side, rows, counts in ((0, at[~is_right], left), (1, at[is_right], sizes - left)):
            leaf[self._rows[rows]] = np.repeat(children[:, side], counts)
            kept = counts >= 2 * self._smallest
            order.append(rows[np.repeat(kept, counts)])
            table, first, last = (line[:, segments[kept]] for line in (self._table, self._first, self._last))
            here = attributes[kept], np.arange(table.shape[1])
            if side == 0:
                last[here] = steps[kept] - 1
            else:
                first[here] = steps[kept]
            parts.append((children[kept, side], counts[kept], table, first, last, attributes[kept]))
        keep = np.concatenate(order)
        self._rows, self._steps = self._rows[keep], np.take(self._steps, keep, axis=1)
        self.leaves, self._sizes, self._table, self._first, self._last, parted = (
            np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)
        )
        self._descend_hierarchies(parted)
        return split

    def _descend_hierarchies(self, parted: Rows) -> None:
        """Where a leaf has one step left of the category it was just cut in, go on among the children of that step."""
        segments = np.arange(len(parted))
        table, first, last = (line[parted, segments] for line in (self._table, self._first, self._last))
        low, high = self._tables.codes[table + first], self._tables.codes[table + last + 1]
        is_one_step = (first == last) & (high - low > 1)
        for position in np.unique(parted[is_one_step]).tolist():
            if self._scales[position].attribute.kind == "category":
                here = np.flatnonzero(is_one_step & (parted == position))
                self._set_runs(position, here, low[here], high[here])

    def _values(self, cuts: _Cuts, chosen: Codes, is_right: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.float64]]:
        """The cuts as values, whole and real; `chosen` are the steps of the rows in the attribute of their cut."""
        whole = self._tables.codes[self._table[cuts.attributes, cuts.segments] + cuts.steps]
        real = np.zeros(len(whole))
        for position, scale in enumerate(self._scales):
            here = np.flatnonzero(cuts.attributes == position)
            if scale.attribute.kind == "category":
                whole[here] = scale.leaf_codes(whole[here])
            elif not scale.is_ranked:
                whole[here] += int(scale.attribute.low)
            elif here.size:
                begins = np.cumsum(self._sizes[cuts.segments]) - self._sizes[cuts.segments]
                below = np.maximum.reduceat(np.where(is_right, NO_CUT, chosen), begins)[here]
                above = np.minimum.reduceat(np.where(is_right, chosen, scale.span), begins)[here]
                (real if scale.attribute.kind == "float" else whole)[here] = scale.between(below, above)
        return whole, real


class _Bins:
    """The rows of some segments, counted: for each segment and attribute a block of bins, each of 2**shift steps.

    `first` and `last` bound the steps of a block. Blocks of one attribute are equally long, and a segment's blocks
    stand one after the other, attribute by attribute.
    """

    def __init__(self, steps: Codes, first: Codes, last: Codes, sizes: Rows, smallest: int) -> None:
        self._last, self._smallest = last, smallest
        attributes, segments = first.shape
        rows, spans = steps.shape[1] // segments, last - first
        most = max(FEWEST_BINS, min(rows, MOST_BINS))
        self._shift = np.maximum(0, _bit_length(spans) + 1 - most.bit_length())
        self._start = first.copy()
        lengths = np.zeros(attributes, dtype=np.int64)
        bins = np.empty(steps.shape, dtype=np.int64)
        for position, line in enumerate(bins):
            lowest = first[position].min()
            length = last[position].max() - lowest + 1
            if length <= max(most, min(SINGLE_STEPS * rows, MOST_BINS)):  # from the same first step in every segment
                self._start[position], self._shift[position] = lowest, 0
                np.subtract(steps[position], lowest, out=line)
            else:
                length = (spans[position] >> self._shift[position]).max() + 1
                np.subtract(steps[position], np.repeat(first[position], sizes), out=line)
                line >>= np.repeat(self._shift[position], sizes)
            lengths[position] = length
        self._begins, self._length = np.cumsum(lengths) - lengths, int(lengths.sum())
        self.is_coarse = self._shift.any(axis=0)
        bins += self._begins[:, None]
        bins += np.repeat(self._length * np.arange(segments), sizes)
        counts = np.bincount(bins.ravel(), minlength=segments * self._length)
        self._filled = np.flatnonzero(counts)
        self._segment = self._filled // self._length
        self._bin = self._filled - self._segment * self._length
        self._attribute = np.repeat(np.arange(attributes), lengths)[self._bin]
        passed = np.cumsum(sizes) - sizes
        rows_of = sizes[self._segment]
        self._left = np.cumsum(counts[self._filled]) - (attributes * passed[self._segment] + self._attribute * rows_of)
        self._right = rows_of - self._left

    def between(self) -> tuple[Rows, Rows, Codes, Rows]:
        """The places with enough rows on either side: segment, attribute, first step of the right, rows on the left.

        Where bins are empty at a place, the cut is in the middle of the empty ones.
        """
        can = np.flatnonzero((self._left >= self._smallest) & (self._right >= self._smallest))
        segment, attribute = self._segment[can], self._attribute[can]
        start, shift = self._start[attribute, segment], self._shift[attribute, segment]
        begin = self._begins[attribute]
        below, above = self._bin[can] + 1 - begin, self._bin[can + 1] - begin
        return segment, attribute, start + (((below + above) << shift) - 1) // 2 + 1, self._left[can]

    def narrowed(self, segments: Rows) -> tuple[Codes, Codes]:
        """The first and last steps between which these segments may yet be cut: the bin of the middle row.

        For segments that cannot be cut between bins; a block of single steps has no such place.
        """
        opens = np.flatnonzero(np.diff(self._segment * len(self._begins) + self._attribute, prepend=NO_CUT))
        under = np.add.reduceat(self._left < self._smallest, opens)
        middle = self._bin[opens + under].reshape(-1, len(self._begins)).T[:, segments] - self._begins[:, None]
        shift = self._shift[:, segments]
        first = self._start[:, segments] + (middle << shift)
        return first, np.minimum(self._last[:, segments], first + (1 << shift) - 1)


def _most(worth: NDArray[np.float64], owner: Rows) -> NDArray[np.float64]:
    """For each place the worth of the best place of its owner; the places of an owner are neighbours."""
    begins = np.flatnonzero(np.diff(owner, prepend=NO_CUT))
    if not begins.size:
        return worth
    return np.repeat(np.maximum.reduceat(worth, begins), np.diff(begins, append=len(owner)))


def _least(uneven: Rows, owner: Rows, is_good: NDArray[np.bool_]) -> Rows:
    """For each owner the first of its least uneven good places."""
    good = np.flatnonzero(is_good)
    begins = np.flatnonzero(np.diff(owner[good], prepend=NO_CUT))
    if not begins.size:
        return good
    least = np.repeat(np.minimum.reduceat(uneven[good], begins), np.diff(begins, append=len(good)))
    taken = good[uneven[good] == least]
    first: Rows = taken[np.diff(owner[taken], prepend=NO_CUT) != 0]
    return first


def _bit_length(numbers: Rows) -> Rows:
    return np.frexp(numbers)[1].astype(np.int64)
