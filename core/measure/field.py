"""How many people of each cell have each value, as the model of a release guesses.

Layout. `below[leaf, cell]` is how many values of the people of a cell are expected to be leaves before this one, of
those that occur in the release, so a run of leaves is the difference of two lines. A release with many cells and many
leaves would need too much memory: neighbouring leaves are then put together into blocks, and a leaf has the share of
its block that it has everywhere.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.measure.entries import NOTHING, Entries, Numbers, Sides, add_up, entries_of
from shoal.core.measure.model import Model
from shoal.core.measure.question import Runs
from shoal.core.measure.release_reader import ReleaseColumns

PLACES: Final = 50_000_000  # cells x leaves, 4 bytes each
AT_ONCE: Final = 1_000_000  # entries, or cells x leaves
SCALINGS: Final = 8

Lines = NDArray[np.float32]


class Field(NamedTuple):
    """The guess for a release, and the counts of leaves everywhere."""

    leaves: Rows  # the leaf codes that occur, in order
    before: Numbers  # by leaf, and the end: the share of all values that are leaves before it
    suppressed_before: Numbers  # the same of what "*" may stand for
    block: Rows  # by leaf, and the end: the block that it is in
    below: Lines

    def by_cell(self, low: float, high: float) -> Numbers:
        """By cell, how many values lie in a run of leaf codes. O(cells)."""
        at, to = np.searchsorted(self.leaves, (low, high))
        return np.asarray(self._line(to) - self._line(at), dtype=np.float64)

    def shares(self, low: Rows, high: Rows) -> tuple[Numbers, Numbers]:
        """Of all values, the share that lies in each of these runs of leaf codes, and the same of "*"."""
        at, to = np.searchsorted(self.leaves, low), np.searchsorted(self.leaves, high)
        return self.before[to] - self.before[at], self.suppressed_before[to] - self.suppressed_before[at]

    def variety(self, values: Runs) -> float:
        """How many values are asked for, or left out if that is fewer; where few are most of it, only these count."""
        each, is_asked = np.diff(self.before), np.zeros(len(self.leaves), dtype=bool)
        for run in values:
            is_asked[slice(*np.searchsorted(self.leaves, (run.low, run.high)))] = True
        parts = [part for part in (each[is_asked], each[~is_asked]) if part.any()]
        return min((float(part.sum() ** 2 / (part @ part)) for part in parts), default=1.0)

    def _line(self, leaf: int) -> Lines:
        block = self.block[leaf]
        line: Lines = self.below[block]
        begin = int(np.searchsorted(self.block, block))
        if leaf == begin:
            return line
        end = int(np.searchsorted(self.block, block + 1))
        within = (self.before[leaf] - self.before[begin]) / (self.before[end] - self.before[begin])
        return np.asarray(line + np.float32(within) * (self.below[block + 1] - line))


def field_of(release: ReleaseColumns, sides: Sides, model: Model) -> Field:
    """What a model says about every group of a release. O(entries + cells x blocks)."""
    cells, leaves = len(release.cell_names), len(sides.leaves)
    block = _blocks(model.counts, min(leaves, max(1, PLACES // cells)))
    blocks = int(block[-1])
    found = np.zeros((blocks + 1, cells), dtype=np.float32)
    flat = found.ravel()
    lumps: dict[int, Numbers] = {}
    for groups in _portions(sides.sizes):
        entries = entries_of(sides, groups)
        guess = entries.fit(model.weigh(entries.cell, entries.leaf), SCALINGS)
        is_known = entries.leaf != NOTHING
        at = (block[entries.leaf[is_known]] + 1) * cells + entries.cell[is_known]
        np.add.at(flat, at, guess[is_known].astype(np.float32))
        _add_lumps(lumps, entries, guess, cells)
    may_hide = _may_hide(release, sides)
    for node, by_cell in lumps.items():
        _spread(release, sides, model, may_hide if node == 0 else None, node, by_cell, block, found)
    np.cumsum(found, axis=0, out=found)
    hidden, shares = model.counts * may_hide, model.counts / model.counts.sum()
    return Field(
        leaves=sides.leaves,
        before=np.r_[0.0, np.cumsum(shares)],
        suppressed_before=np.r_[0.0, np.cumsum(hidden / hidden.sum())],
        block=block,
        below=found,
    )


def _blocks(counts: Numbers, most: int) -> Rows:
    """The block of each leaf, and of the end: one each, or, of too many leaves, neighbours that few people have."""
    if len(counts) <= most:
        return np.arange(len(counts) + 1)
    at = np.floor((np.cumsum(counts) - counts / 2) / counts.sum() * most).astype(np.int64)
    block: Rows = np.unique(at, return_inverse=True)[1].reshape(-1)
    return np.append(block, block[-1] + 1)


def _portions(sizes: Rows) -> list[Rows]:
    """All groups in order, in portions of about `AT_ONCE` entries."""
    portion = np.cumsum(sizes) // AT_ONCE
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(portion)) + 1)


def _add_lumps(lumps: dict[int, Numbers], entries: Entries, guess: Numbers, cells: int) -> None:
    """What may be too many leaves to have entries, by node and cell."""
    is_lump = entries.leaf == NOTHING
    for node in np.unique(entries.node[is_lump]).tolist():
        here = is_lump & (entries.node == node)
        lumps[node] = lumps.get(node, np.zeros(cells)) + add_up(entries.cell[here], guess[here], cells)


def _may_hide(release: ReleaseColumns, sides: Sides) -> NDArray[np.bool_]:
    """The leaves that "*" may stand for: in a lasting table open values are always shown."""
    found = np.ones(len(sides.leaves), dtype=bool)
    if release.policy.values == "lasting":
        found = ~np.isin(sides.leaves, list(release.policy.sensitive.open))
    return found if found.any() else ~found


def _spread(
    release: ReleaseColumns,
    sides: Sides,
    model: Model,
    may_be: NDArray[np.bool_] | None,
    node: int,
    by_cell: Numbers,
    block: Rows,
    found: Lines,
) -> None:
    """Adds what a node stands for in each cell to the blocks, each leaf as likely as the model says."""
    hierarchy = release.policy.sensitive.hierarchy
    low, high = np.searchsorted(sides.leaves, (hierarchy.first[node], hierarchy.last[node]))
    leaves = np.arange(low, high) if may_be is None else np.flatnonzero(may_be)
    cells = np.flatnonzero(by_cell)
    places, first = np.unique(block[leaves], return_index=True)
    step = max(1, AT_ONCE // len(leaves))
    for begin in range(0, len(cells), step):
        some = cells[begin : begin + step]
        weight = model.counts[leaves][None, :].repeat(len(some), axis=0)
        for bins, likely in zip(model.bins, model.likely, strict=True):
            weight *= likely[bins.of[some]][:, leaves]
        weight = np.maximum(weight, 1e-300)
        weight *= (by_cell[some] / weight.sum(axis=1))[:, None]
        found[np.ix_(places + 1, some)] += np.add.reduceat(weight, first, axis=1).T.astype(np.float32)
