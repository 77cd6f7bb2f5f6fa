"""Breadth: how many labels a category's regions take. It is limited, so that a release grows only with its people.

A region is written as the fewest labels of the hierarchy. A node takes one, a run of siblings one each. Where a node
has very many children, above all in a flat list, a run of them is a very long text in the record of every cell on
either side of the cut. So a cut is made only if, on both sides, each attribute of the region takes no more labels than
MOST_LABELS, or than the side has rows. The labels of all cells are then never more than their people and MOST_LABELS a
cell. Until there are people enough, the category stays whole (docs/decisions/flat-categories.md).

Nodes with at most MOST_LABELS children are not affected: a run of them is short enough.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.cut_scale import Codes, shallowest
from shoal.core.policy.hierarchy import Hierarchy

MOST_LABELS = 256
LABELS_A_ROW = 8


def is_wide(hierarchy: Hierarchy | None) -> bool:
    """Whether a region of this category may take more labels than every cell can have."""
    return hierarchy is not None and hierarchy.most_children() > MOST_LABELS


class Breadth:
    """The labels of runs [low, high) of one wide category, one run for each of some segments. O(leaves)."""

    def __init__(self, hierarchy: Hierarchy, low: Codes, high: Codes) -> None:
        parting = hierarchy.parting_depths()
        self._low, self._high = low, high
        self._depth = shallowest(parting, low, high)
        self._begins: dict[int, Codes] = {}  # by depth, where nodes below a node of that depth begin
        for depth in np.unique(self._depth).tolist():
            self._begins[depth] = np.flatnonzero(parting <= depth)
        outside = np.append(parting, np.int32(-1))
        outside[0] = -1  # nothing is before the first leaf, nor behind the last
        is_node = (high - low == 1) | ((outside[low] < self._depth) & (outside[high] < self._depth))
        self.labels = np.where(is_node, 1, self._between(np.arange(len(low)), low, high))

    def sides(self, segments: Codes, cuts: Codes) -> tuple[Codes, Codes]:
        """The labels on the left and on the right of cuts through the runs of these segments."""
        left = self._between(segments, self._low[segments], cuts)
        return left, self._between(segments, cuts, self._high[segments])

    def _between(self, segments: Codes, low: Codes, high: Codes) -> Codes:
        """How many siblings, at the depth of their segment, parts of runs have."""
        found = np.zeros(len(segments), dtype=np.int64)
        for depth, begins in self._begins.items():
            here = np.flatnonzero(self._depth[segments] == depth)
            found[here] = np.searchsorted(begins, high[here]) - np.searchsorted(begins, low[here])
        return found


def are_in_proportion(labels: Codes, rows: Codes) -> NDArray[np.bool_]:
    """Whether sides with so many rows may have regions of so many labels."""
    return np.asarray(labels <= np.maximum(MOST_LABELS, LABELS_A_ROW * rows))
