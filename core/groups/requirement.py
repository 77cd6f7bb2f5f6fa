"""Requirements: what one person's promise asks of the group they are put into, in floats, for the search.

Without a guard the promise is about each protected value (docs/design.md, "G2 Global"), with a guard about all leaves
under its node together ("G4 Personal"), with the empty guard about nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.core.events.guard import EMPTY
from shoal.core.groups.accounts import PoolAccounts
from shoal.core.groups.pool import Pool
from shoal.core.groups.tuning import UNREACHABLE
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import hard_minima, hard_minimum, required_ratio


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a unit asks of a group: ratios beyond the base, by leaf, or the ratio of its guard."""

    shown: tuple[int, ...]  # the values it can be published with, as they are
    starred: Mapping[int, int]  # values that can only be "*", because nobody may link the unit to them any more
    hidden: tuple[int, ...]  # values to suppress where no group can be found
    base: float
    ratio: Mapping[int, float] = field(default_factory=dict)
    guards: tuple[tuple[int, int, float], ...] = ()  # leaves [first, last) and the ratio for them
    is_guarded: bool = False
    alone: float = 0.0  # the size it needs in a group that shows no other values
    permanent: int = 0  # how many permanent values it shows

    @property
    def aside(self) -> int:
        """How many of its values are set aside in n(G)."""
        return len(self.starred) + self.permanent


class Requirements:
    """The requirements of a pool's units, each worked out when it is first asked for."""

    def __init__(self, pool: Pool, accounts: PoolAccounts, policy: Policy) -> None:
        self._pool, self._accounts, self._policy = pool, accounts, policy
        self._hierarchy = policy.sensitive.hierarchy
        self._open, self._permanent = policy.sensitive.open, policy.sensitive.permanent
        self._known: dict[tuple[int, bool], Requirement] = {}

    def target(self, unit: int) -> Requirement:
        """What the strategy asks for."""
        return self._look_up(unit, is_hard=False)

    def hard(self, unit: int) -> Requirement:
        """The least that keeps the promise."""
        return self._look_up(unit, is_hard=True)

    def starred(self, unit: int) -> Mapping[int, int]:
        """The values of a unit that can only be "*". For most units this costs no look at an account."""
        if self._is_plain(unit):
            return self._pool.covers.get(unit, {})
        return self.target(unit).starred

    def can_be_alone(self, unit: int) -> bool:
        """Whether a unit may be a group by itself: it shows no protected value except as "*"."""
        if not self._is_plain(unit):
            return not self.target(unit).alone
        covers = self._pool.covers.get(unit, {})
        return all(leaf in self._open or leaf in self._permanent or leaf in covers for leaf in self._pool.sets[unit])

    # -- parts --------------------------------------------------------------------------------------------------

    def _is_plain(self, unit: int) -> bool:
        """Whether only covered values are "*": no guard, no value spent, no value barred by another publisher."""
        return self._pool.guards[unit] is None and unit not in self._accounts.spent and unit not in self._pool.barred

    def _look_up(self, unit: int, is_hard: bool) -> Requirement:
        known = self._known.get((unit, is_hard))
        if known is None:
            known = with_barred(self._work_out(unit, is_hard), self._pool.barred.get(unit, ()))
            self._known[unit, is_hard] = known
        return known

    def _work_out(self, unit: int, is_hard: bool) -> Requirement:
        guard, policy = self._pool.guards[unit], self._policy
        covers = self._pool.covers.get(unit, {})  # "*" whatever the ledger says
        permanent = sum(leaf in self._permanent and leaf not in covers for leaf in self._pool.sets[unit])
        values = tuple(leaf for leaf in self._pool.sets[unit] if leaf not in self._permanent)
        base = hard_minimum(policy.l, 1.0) if is_hard else self._accounts.target_base
        protected = tuple(leaf for leaf in values if leaf not in self._open)
        if guard is None:
            ratio = self._ratios_beyond(base, unit, is_hard)
            starred = {leaf: 0 for leaf in protected if ratio.get(leaf, 0.0) >= UNREACHABLE} | covers
            shown = tuple(leaf for leaf in values if leaf not in starred)
            alone = max((ratio.get(leaf, base) for leaf in protected if leaf not in starred), default=0.0)
            return Requirement(shown, starred, protected, base, ratio, alone=alone, permanent=permanent)
        if guard.node == EMPTY:
            shown = tuple(leaf for leaf in values if leaf not in covers)
            return Requirement(shown, dict(covers), protected, base, is_guarded=True, permanent=permanent)
        first, last = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
        l, account = policy.l if guard.bound is None else 1 / guard.bound, self._accounts.guarded(unit)
        least = hard_minimum(l, account.survival) if is_hard else required_ratio(policy.strategy, l, *account)
        inside = tuple(leaf for leaf in values if first <= leaf < last)
        starred = (dict.fromkeys(inside, 0) if math.isinf(least) else {}) | covers
        shown = tuple(leaf for leaf in values if leaf not in starred)
        alone = least * len(inside) if set(inside) <= set(shown) and inside else 0.0
        hidden = tuple(dict.fromkeys((*protected, *inside)))
        guards = ((first, last, least),)
        return Requirement(
            shown, starred, hidden, base, guards=guards, is_guarded=True, alone=alone, permanent=permanent
        )

    def _ratios_beyond(self, base: float, unit: int, is_hard: bool) -> dict[int, float]:
        """By leaf, the ratios of an unguarded unit that are larger than the base."""
        if not self._accounts.has_paid(unit):
            return {}
        paid = self._accounts.paid_by([unit])
        asked = hard_minima(self._policy.l, paid.survival) if is_hard else paid.ratio
        is_more = asked > base
        return dict(zip(paid.leaf[is_more].tolist(), asked[is_more].tolist(), strict=True))


def with_barred(requirement: Requirement, barred: Sequence[int]) -> Requirement:
    """A requirement where some values may only be shown as "*", because of what others have published (G5)."""
    if not barred:
        return requirement
    return replace(
        requirement,
        shown=tuple(leaf for leaf in requirement.shown if leaf not in barred),
        starred={**requirement.starred, **dict.fromkeys(barred, 0)},
        hidden=tuple(dict.fromkeys((*requirement.hidden, *barred))),
    )
