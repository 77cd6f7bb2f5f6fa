"""Group formation: who is published with whom, so that nobody's budget is overspent (DESIGN, section 4 step 6).

`deal.py` deals most of the pool at once, `units.py` puts cliques into groups of their own or into these. What
is left, and everybody near a guard, is looked at one by one:

1. *sweep*: along the tree's order, a group starts at the first unit left and takes from a bounded look-ahead those that
   do not make it need to be larger, until it is as large as its most demanding member asks;
2. *place*: a unit that found no group joins a neighbouring one that has room for it as it is;
3. *raise*: it joins a neighbouring group with values raised in the hierarchy as far as it takes, at the least loss
   (Xiao-Tao, figure 5: the value and everything beneath the lifted node), but not to the root, which says nothing;
4. *gather*: what is still stuck is swept again, down to the promise's hard minimum instead of the strategy's target:
   a budget spent faster than planned is better than a value suppressed today, and worse than one raised;
5. *suppress*: it joins a neighbouring group with values shown as "*", the root;
6. it is *withheld* until a later release where its cell can spare the row, or stands in a group of "*" only.

Look-ahead and neighbourhood are bounded, so the cost is linear in the pool. Requirements are floats while searching; a
group is kept only if no promise is broken in `Claims.wrong`, which is exact.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.affordability import ROUNDING, Claim, Claims, Means, Standing
from shoal.core.groups.deal import ALONE, spread
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Pool
from shoal.core.groups.units import KEPT_IN_MIND, Bound, bind
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import required_ratio

LOOK_AHEAD = 128
LEAST_AHEAD = 8  # how far that shrinks where one unit after the other finds nobody
NEIGHBOURS = 12  # groups a stuck unit tries to join as it is
LIFTING = 3  # groups it tries to join with values raised
REACH = 96  # units to each side among which it looks for them
AS_IT_IS, RAISED, HIDDEN = range(3)  # what may become of a unit's values for it to join a group


@dataclass
class Formation:
    """What became of the pool: each unit's group, numbered from 0, or ALONE; and values not shown as themselves."""

    group: Rows
    groups: int
    raised: dict[int, dict[int, int]]  # unit -> leaf -> the node it is shown as
    breach: float
    counterfeits: dict[int, dict[int, int]] = field(default_factory=dict)  # group -> leaf -> how many are nobody's


def form_groups(
    pool: Pool, ledger: Ledger, policy: Policy, spare: Mapping[int, int], breach_so_far: float = 0.0
) -> Formation:
    """Group the pool, which stands in sweep order; `spare` says how many rows each cell can do without.

    The breach of what is formed may be left understated where it is under `breach_so_far`.
    """
    left_out = _near_guards(pool, policy)
    left_out[list(pool.barred)] = True
    left_out[[unit for tie in pool.ties for unit in tie]] = True
    claims = Claims(pool, ledger, policy)
    bound = bind(pool, claims, spread(pool, ledger, policy, left_out, breach_so_far))
    return _Sweep(pool, claims, policy, bound).run(dict(spare))


def _near_guards(pool: Pool, policy: Policy) -> NDArray[np.bool_]:
    """Units to be looked at one by one: those with a guard, and neighbours enough to keep them company."""
    guarded = np.array([guard is not None for guard in pool.known_guards], dtype=bool)[pool.guard_of]
    if not guarded.any():
        return guarded
    bounds = [guard.bound for guard in pool.guards if guard is not None and guard.bound is not None]
    company = math.ceil(required_ratio(policy.strategy, 1 / min([1 / policy.l, *bounds]), 1.0, 0)) + 1
    if 2 * company >= len(pool):
        return np.ones(len(pool), dtype=bool)
    near = np.convolve(guarded.astype(np.int64), np.ones(2 * company + 1, dtype=np.int64), mode="same")
    return np.asarray(near > 0)


@dataclass
class _Draft:
    """A group being formed; `required` is the size its members ask for, `people` is n(G)."""

    members: list[int] = field(default_factory=list)
    shown: dict[int, int] = field(default_factory=dict)  # leaf -> count, while nothing is raised
    people: int = 0
    required: float = 0.0
    ratio: dict[int, float] = field(default_factory=dict)  # leaf -> the largest ratio beyond the base
    guards: list[tuple[int, int, float]] = field(default_factory=list)  # leaves [first, last) and their ratio
    has_unguarded: bool = False


class _Join(NamedTuple):
    """How a unit could join a group: what more is lost, its own values raised so, the nodes lifted for everybody."""

    loss: float
    group: int
    own: dict[int, int]
    lifted: list[int]
    after: Standing


