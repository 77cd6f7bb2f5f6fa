"""Trails: where people were before they moved, because somebody who was ever in another publisher's region is in it.

(docs/design.md, "Values that last", other publishers.) Of an erased person, these places are forgotten. If they come
back, they count as having been everywhere.
"""

from typing import Final

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.people import People
from shoal.core.person import Qid

Trail = dict[int, tuple[Qid, ...]]  # by row; most people never move
EVERYWHERE: Final[Qid] = ()


def follow(trail: Trail, before: People, people: People, touched: Rows, erased: Rows) -> Trail:
    """The trails after these people changed; `trail` itself is not touched. Returns it if nobody moved."""
    trail = trail | dict.fromkeys(erased.tolist(), (EVERYWHERE,)) if len(erased) else trail
    known = touched[touched < len(before)]
    has_moved = np.zeros(len(known), dtype=bool)
    for old, new in zip(before.columns, people.columns, strict=True):
        has_moved |= old[known] != new[known]
    moved = known[has_moved & (np.array([EVERYWHERE not in trail.get(row, ()) for row in known.tolist()], dtype=bool))]
    if not len(moved):
        return trail
    places = zip(*(column[moved].tolist() for column in before.columns), strict=True)
    return trail | {
        row: tuple(dict.fromkeys([*trail.get(row, ()), place]))
        for row, place in zip(moved.tolist(), places, strict=True)
    }
