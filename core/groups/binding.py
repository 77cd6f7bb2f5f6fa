"""Ties in group formation: each clique is published in one group, which keeps the promises for its other values too.

Before the careful sweep each tie, in the tree's order, takes the first of these that keeps every promise:

1. it is a group by itself, where its people show no protected value but the permanent one;
2. it joins a group near by, as dealt, with room for all of it;
3. it seeds a group and takes in neighbours that have no group yet, until every promise is kept.

The ties left over have nothing but other ties around them. They come together, tie by tie and with the units that are
still left, or join groups that ties are in (but for `participation: all`). If that is not enough for what the strategy
asks for, they try again for a share of it, which spends a budget faster than planned (and where ties keep apart, for
the hard minimum). A tie for which this fails, too,

4. joins a group near by with as few of its transient values suppressed as it takes;
5. or is a group by itself with all of them suppressed.

So a tie always finds a group. The value of a whole clique is shown as it is, whatever becomes of the others.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.deal import ALONE
from shoal.core.groups.grouping import Grouping
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.groups.standing import Raised, Standing
from shoal.core.groups.tuning import (
    CHECK_AGAIN,
    LARGEST_SEED,
    NEIGHBOURS,
    REACH,
    REMEMBERED,
    STARRED_TRIES,
    TIE_SHARES,
    TIES_AROUND,
)


class Tie(NamedTuple):
    """Units to be published together, and the units that must not be in their group."""

    units: list[int]
    excluded: NDArray[np.bool_]
    is_closed: bool  # nobody may join its group later


def bind(pool: Pool, promises: Promises, grouping: Grouping) -> None:
    """Put every tie into a group."""
    if pool.ties:
        _Binding(pool, promises, grouping).run()
        grouping.index()


class _Binding:
    def __init__(self, pool: Pool, promises: Promises, grouping: Grouping) -> None:
        self._pool, self._promises, self._grouping = pool, promises, grouping
        self._starred, self._target = promises.requirements.starred, promises.requirements.target
        self._standings: dict[int, Standing] = {}
        self._hidden: dict[tuple[int, ...], frozenset[int]] = {}  # by the units of a tie (see `_hidden_of`)
        is_free = grouping.group == ALONE
        is_free[[unit for tie in pool.ties for unit in tie]] = False
        self._free: Rows = np.flatnonzero(is_free)

    def run(self) -> None:
        nobody, pool = np.zeros(len(self._pool), dtype=bool), self._pool
        left: list[Tie] = []
        for units, place in sorted((units, place) for place, units in enumerate(pool.ties)):
            tie = Tie(units, pool.excluded.get(place, nobody), place in pool.excluded)
            can_be_alone = all(self._promises.requirements.can_be_alone(unit) for unit in units)
            found = (can_be_alone and self._seed(tie)) or self._join(tie, self._dealt_near, 1.0) or self._seed(tie)
            if not found:
                left.append(tie)
        for share in (*TIE_SHARES, 0.0) if pool.are_ties_apart else TIE_SHARES:
            left = self._gather(left, share)
            left = [tie for tie in left if pool.are_ties_apart or not self._join(tie, self._tied_near, share)]
        for tie in left:
            if pool.are_ties_apart or not self._join_with_stars(tie):
                self._suppress(tie)

    def _join(self, tie: Tie, near: Callable[[int], Iterator[int]], share: float) -> bool:
        """Step 2. The members are held to the strategy's target too, for every leaf that the tie makes worse."""
        units, promises = tie.units, self._promises
        starred = {unit: self._starred(unit) for unit in units}
        own, mine = promises.look(units, starred)
        protected = promises.protected_in(own)
        for group in near(units[0]):
            members, before = self._grouping.members_of(group), self._standing_of(group)
            after = before.joined_by(own)
            if promises.is_crowded(after, protected, share) or tie.excluded[members].any():
                continue
            means = promises.accounts.means(members)
            if promises.wrong_with(members, means, units, mine, before, after, share) is None:
                self._put(tie, group, starred)
                self._grouping.breach[group] = promises.largest_breach(after, means.joined_by(mine))
                return True
        return False

    def _gather(self, ties: list[Tie], share: float) -> list[Tie]:
        """Bring ties together, each with others near by in the tree's order; returns those that still have no group."""
        for head, tie in enumerate(ties):
            if self._grouping.is_alone(tie.units[0]):
                around = slice(max(0, head - TIES_AROUND), head + TIES_AROUND + 1)
                near = [] if self._pool.are_ties_apart else ties[around]
                others = [each for each in near if each is not tie and self._grouping.is_alone(each.units[0])]
                self._crowd(tie, sorted(others, key=lambda each: abs(each.units[0] - tie.units[0])), share)
        return [tie for tie in ties if self._grouping.is_alone(tie.units[0])]

    def _crowd(self, tie: Tie, others: list[Tie], share: float) -> None:
        """Makes a group of this tie, some of the others and untied neighbours, if that keeps every promise."""
        promises, base = self._promises, self._promises.target_base
        everyone, ties, shown = list(tie.units), [tie], set(self._hidden_of(tie.units))
        excluded = tie.excluded
        starred = {unit: self._starred(unit) for unit in tie.units}
        most, least = LARGEST_SEED * base + len(tie.units), share * base
        for other in others:
            hidden = self._hidden_of(other.units)
            if len(everyone) > most or not shown.isdisjoint(hidden):
                continue
            if excluded[other.units].any() or other.excluded[everyone].any():
                continue
            everyone += other.units
            ties.append(other)
            shown |= hidden
            excluded = excluded | other.excluded
            starred.update((unit, self._starred(unit)) for unit in other.units)
            if len(everyone) >= least:
                if promises.wrong(everyone, starred, share) is None:
                    self._form(everyone, any(each.is_closed for each in ties), starred)
                    return
                least = len(everyone) * CHECK_AGAIN
        self._seed(Tie(everyone, excluded, any(each.is_closed for each in ties)), share)

    def _seed(self, tie: Tie, share: float = 1.0) -> bool:
        """Steps 1 and 3. The growing group is checked at sizes further and further apart."""
        everyone, ties = list(tie.units), len(tie.units)
        starred = {unit: self._starred(unit) for unit in everyone}
        shown, base = set(self._hidden_of(everyone)), self._promises.target_base
        neighbours, least = self._free_near(tie), ties + base - 1
        while self._promises.wrong(everyone, starred, share) is not None:
            before = len(everyone)
            for unit in neighbours if before <= LARGEST_SEED * base + ties else ():
                requirement = self._target(unit)
                if shown.isdisjoint(requirement.hidden) and not requirement.starred:
                    everyone.append(unit)
                    shown.update(requirement.hidden)
                    if len(everyone) >= least:
                        break
            if len(everyone) == before:
                return False
            least = len(everyone) * CHECK_AGAIN
        self._form(everyone, tie.is_closed, starred)
        return True

    def _join_with_stars(self, tie: Tie) -> bool:
        """Step 4."""
        found: list[tuple[int, int, dict[int, dict[int, int]]]] = []
        members_of = self._grouping.members_of
        near = chain(self._dealt_near(tie.units[0]), self._tied_near(tie.units[0]))
        may_join = (group for group in near if not tie.excluded[members_of(group)].any())
        for group in islice(may_join, STARRED_TRIES):
            stars = self._stars_to_join(tie, group)
            if stars is not None:
                found.append((sum(map(len, stars.values())), group, stars))
        if not found:
            return False
        _, group, stars = min(found, key=itemgetter(0))
        self._put(tie, group, stars)
        self._grouping.breach.pop(group, None)
        return True

    def _stars_to_join(self, tie: Tie, group: int) -> dict[int, dict[int, int]] | None:
        """The values of a tie to suppress for it to join a group, None if suppressing does not help."""
        members, before, units = self._grouping.members_of(group), self._standing_of(group), tie.units
        means, mine = self._promises.accounts.means(members), self._promises.accounts.means(units)
        stars = {unit: dict(self._starred(unit)) for unit in units}
        while True:
            after = before.joined_by(self._promises.standings.of(units, stars))
            wrong = self._promises.wrong_with(members, means, units, mine, before, after, TIE_SHARES[-1])
            if wrong is None:
                return stars
            to_blame = [unit for unit in units if wrong in self._pool.sets[unit] and wrong not in stars[unit]]
            if not to_blame:
                return None
            stars[to_blame[0]][wrong] = 0

    def _suppress(self, tie: Tie) -> None:
        """Step 5. Open values stay, unless a guard of one of the tie's people covers them."""
        target, covers, units = self._target, self._pool.covers, tie.units
        stars = {unit: {**dict.fromkeys(target(unit).hidden, 0), **covers.get(unit, {})} for unit in units}
        if self._promises.wrong(units, stars) is not None:
            stars = {
                unit: {**dict.fromkeys((*target(unit).shown, *target(unit).starred), 0), **covers.get(unit, {})}
                for unit in units
            }
        assert self._promises.wrong(units, stars) is None
        self._form(list(units), tie.is_closed, stars)

    # -- parts --------------------------------------------------------------------------------------------------

    def _form(self, members: list[int], is_closed: bool, starred: Raised) -> None:
        group = self._grouping.form(members, starred)
        if is_closed:
            self._grouping.closed.add(group)

    def _put(self, tie: Tie, group: int, starred: Raised) -> None:
        self._grouping.put(tie.units, group, starred)
        self._grouping.members_of(group).extend(tie.units)
        self._standings.pop(group, None)
        if tie.is_closed:
            self._grouping.closed.add(group)

    def _hidden_of(self, units: list[int]) -> frozenset[int]:
        """The values of these people that would be suppressed if they found no group."""
        found = self._hidden.get(tuple(units))
        if found is None:
            found = frozenset(leaf for unit in units for leaf in self._target(unit).hidden)
            self._hidden[tuple(units)] = found
        return found

    def _standing_of(self, group: int) -> Standing:
        standing = self._standings.get(group)
        if standing is None:
            if len(self._standings) >= REMEMBERED:
                self._standings.clear()
            members = self._grouping.members_of(group)
            standing = self._standings[group] = self._promises.standings.of(members, self._grouping.raised)
        return standing

    def _dealt_near(self, unit: int) -> Iterator[int]:
        """Groups as they were dealt, nearest first. A group that a tie joined is left to it."""
        dealt, touched = self._grouping.dealt, self._grouping.touched
        near = (group for group in self._grouping.near(unit) if group < dealt and group not in touched)
        return islice(near, NEIGHBOURS)

    def _tied_near(self, unit: int) -> Iterator[int]:
        """Groups that ties are in and that may be joined, nearest first."""
        touched, closed = self._grouping.touched, self._grouping.closed
        near = (group for group in self._grouping.near(unit) if group in touched and group not in closed)
        return islice(near, NEIGHBOURS)

    def _free_near(self, tie: Tie) -> Iterator[int]:
        """Untied units that have no group yet, nearest first, each once."""
        free, unit = self._free, tie.units[0]
        right = int(np.searchsorted(free, unit))
        left = right - 1
        for _ in range(2 * REACH):
            if left < 0 and right >= len(free):
                return
            if right >= len(free) or (left >= 0 and unit - free[left] <= free[right] - unit):
                nearest, left = int(free[left]), left - 1
            else:
                nearest, right = int(free[right]), right + 1
            if self._grouping.is_alone(nearest) and not tie.excluded[nearest]:
                yield nearest
