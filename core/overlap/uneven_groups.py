"""Overlapping rows beside uneven publishers: groups that show each of their values so often that sums come out equal.

A *template* says how often a group shows each value. Beside e, a row of value s is balanced by template c if alpha
values v of e, s among them, have c(v) + e(v) = c(s) + e(s): whether a row is content depends on the template alone, not
on who else is in the group. So the rows left are cut into blocks in the tree's order, and each block is given the
template under which most of its rows can be published. The search starts with the most frequent values once each, as
many of them as is best, and then tries one value after the other more often, less often or not at all. The content rows
of a block are dealt into as many groups of its template as pay; what is missing is counterfeited, at a price. The next
round cuts what is left into other blocks.

Layout. A block has its own few columns, its most frequent values first. Of each overlap, `gap` has by column
e(v) - e(s) in a byte, or FAR where v is not in e: the row is content there if alpha columns have c(v) + gap(v) = c(s).
Rows are ordered by how many overlaps they have, most first, and the overlaps lie in layers, everybody's first, then
everybody's second, so that each layer belongs to the first rows, and "all overlaps of a row" is an AND of arrays. All
blocks are searched at once, a column at a time: a sweep costs O(overlaps x columns) bytes, however many blocks.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.overlap.assembly import Draft
from shoal.core.overlap.overlaps import Beside

BLOCKS = (2048, 512)  # rows that are given one template, round by round, in turns
ROUNDS = 24
A_FEW = 256  # overlapping rows that are better served one by one
WORK = 250_000  # overlaps looked at in all rounds together
SWEEPS = 3
COLUMNS = 16  # values of a block that are looked at, unless the policy asks for larger groups
MOST = 4  # times that a template shows a value
GROUPS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64])  # of one template in a block
PRICE = 4.0  # of a counterfeit, in overlapping rows published
PRICE_OF_COMPANY = 0.25  # of somebody who does not overlap, and would find a group anyway
FAR = 100

Small = NDArray[np.int8]
Flags = NDArray[np.bool_]


def fit_templates(pool: Pool, beside: Beside, promises: Promises, is_left: Flags, fakes: int) -> list[Draft]:
    """Groups of units with one value, with up to so many counterfeits; clears `is_left` of who is in one."""
    value = np.array([values[0] for values in pool.sets], dtype=np.int64)
    overlaps = np.diff(beside.starts)
    drafts: list[Draft] = []
    work = idle = 0
    for turn in range(ROUNDS):
        units = np.flatnonzero(is_left)
        work += int(overlaps[units].sum())
        if np.count_nonzero(overlaps[units]) < A_FEW or (work > WORK and turn) or idle == len(BLOCKS):
            break
        blocks = _Blocks(units, value[units], BLOCKS[turn % len(BLOCKS)], beside, promises)
        before = len(drafts)
        for draft in blocks.drafts(blocks.search()):
            if (
                draft.fakes <= fakes
                and promises.wrong_in(draft.members, draft.standing(promises), is_planned=True) is None
            ):
                fakes -= draft.fakes
                drafts.append(draft)
                is_left[draft.members] = False
        idle = 0 if len(drafts) > before else idle + 1
    return drafts


class _Found(NamedTuple):
    """By block: the template, how many groups of it are best, their worth; by overlap: how many columns match."""

    counts: Small
    groups: Rows
    score: NDArray[np.float64]
    match: Small

    def take(self, other: "_Found", block: Rows) -> "_Found":
        """For each block the better of the two; `block` is that of each overlap."""
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
    """The rows of a round in blocks, with all that they overlap."""

    def __init__(self, units: Rows, value: Rows, size: int, beside: Beside, promises: Promises) -> None:
        self._alpha, self._base, leaves = beside.alpha, promises.target_base, promises.leaves
        block = np.arange(len(units)) // size
        self._count = int(block[-1]) + 1
        self._width = min(leaves, max(COLUMNS, 2 * math.ceil(self._base)))
        held = np.bincount(block * leaves + value, minlength=self._count * leaves).reshape(self._count, leaves)
        held[:, sorted(promises.permanent)] = -1
        self._leaf = np.argsort(-held, axis=1, kind="stable")[:, : self._width]
        column = np.full((self._count, leaves), -1, dtype=np.int64)
        np.put_along_axis(column, self._leaf, np.arange(self._width)[None], axis=1)
        own = column[block, value]
        rows = np.flatnonzero(own >= 0)
        rows = rows[np.argsort(beside.starts[units[rows]] - beside.starts[units[rows] + 1], kind="stable")]
        self._unit, self._block, self._own = units[rows], block[rows], own[rows]
        self._gap = self._find_gaps(beside, column)

    def _find_gaps(self, beside: Beside, column: Rows) -> Small:
        """By column and overlap; permanent values are in no template. Rows that no template balances are left out."""
        sizes = beside.starts[self._unit + 1] - beside.starts[self._unit]
        row = np.repeat(np.arange(len(sizes)), sizes)
        layer = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        overlap = beside.starts[self._unit][row] + layer
        which, leaf, weight = beside.entries(overlap)
        at = np.take(column, np.take((self._block * column.shape[1])[row], which) + leaf)
        apart = weight - np.take(beside.weight[overlap], which)
        near = np.flatnonzero((at >= 0) & (np.abs(apart) <= MOST))
        which, at, apart = which[near], at[near], apart[near]
        has_hope = np.ones(len(sizes), dtype=bool)
        has_hope[row[np.bincount(which, minlength=len(row)) < self._alpha]] = False
        self._arrange(np.flatnonzero(has_hope), sizes)
        place = (np.cumsum(self._layers) - self._layers)[layer] + (np.cumsum(has_hope) - 1)[row]
        near = np.flatnonzero(has_hope[row[which]])
        gap = np.full((self._width, len(self._row)), FAR, dtype=np.int8)
        gap[at[near], place[which[near]]] = apart[near]
        return gap

    def _arrange(self, rows: Rows, sizes: Rows) -> None:
        """Lay out the rows that stay, those with most overlaps first, and their overlaps in layers."""
        self._unit, self._block, self._own = self._unit[rows], self._block[rows], self._own[rows]
        self._cell = self._block * self._width + self._own
        deep = np.arange(1, int(sizes.max(initial=1)) + 1)
        self._layers = np.searchsorted(-sizes[rows], -deep, side="right").tolist()
        self._overlap = self._layers[0]  # so many rows do, the first ones
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
        """The first columns once each, as many as is best."""
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
        """One column shown more often, less often or not at all, where that is better."""
        counts, now = best.counts, np.take(best.counts[:, at], block)
        needed = np.take(counts, cell) - self._gap[at]
        without = best.match - ((needed == now) & (now > 0))
        shown = counts.T[:, block[mine]]
        sums = np.where(shown > 0, shown + self._gap[:, mine], FAR)
        sums[at] = FAR
        for times in range(MOST + 1):
            trial = counts.copy()
            trial[:, at] = times
            match = without + (needed == times) if times else without.copy()
            match[mine] = (sums == times).sum(axis=0, dtype=np.int8) + 1 if times else 0
            best = best.take(self._judge(trial, match), block)
        return best

    def _content(self, match: Small) -> Flags:
        """The rows of which all overlaps are balanced."""
        is_balanced, start = match >= self._alpha, 0
        found = np.ones(len(self._unit), dtype=bool)
        for reach in self._layers:
            found[:reach] &= is_balanced[start : start + reach]
            start += reach
        return found

    def _judge(self, counts: Small, match: Small) -> _Found:
        """What these templates are worth: overlapping rows published, less the price of everything else it takes."""
        shown = counts.astype(np.int64)
        is_content, overlap = self._content(match), self._overlap
        overlapping = np.bincount(self._cell[:overlap][is_content[:overlap]], minlength=shown.size)
        supply = overlapping + np.bincount(self._cell[overlap:], minlength=shown.size)
        wanted = shown[:, None, :] * GROUPS[:, None]
        served = np.minimum(wanted, overlapping.reshape(shown.shape)[:, None, :]).sum(axis=2)
        real = np.minimum(wanted, supply.reshape(shown.shape)[:, None, :]).sum(axis=2)
        fakes = wanted.sum(axis=2) - real
        lacking = np.maximum(0, shown.max(axis=1)[:, None] * self._base * GROUPS - real)
        score = served - PRICE_OF_COMPANY * (real - served) - PRICE * (fakes + lacking)
        best = score.argmax(axis=1)
        return _Found(counts, GROUPS[best], score[np.arange(len(best)), best], match)

    def drafts(self, found: _Found) -> list[Draft]:
        """The groups of each block that has a template worth something."""
        counts = found.counts.astype(np.int64)
        times = counts[self._block, self._own]
        rows = np.flatnonzero(self._content(found.match) & (times > 0) & (found.score[self._block] > 0))
        wanted = times * found.groups[self._block]
        rows = rows[np.argsort(self._cell[rows], kind="stable")]  # whoever overlaps comes first
        rows = rows[_rank(self._cell[rows]) < wanted[rows]]
        rows = rows[np.lexsort((self._unit[rows], self._cell[rows]))]
        cell = self._cell[rows]
        supply = np.searchsorted(cell, cell, side="right") - np.searchsorted(cell, cell)
        place = _rank(cell) * wanted[rows] // supply  # in step with other values: neighbours stay so
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
        fakes = {leaf: count for leaf, count in zip(leaves, lacking, strict=True) if count}
        return Draft(self._unit[rows].tolist(), dict(zip(leaves, times.tolist(), strict=True)), fakes)


def _rank(keys: Rows) -> Rows:
    """The place of each among those equal to it, of keys in ascending order."""
    return np.arange(len(keys)) - np.searchsorted(keys, keys)
