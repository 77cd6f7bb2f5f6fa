"""Most of the pool at once: groups laid out by round-robin, then checked against everybody's account (Anatomy's trick).

People stand in the tree's order. Those who show protected values are cut into blocks of neighbours, and each block's
people are dealt, value after value, to its groups like cards, so that equal values land in different groups. Then every
(person, value) that a group would expose is checked against that person's ledger, all at once; whoever cannot afford
their place is taken out and left to the careful sweep of `sweep.py`. Nothing here is exact: what passes, passes
with a margin, and what does not is decided there.

How large. The strategy's ratio is the least size. A person in a group of n pays 1/n each time it is formed, and it is
formed anew whenever one of n people changes; with a share c changing per release that is (1 - (1-c)^n)/n per release,
which falls as n grows. People with open values only pay nothing and need no company. So where few are protected, their
groups are made larger (up to GENEROUS times the ratio, half filled with neighbours whose values are open) and the
others' smaller, which together keeps the average group no larger than it would be.

And as a budget wears out, the group grows in proportion to its hard minimum (as in Wong's geometric strategy, but only
where there is room), so that each formation takes about the same share of what is left and nothing ever runs dry. One
person who has little left must not make everybody's group large, so people are dealt in bands, each of groups twice as
large as the last; the few of a worn band get as many open neighbours as it takes, up to FILL for each of them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.ledger import Ledger, each_between
from shoal.core.groups.pool import Pool
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Floats, hard_minima, required_ratio, required_ratios

GENEROUS = 4.0
DOUBLINGS = 4  # of a group's size for those who are worn
FILL = 8
SPENT = 1e9  # as worn as can be
BLOCK = 8  # groups dealt to together
SLACKS = (1.0, 1.25, 1.5)
ROUNDS = 4
WORN = 1.4  # less than what moves anybody into a band of larger groups
MARGIN = 1e-9
ALONE = -1


@dataclass
class Spread:
    """Each unit's group, numbered from 0, ALONE where it found none; and for each group the largest breach in it."""

    group: Rows
    breach: Floats


def spread(
    pool: Pool, ledger: Ledger, policy: Policy, is_left_out: NDArray[np.bool_], breach_so_far: float = 0.0
) -> Spread:
    """Deal the pool, but for some units, into groups that everybody in them can afford.

    Breaches that cannot be over `breach_so_far` are not worked out.
    """
    base = required_ratio(policy.strategy, policy.l, 1.0, 0)
    has_protected = np.zeros(len(pool), dtype=bool)
    has_protected[pool.owner[pool.is_protected]] = True
    protected, open_only = np.flatnonzero(has_protected & ~is_left_out), np.flatnonzero(~has_protected & ~is_left_out)
    check = _Check(pool, ledger, policy, base, breach_so_far)
    worn = check.worn()
    best: Spread | None = None
    for slack in SLACKS:  # frequent values leave tight groups too small; then looser ones are tried
        group = _deal(pool, base * slack, protected, open_only, worn)
        breach = check.settle(group)
        if best is None or (group == ALONE).sum() < (best.group == ALONE).sum():
            best = Spread(group, breach)
        if (group[protected] == ALONE).sum() <= len(protected) // 10:
            break
    assert best is not None
    group = best.group
    kept, group[group != ALONE] = np.unique(group[group != ALONE], return_inverse=True)
    return Spread(group, best.breach[kept])


