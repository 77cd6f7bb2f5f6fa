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


class Steps:
    """The steps of all attributes, in tables laid end to end: one per number, one per depth of a category's hierarchy.

    In the table that begins at `t`, step s begins with code `codes[t + s]`, has `places[t + s]` of the domain to its
    left, and code c lies in step `steps[t + c]`.
    """

    def __init__(self, scales: Sequence[Scale]) -> None:
        self._scales = scales
        self._parting = [h and _parting_depths(h) for h in (scale.attribute.hierarchy for scale in scales)]
        self._begins: list[int] = []
        codes: list[Codes] = []
        steps: list[Codes] = []
        places: list[NDArray[np.float64]] = []
        for scale, parting in zip(scales, self._parting, strict=True):
            self._begins.append(sum(map(len, codes)))
            everywhere = np.arange(scale.span + 1)
            for depth in range(1 if parting is None else int(parting.max()) + 1):
                is_start = np.ones(scale.span + 1, dtype=bool)
                if parting is not None:
                    is_start[:-1] = parting <= depth
                starts = everywhere[is_start]
                codes.append(np.append(starts, np.full(len(everywhere) - len(starts), scale.span)))
                steps.append(np.cumsum(is_start) - 1)
                places.append(scale.places[codes[-1]])
        self.codes, self.steps, self.places = np.concatenate(codes), np.concatenate(steps), np.concatenate(places)

    def runs(self, position: int, low: Codes, high: Codes) -> tuple[Codes, Codes, Codes]:
        """For runs [low, high) of codes of one attribute: where their table begins, their first and their last step.

        O(leaves in the runs) for a category.
        """
        table = np.full(len(low), self._begins[position])
        parting = self._parting[position]
        if parting is not None:
            ends = np.stack([np.minimum(low + 1, high), high], axis=1).ravel()
            depth = np.minimum.reduceat(np.append(parting, 0), ends)[::2]
            table += np.where(high - low > 1, depth, 0) * (len(parting) + 1)
        return table, self.steps[table + low], self.steps[table + high - 1]


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
