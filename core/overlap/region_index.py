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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.overlap.external import ExternalGroup, Region, domain_run
from shoal.core.overlap.tuning import DEEPEST_CUT, FEW_BOXES, PAIRS_AT_ONCE, WORTHWHILE_CUT
from shoal.core.policy.policy import Attribute


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
        self._odd: list[tuple[Rows, NDArray[np.bool_]]] = []
        for position, attribute in enumerate(attributes):
            whole = (domain_run(attribute),)
            runs = [region[position] or whole for region in boxes]
            dtype = np.float64 if attribute.kind == "float" else np.int64
            self._low.append(np.array([run[0][0] for run in runs], dtype=dtype))
            self._high.append(np.array([run[-1][1] for run in runs], dtype=dtype))
            self._odd.append(_gaps(runs, attribute))
        self._parts = _Parts(self._low, self._high, len(boxes))

    def find(self, columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
        """Positions in `rows` and the groups they lie in, each pair once, in no particular order."""
        where, boxes = self._in_boxes([column[rows] for column in columns], len(rows))
        sizes = (self._starts[1:] - self._starts[:-1])[boxes]
        at = np.arange(int(sizes.sum())) + np.repeat(self._starts[boxes] - (np.cumsum(sizes) - sizes), sizes)
        groups = self._group[at]
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
            at = np.arange(len(where)) + np.repeat(starts[first:last] - (np.cumsum(sizes) - sizes), sizes)
            boxes = self._parts.boxes[at]
            for position, column in enumerate(points):
                values = column[where]
                inside = (values >= self._low[position][boxes]) & (values < self._high[position][boxes])
                where, boxes = where[inside], boxes[inside]
                odd, members = self._odd[position]
                if members.size:
                    inside = (odd[boxes] < 0) | members[odd[boxes], column[where].astype(np.int64)]
                    where, boxes = where[inside], boxes[inside]
            found.append((where, boxes))
        nothing = np.zeros(0, dtype=np.int64)
        return np.concatenate([nothing, *(w for w, _ in found)]), np.concatenate([nothing, *(b for _, b in found)])


def _gaps(runs: list[Any], attribute: Attribute) -> tuple[Rows, NDArray[np.bool_]]:
    """For each box with several runs of a category its place in a table of its leaves; -1 for all others."""
    odd = np.full(len(runs), -1, dtype=np.int64)
    several = [box for box, parts in enumerate(runs) if len(parts) > 1]
    members = np.zeros((len(several), int(attribute.high) + 1 if several else 0), dtype=bool)
    for place, box in enumerate(several):
        odd[box] = place
        for low, high in runs[box]:
            members[place, low:high] = True
    return odd, members


@dataclass
class _Level:
    """One level of cuts: which parts are cut, on which attribute, where, and into which two parts."""

    attribute: Rows  # by part; -1 where it is not cut
    cut: list[Column]  # by attribute, by part
    left: Rows


class _Parts:
    """The cuts over boxes; `boxes[starts[p]:starts[p + 1]]` are the boxes of part p."""

    def __init__(self, low: list[Column], high: list[Column], count: int) -> None:
        self._levels: list[_Level] = []
        part, box, parts = np.zeros(count, dtype=np.int64), np.arange(count), 1
        is_open = np.ones(1, dtype=bool)
        for _ in range(DEEPEST_CUT):
            attribute, cuts = _choose(low, high, part, box, parts, is_open)
            if (attribute < 0).all():
                break
            left = np.where(attribute < 0, np.arange(parts), parts + 2 * np.cumsum(attribute >= 0) - 2)
            part, box = _divide(low, high, part, box, attribute, cuts, left)
            self._levels.append(_Level(attribute, cuts, left))
            parts += 2 * int((attribute >= 0).sum())
            is_open = np.concatenate([np.zeros(len(is_open), dtype=bool), np.ones(parts - len(is_open), dtype=bool)])
        order = np.argsort(part, kind="stable")
        self.boxes = box[order]
        self.starts = np.searchsorted(part[order], np.arange(parts + 1))

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


def _choose(
    low: list[Column], high: list[Column], part: Rows, box: Rows, parts: int, is_open: NDArray[np.bool_]
) -> tuple[Rows, list[Column]]:
    """For each part the attribute to cut it on, -1 for none, and the cut: the median of its boxes' borders."""
    sizes = np.bincount(part, minlength=parts)
    best = np.where(is_open & (sizes > FEW_BOXES), WORTHWHILE_CUT * sizes, -1.0)
    attribute = np.full(parts, -1, dtype=np.int64)
    cuts = []
    for position in range(len(low)):
        lows, highs = low[position][box], high[position][box]
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
    return attribute, cuts


def _divide(
    low: list[Column], high: list[Column], part: Rows, box: Rows, attribute: Rows, cuts: list[Column], left: Rows
) -> tuple[Rows, Rows]:
    """The boxes of each part after its cut; a box that lies across the cut goes to both sides."""
    on = attribute[part]
    parts, boxes = [part[on < 0]], [box[on < 0]]
    for position, (lows, highs) in enumerate(zip(low, high, strict=True)):
        here = np.flatnonzero(on == position)
        cut = cuts[position][part[here]]
        for side, goes in ((0, lows[box[here]] < cut), (1, highs[box[here]] > cut)):
            parts.append(left[part[here[goes]]] + side)
            boxes.append(box[here[goes]])
    return np.concatenate(parts), np.concatenate(boxes)
