"""Claims: what one person's promise asks of the group they are put into, and whether a group keeps it, exactly.

Without a guard the promise is about each protected value (G2), with a guard about all leaves under its node together
(G4), with the empty guard about nothing. Either way: survival so far, times (1 - w/n), stays at or above 1 - bound.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from core.guard import EMPTY
from core.ledger import UNTOUCHED, Account, Ledger, Weight, weights
from core.policy import Policy
from core.pool import Pool
from core.strategy import hard_minimum, required_ratio

Raised = Mapping[int, Mapping[int, int]]  # unit -> leaf -> the node it is shown as


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

    @property
    def stars(self) -> int:
        return len(self.starred)


class Standing(NamedTuple):
    """How a group stands: its people less the "*" it shows, and w(s, G) of every leaf it may show."""

    left: int
    weights: Mapping[int, Weight]

    @property
    def people(self) -> int:
        """n(G)."""
        return max(1, self.left)


class Claims:
    """The claims of a pool's units, worked out as they are asked for."""

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy) -> None:
        self._pool, self._ledger, self._policy = pool, ledger, policy
        self._hierarchy, self._open = policy.sensitive.hierarchy, policy.sensitive.open
        self.leaves, self.permanent = len(self._hierarchy.leaves), sorted(policy.sensitive.permanent)
        self._l: Weight = int(policy.l) if policy.l == int(policy.l) else Fraction(policy.l)
        self._bound = 1 / Fraction(policy.l)
        self.target_base = required_ratio(policy.strategy, policy.l, 1.0, 0)
        self._has_paid = np.zeros(len(pool), dtype=bool)
        self._has_paid[pool.exposed] = True
        self._accounts: dict[int, dict[int, Account]] = {}
        self._claims: dict[tuple[int, bool], Claim] = {}

    def target(self, unit: int) -> Claim:
        """What the strategy asks for."""
        return self._claim(unit, is_hard=False)

    def hard(self, unit: int) -> Claim:
        """What the promise cannot do without."""
        return self._claim(unit, is_hard=True)

    def standing(self, members: list[int], raised: Raised) -> Standing:
        """What a group of these people shows, with values raised so."""
        shown = self._shown(members, raised)
        return Standing(len(members) - shown.get(0, 0), weights(shown.items(), self._hierarchy))

    def standing_with(self, before: Standing, newcomer: int, raised: Raised) -> Standing:
        """The same with one more person, where nobody else's values are raised for it."""
        shown = self._shown([newcomer], raised)
        found = dict(before.weights)
        for leaf, weight in weights(shown.items(), self._hierarchy).items():
            found[leaf] = found.get(leaf, 0) + weight
        return Standing(before.left + 1 - shown.get(0, 0), found)

    def wrong(self, members: list[int], raised: Raised) -> int | None:
        """A leaf whose showing breaks the promise of one of these people, None if all are kept; exact."""
        return self.wrong_in(members, self.standing(members, raised), is_planned=False)

    def wrong_in(self, members: Sequence[int], group: Standing, is_planned: bool) -> int | None:
        """The same for a group that shows more than its people do; also held to the strategy's target if planned."""
        return self._breaks_any(members, group.weights, group, is_planned)

    def wrong_with(
        self, members: list[int], newcomer: int, before: Standing, after: Standing, is_planned: bool
    ) -> int | None:
        """The same for people who are content with how their group stood before a newcomer.

        Only what the newcomer makes worse is looked at. There members are also held to the strategy's target, so that
        nobody pays more for somebody else's joining than planned, and so is the newcomer if `is_planned`. An offending
        leaf that the newcomer made worse comes first.
        """
        had, people = before.weights, before.people
        worse = {leaf: w for leaf, w in after.weights.items() if w * people > had.get(leaf, 0) * after.people}
        leaf = self._breaks_any([newcomer], worse, after, is_planned)
        if leaf is None:
            leaf = self._breaks_any(members, worse, after, is_planned=True)
        if leaf is None:
            leaf = self._breaks_any([newcomer], after.weights, after, is_planned)
        return leaf

    def largest_breach(self, members: list[int], raised: Raised) -> float:
        """The largest breach(o, s) of the unguarded people of a group once it is charged."""
        return self.breach_in(members, self.standing(members, raised))

    def breach_in(self, members: Sequence[int], group: Standing) -> float:
        """The same for a group that shows more than its people do."""
        found = group.weights.items()
        shares = [(leaf, min(1.0, float(w) / group.people)) for leaf, w in found if leaf not in self._open]
        largest = 0.0
        for unit in members if shares else ():
            if self._pool.guards[unit] is None:
                if not self._has_paid[unit]:
                    largest = max(largest, *(share for _, share in shares))
                    continue
                accounts = self._accounts_of(unit)
                for leaf, share in shares:
                    survival = accounts.get(leaf, UNTOUCHED).survival
                    largest = max(largest, 1.0 - survival * (1.0 - share))
        return min(largest, float(self._bound))

    # -- parts --------------------------------------------------------------------------------------------------

    def _shown(self, members: Iterable[int], raised: Raised) -> dict[int, int]:
        shown: dict[int, int] = {}
        leaf_node = self._hierarchy.leaf_node
        for unit in members:
            exceptions = raised.get(unit)
            for leaf in self._pool.sets[unit]:
                node = leaf_node[leaf] if exceptions is None else exceptions.get(leaf, leaf_node[leaf])
                shown[node] = shown.get(node, 0) + 1
        return shown

    def _breaks_any(
        self, units: Iterable[int], looked_at: Mapping[int, Weight], group: Standing, is_planned: bool
    ) -> int | None:
        """The first leaf of `looked_at` that breaks somebody's promise in a group that stands so, or None."""
        protected = {leaf: weight for leaf, weight in looked_at.items() if leaf not in self._open}
        fresh = self._breaks_fresh(protected, group.people, is_planned)
        for unit in units:
            leaf: int | None = None
            if self._pool.guards[unit] is not None:
                leaf = self._breaks_guard(unit, looked_at, group, is_planned)
            elif fresh is not None:
                return fresh  # having paid before never makes it easier
            elif self._has_paid[unit]:
                leaf = self._breaks_account(unit, protected, group.people, is_planned)
            if leaf is not None:
                return leaf
        return None

    def _breaks_fresh(self, protected: Mapping[int, Weight], people: int, is_planned: bool) -> int | None:
        """The same for anybody without a guard who has paid nothing yet: w/n <= 1/l, which is exact."""
        limit = self.target_base / (1 + 1e-12) if is_planned else 0.0
        for leaf, weight in protected.items():
            if weight * limit > people or weight * self._l > people:
                return leaf
        return None

    def _breaks_account(self, unit: int, protected: Mapping[int, Weight], people: int, is_planned: bool) -> int | None:
        accounts = self._accounts_of(unit)
        for leaf in protected.keys() & accounts.keys():
            exposures, run = self._pool.exposures(unit), (leaf, leaf + 1)
            if self._is_over(accounts[leaf], exposures, run, protected[leaf], people, self._bound, is_planned):
                return leaf
        return None

    def _breaks_guard(
        self, unit: int, looked_at: Mapping[int, Weight], group: Standing, is_planned: bool
    ) -> int | None:
        guard = self._pool.guards[unit]
        assert guard is not None
        if guard.node == EMPTY:
            return None
        run = first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
        inside = [leaf for leaf in looked_at if first <= leaf < last]
        if not inside:
            return None
        weight = sum((w for leaf, w in group.weights.items() if first <= leaf < last), Fraction(0))
        exposures = self._pool.exposures(unit)
        account = self._ledger.account_of(exposures, first, last)
        bound = self._bound if guard.bound is None else Fraction(guard.bound)
        is_over = self._is_over(account, exposures, run, weight, group.people, bound, is_planned)
        return inside[0] if is_over else None

    def _is_over(
        self,
        account: Account,
        exposures: Sequence[int],
        leaves: tuple[int, int],
        weight: Weight,
        people: int,
        bound: Fraction,
        is_planned: bool,
    ) -> bool:
        """Whether one more exposure breaks a bound, or, if planned, asks for more than the strategy would give."""
        if is_planned:
            ratio = required_ratio(self._policy.strategy, float(1 / bound), *account)
            if ratio * float(weight) > people * (1 + 1e-12):
                return True
        return not self._ledger.can_afford(exposures, leaves, account.survival, weight, people, bound)

    def _accounts_of(self, unit: int) -> dict[int, Account]:
        accounts = self._accounts.get(unit)
        if accounts is None:
            accounts = self._accounts[unit] = self._ledger.accounts(self._pool.exposures(unit))
        return accounts

    def _claim(self, unit: int, is_hard: bool) -> Claim:
        kept = self._claims.get((unit, is_hard))
        if kept is None:
            kept = _barred(self._work_out(unit, is_hard), self._pool.barred.get(unit, ()))
            self._claims[unit, is_hard] = kept
        return kept

    def _ratio(self, l: float, account: Account, is_hard: bool) -> float:
        if is_hard:
            return hard_minimum(l, account.survival)
        return required_ratio(self._policy.strategy, l, *account)

    def _work_out(self, unit: int, is_hard: bool) -> Claim:
        values, guard, policy = self._pool.sets[unit], self._pool.guards[unit], self._policy
        base = self._ratio(policy.l, UNTOUCHED, is_hard)
        protected = tuple(leaf for leaf in values if leaf not in self._open)
        if guard is None:
            ratio = {}
            for leaf, account in self._accounts_of(unit).items():
                asked = self._ratio(policy.l, account, is_hard)
                if asked > base:
                    ratio[leaf] = asked
            starred = {leaf: 0 for leaf in protected if math.isinf(ratio.get(leaf, 0.0))}
            shown = tuple(leaf for leaf in values if leaf not in starred)
            alone = max((ratio.get(leaf, base) for leaf in protected if leaf not in starred), default=0.0)
            return Claim(shown, starred, protected, base, ratio, (), False, alone)
        if guard.node == EMPTY:
            return Claim(values, {}, protected, base, {}, (), True, 0.0)
        first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
        bound = 1 / policy.l if guard.bound is None else guard.bound
        asked = self._ratio(1 / bound, self._ledger.account_of(self._pool.exposures(unit), first, last), is_hard)
        inside = tuple(leaf for leaf in values if first <= leaf < last)
        starred = dict.fromkeys(inside, 0) if math.isinf(asked) else {}
        shown = tuple(leaf for leaf in values if leaf not in starred)
        alone = 0.0 if starred else asked * len(inside)
        hidden = tuple(dict.fromkeys((*protected, *inside)))
        return Claim(shown, starred, hidden, base, {}, ((first, last, asked),), True, alone)


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
