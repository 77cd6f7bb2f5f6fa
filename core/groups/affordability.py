"""Claims: what one person's promise asks of the group they are put into, and whether a group keeps it, exactly.

Without a guard the promise is about each protected value (G2), with a guard about all leaves under its node together
(G4), with the empty guard about nothing. Either way: survival so far, times (1 - w/n), stays at or above 1 - bound.

People without a guard are looked at together: by leaf, the smallest survival among them and the largest ratio asked
for say it for all (`Means`), so a check costs a few passes over the leaves, however many people there are. It is done
in floats; where a float comes near the bound, exact fractions decide, person by person.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.events.guard import EMPTY
from shoal.core.groups.ledger import NEAR, Account, Accounts, Ledger, each_between, open_leaves, set_aside, weight_of
from shoal.core.groups.pool import Pool
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Floats, hard_minima, hard_minimum, required_ratio, required_ratios

Raised = Mapping[int, Mapping[int, int]]  # unit -> leaf -> the node it is shown as

ROUNDING = 1e-12  # relative; what floats may be off by where nothing depends on it
UNPAYABLE = 1e300  # a ratio nobody can have, and which times 0 is still 0
AT_ONCE = 64  # exposures that are added up in a go while one unit's account is looked up


@dataclass(frozen=True, slots=True)
class Claim:
    """What a unit asks for while groups are searched: ratios beyond the base, by leaf, or a guard's; in floats."""

    shown: tuple[int, ...]  # the values it can be published with, as they are
    starred: Mapping[int, int]  # those that can only be "*": nobody may link it to them any more
    hidden: tuple[int, ...]  # those to be suppressed if it comes to that
    base: float
    ratio: Mapping[int, float]
    guards: tuple[tuple[int, int, float], ...]  # leaves [first, last) and the ratio for them
    is_guarded: bool
    alone: float  # the size it needs with nobody else's values around
    permanent: int = 0  # how many permanent values it shows: they are not among the others

    @property
    def aside(self) -> int:
        """How many of its values n(G) leaves aside."""
        return len(self.starred) + self.permanent


class Standing(NamedTuple):
    """How a group stands: its people less what n(G) leaves aside, what it shows by node, and w(s, G) of every leaf."""

    left: int
    shown: Mapping[int, int]
    weights: Floats

    @property
    def people(self) -> int:
        """n(G)."""
        return max(1, self.left)

    def joined_by(self, other: "Standing") -> "Standing":
        """How it stands with more people, where nothing is raised for it."""
        shown = dict(self.shown)
        for node, count in other.shown.items():
            shown[node] = shown.get(node, 0) + count
        return Standing(self.left + other.left, shown, self.weights + other.weights)


class Means(NamedTuple):
    """What people can afford together: by leaf, smallest survival and largest ratio of those without a guard."""

    survival: Floats
    ratio: Floats
    has_unguarded: bool
    guarded: list[int]

    def joined_by(self, other: "Means") -> "Means":
        """What they can afford with more people."""
        guarded = [*self.guarded, *other.guarded]
        if not (self.has_unguarded and other.has_unguarded):
            either = other if other.has_unguarded else self
            return Means(either.survival, either.ratio, either.has_unguarded, guarded)
        survival, ratio = np.minimum(self.survival, other.survival), np.maximum(self.ratio, other.ratio)
        return Means(survival, ratio, True, guarded)


class _Paid(NamedTuple):
    """The protected leaves people have paid for, what is left of each, and the ratio the strategy asks for it."""

    leaf: Rows
    survival: Floats
    ratio: Floats


