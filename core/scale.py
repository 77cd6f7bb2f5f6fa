"""Scales: the values of one attribute as small codes, and the steps between which it may be cut.

A code orders like its value: an integer's distance from the lower end of its domain, a category's leaf code, and the
rank among the rows at hand where values are floats or spread over a wide domain. A *step* is what a cut may fall
between: for a number every code, for a category, which is cut between siblings only, the children of the smallest node
that covers its run. Two neighbouring leaves part at a depth, that of the lowest node above both; a run is cut where
its leaves part highest, and numbering the places that are no deeper turns leaf codes into steps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.hierarchy import Hierarchy
from core.policy import Attribute
from core.region import domain, roundest_between

Codes = NDArray[np.int64]
SMALL_SPAN = 1 << 20  # integer domains up to this size are coded by subtraction, larger ones by rank


class Scale:
    """One attribute of the rows under work."""

    def __init__(self, attribute: Attribute, values: NDArray[Any]) -> None:
        self.attribute = attribute
        low, high = domain(attribute)
        self._low = int(low)
        self.is_ranked = attribute.kind == "float" or high - low > SMALL_SPAN
        if self.is_ranked:
            ranked, inverse = np.unique(values, return_inverse=True)
            is_apart = np.append(False, ranked[:-1] < np.nextafter(ranked[1:], -np.inf))  # a cut fits between
            if attribute.kind != "float":
                is_apart[1:] = True
            is_apart[0] = True
            rank = np.cumsum(is_apart) - 1
            self.codes = rank[inverse]
            self._lowest = ranked[is_apart]
            self._highest = ranked[np.append(np.flatnonzero(is_apart)[1:] - 1, len(ranked) - 1)]
            self.span = len(self._lowest)
            middles = self._highest[:-1] + (self._lowest[1:] - self._highest[:-1]) / 2
            self.places = (np.concatenate([[low], middles, [high]]) - low) / (high - low)
        else:
            self.codes = values - self._low
            self.span = int(high - low)
            self.places = np.arange(self.span + 1) / max(1, self.span - (attribute.kind == "int"))
        # What a row gains beyond the width cut off when one leaf of a category is left: its NCP is 0, not one leaf.
        self.alone = 1 / self.span if attribute.kind == "category" else 0.0

    def cuts(self, below: Codes, above: Codes) -> NDArray[Any]:
        """A value to cut at between each two neighbouring codes: of a float the roundest, never somebody's."""
        if not self.is_ranked:
            return below + (above - below) // 2 + 1 + self._low
        left, right = self._highest[below], self._lowest[above]
        if self.attribute.kind == "int":
            return np.asarray(left + (right - left) // 2 + 1)
        return np.array([roundest_between(*pair) for pair in zip(left.tolist(), right.tolist(), strict=True)], float)

    def edges(self, bounds: NDArray[Any]) -> Codes:
        """Ends of regions as codes: how many of the scale's codes lie below each."""
        if not self.is_ranked:
            return np.asarray(bounds - self._low, dtype=np.int64)
        is_end = bounds == domain(self.attribute)[1]  # the last run also holds its upper end
        return np.where(is_end, self.span, np.searchsorted(self._lowest, bounds)).astype(np.int64)


class Siblings:
    """The steps of several categories, as tables laid end to end: one per category and depth, an entry per leaf."""

    def __init__(self, hierarchies: Sequence[Hierarchy]) -> None:
        self._parting = [_parting_depths(hierarchy) for hierarchy in hierarchies]
        tables = [
            [np.cumsum(parting <= depth) for depth in range(int(parting.max()) + 1)] for parting in self._parting
        ]
        flat = [steps for table in tables for steps in table]
        self._steps = np.concatenate(flat) if flat else np.zeros(0, dtype=np.int64)
        self._codes = np.concatenate([np.searchsorted(steps, 1 + np.arange(len(steps))) for steps in flat] or [[]])
        lengths = np.array([len(table) * len(table[0]) for table in tables])
        self._starts = (np.cumsum(lengths) - lengths).tolist()

    def table(self, category: int, low: Codes, high: Codes) -> Codes:
        """Where the table for each run [low, high) of this category begins. O(leaves in the runs)."""
        parting = self._parting[category]
        ends = np.stack([np.minimum(low + 1, high), high], axis=1).ravel()
        depth = np.minimum.reduceat(np.append(parting, 0), ends)[::2]
        return np.asarray(self._starts[category] + np.where(high - low > 1, depth, 0) * len(parting), dtype=np.int64)

    def steps(self, at: Codes) -> Codes:
        """The steps at these places: where a table begins, plus a leaf code."""
        return self._steps[at]

    def codes(self, table: Codes, steps: Codes) -> Codes:
        """The first leaf code of each step."""
        return self._codes[table + steps - 1]


def _parting_depths(hierarchy: Hierarchy) -> Codes:
    """For each leaf code but the first, the depth of the lowest node above both it and the one before; 0 for that."""
    depth = [0] * len(hierarchy.labels)
    found = np.zeros(len(hierarchy.leaves), dtype=np.int64)
    for node in range(len(hierarchy.labels)):
        children = hierarchy.children(node)
        for child in children:
            depth[child] = depth[node] + 1
        for child in children[1:]:
            found[hierarchy.first[child]] = depth[node]
    return found
