"""A plain Mondrian, for comparison: strict, multidimensional, each release made without a thought for the others.

LeFevre's algorithm as Pei uses it (section 6): cut the attribute whose values spread widest at its median while both
sides keep k rows; categories are ordered by their codes. What is published of a class is the bounding box of its rows.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from tests.experiments.series import Step

Points = NDArray[np.int64]  # one row per person, one column per attribute
Boxes = NDArray[np.int64]  # one row per person: lowest and highest value of each attribute, both included


class View(NamedTuple):
    """One release as an adversary sees it who knows which row is whose: people, and the box each was published with."""

    people: Rows
    boxes: Boxes


class Classes(NamedTuple):
    """The classes of one anonymization, as it is published, and its discernibility."""

    view: View
    discernibility: int


def anonymize(points: Points, people: Rows, k: int) -> Classes:
    """Classes of at least k of these people; O(n log n) per attribute."""
    width = np.maximum(1, points[people].max(axis=0) - points[people].min(axis=0))
    boxes = np.zeros((len(points), 2 * points.shape[1]), dtype=np.int64)
    total = 0
    for rows in cut(points, people, k, width):
        boxes[rows, 0::2] = points[rows].min(axis=0)
        boxes[rows, 1::2] = points[rows].max(axis=0)
        total += len(rows) ** 2
    return Classes(View(people, boxes[people]), total)


def view_of(step: Step, row_of: Callable[[str], int]) -> View:
    """What a release of the engine tells the same adversary; `row_of` numbers people."""
    published = step.published
    place = {name: index for index, name in enumerate(published.cell_names)}
    members = [(row_of(person), place[cell]) for person, _, cell in step.made.release.members]
    people, cells = np.array(members, dtype=np.int64).T
    sides = [side for low, high in zip(published.low, published.high, strict=True) for side in (low, high - 1)]
    return View(people, np.stack(sides, axis=1)[cells])


def unsafe_share(views: list[View], k: int) -> float:
    """The share of the newest release's rows that are not k-anonymous in the inference table (Pei, section 2).

    A reader who compares the releases knows that each person lies in every box they were published with; a row is safe
    if k rows of the newest release have the same intersection.
    """
    people, boxes = views[-1]
    size = int(max(int(view.people.max()) for view in views)) + 1
    inferred = np.empty((size, boxes.shape[1]), dtype=np.int64)
    inferred[:, 0::2], inferred[:, 1::2] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for view in views:
        known = inferred[view.people]
        known[:, 0::2] = np.maximum(known[:, 0::2], view.boxes[:, 0::2])
        known[:, 1::2] = np.minimum(known[:, 1::2], view.boxes[:, 1::2])
        inferred[view.people] = known
    _, which, counts = np.unique(inferred[people], axis=0, return_inverse=True, return_counts=True)
    return float((counts[which.ravel()] < k).mean())


def cut(
    points: Points, people: Rows, k: int, width: Rows, is_fine: Callable[[Rows], bool] = lambda rows: True
) -> Iterator[Rows]:
    """The classes of these people, each with at least k of them and as fine as asked, unless all together are not.

    `width` is the spread of each attribute over all.
    """
    waiting = [people]
    while waiting:
        rows = waiting.pop()
        is_left = _bestcut(points, rows, k, width, is_fine) if len(rows) >= 2 * k else None
        if is_left is None:
            yield rows
        else:
            waiting += [rows[is_left], rows[~is_left]]


def _bestcut(
    points: Points, rows: Rows, k: int, width: Rows, is_fine: Callable[[Rows], bool]
) -> NDArray[np.bool_] | None:
    points = points[rows]
    spread = (points.max(axis=0) - points.min(axis=0)) / width
    for attribute in np.argsort(-spread, kind="stable").tolist():
        if spread[attribute] <= 0:
            break
        column = points[:, attribute]
        median = np.partition(column, len(column) // 2)[len(column) // 2]
        for cut in (median, median + 1):
            is_left: NDArray[np.bool_] = column < cut
            if k <= int(is_left.sum()) <= len(column) - k and is_fine(rows[is_left]) and is_fine(rows[~is_left]):
                return is_left
    return None
