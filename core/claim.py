"""Claims: what one person's promise asks of the group they are put into, and whether a group keeps it, exactly.

Without a guard the promise is about each protected value (G2), with a guard about all leaves under its node together
(G4), with the empty guard about nothing. Either way: survival so far, times (1 - w/n), stays at or above 1 - bound.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from core.guard import EMPTY
from core.ledger import UNTOUCHED, Account, Ledger, effective_people, weights
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


class Claims:
    """The claims of a pool's units, worked out as they are asked for."""

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy) -> None:
        self._pool, self._ledger, self._policy = pool, ledger, policy
        self._hierarchy, self._open = policy.sensitive.hierarchy, policy.sensitive.open
        self._bound = 1 / Fraction(policy.l)
        self.target_base = required_ratio(policy.strategy, policy.l, 1.0, 0)
        self._accounts: dict[int, dict[int, Account]] = {}
        self._claims: dict[tuple[int, bool], Claim] = {}

    def target(self, unit: int) -> Claim:
        """What the strategy asks for."""
        return self._claim(unit, is_hard=False)

    def hard(self, unit: int) -> Claim:
        """What the promise cannot do without."""
        return self._claim(unit, is_hard=True)

    def wrong(self, members: list[int], raised: Raised) -> int | None:
        """A leaf whose showing breaks the promise of one of these people, None if all are kept; exact."""
        pairs = list(self._shown(members, raised).items())
        people = effective_people(len(members), pairs)
        found = weights(pairs, self._hierarchy)
        broken = (self._breaks(unit, found, found, people, is_planned=False) for unit in members)
        return next((leaf for leaf in broken if leaf is not None), None)

    def wrong_with(
        self, members: list[int], newcomer: int, before: Raised, after: Raised, is_planned: bool
    ) -> int | None:
        """The same for a group that is content with values raised as `before`, and a newcomer, then raised as `after`.

        Only what the newcomer makes worse is looked at. There members are also held to the strategy's target, so that
        nobody pays more for somebody else's joining than planned, and so is the newcomer if `is_planned`. An offending
        leaf of the newcomer's own comes first.
        """
        pairs = list(self._shown([*members, newcomer], after).items())
        people = effective_people(len(members) + 1, pairs)
        found = weights(pairs, self._hierarchy)
        own = {leaf for node in after.get(newcomer, {}).values() for leaf in self._under(node)}
        own.update(self._pool.sets[newcomer])
        pairs = list(self._shown(members, before).items())
        fewer, less = effective_people(len(members), pairs), weights(pairs, self._hierarchy)
        worse = {leaf: weight for leaf, weight in found.items() if weight * fewer > less.get(leaf, 0) * people}
        worst = self._breaks(newcomer, found, found, people, is_planned)
        for unit in members if worst is None or worst not in own else ():
            leaf = self._breaks(unit, worse, found, people, is_planned=True)
            if leaf is not None:
                return leaf
        return worst

    def largest_breach(self, members: list[int], raised: Raised) -> float:
        """The largest breach(o, s) of the unguarded people of a group once it is charged."""
        pairs = list(self._shown(members, raised).items())
        people = effective_people(len(members), pairs)
        shares = [
            (leaf, min(1.0, float(weight / people)))
            for leaf, weight in weights(pairs, self._hierarchy).items()
            if leaf not in self._open
        ]
        largest = 0.0
        for unit in members if shares else ():
            if self._pool.guards[unit] is None:
                accounts = self._accounts_of(unit)
                for leaf, share in shares:
                    survival = accounts.get(leaf, UNTOUCHED).survival
                    largest = max(largest, 1.0 - survival * (1.0 - share))
        return min(largest, float(self._bound))

    # -- parts --------------------------------------------------------------------------------------------------

    def _under(self, node: int) -> range:
        return range(self._hierarchy.first[node], self._hierarchy.last[node]) if node else range(0)

    def _shown(self, members: Iterable[int], raised: Raised) -> dict[int, int]:
        shown: dict[int, int] = {}
        leaf_node = self._hierarchy.leaf_node
        for unit in members:
            exceptions = raised.get(unit)
            for leaf in self._pool.sets[unit]:
                node = leaf_node[leaf] if exceptions is None else exceptions.get(leaf, leaf_node[leaf])
                shown[node] = shown.get(node, 0) + 1
        return shown

    def _breaks(
        self, unit: int, looked_at: Mapping[int, Fraction], found: Mapping[int, Fraction], people: int, is_planned: bool
    ) -> int | None:
        """The first leaf of `looked_at` that breaks this unit's promise in a group with these weights, or None."""
        guard = self._pool.guards[unit]
        if guard is not None:
            if guard.node == EMPTY:
                return None
            first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
            inside = [leaf for leaf in looked_at if first <= leaf < last]
            if not inside:
                return None
            weight = sum((found[leaf] for leaf in found if first <= leaf < last), Fraction(0))
            exposures = self._pool.exposures(unit)
            account = self._ledger.account_of(exposures, first, last)
            bound = self._bound if guard.bound is None else Fraction(guard.bound)
            share = min(Fraction(1), weight / people)
            ratio = required_ratio(self._policy.strategy, float(1 / bound), *account) if is_planned else 0.0
            is_affordable = self._ledger.can_afford(exposures, (first, last), account.survival, share, bound)
            return None if is_affordable and ratio * float(weight) <= people * (1 + 1e-12) else inside[0]
        accounts = self._accounts_of(unit)
        for leaf, weight in looked_at.items():
            if leaf in self._open:
                continue
            account = accounts.get(leaf, UNTOUCHED)
            share = min(Fraction(1), weight / people)
            if is_planned:
                ratio = required_ratio(self._policy.strategy, self._policy.l, *account)
                if ratio * float(weight) > people * (1 + 1e-12):
                    return leaf
            exposures = self._pool.exposures(unit) if account.exposures else []
            if not self._ledger.can_afford(exposures, (leaf, leaf + 1), account.survival, share, self._bound):
                return leaf
        return None

    def _accounts_of(self, unit: int) -> dict[int, Account]:
        accounts = self._accounts.get(unit)
        if accounts is None:
            accounts = self._accounts[unit] = self._ledger.accounts(self._pool.exposures(unit))
        return accounts

    def _claim(self, unit: int, is_hard: bool) -> Claim:
        kept = self._claims.get((unit, is_hard))
        if kept is None:
            kept = self._claims[unit, is_hard] = self._work_out(unit, is_hard)
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
