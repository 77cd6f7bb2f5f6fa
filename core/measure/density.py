"""Where in a region its rows are likely to lie: how people are spread over each attribute, seen through all regions.

A region that spans all countries says nothing about which of them its rows are of. Narrower regions do: most of them
lie in one country. So rows are not spread evenly over their region, but as the other regions say. This is Turnbull's
estimate for values of which only intervals are known (1976), one attribute at a time: an attribute is cut where any
region begins or ends, each region's people are shared out over its pieces as people are spread so far, evenly at first,
and what the pieces then have is the next spread. Two rounds tell the crowded pieces; more would follow chance.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows

ROUNDS: Final = 2


class Spread(NamedTuple):
    """How people are spread over one attribute: so many lie below each cut, evenly between two of them."""

    cuts: NDArray[np.float64]
    below: NDArray[np.float64]

    def share(self, low: Column, high: Column, asked: tuple[float, float]) -> NDArray[np.float64]:
        """Of the people in each of these runs, the share that lies in the one that is asked for."""
        if not len(low):
            return np.zeros(0)
        common = self._between(np.maximum(low, asked[0]), np.minimum(high, asked[1]))
        return np.asarray(np.clip(common / self._between(low, high), 0.0, 1.0))

    def _between(self, low: Column, high: Column) -> NDArray[np.float64]:
        return np.asarray(np.interp(high, self.cuts, self.below) - np.interp(low, self.cuts, self.below))


def spread_over(low: Column, high: Column, people: Rows) -> Spread:
    """The spread that these runs of one attribute suggest, with so many people in each; O(runs log runs)."""
    cuts = np.unique(np.r_[low, high]).astype(np.float64)
    first, last = np.searchsorted(cuts, low), np.searchsorted(cuts, high)
    mass = np.diff(cuts)
    for _ in range(ROUNDS):
        below = np.r_[0.0, np.cumsum(mass)]
        times = np.maximum(people, 1) / (below[last] - below[first])  # nobody is no reason to lose a piece
        steps = np.bincount(first, times, len(cuts)) - np.bincount(last, times, len(cuts))
        mass *= np.cumsum(steps)[:-1]
    return Spread(cuts, np.r_[0.0, np.cumsum(mass)])
