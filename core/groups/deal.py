"""Most of the pool at once: groups laid out by round-robin, then checked against everybody's account (Anatomy's trick).

People stand in the tree's order. Those who show protected values are cut into blocks of neighbours, and each block's
people are dealt, value after value, to its groups like cards, so that equal values land in different groups. Then every
(person, value) that a group would expose is checked against that person's ledger, all at once; people who cannot afford
their place are taken out and left to the careful steps of `formation.py`. Nothing here is exact: a place that passes
does so with a margin, and the others are decided there.

How large. The strategy's ratio is the least size. A person in a group of n pays 1/n each time it is formed, and it is
formed anew whenever one of n people changes; with a share c changing per release the price is (1 - (1-c)^n)/n per
release, which falls as n grows. People with open values only pay nothing. So where few people are protected, their
groups are made larger (up to LARGEST_GROWTH times the ratio, half filled with neighbours whose values are open) and the
others' smaller, and the average group is no larger than without this.

As a budget is spent, the group grows in proportion to its hard minimum (as in Wong's geometric strategy, but only where
there is room), so that each formation takes about the same share of what is left and no budget runs out. One person who
has little left must not make everybody's group large, so people are dealt in bands, each of groups twice as large as
the last; the few people of a late band get as many open neighbours as it takes, up to FILLERS for each of them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Pool
from shoal.core.groups.tuning import (
    DOUBLINGS,
    FILLERS,
    GROUPS_PER_BLOCK,
    LARGEST_GROWTH,
    LEAST_GROWTH,
    NEAR,
    ROUNDING,
    ROUNDS,
    SLACKS,
    SPENT_GROWTH,
    TOLERATED_ALONE,
)
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Floats, hard_minima, required_ratio, required_ratios
from shoal.core.runs import each_between

ALONE = -1


@dataclass
class Dealt:
    """Each unit's group, numbered from 0, ALONE where it found none; and by group the largest breach in it."""

    group: Rows
    breach: Floats


def deal(
    pool: Pool, ledger: Ledger, policy: Policy, is_left_out: NDArray[np.bool_], breach_so_far: float = 0.0
) -> Dealt:
    """Deal the pool, but for some units, into groups that everybody in them can afford.

    Breaches that cannot be over `breach_so_far` are not worked out.
    """
    base = required_ratio(policy.strategy, policy.l, 1.0, 0)
    has_protected = np.zeros(len(pool), dtype=bool)
    has_protected[pool.owner[pool.is_protected]] = True
    protected, open_only = np.flatnonzero(has_protected & ~is_left_out), np.flatnonzero(~has_protected & ~is_left_out)
    check = _Check(pool, ledger, policy, base, breach_so_far)
    growth = check.growth()
    best: Dealt | None = None
    for slack in SLACKS:
        group = _deal(pool, base * slack, protected, open_only, growth)
        breach = check.take_out_offenders(group)
        if best is None or (group == ALONE).sum() < (best.group == ALONE).sum():
            best = Dealt(group, breach)
        if (group[protected] == ALONE).sum() <= len(protected) // TOLERATED_ALONE:
            break
    assert best is not None
    group = best.group
    kept, group[group != ALONE] = np.unique(group[group != ALONE], return_inverse=True)
    return Dealt(group, best.breach[kept])


