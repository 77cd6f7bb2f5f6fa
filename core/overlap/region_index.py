"""An index over many regions: which of them a row's quasi-identifiers lie in, without comparing all with all.

Layout. Equal regions are kept once. The distinct ones are boxes: a half-open run per attribute (of several runs, the
hull; rows in the hull and in none of the runs are sorted out at the end). Boxes are cut again and again, on the
attribute and at the border where fewest of them land on both sides, until a handful is left in each part: a k-d tree
over boxes, made a level at a time in arrays. Each row follows the cuts to one part and is compared with its boxes only.
Most publishers cut space into disjoint cells, and such a publisher leaves each row about one box.

Cost. O((rows + boxes) log boxes) for boxes that do not pile up on one another. Where all boxes do, no cut separates
them, and every row is in every box anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.overlap.external import ExternalGroup, Region, domain_run
from shoal.core.overlap.tuning import DEEPEST_CUT, FEW_BOXES, PAIRS_AT_ONCE, WORTHWHILE_CUT
from shoal.core.policy.policy import Attribute
from shoal.core.runs import each_between


def distinct(keys: Rows) -> Rows:
    """Each number once, ascending. np.unique hashes; sorting is quicker here."""
    found = np.sort(keys)
    return np.asarray(found[np.r_[True, found[1:] != found[:-1]][: len(found)]])


class RegionIndex:
    """An index over the regions of external groups, which are numbered by their position."""

    def __init__(self, attributes: Sequence[Attribute], groups: Sequence[ExternalGroup]) -> None:
        boxes: dict[Region, int] = {}
        box = np.array(
            [boxes.setdefault(region, len(boxes)) for group in groups for region in group.regions], dtype=np.int64
        )
        order = np.argsort(box, kind="stable")
        self._group = np.repeat(np.arange(len(groups)), [len(group.regions) for group in groups])[order]
        self._has_several = len(box) > len(groups)  # regions in some group
        self._starts = np.searchsorted(box[order], np.arange(len(boxes) + 1))
        self._low: list[Column] = []
        self._high: list[Column] = []
        self._odd: list[_Gaps] = []
        for position, attribute in enumerate(attributes):
            whole = (domain_run(attribute),)
            runs = [region[position] or whole for region in boxes]
            dtype = np.float64 if attribute.kind == "float" else np.int64
            self._low.append(np.array([run[0][0] for run in runs], dtype=dtype))
            self._high.append(np.array([run[-1][1] for run in runs], dtype=dtype))
            self._odd.append(_gaps(runs, attribute))
        self._parts = _Parts(_Bounds(self._low, self._high), len(boxes))

    def find(self, columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
        """Positions in `rows` and the groups they lie in, each pair once, in no particular order."""
        where, boxes = self._in_boxes([column[rows] for column in columns], len(rows))
        sizes = (self._starts[1:] - self._starts[:-1])[boxes]
        groups = self._group[each_between(self._starts[boxes], sizes)]
        if not self._has_several:
            return np.repeat(where, sizes), groups
        count = int(groups.max(initial=0)) + 1
        keys = distinct(np.repeat(where, sizes) * count + groups)  # regions of one group may overlap
        return keys // count, keys % count

    def hulls(self, columns: Sequence[Column], rows: Rows) -> tuple[list[Column], list[Column]]:
        """By attribute the lows and highs of the smallest box around each row and every region it lies in."""
        points = [column[rows] for column in columns]
        where, boxes = self._in_boxes(points, len(rows))
        lows, highs = [column.copy() for column in points], [column.copy() for column in points]
        for position in range(len(points)):
            np.minimum.at(lows[position], where, self._low[position][boxes])
            np.maximum.at(highs[position], where, self._high[position][boxes])
        return lows, highs

    def _in_boxes(self, points: list[Column], count: int) -> tuple[Rows, Rows]:
        part = self._parts.route(points, count)
        starts, ends = self._parts.starts[part], self._parts.starts[part + 1]
        found: list[tuple[Rows, Rows]] = []
        pairs = int((ends - starts).sum())
        chunks = np.arange(PAIRS_AT_ONCE, pairs + PAIRS_AT_ONCE, PAIRS_AT_ONCE)
        cuts = np.searchsorted(np.cumsum(ends - starts), chunks)
        for first, last in zip([0, *(cuts + 1).tolist()], [*(cuts + 1).tolist(), count], strict=True):
            sizes = (ends - starts)[first:last]
            where = np.repeat(np.arange(first, min(last, count)), sizes)
            boxes = self._parts.boxes[each_between(starts[first:last], sizes)]
            for position, column in enumerate(points):
                values = column[where]
                inside = (values >= self._low[position][boxes]) & (values < self._high[position][boxes])
                where, boxes = where[inside], boxes[inside]
                odd, edges, width = self._odd[position]
                if edges.size:
                    # Behind as many beginnings as ends of its runs, a value lies between two of them.
                    passed = np.searchsorted(edges, odd[boxes] * width + column[where].astype(np.int64), side="right")
                    inside = (odd[boxes] < 0) | (passed % 2 == 1)
                    where, boxes = where[inside], boxes[inside]
            found.append((where, boxes))
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *(w for w, _ in found)]), np.concatenate([nothing, *(b for _, b in found)])


class _Gaps(NamedTuple):
    """The boxes with several runs of a category: for each box its place among them or -1, and where runs begin and end.

    The edges of all of them stand in one ascending line, those of the box in place p from p * width on.
    """

    place: Rows
    edges: Rows
    width: int


def _gaps(runs: list[Any], attribute: Attribute) -> _Gaps:
    odd = np.full(len(runs), -1, dtype=np.int64)
    several = [box for box, parts in enumerate(runs) if len(parts) > 1]
    odd[several] = np.arange(len(several))
    width = int(attribute.high) + 2 if several else 0
    edges = [place * width + edge for place, box in enumerate(several) for run in runs[box] for edge in run]
    return _Gaps(odd, np.array(edges, dtype=np.int64), width)


class _Bounds(NamedTuple):
    """By attribute, the lower and upper ends of all boxes."""

    low: list[Column]
    high: list[Column]


class _Placed(NamedTuple):
    """Box `box[j]` lies in part `part[j]`, one of `parts`."""

    part: Rows
    box: Rows
    parts: int


@dataclass
class _Level:
    """One level of cuts: which parts are cut, on which attribute, where, and into which two parts."""

    attribute: Rows  # by part; -1 where it is not cut
    cut: list[Column]  # by attribute, by part
    left: Rows


class _Parts:
    """The cuts over boxes; `boxes[starts[p]:starts[p + 1]]` are the boxes of part p."""

    def __init__(self, bounds: _Bounds, count: int) -> None:
        self._levels: list[_Level] = []
        placed = _Placed(np.zeros(count, dtype=np.int64), np.arange(count), 1)
        is_open = np.ones(1, dtype=bool)
        for _ in range(DEEPEST_CUT):
            level = _choose(bounds, placed, is_open)
            if (level.attribute < 0).all():
                break
            self._levels.append(level)
            placed = _divide(bounds, placed, level)
            is_new = np.ones(placed.parts - len(is_open), dtype=bool)
            is_open = np.concatenate([np.zeros(len(is_open), dtype=bool), is_new])
        order = np.argsort(placed.part, kind="stable")
        self.boxes = placed.box[order]
        self.starts = np.searchsorted(placed.part[order], np.arange(placed.parts + 1))

    def route(self, points: list[Column], count: int) -> Rows:
        """The part of each point."""
        part = np.zeros(count, dtype=np.int64)
        for level in self._levels:
            known = part < len(level.attribute)
            on = np.where(known, level.attribute[np.where(known, part, 0)], -1)
            for position, column in enumerate(points):
                here = np.flatnonzero(on == position)
                if here.size:
                    at = part[here]
                    part[here] = level.left[at] + (column[here] >= level.cut[position][at])
        return part


def _choose(bounds: _Bounds, placed: _Placed, is_open: NDArray[np.bool_]) -> _Level:
    """For each part the attribute to cut it on, and the cut: the median of its boxes' borders."""
    part, box, parts = placed
    sizes = np.bincount(part, minlength=parts)
    best = np.where(is_open & (sizes > FEW_BOXES), WORTHWHILE_CUT * sizes, -1.0)
    attribute = np.full(parts, -1, dtype=np.int64)
    cuts: list[Column] = []
    for low, high in zip(*bounds, strict=True):
        position, lows, highs = len(cuts), low[box], high[box]
        least = np.full(parts, np.inf)
        np.minimum.at(least, part, lows.astype(np.float64))
        inner = np.flatnonzero(lows > least[part])  # a border at the part's edge cuts nothing off
        order = inner[np.lexsort((lows[inner], part[inner]))]
        starts = np.searchsorted(part[order], np.arange(parts + 1))
        has_inner = starts[1:] > starts[:-1]
        middle = np.where(has_inner, (starts[1:] + starts[:-1]) // 2, 0)
        cut = np.zeros(parts, dtype=lows.dtype)
        if len(order):
            cut = np.where(has_inner, lows[order][np.minimum(middle, len(order) - 1)], cut)
        left = np.bincount(part[lows < cut[part]], minlength=parts)
        right = np.bincount(part[highs > cut[part]], minlength=parts)
        larger = np.maximum(left, right).astype(np.float64)
        is_better = has_inner & (larger < best)
        best, attribute = np.where(is_better, larger, best), np.where(is_better, position, attribute)
        cuts.append(cut)
    left = np.where(attribute < 0, np.arange(parts), parts + 2 * np.cumsum(attribute >= 0) - 2)
    return _Level(attribute, cuts, left)


def _divide(bounds: _Bounds, placed: _Placed, level: _Level) -> _Placed:
    """The boxes of each part after its cut; a box that lies across the cut goes to both sides."""
    part, box, count = placed
    on = level.attribute[part]
    parts, boxes = [part[on < 0]], [box[on < 0]]
    for position, (lows, highs) in enumerate(zip(*bounds, strict=True)):
        here = np.flatnonzero(on == position)
        cut = level.cut[position][part[here]]
        for side, goes in ((0, lows[box[here]] < cut), (1, highs[box[here]] > cut)):
            parts.append(level.left[part[here[goes]]] + side)
            boxes.append(box[here[goes]])
    return _Placed(np.concatenate(parts), np.concatenate(boxes), count + 2 * int((level.attribute >= 0).sum()))
