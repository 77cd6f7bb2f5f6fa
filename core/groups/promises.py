"""Promises: whether a group keeps the promise to each of its people, exactly.

A promise holds if survival so far, times (1 - w/n), stays at or above 1 - bound: for each protected value of a person
without a guard (docs/design.md, "G2 Global"), for all leaves under a guard together ("G4 Personal").

A check is done in floats; where a float comes near the bound, exact fractions decide, person by person.
"""

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.groups.accounts import Means, PoolAccounts
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Pool
from shoal.core.groups.requirement import Requirements
from shoal.core.groups.standing import Raised, Standing, Standings
from shoal.core.groups.tuning import NEAR, ROUNDING
from shoal.core.groups.weight import open_leaves, set_aside, weight_of
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import required_ratio


class Promises:
    """The promises to the people of a pool.

    The methods that begin with `wrong` return a leaf whose showing breaks a promise, None if every promise is kept.
    Where they are given a `share`, they also return a leaf for which the group has less than that share of the ratio
    that the strategy asks for: showing it would spend a budget faster than planned.
    """

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy) -> None:
        self.accounts = PoolAccounts(pool, ledger, policy)
        self.requirements = Requirements(pool, self.accounts, policy)
        self.standings = Standings(pool, policy)
        self.target_base = self.accounts.target_base
        self.leaves, self.permanent = len(policy.sensitive.hierarchy.leaves), policy.sensitive.permanent
        self._pool, self._ledger, self._policy = pool, ledger, policy
        self._hierarchy = policy.sensitive.hierarchy
        self._is_open, self._aside = open_leaves(policy), set_aside(policy.sensitive)
        self._bound = 1 / Fraction(policy.l)
        self._floor = 1 - 1 / policy.l

    def wrong(self, members: list[int], raised: Raised, share: float = 0.0) -> int | None:
        """What is wrong with a group of these people, whose values are raised as `raised` says."""
        standing = self.standings.of(members, raised)
        return self._breaks_any(
            members, self.accounts.means(members), np.flatnonzero(standing.weights), standing, share
        )

    def wrong_in(self, members: list[int], group: Standing, is_planned: bool) -> int | None:
        """What is wrong with a group that shows more than the values of its people (G5)."""
        leaves = np.flatnonzero(group.weights)
        return self._breaks_any(members, self.accounts.means(members), leaves, group, share=float(is_planned))

    def wrong_with(
        self,
        members: list[int],
        means: Means,
        newcomers: list[int],
        own: Means,
        before: Standing,
        after: Standing,
        share: float,
    ) -> int | None:
        """What is wrong with newcomers in a group that keeps the promises to its members so far.

        Of the members' promises only those that the newcomers make harder to keep are checked. There members are held
        to the strategy's whole target, so that nobody pays more than planned because others join; the newcomers are
        held to a share of theirs. Of several leaves, one that the newcomers made worse is returned.
        """
        leaves = after.weights.nonzero()[0]
        if not (means.guarded or own.guarded):  # without guards no promise is about open leaves
            leaves = leaves[~self._is_open[leaves]]
            if not leaves.size:
                return None
        now, had = after.weights[leaves] * before.people, before.weights[leaves] * after.people
        is_worse = now > had * (1 + ROUNDING)
        worse, alike = leaves[is_worse], leaves[~is_worse & (now > had * (1 - ROUNDING))]
        offending = self._breaks_any(newcomers, own, leaves, after, share)
        leaf = None if offending is None else self._breaks_any(newcomers, own, worse, after, share)
        if leaf is None:
            leaf = self._breaks_any(members, means, worse, after, share=1.0)
        if leaf is None:
            leaf = offending
        if leaf is None:  # leaves of which floats cannot tell whether they are worse
            leaf = self._breaks_any(members, means, alike, after, share=0.0)
        return leaf

    def is_crowded(self, group: Standing, leaves: Rows, share: float) -> bool:
        """Whether a group shows one of these protected leaves too often for that share of any target: a quick no."""
        most = group.weights[leaves].max(initial=0.0)
        return bool(most * share * self.target_base > group.people * (1 + ROUNDING))

    def protected_in(self, group: Standing) -> Rows:
        """The leaves a group shows that are not open."""
        return np.flatnonzero((group.weights > 0) & ~self._is_open)

    def look(self, members: list[int], raised: Raised) -> tuple[Standing, Means]:
        """How a group of these people stands, and what they can afford."""
        return self.standings.of(members, raised), self.accounts.means(members)

    def breach_in(self, members: list[int], group: Standing) -> float:
        """The largest breach in a group that shows more than the values of its people (G5)."""
        return self.largest_breach(group, self.accounts.means(members))

    def largest_breach(self, group: Standing, means: Means) -> float:
        """The largest breach(o, s) of the unguarded people of a group once it is charged."""
        leaf = self.protected_in(group)
        if not means.has_unguarded or not leaf.size:
            return 0.0
        after = means.survival[leaf] * (1 - np.minimum(1.0, group.weights[leaf] / group.people))
        return min(float(1 - after.min()), float(self._bound))

    # -- parts --------------------------------------------------------------------------------------------------

    def _breaks_any(
        self, units: Iterable[int], means: Means, looked_at: Rows, group: Standing, share: float
    ) -> int | None:
        """The first leaf of `looked_at` that breaks a promise to one of these units, or None."""
        if not looked_at.size:
            return None
        leaf = looked_at[~self._is_open[looked_at]]
        if means.has_unguarded and leaf.size:
            weight, people = group.weights[leaf], group.people
            after = means.survival[leaf] * (1 - np.minimum(1.0, weight / people))
            is_wrong = after < self._floor * (1 - NEAR)
            if share:
                is_wrong |= share * means.ratio[leaf] * weight > people * (1 + ROUNDING)
            if is_wrong.any():
                return int(leaf[is_wrong.argmax()])
            for near in leaf[after <= self._floor * (1 + NEAR)].tolist():
                if self._is_over(units, near, group):
                    return int(near)
        for unit in means.guarded:
            if (offending := self._breaks_guard(unit, looked_at, group, share)) is not None:
                return offending
        return None

    def _is_over(self, units: Iterable[int], leaf: int, group: Standing) -> bool:
        """Whether one leaf breaks the promise to a unit without a guard, exactly."""
        weight, run = weight_of(group.shown.items(), self._hierarchy, leaf, leaf + 1, self._aside), (leaf, leaf + 1)
        if weight * Fraction(self._policy.l) > group.people:
            return True  # for anybody; having paid before never makes it easier
        for unit in units:
            if self._pool.guards[unit] is None and self.accounts.has_paid(unit):
                paid = self.accounts.paid_by([unit])
                for survival in paid.survival[paid.leaf == leaf].tolist():
                    exposures = self._pool.exposures(unit)
                    if not self._ledger.can_afford(exposures, run, survival, weight, group.people, self._bound):
                        return True
        return False

    def _breaks_guard(self, unit: int, looked_at: Rows, group: Standing, share: float) -> int | None:
        guard = self._pool.guards[unit]
        assert guard is not None
        run = first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
        inside = looked_at[(looked_at >= first) & (looked_at < last)]
        if not inside.size:
            return None
        weight = weight_of(group.shown.items(), self._hierarchy, *run, self._aside)
        account = self.accounts.guarded(unit)
        bound = self._bound if guard.bound is None else Fraction(guard.bound)
        is_over = share > 0 and (
            share * required_ratio(self._policy.strategy, float(1 / bound), *account) * float(weight)
            > group.people * (1 + ROUNDING)
        )
        if not is_over:
            exposures = self._pool.exposures(unit)
            is_over = not self._ledger.can_afford(exposures, run, account.survival, weight, group.people, bound)
        return int(inside[0]) if is_over else None
