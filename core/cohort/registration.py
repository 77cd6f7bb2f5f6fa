"""The registration list: who exists, where, since when, and who of them could pass for whom (Bu, sections 2 and 3.2).

Registered is whoever has a record or was registered by an event, and has not ceased to exist. Present means published:
somebody whose cell is closed is not, nor is anybody whom sampling keeps out for good: they count as absent. What is
known of people is in `core/people.py`; this is a view of it.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows, Tree
from shoal.core.events.window import ABSENT, DEREGISTERED_STATUS, PRESENT
from shoal.core.people import NOBODY, People
from shoal.core.randomness import Keyed

Mask = NDArray[np.bool_]


class Registration:
    """Everyone, as one release sees them."""

    def __init__(self, people: People, tree: Tree, is_closed: Mask, keyed: Keyed, number: int) -> None:
        self._people, self._tree = people, tree
        self.number = number
        may_be_published = np.zeros(len(people), dtype=bool)
        may_be_published[people.sampled()] = True
        self.present: Mask = may_be_published & ~is_closed[people.leaf]
        self.absent: Mask = ((people.status == ABSENT) | (people.status == PRESENT)) & ~self.present
        self.extinct: Mask = people.status == DEREGISTERED_STATUS
        gone = np.flatnonzero(~may_be_published)  # nobody else has routed those
        people.leaf[gone] = tree.route(people.columns, gone, people.leaf[gone])
        self.draw = keyed.draw(people.tag, number, "roles")

    def holds(self, value: int) -> Mask:
        """Who holds a permanent value, present or not."""
        codes = [code for code, values in enumerate(self._people.sets.items) if value in values]
        return np.isin(self._people.held, codes)

    def are_inside(self, node: int, rows: Rows) -> Mask:
        return self._tree.is_inside(node, self._people.columns, rows)

    @cached_property
    def rows(self) -> list[int]:
        """How many people each cell can publish. Which of them it does turns out only when groups are formed."""
        found: list[int] = np.bincount(self._people.leaf[self.present], minlength=self._tree.size).tolist()
        return found

    def moved_after(self, row: int, created: int) -> bool:
        """Whether somebody's quasi-identifiers changed, or they were registered, after a release."""
        return bool(self._people.since[row] > created)

    def buddies(self, rows: Rows, node: int, cell: int | None, created: int) -> Rows:
        """Those of `rows` who have been registered inside a container since its instance was created.

        If the instance was shown, they live in that cell too, or in what was one before it was split.
        """
        people = self._people
        rows = rows[people.since[rows] <= created]
        if cell is not None and self._tree.is_leaf(cell):  # everyone's leaf is up to date by now
            rows = rows[people.leaf[rows] == cell]
        elif cell is not None:
            rows = rows[self.are_inside(cell, rows)]
        return rows[self.are_inside(node, rows)]

    def nearest(self, rows: Rows, to: int) -> int:
        """Of these people the one to take: of the pool if there is one, then the nearest in the tree's order."""
        people = self._people
        path, here = self._tree.depth_first(people.leaf[rows]), self._tree.depth_first(people.leaf[[to]])[0]
        distance = np.where(path > here, path - here, here - path)
        order = np.lexsort((self.draw[rows], distance, people.group[rows] != NOBODY))
        return int(rows[order[0]])

    def drawn(self, rows: Rows) -> int:
        """One of these people, by the keyed draw."""
        return int(rows[np.argmin(self.draw[rows])])

    def line(self, among: Mask) -> "Line":
        return Line(np.flatnonzero(among & self.present), self._people.leaf, self._tree, self.draw)


class Line:
    """People in the tree's order, of whom the nearest to somebody can be picked."""

    def __init__(self, rows: Rows, leaf: Rows, tree: Tree, draw: NDArray[np.uint64]) -> None:
        self._tree, self._leaf = tree, leaf
        self._rows = rows[np.lexsort((draw[rows], leaf[rows], tree.depth_first(leaf[rows])))]
        self._paths = tree.depth_first(leaf[self._rows])

    def nearest(self, to: int, is_wanted: Mask) -> int | None:
        """The wanted person of the line nearest to somebody; None if nobody is wanted."""
        found = np.flatnonzero(is_wanted[self._rows])
        if not found.size:
            return None
        here = int(np.searchsorted(self._paths, self._tree.depth_first(self._leaf[[to]])[0]))
        after = int(np.searchsorted(found, here))
        nearest = min(found[max(0, after - 1) : after + 1].tolist(), key=lambda place: abs(place - here))
        return int(self._rows[nearest])
