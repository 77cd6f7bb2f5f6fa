"""Trails: where people were before they moved, because somebody who was ever in another publisher's region is in it.

(docs/design.md, "Values that last", other publishers.)
"""

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.people import People, Qid

Trail = dict[int, tuple[Qid, ...]]  # by row; most people never move


def follow(trail: Trail, before: People, people: People, touched: Rows) -> Trail:
    """The trails after these people changed; `trail` itself is not touched. Returns it if nobody moved."""
    known = touched[touched < len(before)]
    has_moved = np.zeros(len(known), dtype=bool)
    for old, new in zip(before.columns, people.columns, strict=True):
        has_moved |= old[known] != new[known]
    moved = known[has_moved]
    if not len(moved):
        return trail
    places = zip(*(column[moved].tolist() for column in before.columns), strict=True)
    return trail | {
        row: tuple(dict.fromkeys([*trail.get(row, ()), place]))
        for row, place in zip(moved.tolist(), places, strict=True)
    }
