"""The linkage-exclusion attack by somebody who knows the presence or absence of at most K people (Bu, section E).

They know the registration list, where everyone lives, and what is published, but not who is in which group. So c can be
excluded from being h only if some release rules it out for them:

- h's group shows s, and c is not registered in a cell of that group; or c is absent, and so few rows have that cell
  that all who own them may be known;
- s is not shown for h, and c is published in a group without a "*" to spare, where so few of those registered in c's
  cell are absent that all of them may be known.

Whoever they know themselves they can place exactly: of those who are not among the alibis A(h) of somebody who knows
everything, K more are gone. What is left must be at least ℓ people, h among them.

One person at a time is exchanged: an attack that reasons about several at once could exclude more. Cells that hold
others are not searched for people published in those, which leaves fewer candidates, not more.
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from shoal.core.audit.permanent.alibis import Alibi, Alibis, Key
from shoal.core.audit.permanent.cohorts import free_stars
from shoal.core.audit.permanent.scarce import Scarce
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.regions import Region
from shoal.core.audit.reading.view import Secrets

KEPT = 2_000  # candidates for one holder; more would change nothing but the time it takes


class Absent:
    """Everyone registered and not published in a release; finds those in a region at the cost of one pass over them."""

    def __init__(self, secrets: Secrets) -> None:
        self._people = [person for person in secrets.registered if person not in secrets.places]
        qids = [secrets.registered[person] for person in self._people]
        self._qids: NDArray[np.float64] = np.array(qids, dtype=np.float64)
        self._known: dict[Region, list[str]] = {}

    def inside(self, region: Region) -> list[str]:
        if not self._people:
            return []
        if region not in self._known:
            is_in = ((self._qids >= region.low) & (self._qids < region.high)).all(axis=1)
            self._known[region] = [self._people[at] for at in np.flatnonzero(is_in)]
        return self._known[region]


class Exclusion:
    """Who can still be each holder, for an adversary who knows the participation of `known` people."""

    def __init__(self, known: int, alibis: Alibis) -> None:
        self.known, self._alibis = known, alibis
        self.left: dict[Key, set[str]] = {}
        self.now: dict[Key, int] = {}  # how many are left of each, at the last release and at worst
        self.fewest: dict[Key, int] = {}

    def see(self, release: Published, scarce: Sequence[Scarce], secrets: Secrets) -> None:
        """Takes a release, after the alibis have."""
        if not self._alibis.of:
            return
        absent = Absent(secrets)
        in_cell: dict[str, list[str]] = {}
        for person, (_, cell) in secrets.places.items():
            in_cell.setdefault(cell, []).append(person)
        where = {
            (value.leaf, person): group for value in scarce for group, ps in value.visible.items() for person in ps
        }
        free = free_stars(release, scarce)
        for key, alibi in self._alibis.of.items():
            group = where.get(key)
            if group is None:
                self.left[key] = self._hidden(key, release, free, secrets, absent)
            else:
                possible = self._shown(group, release, secrets, absent, in_cell)
                if key in self.left:
                    self.left[key] &= possible
                else:
                    self.left[key] = set(nsmallest(KEPT, possible))
            self.left[key] |= alibi.left
            count = self.now[key] = self._count(key, alibi)
            self.fewest[key] = min(self.fewest.get(key, count), count)

    def _count(self, key: Key, alibi: Alibi) -> int:
        return len(alibi.left) + max(0, len(self.left[key] - alibi.left) - self.known)

    def _shown(
        self, group: str, release: Published, secrets: Secrets, absent: Absent, in_cell: dict[str, list[str]]
    ) -> set[str]:
        """Everyone who may be in a group, going by where they live."""
        found = set(secrets.people[group])
        for cell in release.groups[group].cells:
            found.update(in_cell[cell.name])
            if release.rows[cell.name] > self.known:
                found.update(absent.inside(release.regions[cell.name]))
        return found

    def _hidden(
        self, key: Key, release: Published, free: Mapping[str, int], secrets: Secrets, absent: Absent
    ) -> set[str]:
        """Of those who were left, everyone who may be absent or behind a "*"."""
        home = secrets.places.get(key[1], (None,))[0]
        found = set()
        for person in self.left[key]:
            group, cell = secrets.places.get(person, (home, None))
            is_covered = cell is None or group == home or free.get(str(group), 0) > 0
            if is_covered or len(absent.inside(release.regions[str(cell)])) > self.known:
                found.add(person)
        return found
