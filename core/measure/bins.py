"""An attribute cut into bins, and the runs of bins that regions span: what a model of an attribute is made of.

Layout. The bins of an attribute are between two of its `cuts`. Most cells share their run `[first, last)` of bins with
many others, so runs are numbered, and `of` says which one is a cell's. A bin is a piece between two ends of regions
(density.py), or several neighbouring ones, about equally full, where there are more than `BINS`.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.measure.release_reader import ReleaseColumns

BINS: Final = 48  # finer ones would hold too few rows of a value to tell


class Bins(NamedTuple):
    """One attribute of a release."""

    spread: NDArray[np.float64]  # by bin: the share of all people
    is_in: NDArray[np.float64]  # by run and bin: 1 if the run spans it
    of: Rows  # by cell: its run


def bins_of(release: ReleaseColumns, attribute: int) -> Bins:
    """The bins of an attribute; the release must have cells. O(cells log cells)."""
    cuts, below = release.spread[attribute]
    if len(cuts) > BINS + 1:
        wanted = np.linspace(below[0], below[-1], BINS + 1)
        kept = np.unique(np.r_[0, np.searchsorted(below, wanted[1:-1]), len(cuts) - 1])
        cuts, below = cuts[kept], below[kept]
    first = np.searchsorted(cuts, release.low[attribute], side="right") - 1
    last = np.searchsorted(cuts, release.high[attribute])
    width = len(cuts)
    runs, of = np.unique(first * width + last, return_inverse=True)
    at = np.arange(width - 1)
    is_in = (at >= (runs // width)[:, None]) & (at < (runs % width)[:, None])
    mass = np.diff(below)
    return Bins(mass / mass.sum(), is_in.astype(np.float64), of.reshape(-1))