def _deal(pool: Pool, base: float, protected: Rows, open_only: Rows, growth: Floats) -> Rows:
    """Tentative groups. Of the accounts they take only the growth into account."""
    group = np.full(len(pool), ALONE, dtype=np.int64)
    least = math.ceil(base * (1 - ROUNDING))
    room = 1 / (2 * max(pool.protected_share, 1e-9))
    size = math.ceil(least * min(LARGEST_GROWTH, max(1.0, room)))
    waiting = _without_excess(pool, base, protected, len(open_only))
    wished = np.log2(np.maximum(1.0, growth * min(1.0, room / LARGEST_GROWTH)))
    first_leaf, rest, groups = _first_leaf(pool), open_only, 0
    for band in range(DOUBLINGS, -1, -1):
        is_mine = wished[waiting] >= band - 0.5
        mine, large = waiting[is_mine], size << band
        if not mine.size:
            continue
        fillers = len(mine)
        if band:  # enough for the most frequent value to be once in a group
            most = max(-(-2 * len(mine) // large), int(np.bincount(first_leaf[mine]).max()))
            fillers = min(most * large - len(mine), FILLERS * len(mine))
        fillers = min(fillers, len(rest))
        if len(mine) + fillers < least << band:
            continue  # too few units: they wait for the next band
        made = max(1, (len(mine) + fillers) // large)
        _round_robin(first_leaf, mine, groups, made, group)
        is_filler = np.zeros(len(rest), dtype=bool)
        is_filler[np.arange(fillers) * len(rest) // max(1, fillers)] = True
        group[rest[is_filler]] = groups + np.arange(fillers) * made // max(1, fillers)
        waiting, rest, groups = waiting[~is_mine], rest[~is_filler], groups + made
    small = len(rest) // max(2, least // 2)
    if small:
        group[rest] = groups + np.arange(len(rest)) * small // len(rest)
    return group


def _without_excess(pool: Pool, base: float, protected: Rows, others: int) -> Rows:
    """These units, less those whose value is too frequent for groups of the base ratio; the rest is spread evenly.

    A value can be shown to at most one in `base` of the people grouped, and every unit left out makes them fewer.
    """
    leaf = _first_leaf(pool)[protected]
    while True:
        counts = np.bincount(leaf)
        allowed = int((len(leaf) + min(len(leaf), others)) // base)
        if not len(leaf) or counts.max() <= allowed:
            return protected
        order = np.argsort(leaf, kind="stable")
        rank = np.arange(len(leaf)) - (np.cumsum(counts) - counts)[leaf[order]]
        times = counts[leaf[order]]
        stays = np.zeros(len(leaf), dtype=bool)  # of c equal values keep `allowed`, evenly along the order
        stays[order] = (rank * allowed) // times != ((rank + 1) * allowed) // times
        stays[order[times <= allowed]] = True
        protected, leaf = protected[stays], leaf[stays]


def _first_leaf(pool: Pool) -> Rows:
    """The first protected value of each unit; the largest integer for units that have none."""
    first = np.full(len(pool), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, pool.owner[pool.is_protected], pool.leaf[pool.is_protected])
    return first


def _round_robin(first_leaf: Rows, units: Rows, first: int, groups: int, group: Rows) -> None:
    """Deal units to groups from `first` on: block by block along the tree's order, value by value within a block."""
    position = np.arange(len(units))
    block = (position * groups // len(units)) // GROUPS_PER_BLOCK
    order = np.lexsort((position, first_leaf[units], block))
    begins = np.searchsorted(block[order], np.arange(int(block[-1]) + 1))
    in_block = np.minimum(GROUPS_PER_BLOCK, groups - GROUPS_PER_BLOCK * np.arange(len(begins)))
    rank = position - begins[block[order]]
    group[units[order]] = first + block[order] * GROUPS_PER_BLOCK + rank % in_block[block[order]]


class _Check:
    """Takes units that cannot afford their group out of it, until all units left can.

    For most units a bound is enough: the groups they were in say that no value's survival is under it. Only the few
    that have paid much need a look at their accounts.
    """

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy, base: float, breach_so_far: float) -> None:
        self._pool, self._ledger, self._policy, self._base = pool, ledger, policy, base
        self._leaves = len(policy.sensitive.hierarchy.leaves)
        self._owner, self._leaf = pool.owner[pool.is_protected], pool.leaf[pool.is_protected]
        self._breach_so_far = breach_so_far
        self._least = ledger.least_survivals(pool.exposed, pool.exposed_to, len(pool))
        once = np.ones(len(pool), dtype=np.int64)  # an account with a share has one exposure or more (see `Strategy`)
        self._most = required_ratios(policy.strategy, policy.l, self._least, once) * (1 + NEAR)

    def growth(self) -> Floats:
        """By unit, the hard minimum for what it shows itself, as a multiple of the hard minimum of a new account.

        1 where that is less than LEAST_GROWTH.
        """
        growth, l = np.ones(len(self._pool)), self._policy.l
        may_be = np.flatnonzero(hard_minima(l, self._least[self._owner]) > LEAST_GROWTH * l)
        survival, _ = self._standings(self._owner[may_be], self._leaf[may_be])
        np.maximum.at(growth, self._owner[may_be], np.minimum(hard_minima(l, survival) / l, SPENT_GROWTH))
        return growth

    def take_out_offenders(self, group: Rows) -> Floats:
        """Change `group` in place; returns the largest breach in each group that is left."""
        wrong, breach = self._offenders(group)
        turn = 0
        while wrong.size:
            is_last = turn >= ROUNDS  # from then on whole groups are given up, so that the loop ends
            group[np.isin(group, np.unique(group[wrong])) if is_last else wrong] = ALONE
            wrong, breach = self._offenders(group)
            turn += 1
        return breach

    def _offenders(self, group: Rows) -> tuple[Rows, Floats]:
        """Units to take out of their groups, and the largest breach in each group if there are none."""
        shown = group[self._owner] != ALONE
        owner, leaf = self._owner[shown], self._leaf[shown]
        people = np.bincount(group[group != ALONE], minlength=1)
        keys = group[owner] * self._leaves + leaf
        pairs, inverse, times = np.unique(keys, return_inverse=True, return_counts=True)
        breach = np.zeros(len(people))
        if not len(pairs):
            return pairs, breach
        shown_in = pairs // self._leaves
        n = people[shown_in]
        allowed = np.floor(n / self._base + ROUNDING)
        order = np.argsort(inverse, kind="stable")
        rank = np.arange(len(order)) - (np.cumsum(times) - times)[inverse[order]]
        too_many = owner[order][rank >= allowed[inverse[order]]]
        np.maximum.at(breach, shown_in, times / n)
        looked_at = self._may_offend(group, breach)
        begins = np.searchsorted(shown_in, np.arange(len(people) + 1))
        first, sizes = begins[group[looked_at]], np.diff(begins)[group[looked_at]]
        payer, pair = np.repeat(looked_at, sizes), each_between(first, sizes)
        survival, exposures = self._standings(payer, pairs[pair] % self._leaves)
        hit = np.flatnonzero(exposures)
        payer, pair, survival = payer[hit], pair[hit], survival[hit]
        ratio = required_ratios(self._policy.strategy, self._policy.l, survival, exposures[hit])
        after = survival * (1 - times[pair] / n[pair])
        floor = (1 - 1 / self._policy.l) * (1 + NEAR)
        cannot = (ratio * times[pair] > n[pair]) | (after < floor)
        wrong = np.unique(np.concatenate([too_many, payer[cannot]]))
        np.maximum.at(breach, shown_in[pair], 1 - after)
        return wrong, breach

    def _may_offend(self, group: Rows, share: Floats) -> Rows:
        """Units whose accounts must be looked at. `share` is the largest w/n in each group."""
        paid = np.flatnonzero((group != ALONE) & (share[group] > 0) & (self._least < 1 - 2 * NEAR))
        share = share[group[paid]]
        after = self._least[paid] * (1 - share)
        is_safe = (self._most[paid] * share <= 1) & (1 - after <= self._breach_so_far)
        is_safe &= after >= (1 - 1 / self._policy.l) * (1 + 2 * NEAR)
        return paid[~is_safe]

    def _standings(self, person: Rows, leaf: Rows) -> tuple[Floats, Rows]:
        return self._ledger.standings(self._pool.exposed, self._pool.exposed_to, person, leaf)