class Claims:
    """The claims of a pool's units, worked out as they are asked for."""

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy) -> None:
        self._pool, self._ledger, self._policy = pool, ledger, policy
        self._hierarchy, self._open = policy.sensitive.hierarchy, policy.sensitive.open
        self.leaves, self.permanent = len(self._hierarchy.leaves), policy.sensitive.permanent
        self._is_open, self._aside = open_leaves(policy), set_aside(policy.sensitive)
        self._bound = 1 / Fraction(policy.l)
        self._floor = 1 - 1 / policy.l
        self.target_base = required_ratio(policy.strategy, policy.l, 1.0, 0)
        self._unspent, self._least = np.ones(len(self._is_open)), np.full(len(self._is_open), self.target_base)
        self._lookups = len(pool.exposed) // AT_ONCE  # before everybody's account is worked out
        self._guarded: dict[int, Account] = {}
        self._claims: dict[tuple[int, bool], Claim] = {}

    def target(self, unit: int) -> Claim:
        """What the strategy asks for."""
        return self._claim(unit, is_hard=False)

    def hard(self, unit: int) -> Claim:
        """What the promise cannot do without."""
        return self._claim(unit, is_hard=True)

    def starred(self, unit: int) -> Mapping[int, int]:
        """Those of a unit's values that can only be "*", without working out the rest of its claim where that goes."""
        if self._is_plain(unit):
            return self._pool.covers.get(unit, {})
        return self.target(unit).starred

    def is_content_alone(self, unit: int) -> bool:
        """Whether it needs no company: it has nothing to be protected, or only what is "*"."""
        if not self._is_plain(unit):
            return not self.target(unit).alone
        covers = self._pool.covers.get(unit, {})
        return all(leaf in self._open or leaf in self.permanent or leaf in covers for leaf in self._pool.sets[unit])

    def standing(self, members: list[int], raised: Raised) -> Standing:
        """What a group of these people shows, with values raised so."""
        return self._standing(0, {}, np.zeros(len(self._is_open)), members, raised)

    def standing_of(self, people: int, shown: Mapping[int, int]) -> Standing:
        """A group of so many people that shows these leaves so often, some of them perhaps nobody's (G5)."""
        weights = np.zeros(len(self._is_open))
        weights[list(shown)] = list(shown.values())
        return Standing(people, {self._hierarchy.leaf_node[leaf]: count for leaf, count in shown.items()}, weights)

    def standing_with(self, before: Standing, newcomer: int, raised: Raised) -> Standing:
        """The same with one more person, where nobody else's values are raised for it."""
        return self._standing(before.left, before.shown, before.weights.copy(), [newcomer], raised)

    def standing_lifted(self, group: Standing, node: int) -> Standing:
        """The same with everything under a node shown as that node."""
        first, last = self._hierarchy.first[node], self._hierarchy.last[node]
        shown, weights = dict(group.shown), group.weights.copy()
        beneath = [other for other in shown if node < other and first <= self._hierarchy.first[other] < last]
        shown[node] = shown.get(node, 0) + sum(shown.pop(other) for other in beneath)
        weights[first:last] = 0
        while node > 0:  # what weighs on them now is the node itself, and whatever may be shown above it
            weights[first:last] += shown.get(node, 0) / (self._hierarchy.last[node] - self._hierarchy.first[node])
            node = self._hierarchy.parent[node]
        return Standing(group.left, shown, weights)

    def means(self, units: Iterable[int]) -> Means:
        """What these people can afford together."""
        guards, unguarded, guarded = self._pool.guards, [], []
        for unit in units:
            guard = guards[unit]
            if guard is None:
                unguarded.append(unit)
            elif guard.node != EMPTY:
                guarded.append(unit)
        lowest, largest = self._unspent.copy(), self._least.copy()
        leaf, survival, ratio = self._paid_by(unguarded)
        np.minimum.at(lowest, leaf, survival)
        np.maximum.at(largest, leaf, ratio)
        return Means(lowest, largest, bool(unguarded), guarded)

    def wrong(self, members: list[int], raised: Raised, share: float = 0.0) -> int | None:
        """A leaf whose showing breaks the promise of one of these people, None if all are kept; exact.

        One that spends more than planned, too: `share` is how much of the strategy's ratio must be there.
        """
        standing = self.standing(members, raised)
        return self._breaks_any(members, self.means(members), np.flatnonzero(standing.weights), standing, share)

    def wrong_in(self, members: list[int], group: Standing, is_planned: bool) -> int | None:
        """The same for a group that shows more than its people do."""
        leaves = np.flatnonzero(group.weights)
        return self._breaks_any(members, self.means(members), leaves, group, share=float(is_planned))

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
        """The same for people who are content with how their group stood before newcomers with means of their own.

        Only what the newcomers make worse is looked at. There members are also held to the strategy's target, so that
        nobody pays more for somebody else's joining than planned, the newcomers to a share of theirs. An
        offending leaf that the newcomers made worse comes first.
        """
        leaves = after.weights.nonzero()[0]
        if not (means.guarded or own.guarded):  # then nobody minds what is open
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
        if leaf is None:  # what floats cannot tell from worse
            leaf = self._breaks_any(members, means, alike, after, share=0.0)
        return leaf

    def is_crowded(self, group: Standing, leaves: Rows, share: float) -> bool:
        """Whether a group shows one of these protected leaves too often for that share of any target: a quick no."""
        most = group.weights[leaves].max(initial=0.0)
        return bool(most * share * self.target_base > group.people * (1 + ROUNDING))

    def protected_in(self, group: Standing) -> Rows:
        """The leaves a group shows that are not open."""
        return np.flatnonzero((group.weights > 0) & ~self._is_open)

    def breach_in(self, members: list[int], group: Standing) -> float:
        """The largest breach in a group that shows more than its people do."""
        return self.largest_breach(group, self.means(members))

    def look(self, members: list[int], raised: Raised) -> tuple[Standing, Means]:
        """How a group of these people stands, and what they can afford."""
        return self.standing(members, raised), self.means(members)

    def largest_breach(self, group: Standing, means: Means) -> float:
        """The largest breach(o, s) of the unguarded people of a group once it is charged."""
        leaf = self.protected_in(group)
        if not means.has_unguarded or not leaf.size:
            return 0.0
        after = means.survival[leaf] * (1 - np.minimum(1.0, group.weights[leaf] / group.people))
        return min(float(1 - after.min()), float(self._bound))

    # -- parts --------------------------------------------------------------------------------------------------

    def _standing(
        self, left: int, before: Mapping[int, int], weights: Floats, members: list[int], raised: Raised
    ) -> Standing:
        """A group that showed `before` with these weights, which are written into, and more people."""
        shown = dict(before)
        leaf_node, aside = self._hierarchy.leaf_node, 0
        for unit in members:
            exceptions = raised.get(unit)
            for leaf in self._pool.sets[unit]:
                node = leaf_node[leaf] if exceptions is None else exceptions.get(leaf, leaf_node[leaf])
                shown[node] = shown.get(node, 0) + 1
                if node in self._aside:
                    aside += 1
                elif node == leaf_node[leaf]:
                    weights[leaf] += 1
                else:
                    first, last = self._hierarchy.first[node], self._hierarchy.last[node]
                    weights[first:last] += 1 / (last - first)
        return Standing(left + len(members) - aside, shown, weights)

    def _breaks_any(
        self, units: Iterable[int], means: Means, looked_at: Rows, group: Standing, share: float
    ) -> int | None:
        """The first leaf of `looked_at` that breaks somebody's promise in a group that stands so, or None.

        Also one for which there is less than that share of the ratio that the strategy asks for.
        """
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
        """Whether one leaf breaks the promise of somebody without a guard, exactly."""
        weight, run = weight_of(group.shown.items(), self._hierarchy, leaf, leaf + 1, self._aside), (leaf, leaf + 1)
        if weight * Fraction(self._policy.l) > group.people:
            return True  # for anybody; having paid before never makes it easier
        for unit in units:
            if self._pool.guards[unit] is None and self._has_paid(unit):
                paid = self._paid_by([unit])
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
        account = self._guarded_account(unit)
        bound = self._bound if guard.bound is None else Fraction(guard.bound)
        is_over = share > 0 and (
            share * required_ratio(self._policy.strategy, float(1 / bound), *account) * float(weight)
            > group.people * (1 + ROUNDING)
        )
        if not is_over:
            exposures = self._pool.exposures(unit)
            is_over = not self._ledger.can_afford(exposures, run, account.survival, weight, group.people, bound)
        return int(inside[0]) if is_over else None

    def _paid_by(self, units: list[int]) -> _Paid:
        """The accounts of these units. Where few are asked for, the others are never worked out."""
        bounds = self._pool.exposure_bounds
        self._lookups -= 1
        if self._lookups >= 0:
            begins, sizes = _runs(units, bounds)
            exposed_to = self._pool.exposed_to[each_between(begins, sizes)]
            paid = self._ledger.accounts(np.arange(len(units)).repeat(sizes), exposed_to)
            return _Paid(paid.leaf, paid.survival, self._ratios(paid))
        paid, bounds, ratio = self._everybody
        if len(units) == 1:
            mine = slice(bounds[units[0]], bounds[units[0] + 1])
            return _Paid(paid.leaf[mine], paid.survival[mine], ratio[mine])
        at = each_between(*_runs(units, bounds))
        return _Paid(paid.leaf[at], paid.survival[at], ratio[at])

    @cached_property
    def _everybody(self) -> tuple[Accounts, Rows, Floats]:
        """All accounts, where each unit's begin, and what the strategy asks for; from now on nobody is looked up."""
        self._lookups = 0
        paid = self._ledger.accounts(self._pool.exposed, self._pool.exposed_to)
        return paid, np.searchsorted(paid.person, np.arange(len(self._pool) + 1)), self._ratios(paid)

    def _ratios(self, paid: Accounts) -> Floats:
        asked = required_ratios(self._policy.strategy, self._policy.l, paid.survival, paid.exposures)
        return np.minimum(asked, UNPAYABLE)

    @cached_property
    def _spent(self) -> frozenset[int]:
        """Units to whom something cannot be shown any more."""
        paid, _, ratio = self._everybody
        return frozenset(paid.person[ratio >= UNPAYABLE].tolist())

    def _is_plain(self, unit: int) -> bool:
        """Whether only what is covered can be "*": no guard, no budget spent, nobody else's publication."""
        return self._pool.guards[unit] is None and unit not in self._spent and unit not in self._pool.barred

    def _has_paid(self, unit: int) -> bool:
        bounds = self._pool.exposure_bounds
        return bool(bounds[unit] < bounds[unit + 1])

    def _guarded_account(self, unit: int) -> Account:
        """The account of a unit for all the leaves under its guard."""
        account = self._guarded.get(unit)
        if account is None:
            guard = self._pool.guards[unit]
            assert guard is not None
            run = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
            account = self._guarded[unit] = self._ledger.account_of(self._pool.exposures(unit), *run)
        return account

    def _claim(self, unit: int, is_hard: bool) -> Claim:
        kept = self._claims.get((unit, is_hard))
        if kept is None:
            kept = _barred(self._work_out(unit, is_hard), self._pool.barred.get(unit, ()))
            self._claims[unit, is_hard] = kept
        return kept

    def _work_out(self, unit: int, is_hard: bool) -> Claim:
        guard, policy = self._pool.guards[unit], self._policy
        covers = self._pool.covers.get(unit, {})  # "*" whatever the ledger says
        permanent = sum(leaf in self.permanent and leaf not in covers for leaf in self._pool.sets[unit])
        values = tuple(leaf for leaf in self._pool.sets[unit] if leaf not in self.permanent)
        base = hard_minimum(policy.l, 1.0) if is_hard else self.target_base
        protected = tuple(leaf for leaf in values if leaf not in self._open)
        if guard is None:
            ratio: dict[int, float] = {}
            if self._has_paid(unit):
                paid = self._paid_by([unit])
                asked = hard_minima(policy.l, paid.survival) if is_hard else paid.ratio
                is_more = asked > base
                ratio = dict(zip(paid.leaf[is_more].tolist(), asked[is_more].tolist(), strict=True))
            starred = {leaf: 0 for leaf in protected if ratio.get(leaf, 0.0) >= UNPAYABLE} | covers
            shown = tuple(leaf for leaf in values if leaf not in starred)
            alone = max((ratio.get(leaf, base) for leaf in protected if leaf not in starred), default=0.0)
            return Claim(shown, starred, protected, base, ratio, (), False, alone, permanent)
        if guard.node == EMPTY:
            shown = tuple(leaf for leaf in values if leaf not in covers)
            return Claim(shown, dict(covers), protected, base, {}, (), True, 0.0, permanent)
        first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
        l, account = policy.l if guard.bound is None else 1 / guard.bound, self._guarded_account(unit)
        least = hard_minimum(l, account.survival) if is_hard else required_ratio(policy.strategy, l, *account)
        inside = tuple(leaf for leaf in values if first <= leaf < last)
        starred = (dict.fromkeys(inside, 0) if math.isinf(least) else {}) | covers
        shown = tuple(leaf for leaf in values if leaf not in starred)
        alone = least * len(inside) if set(inside) <= set(shown) and inside else 0.0
        hidden = tuple(dict.fromkeys((*protected, *inside)))
        return Claim(shown, starred, hidden, base, {}, ((first, last, least),), True, alone, permanent)


def _runs(units: list[int], bounds: Rows) -> tuple[Rows, Rows]:
    """Where the runs of these units begin, and how long they are."""
    begins = bounds[units]
    return begins, bounds[[unit + 1 for unit in units]] - begins


def _barred(claim: Claim, barred: Sequence[int]) -> Claim:
    """The same claim where some values may only be shown as "*", because of what others have published (G5)."""
    if not barred:
        return claim
    return replace(
        claim,
        shown=tuple(leaf for leaf in claim.shown if leaf not in barred),
        starred={**claim.starred, **dict.fromkeys(barred, 0)},
        hidden=tuple(dict.fromkeys((*claim.hidden, *barred))),
    )
