"""Ties in group formation: cliques are published in one group each, and whatever their own values ask for holds too.

Before the careful sweep each tie, in the tree's order, takes the first of these that keeps every promise:

1. it is a group by itself, where its people have nothing to be protected but the permanent value;
2. it joins a group near by, as dealt, with room for all of it;
3. it seeds a group and takes in neighbours nobody has grouped yet, until everyone in it is content: with what the
   strategy asks for, or else with what the promise cannot do without;
4. its own transient values are suppressed, and it is a group by itself.

So a tie always finds a group. The value of a whole clique is shown as it is, whatever becomes of the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from core.claim import Claims, Standing
from core.pool import Pool
from core.spread import ALONE, Spread
from core.tree import Rows

REACH = 96  # units to each side in which a tie looks for a group, or for neighbours to form one with
NEIGHBOURS = 12  # groups it tries to join
KEPT_IN_MIND = 256  # groups whose standing is remembered: it is as long as the list of values
COMPANY = 4  # times the strategy's ratio: how large a group it tries to seed


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
        self._standings: dict[int, Standing] = {}  # of groups as dealt, which is all that ties join
        self._is_tied = np.zeros(len(pool), dtype=bool)
        self._is_tied[[unit for tie in pool.ties for unit in tie]] = True
        self._is_shunned = np.zeros(len(pool), dtype=bool)  # by the tie being put into a group
        self._alone: Rows = np.flatnonzero((self._group == ALONE) & ~self._is_tied)

    def run(self) -> None:
        nobody = np.zeros(len(self._pool), dtype=bool)
        for tie, place in sorted((tie, place) for place, tie in enumerate(self._pool.ties)):
            self._is_shunned = self._pool.shunned.get(place, nobody)
            self._bind(tie)
            if place in self._pool.shunned:
                self._bound.closed.add(int(self._group[tie[0]]))
        new = self._groups - len(self._bound.dealt.breach)
        self._bound.dealt.breach = np.concatenate([self._bound.dealt.breach, np.zeros(new)])

    def _bind(self, tie: list[int]) -> None:
        if all(self._claims.is_content_alone(unit) for unit in tie) and self._seed(tie, is_planned=True):
            return
        if not (self._join(tie) or self._seed(tie, is_planned=True) or self._seed(tie, is_planned=False)):
            self._suppress(tie)

    def _join(self, tie: list[int]) -> bool:
        """Step 2. Those who are there are held to the strategy's target too, for all that the tie makes worse."""
        own, mine = self._claims.look(tie, {unit: self._claims.starred(unit) for unit in tie})
        protected = self._claims.protected_in(own)
        for group in self._near(tie[0]):
            members = self._members_of(group)
            before = self._standing_of(group)
            after = before.joined_by(own)
            if self._claims.is_crowded(after, protected) or self._is_shunned[members].any():
                continue
            means = self._claims.means(members)
            if self._claims.wrong_with(members, means, tie, mine, before, after, is_planned=True) is None:
                self._put(tie, group)
                members.extend(tie)
                self._bound.breach[group] = self._claims.largest_breach(after, means.joined_by(mine))
                return True
        return False

    def _seed(self, tie: list[int], *, is_planned: bool) -> bool:
        """Steps 1 and 3. Whether everyone is content is asked at sizes further and further apart."""
        everyone = list(tie)
        starred = {unit: self._claims.starred(unit) for unit in tie}
        shown = {leaf for unit in tie for leaf in self._claims.target(unit).hidden}
        base = self._claims.target_base
        company, least = self._company(tie[0]), len(tie) + base - 1
        while self._claims.wrong(everyone, starred, is_planned) is not None:
            before = len(everyone)
            for unit in company if before <= COMPANY * base + len(tie) else ():
                claim = self._claims.target(unit)
                if shown.isdisjoint(claim.hidden) and not claim.starred:
                    everyone.append(unit)
                    shown.update(claim.hidden)
                    if len(everyone) >= least:
                        break
            if len(everyone) == before:
                return False
            least = len(everyone) * 1.1
        self._keep(everyone)
        return True

    def _suppress(self, tie: list[int]) -> None:
        """Step 4. What is open stays, unless somebody's guard covers it."""
        target, covers = self._claims.target, self._pool.covers
        raised = {unit: {**dict.fromkeys(target(unit).hidden, 0), **covers.get(unit, {})} for unit in tie}
        if self._claims.wrong(tie, raised) is not None:
            raised = {
                unit: {**dict.fromkeys((*target(unit).shown, *target(unit).starred), 0), **covers.get(unit, {})}
                for unit in tie
            }
        assert self._claims.wrong(tie, raised) is None
        self._bound.raised.update({unit: stars for unit, stars in raised.items() if stars})
        self._keep(tie)

    # -- parts --------------------------------------------------------------------------------------------------

    def _keep(self, members: list[int]) -> None:
        self._members[self._groups] = list(members)
        self._put(members, self._groups)
        self._groups += 1

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
            standing = self._standings[group] = self._claims.standing(self._members_of(group), {})
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

    def _company(self, unit: int) -> Iterator[int]:
        """Units that have no group yet, nearest first, each once."""
        alone = self._alone
        right = int(np.searchsorted(alone, unit))
        left = right - 1
        for _ in range(2 * REACH):
            if left < 0 and right >= len(alone):
                return
            if right >= len(alone) or (left >= 0 and unit - alone[left] <= alone[right] - unit):
                nearest, left = int(alone[left]), left - 1
            else:
                nearest, right = int(alone[right]), right + 1
            if self._group[nearest] == ALONE and not self._is_shunned[nearest]:
                yield nearest
