"""The region of a COUNT query in one release: of each cell and each group, what lies in it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.cells.tree import Column, Rows
from shoal.core.measure.entries import Numbers, add_up
from shoal.core.measure.question import Runs
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Attribute

Flags = NDArray[np.bool_]
Conditions = tuple[tuple[int, Runs], ...]


class Region(NamedTuple):
    """Cells that lie wholly in a region, cells that meet it, and the share of each cell's people that is likely in it.

    By group: how many of its rows certainly are in the region, may be in it, and are likely to be.
    """

    whole: Flags
    meets: Flags
    share: Numbers
    certain: Numbers
    possible: Numbers
    rows: Numbers


class Places:
    """The regions of a release's cells, and the rows of its groups in them. Cells share the runs of an attribute."""

    def __init__(self, release: ReleaseColumns) -> None:
        self._release = release
        self._runs = [_runs(low, high) for low, high in zip(release.low, release.high, strict=True)]
        by_group = np.argsort(release.cell_rows_group, kind="stable")
        self._group, self._cell = release.cell_rows_group[by_group], release.cell_rows_cell[by_group]
        self._count = release.cell_rows_count[by_group].astype(np.float32)
        start = np.searchsorted(self._group, np.arange(len(release.group_rows) + 1))
        self._has_rows = start[1:] > start[:-1]
        self._start = start[:-1][self._has_rows]
        self._last: tuple[Conditions, Region] | None = None

    def region(self, conditions: Conditions) -> Region:
        """O(cells + rows by cell); the last one is kept, for who asks for several values in it."""
        if self._last is None or self._last[0] != conditions:
            self._last = conditions, self._find(conditions)
        return self._last[1]

    def share(self, attribute: int, wanted: Runs) -> Numbers:
        """By cell, the share of its people who are likely to meet a condition on an attribute. O(cells)."""
        low, high, of = self._runs[attribute]
        spread = self._release.spread[attribute]
        together = np.sum([spread.share(low, high, run) for run in wanted], axis=0)
        return np.asarray(np.minimum(1.0, together)[of])

    def _find(self, conditions: Conditions) -> Region:
        release = self._release
        whole, meets = (np.ones(len(release.cell_names), dtype=bool) for _ in range(2))
        share = np.ones(len(release.cell_names))
        for position, wanted in conditions:
            low, high, of = self._runs[position]
            end = ends(release.policy.attributes[position], high)
            # there are gaps between the runs, so a cell inside the region is inside one of them
            whole &= np.any([(low >= run.low) & (end <= run.high) for run in wanted], axis=0)[of]
            meets &= np.any([(low < run.high) & (end > run.low) for run in wanted], axis=0)[of]
            share *= self.share(position, wanted)
        kind = (meets.astype(np.uint8) + whole).take(self._cell)  # small enough for the cache, which shares are not
        certain, possible = self._by_group(kind == 2), self._by_group(kind > 0)
        part = np.flatnonzero(kind == 1)
        inside = self._count[part] * share[self._cell[part]]
        likely = np.minimum(possible, certain + add_up(self._group[part], inside, len(certain)))
        return Region(whole, meets, share, certain, possible, likely)

    def _by_group(self, chosen: Flags) -> Numbers:
        """How many of these rows each group has."""
        found = np.zeros(len(self._has_rows))
        if len(self._start):
            found[self._has_rows] = np.add.reduceat(self._count * chosen, self._start)
        return found


def _runs(low: Column, high: Column) -> tuple[Column, Column, Rows]:
    """The different runs of an attribute, and which of them each cell has."""
    lows, at_low = np.unique(low, return_inverse=True)
    highs, at_high = np.unique(high, return_inverse=True)
    width = max(1, len(highs))
    pairs, of = np.unique(at_low.reshape(-1) * width + at_high.reshape(-1), return_inverse=True)
    return lows[pairs // width], highs[pairs % width], of.reshape(-1)


def ends(attribute: Attribute, high: Column) -> Column:
    """The ends of cells, not included: the last cell of a float's domain includes the domain's end."""
    if attribute.kind != "float":
        return high
    return np.where(high == domain(attribute)[1], np.nextafter(high, np.inf), high)