class _Sweep:
    def __init__(self, pool: Pool, claims: Claims, policy: Policy, bound: Bound) -> None:
        group, breach = bound.dealt.group, bound.dealt.breach
        self._pool, self._policy, self._claims = pool, policy, claims
        self._hierarchy = policy.sensitive.hierarchy
        self._group, self._groups, self._breach = group, len(breach), breach
        order = np.argsort(group, kind="stable")
        self._order, self._bounds = order, np.searchsorted(group[order], np.arange(len(breach) + 1))
        self._members: dict[int, list[int]] = {}
        self._looks: dict[int, tuple[Standing, Means]] = {}
        self._raised, self._closed = bound.raised, bound.closed
        self._touched = bound.touched  # groups formed or joined here, or by ties
        self._bound_breach = bound.breach  # the largest in those of them that nobody joined after a tie

    def run(self, spare: dict[int, int]) -> Formation:
        stuck = np.flatnonzero(self._group == ALONE).tolist()
        stuck = self._sweep(stuck, is_hard=False)
        stuck = [unit for unit in stuck if not self._place(unit, AS_IT_IS)]
        stuck = [unit for unit in stuck if not self._place(unit, RAISED)]
        stuck = self._sweep(stuck, is_hard=True)
        stuck = [unit for unit in stuck if not self._place(unit, HIDDEN)]
        hidden = []
        for unit in stuck:
            cell = int(self._pool.cells[unit])
            if spare.get(cell, 0) > 0:
                spare[cell] -= 1
            else:
                hidden.append(unit)
        if hidden:
            self._raised.update({unit: dict.fromkeys(self._claims.target(unit).hidden, 0) for unit in hidden})
            if self._claims.wrong(hidden, self._raised) is not None:  # somebody's guard covers somebody's open value
                self._raised.update({unit: dict.fromkeys(self._pool.sets[unit], 0) for unit in hidden})
            self._keep(hidden)
        return Formation(self._group, self._groups, self._raised, self._largest_breach())

    # -- 1 and 4: sweeping --------------------------------------------------------------------------------------

    def _sweep(self, pending: list[int], is_hard: bool) -> list[int]:
        """Form groups from these units in order; returns those that found none. Hard: close at the minimum."""
        claims = self._claims.hard if is_hard else self._claims.target
        enough = self._claims.target_base
        stuck: list[int] = []
        following = [*range(1, len(pending) + 1)]  # a linked list over `pending`, so that taking from it is O(1)
        head, ahead = 0, LOOK_AHEAD
        while head < len(pending):
            draft = _Draft()
            first = claims(pending[head])
            self._add(draft, pending[head], first, self._required_with(draft, first))
            taken = [head]
            before, here, seen = head, following[head], 0
            while here < len(pending) and seen < ahead and not math.isinf(draft.required):
                if draft.people >= enough and draft.people >= draft.required:
                    break
                claim = claims(pending[here])
                required = self._required_with(draft, claim)
                seen += 1
                if required > max(draft.required, claim.alone, 1.5 * enough):
                    before, here = here, following[here]
                    continue
                self._add(draft, pending[here], claim, required)
                taken.append(here)
                following[before] = here = following[here]
            is_large = is_hard or draft.people >= enough or not draft.required
            if is_large and draft.required <= draft.people * (1 + ROUNDING) and self._are_kept(draft.members):
                self._keep(draft.members)
                head, ahead = following[head], LOOK_AHEAD
                continue
            ahead = max(LEAST_AHEAD, ahead // 2)
            stuck.append(pending[head])
            head = _put_back(following, head, taken[1:])
        return stuck

    def _required_with(self, draft: _Draft, claim: Claim) -> float:
        """The size a group would need with one more unit; infinite where a member may not be exposed at all."""
        required, shown, ratio = draft.required, draft.shown, draft.ratio
        base = claim.base
        has_unguarded = draft.has_unguarded or not claim.is_guarded
        for leaf in claim.shown:
            if has_unguarded and leaf not in self._policy.sensitive.open:
                most = max(base, ratio.get(leaf, base), claim.ratio.get(leaf, base))
                required = max(required, (shown.get(leaf, 0) + 1) * most)
            for first, last, asked in draft.guards:
                if first <= leaf < last:
                    weight = sum(count for other, count in shown.items() if first <= other < last)
                    weight += sum(first <= other < last for other in claim.shown)
                    required = max(required, _times(asked, weight))
        if not claim.is_guarded and not draft.has_unguarded:
            counts = (count for leaf, count in shown.items() if leaf not in self._policy.sensitive.open)
            required = max(required, base * max(counts, default=0))
        if claim.ratio:
            for leaf, count in shown.items():
                if leaf in claim.ratio:
                    required = max(required, _times(claim.ratio[leaf], count))
        for first, last, asked in claim.guards:
            weight = sum(count for leaf, count in shown.items() if first <= leaf < last)
            weight += sum(first <= leaf < last for leaf in claim.shown)
            required = max(required, _times(asked, weight))
        return required

    @staticmethod
    def _add(draft: _Draft, unit: int, claim: Claim, required: float) -> None:
        draft.members.append(unit)
        draft.required = required
        draft.people += 1 - claim.aside
        draft.has_unguarded = draft.has_unguarded or not claim.is_guarded
        for leaf in claim.shown:
            draft.shown[leaf] = draft.shown.get(leaf, 0) + 1
        for leaf, ratio in claim.ratio.items():
            draft.ratio[leaf] = max(ratio, draft.ratio.get(leaf, 0.0))
        draft.guards.extend(claim.guards)

    # -- 2, 3 and 5: placing ------------------------------------------------------------------------------------

    def _place(self, unit: int, at_most: int) -> bool:
        """Put a unit into the neighbouring group where that loses least; false if there is none."""
        own, best = self._claims.means([unit]), None
        for group in self._neighbours(unit, NEIGHBOURS if at_most == AS_IT_IS else LIFTING):
            if at_most == AS_IT_IS and self._has_no_room(group, unit):
                continue
            join = self._join(unit, own, group, at_most)
            if join is not None and (best is None or join.loss < best.loss):
                best = join
                if not join.loss:
                    break
        if best is None:
            return False
        members = self._members_of(best.group)
        for member in members if best.lifted else ():
            self._raise_under(member, best.lifted)
        if best.own:
            self._raised[unit] = best.own
        members.append(unit)
        _, means = self._look_at(best.group)
        self._looks[best.group] = best.after, means.joined_by(own)
        self._group[unit] = best.group
        self._touched.add(best.group)
        self._bound_breach.pop(best.group, None)
        return True

    def _join(self, unit: int, mine: Means, group: int, at_most: int) -> _Join | None:
        """How values must be raised for a unit to join a group, None if it cannot."""
        claim, members = self._claims.target(unit), self._members_of(group)
        before, means = self._look_at(group)
        raised = [node for node in before.shown if node and not self._is_leaf(node)]
        under = {leaf: node for leaf in claim.shown for node in raised if self._covers(node, leaf)}
        if under and at_most == AS_IT_IS:
            return None
        start = own = {**under, **claim.starred}
        lifted: list[int] = []
        after = self._claims.standing_with(before, unit, {unit: own})
        while (
            wrong := self._claims.wrong_with(members, means, [unit], mine, before, after, float(at_most < HIDDEN))
        ) is not None:
            leaf = self._offender(unit, wrong, own) if at_most > AS_IT_IS else None
            if leaf is None:
                return None
            above = self._above(own.get(leaf, self._hierarchy.leaf_node[leaf]))
            if above is None and at_most < HIDDEN:
                return None
            if above is None:  # nothing but "*" is left for it: begin again with that
                start = own = {**start, leaf: 0}
                lifted = []
                after = self._claims.standing_with(before, unit, {unit: own})
            else:
                lifted.append(above)
                own = own | {leaf: above for leaf in claim.shown if own.get(leaf) != 0 and self._covers(above, leaf)}
                after = self._claims.standing_lifted(after, above)
        loss = self._losses(after.shown) - self._losses(before.shown)
        return _Join(loss, group, own, lifted, after)

    def _raise_under(self, member: int, lifted: list[int]) -> None:
        """Raise a member's values to the nodes that were lifted over them, but for those that are "*"."""
        raised = dict(self._raised.get(member, {}))
        for node in lifted:
            for leaf in self._pool.sets[member]:
                if raised.get(leaf) != 0 and self._covers(node, leaf):
                    raised[leaf] = node
        if raised:
            self._raised[member] = raised

    def _look_at(self, group: int) -> tuple[Standing, Means]:
        """How a group stands and what its people can afford; kept for the next neighbours, who will ask again."""
        look = self._looks.get(group)
        if look is None:
            if len(self._looks) >= KEPT_IN_MIND:
                self._looks.clear()
            members = self._members_of(group)
            look = self._looks[group] = self._claims.look(members, self._raised)
        return look

    def _offender(self, unit: int, wrong: int, own: Mapping[int, int]) -> int | None:
        """The unit's own value that is to blame for an offending leaf, None if it is somebody else's."""
        for leaf in self._pool.sets[unit]:
            node = own.get(leaf, self._hierarchy.leaf_node[leaf])
            if self._covers(node, wrong):
                return leaf
        return None

    def _above(self, node: int) -> int | None:
        """The node one level up, to which it and all that is beneath is raised; None if only the root is above.

        Nothing is raised to a node above a permanent value: that a permanent value may be there is for G3 to say.
        """
        parent = self._hierarchy.parent[node]
        first, last = self._hierarchy.first[parent], self._hierarchy.last[parent]
        if parent == 0 or any(first <= permanent < last for permanent in self._policy.sensitive.permanent):
            return None
        return parent

    def _is_leaf(self, node: int) -> bool:
        return self._hierarchy.leaf_node[self._hierarchy.first[node]] == node

    def _covers(self, node: int, leaf: int) -> bool:
        return node > 0 and self._hierarchy.first[node] <= leaf < self._hierarchy.last[node]

    def _loss(self, node: int) -> float:
        """Xiao-Tao's information loss of showing a node: the share of leaves that it leaves open, its own aside."""
        leaves = self._hierarchy.last[node] - self._hierarchy.first[node]
        return (leaves - 1) / len(self._hierarchy.leaves)

    def _losses(self, shown: Mapping[int, int]) -> float:
        return sum(count * self._loss(node) for node, count in shown.items())

    def _has_no_room(self, group: int, unit: int) -> bool:
        """Whether a group already shows one of a unit's values too often for anybody: a quick no, before looking."""
        standing, _ = self._look_at(group)
        room = (standing.people + 1) * (1 + ROUNDING) / self._claims.target_base - 1
        is_open = self._policy.sensitive.open
        return any(standing.weights[leaf] > room for leaf in self._claims.target(unit).shown if leaf not in is_open)

    def _neighbours(self, unit: int, most: int) -> Iterator[int]:
        """The nearest groups in the tree's order, nearest first."""
        first, seen = max(0, unit - REACH), {ALONE, *self._closed}
        passed = len(seen)
        around: list[int] = self._group[first : unit + REACH + 1].tolist()
        here = unit - first
        for distance in range(1, REACH + 1):
            for other in (here - distance, here + distance):
                if 0 <= other < len(around) and around[other] not in seen:
                    seen.add(around[other])
                    yield around[other]
                    if len(seen) == most + passed:
                        return

    # -- keeping ------------------------------------------------------------------------------------------------

    def _members_of(self, group: int) -> list[int]:
        members = self._members.get(group)
        if members is None:
            members = self._order[self._bounds[group] : self._bounds[group + 1]].tolist()
            self._members[group] = members
        return members

    def _are_kept(self, members: list[int]) -> bool:
        """Whether every promise holds, exactly, with what nobody may be linked to any more shown as "*"."""
        return self._claims.wrong(members, {unit: self._claims.target(unit).starred for unit in members}) is None

    def _keep(self, members: list[int]) -> None:
        for unit in members:
            starred = self._claims.target(unit).starred
            if starred and unit not in self._raised:
                self._raised[unit] = dict(starred)
        self._group[members] = self._groups
        self._members[self._groups] = members
        self._touched.add(self._groups)
        self._groups += 1

    def _largest_breach(self) -> float:
        dealt = np.ones(len(self._breach), dtype=bool)
        dealt[[group for group in self._touched if group < len(dealt)]] = False
        looked_at = [self._members_of(group) for group in self._touched.difference(self._bound_breach)]
        swept = [self._claims.largest_breach(*self._claims.look(members, self._raised)) for members in looked_at]
        most = max(float(self._breach[dealt].max(initial=0.0)), *self._bound_breach.values(), *swept, 0.0)
        return min(most, 1 / self._policy.l)


def _times(ratio: float, weight: float) -> float:
    """A ratio times a weight, where nothing shown asks for nothing, even of an infinite ratio."""
    return ratio * weight if weight else 0.0


def _put_back(following: list[int], head: int, taken: list[int]) -> int:
    """Undo the unlinking of `taken` (ascending) after `head`, and drop the head itself; returns the new head."""
    here = head
    for index in taken:
        while following[here] < index:
            here = following[here]
        following[index], following[here] = following[here], index
    return following[head]
