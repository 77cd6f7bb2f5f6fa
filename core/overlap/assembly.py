"""The desk at which groups beside other publications are put together: who is left, and what a group shows so far."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column
from shoal.core.events.guard import EMPTY
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.groups.standing import Standing
from shoal.core.overlap.overlaps import Beside
from shoal.core.policy.policy import Policy

COUNTERFEITS = 0.05  # of a pool's rows, once there are more than a few
A_FEW = 8
APART = -1  # the shelf of those who cannot be called


@dataclass
class Draft:
    """A group being put together; `shown` counts the values of its people and its counterfeits."""

    members: list[int] = field(default_factory=list)
    shown: dict[int, int] = field(default_factory=dict)
    counterfeits: dict[int, int] = field(default_factory=dict)

    @property
    def fakes(self) -> int:
        return sum(self.counterfeits.values())

    def standing(self, promises: Promises) -> Standing:
        """Counterfeits count in w and not in n (DESIGN, section 3)."""
        return promises.standings.of_shown(len(self.members), self.shown)


class Desk:
    """Units of a pool, to be taken from their shelf: by value, in the tree's order.

    Units with several values or a guard ask for more than a place: they are on a shelf of their own.
    """

    def __init__(
        self, pool: Pool, columns: Sequence[Column], beside: Beside, promises: Promises, policy: Policy
    ) -> None:
        self.pool, self.beside, self.promises, self.policy = pool, beside, promises, policy
        self._places = _normalised(columns, pool, policy)
        self._shelves: dict[int, list[int]] = {}
        self.done: list[Draft] = []
        self.fakes_left = max(A_FEW, int(COUNTERFEITS * len(pool)))  # counterfeits that are bearable

    def lay_out(self, units: Iterable[int]) -> None:
        """Put units on their shelves."""
        for unit in units:
            shelf = self._shelves.setdefault(self._shelf_of(unit), [])
            if shelf and unit < shelf[-1]:
                insort(shelf, unit)
            else:
                shelf.append(unit)

    def take(self, unit: int) -> None:
        shelf = self._shelves[self._shelf_of(unit)]
        at = bisect_left(shelf, unit)
        assert shelf[at] == unit
        del shelf[at]

    def has(self, unit: int) -> bool:
        """Whether a unit is still on its shelf."""
        shelf = self._shelves.get(self._shelf_of(unit), [])
        at = bisect_left(shelf, unit)
        return at < len(shelf) and shelf[at] == unit

    def left(self) -> list[int]:
        return sorted(unit for shelf in self._shelves.values() for unit in shelf)

    def values(self) -> list[int]:
        """The values of which somebody is left."""
        return sorted(value for value, shelf in self._shelves.items() if shelf and value != APART)

    def can_fill(self, unit: int) -> bool:
        """Whether a unit can be called into a group for its value."""
        guard = self.pool.guards[unit]
        return len(self.pool.sets[unit]) == 1 and (guard is None or guard.node == EMPTY)

    def _shelf_of(self, unit: int) -> int:
        return self.value(unit) if self.can_fill(unit) else APART

    def value(self, unit: int) -> int:
        return self.pool.sets[unit][0]

    def supply(self, value: int) -> int:
        return len(self._shelves.get(value, ()))

    def nearest(self, value: int, draft: Draft) -> list[int]:
        """Of the first `search` units of a value in tree order, from where the draft stands: least distortion first."""
        return self.by_distortion(self.around(value, draft, self.policy.search), draft)

    def around(self, value: int, draft: Draft, count: int) -> list[int]:
        """So many units of a value, on either side of where the draft stands in tree order."""
        shelf = self._shelves.get(value)
        if not shelf:
            return []
        first = max(0, min(bisect_left(shelf, draft.members[0]) - count // 2, len(shelf) - count))
        return shelf[first : first + count]

    def by_distortion(self, units: list[int], draft: Draft) -> list[int]:
        """Units in the order of how much the hull of a draft would grow with them, in shares of the domain.

        (Baig, section 5, assignment.)
        """
        if len(units) < 2:
            return units
        hull, places = self._places[draft.members], self._places[units]
        grown = np.maximum(0.0, hull.min(axis=0) - places) + np.maximum(0.0, places - hull.max(axis=0))
        order = np.argsort(grown.sum(axis=1), kind="stable").tolist()
        return [units[at] for at in order]

    def is_kept(self, draft: Draft) -> bool:
        """Whether all of it holds, exactly: everybody balanced, and G2 and G4 as the strategy plans them."""
        if any(not self.beside.is_content(unit, draft.shown) for unit in draft.members):
            return False
        return self.promises.wrong_in(draft.members, draft.standing(self.promises), is_planned=True) is None

    def keep(self, draft: Draft) -> None:
        self.done.append(draft)
        self.fakes_left -= draft.fakes


def _normalised(columns: Sequence[Column], pool: Pool, policy: Policy) -> NDArray[np.float64]:
    """Everybody's quasi-identifiers as shares of their domains, a category's by its leaf's place in the hierarchy."""
    parts = [
        (column[pool.rows].astype(np.float64) - float(attribute.low))
        / max(1e-300, float(attribute.high - attribute.low))
        for column, attribute in zip(columns, policy.attributes, strict=True)
    ]
    return np.stack(parts, axis=1) if parts else np.zeros((len(pool), 0))
