"""Overlapping rows beside uneven publishers: groups that show each value as often as makes the sums equal.

A *template* says how often a group shows each value. Beside e, template c balances a row of value s if alpha values v
of e, s among them, have c(v) + e(v) = c(s) + e(s). So a row is balanced by the template alone, whichever rows share its
group. The rows left are cut into blocks in the tree's order, and each block is given the template under which most of
its rows can be published. The search starts with the most frequent values once each, the best number of them, and then
tries one value after the other more often, less often or not at all. The balanced rows of a block are dealt into as
many groups of its template as pay; missing rows are counterfeited, at a price. The next round cuts the rest into other
blocks.

Layout. A block has its own few columns, its most frequent values first. `gap` has by column and overlap e(v) - e(s) in
a byte, or FAR where v is not in e: the overlap is balanced if alpha columns have c(v) + gap(v) = c(s). Rows are ordered
by their number of overlaps, most first, and the overlaps lie in layers: the first overlap of every row, then the second
of every row that has two. Each layer belongs to the first rows, so "all overlaps of a row" is an AND of arrays. All
blocks are searched at once, a column at a time: a sweep costs O(overlaps x columns) bytes, however many blocks.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.affordability import Claims
from shoal.core.groups.pool import Pool
from shoal.core.overlap.assembly import Draft
from shoal.core.overlap.overlaps import Overlaps
from shoal.core.overlap.tuning import (
    COLUMNS,
    COMPANION_PRICE,
    COUNTERFEIT_PRICE,
    FEWEST_UNEVEN,
    GROUPS_PER_BLOCK,
    MOST_TIMES,
    SWEEPS,
    UNEVEN_BLOCKS,
    UNEVEN_ROUNDS,
    UNEVEN_WORK,
)

FAR = 100  # a gap that no count bridges

Small = NDArray[np.int8]
Flags = NDArray[np.bool_]


def fit_uneven_groups(pool: Pool, overlaps: Overlaps, claims: Claims, is_left: Flags, counterfeits: int) -> list[Draft]:
    """Groups of units with one value, with up to so many counterfeits; clears `is_left` of their members."""
    value = np.array([values[0] for values in pool.sets], dtype=np.int64)
    overlap_counts = np.diff(overlaps.starts)
    drafts: list[Draft] = []
    work = idle = 0
    for turn in range(UNEVEN_ROUNDS):
        units = np.flatnonzero(is_left)
        work += int(overlap_counts[units].sum())
        overlapping = np.count_nonzero(overlap_counts[units])
        if overlapping < FEWEST_UNEVEN or (work > UNEVEN_WORK and turn) or idle == len(UNEVEN_BLOCKS):
            break
        blocks = _Blocks(units, value[units], UNEVEN_BLOCKS[turn % len(UNEVEN_BLOCKS)], overlaps, claims)
        before = len(drafts)
        for draft in blocks.drafts(blocks.search()):
            if draft.counterfeit_count > counterfeits:
                continue
            if claims.wrong_in(draft.members, draft.standing(claims), is_planned=True) is None:
                counterfeits -= draft.counterfeit_count
                drafts.append(draft)
                is_left[draft.members] = False
        idle = 0 if len(drafts) > before else idle + 1
    return drafts


class _Found(NamedTuple):
    """By block: the template, the best number of its groups, their worth; by overlap: how many columns match."""

    counts: Small
    groups: Rows
    score: NDArray[np.float64]
    match: Small

    def take(self, other: "_Found", block: Rows) -> "_Found":
        """For each block the better of the two; `block` says which block an overlap belongs to."""
        is_better = other.score > self.score
        if not is_better.any():
            return self
        return _Found(
            np.where(is_better[:, None], other.counts, self.counts),
            np.where(is_better, other.groups, self.groups),
            np.where(is_better, other.score, self.score),
            np.where(np.take(is_better, block), other.match, self.match),
        )


class _Blocks:
    """The rows of a round in blocks, with all their overlaps."""

    def __init__(self, units: Rows, value: Rows, size: int, overlaps: Overlaps, claims: Claims) -> None:
        self._alpha, self._base, leaves = overlaps.alpha, claims.target_base, claims.leaves
        block = np.arange(len(units)) // size
        self._count = int(block[-1]) + 1
        self._width = min(leaves, max(COLUMNS, 2 * math.ceil(self._base)))
        held = np.bincount(block * leaves + value, minlength=self._count * leaves).reshape(self._count, leaves)
        held[:, sorted(claims.permanent)] = -1
        self._leaf = np.argsort(-held, axis=1, kind="stable")[:, : self._width]
        column = np.full((self._count, leaves), -1, dtype=np.int64)
        np.put_along_axis(column, self._leaf, np.arange(self._width)[None], axis=1)
        own = column[block, value]
        rows = np.flatnonzero(own >= 0)
        rows = rows[np.argsort(overlaps.starts[units[rows]] - overlaps.starts[units[rows] + 1], kind="stable")]
        self._unit, self._block, self._own = units[rows], block[rows], own[rows]
        self._gap = self._find_gaps(overlaps, column)

    def _find_gaps(self, overlaps: Overlaps, column: Rows) -> Small:
        """The gaps by column and overlap. Permanent values have none; rows that no template balances are left out."""
        sizes = overlaps.starts[self._unit + 1] - overlaps.starts[self._unit]
        row = np.repeat(np.arange(len(sizes)), sizes)
        layer = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        overlap = overlaps.starts[self._unit][row] + layer
        which, leaf, weight = overlaps.bars(overlap)
        at = np.take(column, np.take((self._block * column.shape[1])[row], which) + leaf)
        apart = weight - np.take(overlaps.weight[overlap], which)
        near = np.flatnonzero((at >= 0) & (np.abs(apart) <= MOST_TIMES))
        which, at, apart = which[near], at[near], apart[near]
        can_match = np.ones(len(sizes), dtype=bool)
        can_match[row[np.bincount(which, minlength=len(row)) < self._alpha]] = False
        self._arrange(np.flatnonzero(can_match), sizes)
        place = (np.cumsum(self._layers) - self._layers)[layer] + (np.cumsum(can_match) - 1)[row]
        near = np.flatnonzero(can_match[row[which]])
        gap = np.full((self._width, len(self._row)), FAR, dtype=np.int8)
        gap[at[near], place[which[near]]] = apart[near]
        return gap

    def _arrange(self, rows: Rows, sizes: Rows) -> None:
        """Lay out the rows that stay, those with most overlaps first, and their overlaps in layers."""
        self._unit, self._block, self._own = self._unit[rows], self._block[rows], self._own[rows]
        self._cell = self._block * self._width + self._own
        deep = np.arange(1, int(sizes.max(initial=1)) + 1)
        self._layers = np.searchsorted(-sizes[rows], -deep, side="right").tolist()
        self._overlapping = self._layers[0]  # how many rows, the first ones, overlap
        self._row = np.concatenate([np.arange(reach) for reach in self._layers])

    def search(self) -> _Found:
        """A template for each block, by coordinate descent."""
        block, own, cell = self._block[self._row], self._own[self._row], self._cell[self._row]
        mine = [np.flatnonzero(own == at) for at in range(self._width)]
        best = self._start(block, own)
        for _ in range(SWEEPS):
            before = best.score
            for at in range(self._width):
                best = self._improve(at, best, block, cell, mine[at])
            if (best.score == before).all():
                break
        return best

    def _start(self, block: Rows, own: Rows) -> _Found:
        """The first columns once each, the best number of them."""
        counts = np.zeros((self._count, self._width), dtype=np.int8)
        match = np.zeros(len(block), dtype=np.int8)
        best = None
        for at in range(self._width):
            counts[:, at] = 1
            match = match + (self._gap[at] == 0)
            found = self._judge(counts.copy(), match)
            best = found if best is None or at < self._alpha else best.take(found, block)
        assert best is not None
        is_shown = best.counts[block, own] > 0  # a value that is not shown matches nothing
        return best._replace(match=best.match * is_shown)

    def _improve(self, at: int, best: _Found, block: Rows, cell: Rows, mine: Rows) -> _Found:
        """Show one column more often, less often or not at all, where the block gains by it."""
        counts, now = best.counts, np.take(best.counts[:, at], block)
        needed = np.take(counts, cell) - self._gap[at]
        without = best.match - ((needed == now) & (now > 0))
        shown = counts.T[:, block[mine]]
        sums = np.where(shown > 0, shown + self._gap[:, mine], FAR)
        sums[at] = FAR
        for times in range(MOST_TIMES + 1):
            trial = counts.copy()
            trial[:, at] = times
            match = without + (needed == times) if times else without.copy()
            match[mine] = (sums == times).sum(axis=0, dtype=np.int8) + 1 if times else 0
            best = best.take(self._judge(trial, match), block)
        return best

    def _are_balanced(self, match: Small) -> Flags:
        """The rows of which all overlaps are balanced."""
        is_balanced, start = match >= self._alpha, 0
        found = np.ones(len(self._unit), dtype=bool)
        for reach in self._layers:
            found[:reach] &= is_balanced[start : start + reach]
            start += reach
        return found

    def _judge(self, counts: Small, match: Small) -> _Found:
        """The worth of these templates: overlapping rows published, less the price of companions and counterfeits."""
        shown = counts.astype(np.int64)
        is_balanced, overlap = self._are_balanced(match), self._overlapping
        overlapping = np.bincount(self._cell[:overlap][is_balanced[:overlap]], minlength=shown.size)
        supply = overlapping + np.bincount(self._cell[overlap:], minlength=shown.size)
        wanted = shown[:, None, :] * GROUPS_PER_BLOCK[:, None]
        served = np.minimum(wanted, overlapping.reshape(shown.shape)[:, None, :]).sum(axis=2)
        real = np.minimum(wanted, supply.reshape(shown.shape)[:, None, :]).sum(axis=2)
        counterfeits = wanted.sum(axis=2) - real
        lacking = np.maximum(0, shown.max(axis=1)[:, None] * self._base * GROUPS_PER_BLOCK - real)
        score = served - COMPANION_PRICE * (real - served) - COUNTERFEIT_PRICE * (counterfeits + lacking)
        best = score.argmax(axis=1)
        return _Found(counts, GROUPS_PER_BLOCK[best], score[np.arange(len(best)), best], match)

    def drafts(self, found: _Found) -> list[Draft]:
        """The groups of each block that has a template worth something."""
        counts = found.counts.astype(np.int64)
        times = counts[self._block, self._own]
        rows = np.flatnonzero(self._are_balanced(found.match) & (times > 0) & (found.score[self._block] > 0))
        wanted = times * found.groups[self._block]
        rows = rows[np.argsort(self._cell[rows], kind="stable")]  # overlapping rows come first
        rows = rows[_rank(self._cell[rows]) < wanted[rows]]
        rows = rows[np.lexsort((self._unit[rows], self._cell[rows]))]
        cell = self._cell[rows]
        supply = np.searchsorted(cell, cell, side="right") - np.searchsorted(cell, cell)
        place = _rank(cell) * wanted[rows] // supply  # in step with other values, so that neighbours share a group
        group = (np.cumsum(found.groups) - found.groups)[self._block[rows]] + place // times[rows]
        order = np.argsort(group, kind="stable")
        rows, group = rows[order], group[order]
        starts = np.flatnonzero(group[1:] != group[:-1]) + 1
        return [self._draft(part, counts) for part in np.split(rows, starts)] if len(rows) else []

    def _draft(self, rows: Rows, counts: Rows) -> Draft:
        block = int(self._block[rows[0]])
        columns = np.flatnonzero(counts[block])
        leaves, times = self._leaf[block, columns].tolist(), counts[block, columns]
        lacking = (times - np.bincount(self._own[rows], minlength=self._width)[columns]).tolist()
        counterfeits = {leaf: count for leaf, count in zip(leaves, lacking, strict=True) if count}
        return Draft(self._unit[rows].tolist(), dict(zip(leaves, times.tolist(), strict=True)), counterfeits)


def _rank(keys: Rows) -> Rows:
    """The place of each among those equal to it, of keys in ascending order."""
    return np.arange(len(keys)) - np.searchsorted(keys, keys)
