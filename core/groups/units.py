"""Ties in group formation: cliques are published in one group each, and whatever their own values ask for holds too.

Before the careful sweep each tie, in the tree's order, takes the first of these that keeps every promise:

1. it is a group by itself, where its people have nothing to be protected but the permanent value;
2. it joins a group near by, as dealt, with room for all of it;
3. it seeds a group and takes in neighbours nobody has grouped yet, until everyone in it is content.

Those left over have nothing but other ties around them. They come together, tie by tie and with whoever else is left,
or join groups that ties are in (but for `participation: all`); if that is not enough for what the strategy asks for,
then for a share of it, which spends a budget faster than planned (and where ties keep apart, for what the promise
cannot do without). If it is not, either,

4. it joins a group near by with as few of its transient values suppressed as it takes;
5. all of them are, and it is a group by itself.

So a tie always finds a group. The value of a whole clique is shown as it is, whatever becomes of the others.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.affordability import Claims, Standing
from shoal.core.groups.deal import ALONE, Spread
from shoal.core.groups.pool import Pool

REACH = 96  # units to each side in which a tie looks for a group, or for neighbours to form one with
NEIGHBOURS = 12  # groups it tries to join
KEPT_IN_MIND = 256  # groups whose standing is remembered: it is as long as the list of values
COMPANY = 4  # times the strategy's ratio: how large a group it tries to seed
SHARES = (1.0, 0.3)  # of the strategy's ratio, asked for one after the other
TRIED = 4  # groups it tries to join with values suppressed
CROWD = 32  # other ties that one looks at to come together with


class Tie(NamedTuple):
    """Units to be published together, and who must not be with them."""

    units: list[int]
    shunned: NDArray[np.bool_]
    is_choosy: bool  # nobody may join later


@dataclass
class Bound:
    """A pool with its ties in groups: what was dealt, values raised, and groups whose breach is to be worked out."""

    dealt: Spread
    raised: dict[int, dict[int, int]]
    touched: set[int]
    closed: set[int]  # groups that nobody else may join
    breach: dict[int, float] = field(default_factory=dict)  # the largest in a group that a tie joined


def bind(pool: Pool, claims: Claims, dealt: Spread) -> Bound:
    """Put every tie into a group. `dealt` is changed in place."""
    bound = Bound(dealt, {}, set(), set())
    if pool.ties:
        _Binding(pool, claims, bound).run()
    return bound


class _Binding:
    def __init__(self, pool: Pool, claims: Claims, bound: Bound) -> None:
        self._pool, self._claims, self._bound = pool, claims, bound
        self._group, self._groups = bound.dealt.group, len(bound.dealt.breach)
        order = np.argsort(self._group, kind="stable")
        self._order, self._bounds = order, np.searchsorted(self._group[order], np.arange(self._groups + 1))
        self._members: dict[int, list[int]] = {}
        self._standings: dict[int, Standing] = {}
        self._is_tied = np.zeros(len(pool), dtype=bool)
        self._is_tied[[unit for tie in pool.ties for unit in tie]] = True
        self._hidden: dict[tuple[int, ...], frozenset[int]] = {}  # what was worked out of ties' people
        self._alone: Rows = np.flatnonzero((self._group == ALONE) & ~self._is_tied)

    def run(self) -> None:
        nobody, pool = np.zeros(len(self._pool), dtype=bool), self._pool
        left: list[Tie] = []
        for units, place in sorted((units, place) for place, units in enumerate(pool.ties)):
            shunned = pool.shunned.get(place, nobody)
            tie = Tie(units, shunned, place in pool.shunned)
            is_alone = all(self._claims.is_content_alone(unit) for unit in units)
            if not (is_alone and self._seed(tie)) and not self._join(tie, self._near, 1.0) and not self._seed(tie):
                left.append(tie)
        for share in (*SHARES, 0.0) if pool.are_ties_apart else SHARES:
            left = self._gather(left, share)
            left = [tie for tie in left if pool.are_ties_apart or not self._join(tie, self._bound_near, share)]
        for tie in left:
            if pool.are_ties_apart or not self._join_with_stars(tie):
                self._suppress(tie)
        new = self._groups - len(self._bound.dealt.breach)
        self._bound.dealt.breach = np.concatenate([self._bound.dealt.breach, np.zeros(new)])

    def _join(self, tie: Tie, near: Callable[[int], Iterator[int]], share: float) -> bool:
        """Step 2. Those who are there are held to the strategy's target too, for all that the tie makes worse."""
        units = tie.units
        own, mine = self._claims.look(units, {unit: self._claims.starred(unit) for unit in units})
        protected = self._claims.protected_in(own)
        for group in near(units[0]):
            members, before = self._members_of(group), self._standing_of(group)
            after = before.joined_by(own)
            if self._claims.is_crowded(after, protected, share) or tie.shunned[members].any():
                continue
            means = self._claims.means(members)
            if self._claims.wrong_with(members, means, units, mine, before, after, share) is None:
                self._put(units, group)
                members.extend(units)
                self._settle(group, [tie])
                self._bound.breach[group] = self._claims.largest_breach(after, means.joined_by(mine))
                return True
        return False

    def _gather(self, ties: list[Tie], share: float) -> list[Tie]:
        """Ties come together, each with others near by in the tree's order; returns those that are not content so."""
        for head, tie in enumerate(ties):
            if self._group[tie.units[0]] == ALONE:
                near = ties[max(0, head - CROWD) : head + CROWD + 1] if not self._pool.are_ties_apart else []
                others = [each for each in near if each is not tie and self._group[each.units[0]] == ALONE]
                self._crowd(tie, sorted(others, key=lambda each: abs(each.units[0] - tie.units[0])), share)
        return [tie for tie in ties if self._group[tie.units[0]] == ALONE]

    def _crowd(self, tie: Tie, others: list[Tie], share: float) -> None:
        """Makes a group of this tie, some of the others and untied neighbours, if all are content so."""
        claims, base = self._claims, self._claims.target_base
        everyone, ties, shown = list(tie.units), [tie], set(self._hidden_of(tie.units))
        shunned = tie.shunned
        starred = {unit: claims.starred(unit) for unit in tie.units}
        most, least = COMPANY * base + len(tie.units), share * base
        for other in others:
            hidden = self._hidden_of(other.units)
            if len(everyone) > most or not shown.isdisjoint(hidden):
                continue
            if shunned[other.units].any() or other.shunned[everyone].any():
                continue
            everyone += other.units
            ties.append(other)
            shown |= hidden
            shunned = shunned | other.shunned
            starred.update((unit, claims.starred(unit)) for unit in other.units)
            if len(everyone) >= least:
                if claims.wrong(everyone, starred, share) is None:
                    self._keep(everyone, ties)
                    return
                least = len(everyone) * 1.1
        together = Tie(everyone, shunned, any(each.is_choosy for each in ties))
        self._seed(together, share)

    def _seed(self, tie: Tie, share: float = 1.0) -> bool:
        """Steps 1 and 3. Whether everyone is content is asked at sizes further and further apart."""
        everyone, ties = list(tie.units), len(tie.units)
        starred = {unit: self._claims.starred(unit) for unit in everyone}
        shown, base = set(self._hidden_of(everyone)), self._claims.target_base
        company, least = self._company(tie), ties + base - 1
        while self._claims.wrong(everyone, starred, share) is not None:
            before = len(everyone)
            for unit in company if before <= COMPANY * base + ties else ():
                claim = self._claims.target(unit)
                if shown.isdisjoint(claim.hidden) and not claim.starred:
                    everyone.append(unit)
                    shown.update(claim.hidden)
                    if len(everyone) >= least:
                        break
            if len(everyone) == before:
                return False
            least = len(everyone) * 1.1
        self._keep(everyone, [tie])
        return True

    def _join_with_stars(self, tie: Tie) -> bool:
        """Step 4."""
        found: list[tuple[int, int, dict[int, dict[int, int]]]] = []
        near = chain(self._near(tie.units[0]), self._bound_near(tie.units[0]))
        for group in islice((group for group in near if not tie.shunned[self._members_of(group)].any()), TRIED):
            stars = self._stars_to_join(tie, group)
            if stars is not None:
                found.append((sum(map(len, stars.values())), group, stars))
        if not found:
            return False
        _, group, stars = min(found, key=itemgetter(0))
        self._bound.raised.update({unit: hidden for unit, hidden in stars.items() if hidden})
        self._put(tie.units, group)
        self._members_of(group).extend(tie.units)
        self._settle(group, [tie])
        self._bound.breach.pop(group, None)
        return True

    def _stars_to_join(self, tie: Tie, group: int) -> dict[int, dict[int, int]] | None:
        """What must be suppressed of a tie for it to join a group, None if that does not help."""
        members, before, units = self._members_of(group), self._standing_of(group), tie.units
        means, mine = self._claims.means(members), self._claims.means(units)
        stars = {unit: dict(self._claims.starred(unit)) for unit in units}
        while True:
            after = before.joined_by(self._claims.standing(units, stars))
            wrong = self._claims.wrong_with(members, means, units, mine, before, after, SHARES[-1])
            if wrong is None:
                return stars
            to_blame = [unit for unit in units if wrong in self._pool.sets[unit] and wrong not in stars[unit]]
            if not to_blame:
                return None
            stars[to_blame[0]][wrong] = 0

    def _suppress(self, tie: Tie) -> None:
        """Step 5. What is open stays, unless somebody's guard covers it."""
        target, covers, units = self._claims.target, self._pool.covers, tie.units
        raised = {unit: {**dict.fromkeys(target(unit).hidden, 0), **covers.get(unit, {})} for unit in units}
        if self._claims.wrong(units, raised) is not None:
            raised = {
                unit: {**dict.fromkeys((*target(unit).shown, *target(unit).starred), 0), **covers.get(unit, {})}
                for unit in units
            }
        assert self._claims.wrong(units, raised) is None
        self._bound.raised.update({unit: stars for unit, stars in raised.items() if stars})
        self._keep(units, [tie])

    # -- parts --------------------------------------------------------------------------------------------------

    def _keep(self, members: list[int], ties: list[Tie]) -> None:
        self._members[self._groups] = list(members)
        self._put(members, self._groups)
        self._settle(self._groups, ties)
        self._groups += 1

    def _settle(self, group: int, ties: list[Tie]) -> None:
        """Note what these ties ask of whoever comes later."""
        self._standings.pop(group, None)
        if any(tie.is_choosy for tie in ties):
            self._bound.closed.add(group)

    def _hidden_of(self, units: list[int]) -> frozenset[int]:
        """What would have to be suppressed of these people, if it came to that."""
        found = self._hidden.get(tuple(units))
        if found is None:
            found = frozenset(leaf for unit in units for leaf in self._claims.target(unit).hidden)
            self._hidden[tuple(units)] = found
        return found

    def _put(self, units: list[int], group: int) -> None:
        for unit in units:
            starred = self._claims.starred(unit)
            if starred and unit not in self._bound.raised:
                self._bound.raised[unit] = dict(starred)
        self._group[units] = group
        self._bound.touched.add(group)

    def _members_of(self, group: int) -> list[int]:
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = self._order[self._bounds[group] : self._bounds[group + 1]].tolist()
        return members

    def _standing_of(self, group: int) -> Standing:
        standing = self._standings.get(group)
        if standing is None:
            if len(self._standings) >= KEPT_IN_MIND:
                self._standings.clear()
            standing = self._standings[group] = self._claims.standing(self._members_of(group), self._bound.raised)
        return standing

    def _near(self, unit: int) -> Iterator[int]:
        """Groups as dealt, nearest first. One that a tie is in already is left to it."""
        first, seen = max(0, unit - REACH), set[int]()
        dealt, here = len(self._bound.dealt.breach), unit - first
        around: list[int] = self._group[first : unit + REACH + 1].tolist()
        is_tied: list[bool] = self._is_tied[first : unit + REACH + 1].tolist()
        for distance in range(1, REACH + 1):
            for other in (here - distance, here + distance):
                if 0 <= other < len(around) and not is_tied[other]:
                    group = around[other]
                    if group != ALONE and group < dealt and group not in seen and group not in self._bound.touched:
                        seen.add(group)
                        yield group
                        if len(seen) == NEIGHBOURS:
                            return

    def _bound_near(self, unit: int) -> Iterator[int]:
        """Groups that ties are in and that may be joined, nearest first."""
        first, seen = max(0, unit - REACH), set[int]()
        around: list[int] = self._group[first : unit + REACH + 1].tolist()
        for place in sorted(range(len(around)), key=lambda place: abs(first + place - unit)):
            group = around[place]
            if group in self._bound.touched and group not in seen and group not in self._bound.closed:
                seen.add(group)
                yield group
                if len(seen) == NEIGHBOURS:
                    return

    def _company(self, tie: Tie) -> Iterator[int]:
        """Units that have no group yet, nearest first, each once."""
        alone, unit = self._alone, tie.units[0]
        right = int(np.searchsorted(alone, unit))
        left = right - 1
        for _ in range(2 * REACH):
            if left < 0 and right >= len(alone):
                return
            if right >= len(alone) or (left >= 0 and unit - alone[left] <= alone[right] - unit):
                nearest, left = int(alone[left]), left - 1
            else:
                nearest, right = int(alone[right]), right + 1
            if self._group[nearest] == ALONE and not tie.shunned[nearest]:
                yield nearest
