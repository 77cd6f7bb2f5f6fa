"""Scales: the values of one attribute as small codes, and the steps between which it may be cut.

A code orders like its value: an integer's distance from the lower end of its domain, a category's leaf code, and the
rank among the rows at hand where values are floats or spread over a wide domain. A cut falls between two *steps*. For a
number every code is a step. A category is cut between siblings only: its steps are the children of the smallest node
that covers its run. Two neighbouring leaves part at a depth, that of the lowest node above both. A run is cut where its
leaves part highest, and numbering the places that are no deeper turns leaf codes into steps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain, roundest_between
from shoal.core.policy.policy import Attribute

Codes = NDArray[np.int64]
# Integer domains up to this size are coded by subtraction. A table has an item per code: larger ones are coded by rank.
SMALL_SPAN = 1 << 16


class Scale:
    """One attribute of the rows under work: their codes, and for each code the share of the domain that lies below."""

    def __init__(self, attribute: Attribute, values: NDArray[Any]) -> None:
        self.attribute = attribute
        low, high = domain(attribute)
        self._low = int(low)
        self.is_ranked = attribute.kind == "float" or high - low > SMALL_SPAN
        if self.is_ranked:
            self._ranked, self.codes = np.unique(values, return_inverse=True)
            self.span = len(self._ranked)
            middles = self._ranked[:-1] + (self._ranked[1:] - self._ranked[:-1]) / 2
            self.places = (np.concatenate([[low], middles, [high]]) - low) / (high - low)
        else:
            self.codes = values - self._low
            self.span = int(high - low)
            self.places = np.arange(self.span + 1) / max(1, self.span - (attribute.kind == "int"))
        # Where one leaf of a category is left, a row gains this beyond the part cut off: its NCP is 0, not one leaf.
        self.alone = 1 / self.span if attribute.kind == "category" else 0.0

    def edges(self, bounds: NDArray[Any]) -> Codes:
        """Ends of regions as codes: how many of the scale's codes lie below each."""
        if not self.is_ranked:
            return np.asarray(bounds - self._low, dtype=np.int64)
        is_end = bounds == domain(self.attribute)[1]  # the last run includes its upper end
        return np.where(is_end, self.span, np.searchsorted(self._ranked, bounds)).astype(np.int64)

    def is_closed(self) -> NDArray[np.bool_]:
        """For each code whether no cut fits just below it, because there is no float between the two values."""
        closed = np.zeros(self.span + 1, dtype=bool)
        if self.attribute.kind == "float":
            closed[1:-1] = np.nextafter(self._ranked[:-1], np.inf) >= self._ranked[1:]
        return closed

    def between(self, below: Codes, above: Codes) -> NDArray[Any]:
        """A value to cut at between each two neighbouring ranks: of floats the roundest, never the value of a row."""
        left, right = self._ranked[below], self._ranked[above]
        if self.attribute.kind == "int":
            return np.asarray(left + (right - left) // 2 + 1)
        return np.array([roundest_between(*pair) for pair in zip(left.tolist(), right.tolist(), strict=True)], float)


class Steps:
    """The steps of all attributes, in tables laid end to end: one per number, one per depth of a category's hierarchy.

    In the table that begins at `t`, step s begins with code `codes[t + s]`, has `places[t + s]` of the domain below
    it, and code c lies in step `steps[t + c]`. `closed[t + s]` says that no cut fits just below it.
    """

    def __init__(self, scales: Sequence[Scale]) -> None:
        hierarchies = [scale.attribute.hierarchy for scale in scales]
        self._parting = [
            None if one is None else np.unique(one.parting_depths(), return_inverse=True)[1] for one in hierarchies
        ]
        self._begins: list[int] = []
        tables = []
        length = 0
        for scale, parting in zip(scales, self._parting, strict=True):
            self._begins.append(length)
            depths = 1 if parting is None else int(parting.max()) + 1
            tables += [_table(scale, None if parting is None else parting <= depth) for depth in range(depths)]
            length += depths * (scale.span + 1)
        self.codes, self.steps, self.places, closed = (np.concatenate(parts) for parts in zip(*tables, strict=True))
        self.closed = closed if closed.any() else None

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


def _table(scale: Scale, is_start: NDArray[np.bool_] | None) -> tuple[Codes, Codes, NDArray[Any], NDArray[Any]]:
    """The table in which these codes begin a step, or all codes if none are given."""
    everything = np.arange(scale.span + 1)
    if is_start is None:
        return everything, everything, scale.places, scale.is_closed()
    starts = np.append(np.flatnonzero(is_start), scale.span)
    codes = np.append(starts, np.full(len(everything) - len(starts), scale.span))
    return codes, np.append(np.cumsum(is_start) - 1, len(starts) - 1), scale.places[codes], np.zeros(len(codes), bool)
