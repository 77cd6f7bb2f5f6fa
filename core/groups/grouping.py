"""A pool whose groups are being made: who is in which group so far, and which values are not shown as themselves.

Layout. `group` says each unit's group, numbered from 0, or ALONE. The groups that were dealt come first. They are many
and most are never looked at, so the column is sorted by group once, and a group's members become a list only when they
are asked for. Members of a group made later are a list from the start.
"""

from collections.abc import Iterator

import numpy as np

from shoal.core.groups.deal import ALONE, Dealt
from shoal.core.groups.promises import Promises
from shoal.core.groups.standing import Raised
from shoal.core.groups.tuning import REACH


class Grouping:
    """The groups of a pool. `dealt.group` is changed in place."""

    def __init__(self, dealt: Dealt, promises: Promises) -> None:
        self.group, self.dealt, self.count = dealt.group, len(dealt.breach), len(dealt.breach)
        self.raised: dict[int, dict[int, int]] = {}  # unit -> leaf -> the node it is shown as
        self.touched: set[int] = set()  # groups that are not as they were dealt
        self.closed: set[int] = set()  # groups that nobody else may join
        self.breach: dict[int, float] = {}  # of touched groups, the largest breach, where it is known
        self._dealt_breach, self._promises = dealt.breach, promises
        self.index()

    def index(self) -> None:
        """Read all members from the column from now on, in order of units."""
        self._members: dict[int, list[int]] = {}
        self._order = np.argsort(self.group, kind="stable")
        self._bounds = np.searchsorted(self.group[self._order], np.arange(self.count + 1))

    def members_of(self, group: int) -> list[int]:
        """The members of a group. The caller may append to the list those it puts into the group."""
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = self._order[self._bounds[group] : self._bounds[group + 1]].tolist()
        return members

    def form(self, members: list[int], starred: Raised) -> int:
        """Make a new group, whose values are shown as "*" where `starred` says so; returns its number."""
        group, self.count = self.count, self.count + 1
        self._members[group] = members
        self.put(members, group, starred)
        return group

    def put(self, units: list[int], group: int, starred: Raised) -> None:
        """Put units into a group. What was raised for a unit before stays."""
        for unit in units:
            stars = starred.get(unit)
            if stars and unit not in self.raised:
                self.raised[unit] = dict(stars)
        self.group[units] = group
        self.touched.add(group)

    def is_alone(self, unit: int) -> bool:
        """Whether a unit has no group yet."""
        return bool(self.group[unit] == ALONE)

    def near(self, unit: int) -> Iterator[int]:
        """The groups of the units around one in the tree's order, nearest first, each once."""
        first, seen = max(0, unit - REACH), {ALONE}
        around: list[int] = self.group[first : unit + REACH + 1].tolist()
        here = unit - first
        for distance in range(1, REACH + 1):
            for other in (here - distance, here + distance):
                if 0 <= other < len(around) and around[other] not in seen:
                    seen.add(around[other])
                    yield around[other]

    def largest_breach(self) -> float:
        """The largest breach in any group."""
        is_as_dealt = np.ones(self.dealt, dtype=bool)
        is_as_dealt[[group for group in self.touched if group < self.dealt]] = False
        looked_at = (self.members_of(group) for group in self.touched.difference(self.breach))
        found = [self._promises.largest_breach(*self._promises.look(members, self.raised)) for members in looked_at]
        return max(float(self._dealt_breach[is_as_dealt].max(initial=0.0)), *self.breach.values(), *found, 0.0)

    def check_invariants(self) -> None:
        """Raise AssertionError unless members, column and counts agree. O(pool)."""
        grouped = self.group[self.group != ALONE]
        assert grouped.max(initial=-1) < self.count
        assert self.closed <= self.touched
        assert self.breach.keys() <= self.touched
        for group in self.touched:
            assert sorted(self.members_of(group)) == np.flatnonzero(self.group == group).tolist()
