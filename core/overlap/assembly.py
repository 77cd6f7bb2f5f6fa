"""Where groups beside other publishers are put together: the units still free, and what each group shows so far."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column
from shoal.core.events.guard import EMPTY
from shoal.core.groups.affordability import Claims, Standing
from shoal.core.groups.pool import Pool
from shoal.core.overlap.overlaps import Overlaps
from shoal.core.overlap.tuning import COUNTERFEIT_SHARE, FEWEST_COUNTERFEITS
from shoal.core.policy.policy import Policy

CANNOT_FILL = -1  # in place of a value: the units that cannot be called into a group for theirs


@dataclass
class Draft:
    """A group being put together; `shown` counts the values of its people and its counterfeits."""

    members: list[int] = field(default_factory=list)
    shown: dict[int, int] = field(default_factory=dict)
    counterfeits: dict[int, int] = field(default_factory=dict)

    @property
    def counterfeit_count(self) -> int:
        return sum(self.counterfeits.values())

    def standing(self, claims: Claims) -> Standing:
        """Counterfeits count in w and not in n (docs/design.md, "Other publishers")."""
        return claims.standing_of(len(self.members), self.shown)


class Assembly:
    """The free units of a pool and the groups accepted so far.

    Free units are listed by value, in the tree's order. A unit with several values or a guard asks more of a group than
    a place for its value; these units have a list of their own.
    """

    def __init__(
        self, pool: Pool, columns: Sequence[Column], overlaps: Overlaps, claims: Claims, policy: Policy
    ) -> None:
        self.pool, self.overlaps, self.claims, self.policy = pool, overlaps, claims, policy
        self.accepted: list[Draft] = []
        self.counterfeits_left = max(FEWEST_COUNTERFEITS, int(COUNTERFEIT_SHARE * len(pool)))
        self._positions = _normalised(columns, pool, policy)
        self._free: dict[int, list[int]] = {}

    def put(self, units: Iterable[int]) -> None:
        """Make units free."""
        for unit in units:
            free = self._free.setdefault(self._list_of(unit), [])
            if free and unit < free[-1]:
                insort(free, unit)
            else:
                free.append(unit)

    def take(self, unit: int) -> None:
        free = self._free[self._list_of(unit)]
        at = bisect_left(free, unit)
        assert free[at] == unit
        del free[at]

    def is_free(self, unit: int) -> bool:
        free = self._free.get(self._list_of(unit), [])
        at = bisect_left(free, unit)
        return at < len(free) and free[at] == unit

    def free_units(self) -> list[int]:
        return sorted(unit for free in self._free.values() for unit in free)

    def free_values(self) -> list[int]:
        """The values of which a unit is free that can be called into a group."""
        return sorted(value for value, free in self._free.items() if free and value != CANNOT_FILL)

    def can_fill(self, unit: int) -> bool:
        """Whether a unit can be called into a group for its value."""
        guard = self.pool.guards[unit]
        return len(self.pool.sets[unit]) == 1 and (guard is None or guard.node == EMPTY)

    def _list_of(self, unit: int) -> int:
        return self.value(unit) if self.can_fill(unit) else CANNOT_FILL

    def value(self, unit: int) -> int:
        return self.pool.sets[unit][0]

    def supply(self, value: int) -> int:
        """How many free units can be called for a value."""
        return len(self._free.get(value, ()))

    def nearest(self, value: int, draft: Draft) -> list[int]:
        """The `search` free units of a value around a draft in the tree's order, least distortion first."""
        return self.by_distortion(self.around(value, draft, self.policy.search), draft)

    def around(self, value: int, draft: Draft, count: int) -> list[int]:
        """So many free units of a value, on either side of a draft's first member in the tree's order."""
        free = self._free.get(value)
        if not free:
            return []
        first = max(0, min(bisect_left(free, draft.members[0]) - count // 2, len(free) - count))
        return free[first : first + count]

    def by_distortion(self, units: list[int], draft: Draft) -> list[int]:
        """Units by how much the hull of a draft would grow with them, in shares of the domain; the least comes first.

        (Baig, section 5, assignment.)
        """
        if len(units) < 2:
            return units
        hull, positions = self._positions[draft.members], self._positions[units]
        grown = np.maximum(0.0, hull.min(axis=0) - positions) + np.maximum(0.0, positions - hull.max(axis=0))
        order = np.argsort(grown.sum(axis=1), kind="stable").tolist()
        return [units[at] for at in order]

    def is_safe(self, draft: Draft) -> bool:
        """Whether a group keeps every promise, exactly: G5 for all members, G2 and G4 as the strategy plans them."""
        if any(not self.overlaps.are_balanced(unit, draft.shown) for unit in draft.members):
            return False
        return self.claims.wrong_in(draft.members, draft.standing(self.claims), is_planned=True) is None

    def accept(self, draft: Draft) -> None:
        self.accepted.append(draft)
        self.counterfeits_left -= draft.counterfeit_count


def _normalised(columns: Sequence[Column], pool: Pool, policy: Policy) -> NDArray[np.float64]:
    """The units' quasi-identifiers as shares of their domains; a category counts by the place of its leaf."""
    parts = [
        (column[pool.rows].astype(np.float64) - float(attribute.low))
        / max(1e-300, float(attribute.high - attribute.low))
        for column, attribute in zip(columns, policy.attributes, strict=True)
    ]
    return np.stack(parts, axis=1) if parts else np.zeros((len(pool), 0))