def _deal(pool: Pool, base: float, protected: Rows, open_only: Rows, worn: Floats) -> Rows:
    """Tentative groups, with no look at anybody's account but for how worn it is."""
    group = np.full(len(pool), ALONE, dtype=np.int64)
    least = math.ceil(base * (1 - 1e-12))
    room = 1 / (2 * max(pool.protected_share, 1e-9))
    size = math.ceil(least * min(GENEROUS, max(1.0, room)))
    waiting = _without_excess(pool, base, protected, len(open_only))
    wished = np.log2(np.maximum(1.0, worn * min(1.0, room / GENEROUS)))
    first_leaf, rest, groups = _first_leaf(pool), open_only, 0
    for band in range(DOUBLINGS, -1, -1):
        is_mine = wished[waiting] >= band - 0.5
        mine, large = waiting[is_mine], size << band
        if not mine.size:
            continue
        fillers = len(mine)
        if band:  # enough for the most frequent value to be once in a group
            most = max(-(-2 * len(mine) // large), int(np.bincount(first_leaf[mine]).max()))
            fillers = min(most * large - len(mine), FILL * len(mine))
        fillers = min(fillers, len(rest))
        if len(mine) + fillers < least << band:
            continue  # too few: they wait for the next band
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
    """These units, less those whose value is too frequent for groups of the base ratio; who stays is spread evenly.

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
    block = (position * groups // len(units)) // BLOCK
    order = np.lexsort((position, first_leaf[units], block))
    begins = np.searchsorted(block[order], np.arange(int(block[-1]) + 1))
    in_block = np.minimum(BLOCK, groups - BLOCK * np.arange(len(begins)))
    rank = position - begins[block[order]]
    group[units[order]] = first + block[order] * BLOCK + rank % in_block[block[order]]


class _Check:
    """Takes out of their groups those who cannot afford them, until everybody left can.

    Few have paid so much that a look at their accounts is needed: for most it is enough to know that no value's
    survival is under a bound, which a look at the groups they were in gives.
    """

    def __init__(self, pool: Pool, ledger: Ledger, policy: Policy, base: float, breach_so_far: float) -> None:
        self._pool, self._ledger, self._policy, self._base = pool, ledger, policy, base
        self._leaves = len(policy.sensitive.hierarchy.leaves)
        self._owner, self._leaf = pool.owner[pool.is_protected], pool.leaf[pool.is_protected]
        self._breach_so_far = breach_so_far
        self._least = ledger.least_survivals(pool.exposed, pool.exposed_to, len(pool))
        once = np.ones(len(pool), dtype=np.int64)  # after which the strategies ask for most
        self._most = required_ratios(policy.strategy, policy.l, self._least, once) * (1 + MARGIN)

    def worn(self) -> Floats:
        """By unit, the hard minimum for what it shows itself, as a multiple of what it is for the untouched.

        1 for whoever is hardly worn.
        """
        worn, l = np.ones(len(self._pool)), self._policy.l
        may_be = np.flatnonzero(hard_minima(l, self._least[self._owner]) > WORN * l)
        survival, _ = self._standings(self._owner[may_be], self._leaf[may_be])
        np.maximum.at(worn, self._owner[may_be], np.minimum(hard_minima(l, survival) / l, SPENT))
        return worn

    def settle(self, group: Rows) -> Floats:
        """Change `group` in place; returns the largest breach in each group that is left."""
        wrong, breach = self._offenders(group)
        turn = 0
        while wrong.size:
            is_last = turn >= ROUNDS  # then whole groups are given up, so that this comes to an end
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
        allowed = np.floor(n / self._base + 1e-12)
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
        floor = (1 - 1 / self._policy.l) * (1 + MARGIN)
        cannot = (ratio * times[pair] > n[pair]) | (after < floor)
        wrong = np.unique(np.concatenate([too_many, payer[cannot]]))
        np.maximum.at(breach, shown_in[pair], 1 - after)
        return wrong, breach

    def _may_offend(self, group: Rows, share: Floats) -> Rows:
        """Units whose accounts must be looked at; `share` is, by group, the largest w/n in it."""
        paid = np.flatnonzero((group != ALONE) & (share[group] > 0) & (self._least < 1 - 2 * MARGIN))
        share = share[group[paid]]
        after = self._least[paid] * (1 - share)
        is_safe = (self._most[paid] * share <= 1) & (1 - after <= self._breach_so_far)
        is_safe &= after >= (1 - 1 / self._policy.l) * (1 + 2 * MARGIN)
        return paid[~is_safe]

    def _standings(self, person: Rows, leaf: Rows) -> tuple[Floats, Rows]:
        return self._ledger.standings(self._pool.exposed, self._pool.exposed_to, person, leaf)
