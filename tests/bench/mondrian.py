"""Bare numpy Mondrians, to hold the tree against: classes of rows and nothing else, no regions, nodes or hierarchies.

Both are strict and multidimensional (LeFevre): the attribute whose rows spread widest over the table's own range is cut
at its median, on whichever side of it leaves both parts more nearly equal, while both keep k rows; where that attribute
cannot be cut, the next widest. Categories are ordered by their codes. `by_recursion` works class by class with numpy's
medians; `by_level` sorts one packed integer per row for all classes of a level together, the quickest way known here.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Points = NDArray[np.int64]  # one row per person, one column per attribute, small non-negative integers


def by_recursion(points: Points, k: int) -> Numbers:
    """The class of each row."""
    width = np.maximum(1, points.max(axis=0) - points.min(axis=0))
    found = np.empty(len(points), dtype=np.int64)
    waiting, classes = [np.arange(len(points))], 0
    while waiting:
        rows = waiting.pop()
        is_left = _cut(points[rows], k, width) if len(rows) >= 2 * k else None
        if is_left is None:
            found[rows] = classes
            classes += 1
        else:
            waiting += [rows[is_left], rows[~is_left]]
    return found


def _cut(points: Points, k: int, width: Numbers) -> NDArray[np.bool_] | None:
    spread = (points.max(axis=0) - points.min(axis=0)) / width
    size = len(points)
    for attribute in np.argsort(-spread, kind="stable").tolist():
        if spread[attribute] <= 0:
            return None
        column = points[:, attribute]
        median = np.partition(column, size // 2)[size // 2]
        sides: list[NDArray[np.bool_]] = [column < median, column <= median]
        is_left = min(sides, key=lambda side: abs(2 * int(side.sum()) - size))
        if k <= int(is_left.sum()) <= size - k:
            return is_left
    return None


def by_level(points: Points, k: int) -> Numbers:
    """The class of each row. O(rows x attributes) and one sort per level."""
    width = np.maximum(1, points.max(axis=0) - points.min(axis=0))
    columns = [np.ascontiguousarray(column) for column in (points - points.min(axis=0)).T]
    code_bits = int(max(column.max() for column in columns)).bit_length()
    order = np.arange(len(points))
    sizes = np.array([len(points)])
    found = np.zeros(len(points), dtype=np.int64)
    classes = 0
    while len(sizes):
        starts = np.cumsum(sizes) - sizes
        spread = np.stack(
            [
                (np.maximum.reduceat(column, starts) - np.minimum.reduceat(column, starts)) / span
                for column, span in zip(columns, width, strict=True)
            ]
        )
        left = np.zeros(len(sizes), dtype=np.int64)
        place = np.arange(len(order))
        for attributes in np.argsort(-spread, axis=0, kind="stable"):
            is_open = (left == 0) & (sizes >= 2 * k) & (spread[attributes, np.arange(len(sizes))] > 0)
            wanted = np.flatnonzero(is_open)
            if not len(wanted):
                break
            at = place if len(wanted) == len(sizes) else np.flatnonzero(np.repeat(is_open, sizes))
            left[wanted], place[at] = _halve(columns, attributes[wanted], at, sizes[wanted], code_bits, k)
        order = order[place]
        columns = [column[place] for column in columns]
        is_cut = left > 0
        done = np.repeat(~is_cut, sizes)
        ended = int((~is_cut).sum())
        found[order[done]] = np.repeat(classes + np.arange(ended), sizes[~is_cut])
        classes += ended
        order = order[~done]
        columns = [column[~done] for column in columns]
        sizes = np.stack([left[is_cut], sizes[is_cut] - left[is_cut]], axis=1).ravel()
    return found


def _halve(
    columns: list[Numbers], attributes: Numbers, at: Numbers, sizes: Numbers, code_bits: int, k: int
) -> tuple[Numbers, Numbers]:
    """How many rows of each class go left, 0 where it cannot be cut so, and the places of the rows in their order."""
    chosen = np.repeat(attributes, sizes)
    codes = np.choose(chosen, [column[at] for column in columns]) if len(np.unique(attributes)) > 1 else None
    if codes is None:
        codes = columns[int(attributes[0])][at]
    bits = len(at).bit_length()
    keys = (np.repeat(np.arange(len(sizes)), sizes) << code_bits) | codes
    packed = np.sort((keys << bits) | np.arange(len(at)))
    keys, place = packed >> bits, at[packed & ((1 << bits) - 1)]
    begins = np.cumsum(sizes) - sizes
    median = keys[begins + sizes // 2]
    below, above = (np.searchsorted(keys, median, side=side) - begins for side in ("left", "right"))
    left = np.where(np.abs(2 * above - sizes) < np.abs(2 * below - sizes), above, below)
    can = (left >= k) & (sizes - left >= k)
    place = np.where(np.repeat(can, sizes), place, at)
    return np.where(can, left, 0), place
