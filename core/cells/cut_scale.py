"""Scales: the values of one attribute as small codes, and the steps between which it may be cut.

A code orders like its value: an integer's distance from the lower end of its domain, a category's leaf code, and the
rank among the rows at hand where values are floats or spread over a wide domain (a *sparse* category has more leaves
than a table should have items). A cut falls between two *steps*. For a
number every code is a step. A category is cut between siblings only: its steps are the children of the smallest node
that covers its run. Two neighbouring leaves part at a depth, that of the lowest node above both. A run is cut where its
leaves part highest, and numbering the places that are no deeper turns leaf codes into steps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain, roundest_between
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute

Codes = NDArray[np.int64]
# Domains up to this size are coded by subtraction. A table has an item per code: larger ones are coded by rank.
SMALL_SPAN = 1 << 16


class Scale:
    """One attribute of the rows under work: their codes, and for each code the share of the domain that lies below."""

    def __init__(self, attribute: Attribute, values: NDArray[Any]) -> None:
        self.attribute = attribute
        low, high = domain(attribute)
        self._low = int(low)
        is_category, is_wide = attribute.kind == "category", high - low > SMALL_SPAN
        self.is_ranked = attribute.kind == "float" or (is_wide and not is_category)
        self.is_sparse = is_wide and is_category
        if self.is_sparse:
            assert attribute.hierarchy is not None
            self._ranked, self.codes = np.unique(values, return_inverse=True)
            self.span = len(self._ranked)
            self.starts, self.parting = _parted(attribute.hierarchy, self._ranked)
            self.places = np.append(self.starts, high) / high
        elif self.is_ranked:
            self._ranked, self.codes = np.unique(values, return_inverse=True)
            self.span = len(self._ranked)
            middles = self._ranked[:-1] + (self._ranked[1:] - self._ranked[:-1]) / 2
            self.places = (np.concatenate([[low], middles, [high]]) - low) / (high - low)
        else:
            self.codes = values - self._low
            self.span = int(high - low)
            self.places = np.arange(self.span + 1) / max(1, self.span - (attribute.kind == "int"))
        # Where one leaf of a category is left, a row gains this beyond the part cut off: its NCP is 0, not one leaf.
        self.alone = 1 / int(high) if is_category else 0.0

    def codes_of(self, leaves: Codes) -> Codes:
        """Leaf codes of a category, which rows have, as codes of this scale."""
        return np.searchsorted(self._ranked, leaves) if self.is_sparse else leaves

    def leaf_codes(self, codes: Codes) -> Codes:
        """Codes of this scale at which a category is cut as leaf codes: the first leaf on the right of each cut."""
        return self.starts[codes] if self.is_sparse else codes

    def edges(self, bounds: NDArray[Any]) -> Codes:
        """Ends of regions as codes: how many of the scale's codes lie below each."""
        if self.is_sparse:
            return np.searchsorted(self._ranked, bounds).astype(np.int64)
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
        self._parting = [None if one is None else one.parting_depths() for one in hierarchies]
        self._spans = [scale.span for scale in scales]
        self._begins: list[int] = []
        self._depths: list[NDArray[np.int32]] = []  # by attribute, those at which leaves part
        tables = []
        length = 0
        for scale, parting in zip(scales, self._parting, strict=True):
            self._begins.append(length)
            self._depths.append(_depths(np.zeros(1, dtype=np.int32) if parting is None else parting))
            here = scale.parting if scale.is_sparse else parting
            tables += [_table(scale, None if here is None else here <= depth) for depth in self._depths[-1]]
            length += len(self._depths[-1]) * (scale.span + 1)
        self.codes, self.steps, self.places, closed = (np.concatenate(parts) for parts in zip(*tables, strict=True))
        self.closed = closed if closed.any() else None

    def runs(
        self, position: int, low: Codes, high: Codes, bounds: tuple[NDArray[Any], NDArray[Any]]
    ) -> tuple[Codes, Codes, Codes]:
        """For runs [low, high) of codes of one attribute: where their table begins, their first and their last step.

        `bounds` are the same runs in the tree: of a sparse category not every leaf has a code. O(leaves in the runs)
        for a category.
        """
        table = np.full(len(low), self._begins[position])
        parting = self._parting[position]
        if parting is not None:
            depth = shallowest(parting, *bounds)
            table += np.searchsorted(self._depths[position], depth) * (self._spans[position] + 1)
        return table, self.steps[table + low], self.steps[table + high - 1]


def shallowest(parting: NDArray[np.int32], low: Codes, high: Codes) -> NDArray[np.int32]:
    """The depth at which the leaves of each run [low, high) part first; of a single leaf, 0. O(leaves in the runs)."""
    ends = np.stack([np.minimum(low + 1, high), high], axis=1).ravel()
    found = np.minimum.reduceat(np.append(parting, np.int32(0)), ends)[::2]
    return np.where(high - low > 1, found, np.int32(0))


def _depths(parting: NDArray[np.int32]) -> NDArray[np.int32]:
    """The different depths, ascending, 0 among them."""
    return np.flatnonzero(np.bincount(parting)).astype(np.int32)


def _parted(hierarchy: Hierarchy, ranked: Codes) -> tuple[Codes, NDArray[np.int32]]:
    """For each of some leaves, ascending, where it may be cut from the one before, and at what depth the two part.

    The first one's are 0. Of several places the last is taken: the beginning of a node that holds the right leaf. O(all
    leaves).
    """
    parting = hierarchy.parting_depths()
    starts = np.zeros(len(ranked), dtype=np.int64)
    depth = np.zeros(len(ranked), dtype=np.int32)
    if len(ranked) > 1:
        begin, end = int(ranked[0]) + 1, int(ranked[-1]) + 1
        within = parting[begin:end]  # the gap before leaf j ends with it
        depth[1:] = np.minimum.reduceat(within, ranked[:-1] + 1 - begin)
        is_highest = within == np.repeat(depth[1:], np.diff(ranked))
        places = np.flatnonzero(is_highest) + begin
        starts[1:] = places[np.searchsorted(places, ranked[1:], side="right") - 1]
    return starts, depth


def _table(scale: Scale, is_start: NDArray[np.bool_] | None) -> tuple[Codes, Codes, NDArray[Any], NDArray[Any]]:
    """The table in which these codes begin a step, or all codes if none are given."""
    everything = np.arange(scale.span + 1)
    if is_start is None:
        return everything, everything, scale.places, scale.is_closed()
    starts = np.append(np.flatnonzero(is_start), scale.span)
    codes = np.append(starts, np.full(len(everything) - len(starts), scale.span))
    return codes, np.append(np.cumsum(is_start) - 1, len(starts) - 1), scale.places[codes], np.zeros(len(codes), bool)
