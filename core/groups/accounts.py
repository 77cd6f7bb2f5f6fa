"""The accounts of a pool: what its units have paid so far, and what a group of them can still afford together.

People without a guard are looked at together: by leaf, the smallest survival among them and the largest ratio asked for
stand for all of them (`Means`), so that a check costs a few passes over the leaves, however many people there are.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.events.guard import EMPTY
from shoal.core.groups.ledger import Account, Accounts, Ledger
from shoal.core.groups.pool import Pool
from shoal.core.groups.tuning import EXPOSURES_PER_LOOKUP, UNREACHABLE
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Floats, required_ratio, required_ratios
from shoal.core.runs import each_between


class Means(NamedTuple):
    """What people can afford together: by leaf, smallest survival and largest ratio of those without a guard."""

    survival: Floats
    ratio: Floats
    has_unguarded: bool
    guarded: list[int]

    def joined_by(self, other: "Means") -> "Means":
        """What they can afford together with more people."""
        guarded = [*self.guarded, *other.guarded]
        if not (self.has_unguarded and other.has_unguarded):
            either = other if other.has_unguarded else self
            return Means(either.survival, either.ratio, either.has_unguarded, guarded)
        survival, ratio = np.minimum(self.survival, other.survival), np.maximum(self.ratio, other.ratio)
        return Means(survival, ratio, True, guarded)


class Paid(NamedTuple):
    """The protected leaves that people have paid for, the survival of each, and the ratio the strategy asks for."""

    leaf: Rows
    survival: Floats
    ratio: Floats


class PoolAccounts:
    """The accounts of a pool's units. While few are asked for, the others are never worked out."""

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy) -> None:
        self._pool, self._ledger, self._policy = pool, ledger, policy
        self._hierarchy = policy.sensitive.hierarchy
        self.target_base = required_ratio(policy.strategy, policy.l, 1.0, 0)
        leaves = len(self._hierarchy.leaves)
        self._unspent, self._least = np.ones(leaves), np.full(leaves, self.target_base)
        self._lookups = len(pool.exposed) // EXPOSURES_PER_LOOKUP  # before everybody's account is worked out
        self._guarded: dict[int, Account] = {}

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
        leaf, survival, ratio = self.paid_by(unguarded)
        np.minimum.at(lowest, leaf, survival)
        np.maximum.at(largest, leaf, ratio)
        return Means(lowest, largest, bool(unguarded), guarded)

    def paid_by(self, units: list[int]) -> Paid:
        """What these units have paid for, one unit after the other."""
        bounds = self._pool.exposure_bounds
        self._lookups -= 1
        if self._lookups >= 0:
            begins, sizes = _runs(units, bounds)
            exposed_to = self._pool.exposed_to[each_between(begins, sizes)]
            paid = self._ledger.accounts(np.arange(len(units)).repeat(sizes), exposed_to)
            return Paid(paid.leaf, paid.survival, self._ratios(paid))
        paid, bounds, ratio = self._everybody
        if len(units) == 1:
            mine = slice(bounds[units[0]], bounds[units[0] + 1])
            return Paid(paid.leaf[mine], paid.survival[mine], ratio[mine])
        at = each_between(*_runs(units, bounds))
        return Paid(paid.leaf[at], paid.survival[at], ratio[at])

    def has_paid(self, unit: int) -> bool:
        """Whether a unit was ever published."""
        bounds = self._pool.exposure_bounds
        return bool(bounds[unit] < bounds[unit + 1])

    def guarded(self, unit: int) -> Account:
        """The account of a unit for all the leaves under its guard."""
        account = self._guarded.get(unit)
        if account is None:
            guard = self._pool.guards[unit]
            assert guard is not None
            run = self._hierarchy.first[guard.node], self._hierarchy.last[guard.node]
            account = self._guarded[unit] = self._ledger.account_of(self._pool.exposures(unit), *run)
        return account

    @cached_property
    def spent(self) -> frozenset[int]:
        """Units to whom some value can never be shown again."""
        paid, _, ratio = self._everybody
        return frozenset(paid.person[ratio >= UNREACHABLE].tolist())

    @cached_property
    def _everybody(self) -> tuple[Accounts, Rows, Floats]:
        """All accounts, where each unit's begin, and the ratios asked for; from now on single lookups end."""
        self._lookups = 0
        paid = self._ledger.accounts(self._pool.exposed, self._pool.exposed_to)
        return paid, np.searchsorted(paid.person, np.arange(len(self._pool) + 1)), self._ratios(paid)

    def _ratios(self, paid: Accounts) -> Floats:
        asked = required_ratios(self._policy.strategy, self._policy.l, paid.survival, paid.exposures)
        return np.minimum(asked, UNREACHABLE)


def _runs(units: list[int], bounds: Rows) -> tuple[Rows, Rows]:
    """Where the runs of these units begin, and how long they are."""
    begins = bounds[units]
    return begins, bounds[[unit + 1 for unit in units]] - begins
