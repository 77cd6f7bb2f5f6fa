"""Placing: a unit that found no group joins a neighbouring one, with its values as they are, raised or suppressed."""

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from shoal.core.groups.accounts import Means
from shoal.core.groups.grouping import Grouping
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.groups.standing import Standing
from shoal.core.groups.tuning import NEIGHBOURS, RAISED_TRIES, REMEMBERED, ROUNDING
from shoal.core.policy.policy import Policy

AS_IT_IS, RAISED, HIDDEN = range(3)  # what may become of a unit's values for it to join a group


class _Join(NamedTuple):
    """How a unit could join a group: what it costs, how its own values are raised, the nodes lifted for everybody."""

    loss: float
    group: int
    own: dict[int, int]
    lifted: list[int]
    after: Standing


class Placing:
    """Places units one by one, each where that loses least (steps 2, 3 and 5 of `formation.py`)."""

    def __init__(self, pool: Pool, promises: Promises, policy: Policy, grouping: Grouping) -> None:
        self._pool, self._promises, self._grouping = pool, promises, grouping
        self._target = promises.requirements.target
        self._hierarchy, self._sensitive = policy.sensitive.hierarchy, policy.sensitive
        self._looks: dict[int, tuple[Standing, Means]] = {}

    def place(self, unit: int, at_most: int) -> bool:
        """Put a unit into the neighbouring group where that loses least; false if there is none."""
        own, best = self._promises.accounts.means([unit]), None
        closed = self._grouping.closed
        near = (group for group in self._grouping.near(unit) if group not in closed)
        for group in islice(near, NEIGHBOURS if at_most == AS_IT_IS else RAISED_TRIES):
            if at_most == AS_IT_IS and self._has_no_room(group, unit):
                continue
            join = self._join(unit, own, group, at_most)
            if join is not None and (best is None or join.loss < best.loss):
                best = join
                if not join.loss:
                    break
        if best is None:
            return False
        self._carry_out(best, unit, own)
        return True

    def _carry_out(self, join: _Join, unit: int, own: Means) -> None:
        members = self._grouping.members_of(join.group)
        for member in members if join.lifted else ():
            self._raise_under(member, join.lifted)
        _, means = self._look_at(join.group)
        self._looks[join.group] = join.after, means.joined_by(own)
        self._grouping.put([unit], join.group, {unit: join.own})
        members.append(unit)
        self._grouping.breach.pop(join.group, None)

    def _join(self, unit: int, mine: Means, group: int, at_most: int) -> _Join | None:
        """How values must be raised for a unit to join a group, None if it cannot."""
        requirement, members = self._target(unit), self._grouping.members_of(group)
        before, means = self._look_at(group)
        raised = [node for node in before.shown if node and not self._is_leaf(node)]
        under = {leaf: node for leaf in requirement.shown for node in raised if self._covers(node, leaf)}
        if under and at_most == AS_IT_IS:
            return None
        start = own = {**under, **requirement.starred}
        lifted: list[int] = []
        standings, share = self._promises.standings, float(at_most < HIDDEN)
        after = standings.with_newcomer(before, unit, {unit: own})
        while (wrong := self._promises.wrong_with(members, means, [unit], mine, before, after, share)) is not None:
            leaf = self._offender(unit, wrong, own) if at_most > AS_IT_IS else None
            if leaf is None:
                return None
            above = self._above(own.get(leaf, self._hierarchy.leaf_node[leaf]))
            if above is None and at_most < HIDDEN:
                return None
            if above is None:  # only "*" is left for this value: begin again with that
                start = own = {**start, leaf: 0}
                lifted = []
                after = standings.with_newcomer(before, unit, {unit: own})
            else:
                lifted.append(above)
                shown = (leaf for leaf in requirement.shown if own.get(leaf) != 0 and self._covers(above, leaf))
                own = own | dict.fromkeys(shown, above)
                after = standings.lifted(after, above)
        loss = self._losses(after.shown) - self._losses(before.shown)
        return _Join(loss, group, own, lifted, after)

    def _raise_under(self, member: int, lifted: list[int]) -> None:
        """Raise a member's values to the nodes that were lifted over them, but for those that are "*"."""
        raised = dict(self._grouping.raised.get(member, {}))
        for node in lifted:
            for leaf in self._pool.sets[member]:
                if raised.get(leaf) != 0 and self._covers(node, leaf):
                    raised[leaf] = node
        if raised:
            self._grouping.raised[member] = raised

    def _look_at(self, group: int) -> tuple[Standing, Means]:
        """How a group stands and what its people can afford; remembered, because the next unit will ask again."""
        look = self._looks.get(group)
        if look is None:
            if len(self._looks) >= REMEMBERED:
                self._looks.clear()
            members = self._grouping.members_of(group)
            look = self._looks[group] = self._promises.look(members, self._grouping.raised)
        return look

    def _has_no_room(self, group: int, unit: int) -> bool:
        """Whether a group already shows one of a unit's values too often for anybody: a quick no, before looking."""
        standing, _ = self._look_at(group)
        room = (standing.people + 1) * (1 + ROUNDING) / self._promises.target_base - 1
        is_open = self._sensitive.open
        return any(standing.weights[leaf] > room for leaf in self._target(unit).shown if leaf not in is_open)

    def _offender(self, unit: int, wrong: int, own: Mapping[int, int]) -> int | None:
        """The unit's own value that is to blame for an offending leaf, None if another member's is."""
        for leaf in self._pool.sets[unit]:
            node = own.get(leaf, self._hierarchy.leaf_node[leaf])
            if self._covers(node, wrong):
                return leaf
        return None

    # -- the hierarchy ------------------------------------------------------------------------------------------

    def _above(self, node: int) -> int | None:
        """The node one level up, to which it and everything beneath is raised; None if only the root is above.

        Nothing is raised to a node above a permanent value: a permanent value may only be shown as G3 allows.
        """
        parent = self._hierarchy.parent[node]
        first, last = self._hierarchy.first[parent], self._hierarchy.last[parent]
        if parent == 0 or any(first <= permanent < last for permanent in self._sensitive.permanent):
            return None
        return parent

    def _is_leaf(self, node: int) -> bool:
        return self._hierarchy.leaf_node[self._hierarchy.first[node]] == node

    def _covers(self, node: int, leaf: int) -> bool:
        return node > 0 and self._hierarchy.first[node] <= leaf < self._hierarchy.last[node]

    def _loss(self, node: int) -> float:
        """Xiao-Tao's information loss of showing a node: the share of leaves under it besides the true one."""
        leaves = self._hierarchy.last[node] - self._hierarchy.first[node]
        return (leaves - 1) / len(self._hierarchy.leaves)

    def _losses(self, shown: Mapping[int, int]) -> float:
        return sum(count * self._loss(node) for node, count in shown.items())
