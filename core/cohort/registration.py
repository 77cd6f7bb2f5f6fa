"""The registration list: the people who exist, where and since when, and their possible buddies (Bu, sections 2, 3.2).

A person is registered if they have a record or an event registered them, and they have not ceased to exist. Present
means published. A person whose cell is closed, or whom sampling keeps out for good, counts as absent. A person who was
erased is neither absent nor extinct: nobody knows where they were, and they may come back. This is a view of
`core/people.py`.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows, Tree
from shoal.core.events.window import ABSENT, DEREGISTERED_STATUS, ERASED_STATUS, PRESENT
from shoal.core.people import People
from shoal.core.person import NOBODY
from shoal.core.randomness import Keyed

Mask = NDArray[np.bool_]


class Registration:
    """All people, as one release sees them."""

    def __init__(self, people: People, tree: Tree, is_closed: Mask, keyed: Keyed, number: int) -> None:
        self._people, self._tree = people, tree
        self.number = number
        may_be_published = np.zeros(len(people), dtype=bool)
        may_be_published[people.sampled()] = True
        self.present: Mask = may_be_published & ~is_closed[people.leaf]
        self.absent: Mask = ((people.status == ABSENT) | (people.status == PRESENT)) & ~self.present
        self.extinct: Mask = people.status == DEREGISTERED_STATUS
        self.erased: Mask = people.status == ERASED_STATUS
        gone = np.flatnonzero(~may_be_published)  # all others were routed before
        people.leaf[gone] = tree.route(people.columns, gone, people.leaf[gone])
        self.draw = keyed.draw(people.tag, number, "roles")

    def holds(self, value: int) -> Mask:
        """The holders of a permanent value, present or not."""
        codes = [code for code, values in enumerate(self._people.sets.items) if value in values]
        return np.isin(self._people.held, codes)

    def are_inside(self, node: int, rows: Rows) -> Mask:
        return self._tree.is_inside(node, self._people.columns, rows)

    @cached_property
    def rows(self) -> list[int]:
        """How many people each cell can publish. Forming groups may withhold some of them."""
        found: list[int] = np.bincount(self._people.leaf[self.present], minlength=self._tree.size).tolist()
        return found

    def moved_after(self, row: int, created: int) -> bool:
        """Whether a person was registered, or their quasi-identifiers changed, after a release."""
        return bool(self._people.since[row] > created)

    def buddies(self, rows: Rows, node: int, cell: int | None, created: int) -> Rows:
        """The people of `rows` who have been registered inside a container since its instance was created.

        If the instance was shown in a cell, they must live in this cell too; it may have been split since.
        """
        people = self._people
        rows = rows[people.since[rows] <= created]
        if cell is not None and self._tree.is_leaf(cell):  # every person's leaf is up to date by now
            rows = rows[people.leaf[rows] == cell]
        elif cell is not None:
            rows = rows[self.are_inside(cell, rows)]
        return rows[self.are_inside(node, rows)]

    def nearest(self, rows: Rows, to: int) -> int:
        """The person to take of these: one of the pool if there is any, then the nearest in the tree's order."""
        people = self._people
        path, here = self._tree.depth_first(people.leaf[rows]), self._tree.depth_first(people.leaf[[to]])[0]
        distance = np.where(path > here, path - here, here - path)
        order = np.lexsort((self.draw[rows], distance, people.group[rows] != NOBODY))
        return int(rows[order[0]])

    def drawn(self, rows: Rows) -> int:
        """One of these people, by the keyed draw."""
        return int(rows[np.argmin(self.draw[rows])])

    def in_tree_order(self, among: Mask) -> "TreeOrder":
        return TreeOrder(np.flatnonzero(among & self.present), self._people.leaf, self._tree, self.draw)


class TreeOrder:
    """People in the tree's order, for finding the nearest of them to a given person."""

    def __init__(self, rows: Rows, leaf: Rows, tree: Tree, draw: NDArray[np.uint64]) -> None:
        self._tree, self._leaf = tree, leaf
        self._rows = rows[np.lexsort((draw[rows], leaf[rows], tree.depth_first(leaf[rows])))]
        self._paths = tree.depth_first(leaf[self._rows])

    def nearest(self, to: int, is_wanted: Mask) -> int | None:
        """The wanted person nearest to a given one; None if there is none."""
        found = np.flatnonzero(is_wanted[self._rows])
        if not found.size:
            return None
        here = int(np.searchsorted(self._paths, self._tree.depth_first(self._leaf[[to]])[0]))
        after = int(np.searchsorted(found, here))
        nearest = min(found[max(0, after - 1) : after + 1].tolist(), key=lambda place: abs(place - here))
        return int(self._rows[nearest])
