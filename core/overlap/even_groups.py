"""Most overlapping rows at once: groups in which every value stands exactly once, dealt like cards.

Take a group e that shows a person's value as often as alpha - 1 other values of the person's group. Beside e, a group
of different values balances the person, whatever else e shows, and one such group can stand beside any number of e's.
So rows, overlapping or not, are dealt in the tree's order, no value twice to a group. Rows that are not balanced are
taken out; then others may lack the values that left, and the step repeats until all rows that remain are balanced. They
are the largest part of the group that can be published. The next round deals the rest anew. In the last rounds a value
that several rows of a group lack is counterfeited first.

A set of values is the bits of some words, so that all groups of a round are checked at once.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.affordability import Claims
from shoal.core.groups.deal import ALONE
from shoal.core.groups.pool import Pool
from shoal.core.overlap.assembly import Draft
from shoal.core.overlap.overlaps import Bits, Overlaps, bits_of
from shoal.core.overlap.tuning import (
    COUNTERFEITING_ROUNDS,
    EVEN_BLOCKS,
    LARGEST_PER_ALPHA,
    PEOPLE_PER_COUNTERFEIT,
    ROOMINESS,
    ROWS_PER_COUNTERFEIT,
)


@dataclass
class _Deal:
    """Tentative groups: of each unit its group or ALONE, and the values counterfeited in each group."""

    group: Rows
    counterfeits: Bits


def deal_even_groups(pool: Pool, overlaps: Overlaps, claims: Claims, is_left: NDArray[np.bool_]) -> list[Draft]:
    """Groups that show each of their values once, of units with one value; clears `is_left` of their members."""
    return _EvenGroups(pool, overlaps, claims).run(is_left)


class _EvenGroups:
    def __init__(self, pool: Pool, overlaps: Overlaps, claims: Claims) -> None:
        self._overlaps, self._claims, self._alpha = overlaps, claims, overlaps.alpha
        self._value = np.array([values[0] for values in pool.sets], dtype=np.int64)
        self._leaves = claims.leaves
        self._bits = bits_of(self._value, self._leaves)
        self._equals = np.ascontiguousarray(overlaps.equals.T)  # word by word
        self._least = max(math.ceil(claims.target_base * (1 - 1e-12)), 2)
        self._can_be_balanced = np.ones(len(pool), dtype=bool)  # in some even group
        possible = np.bitwise_count(overlaps.equals).sum(axis=1) >= self._alpha
        self._can_be_balanced[overlaps.unit[~possible]] = False

    def run(self, is_left: NDArray[np.bool_]) -> list[Draft]:
        drafts: list[Draft] = []
        for turn, block in enumerate(EVEN_BLOCKS):
            units = np.flatnonzero(is_left & self._can_be_balanced)
            if len(units) < self._least or not self._overlaps.is_overlapping[units].any():
                break
            deal = self._deal(units, block, len(is_left))
            if turn >= len(EVEN_BLOCKS) - COUNTERFEITING_ROUNDS:
                self._counterfeit(deal)
            self._drop_unbalanced(deal)
            for draft in self._drafts(deal):
                if self._claims.wrong_in(draft.members, draft.standing(self._claims), is_planned=True) is None:
                    drafts.append(draft)
                    is_left[draft.members] = False
        return drafts

    def _deal(self, units: Rows, block: int, count: int) -> _Deal:
        """Tentative groups, no value twice in one; a block's surplus of a value is left over."""
        values = self._value[units]
        most = int(np.bincount(values).max())
        size = max(self._least, self._alpha, min(LARGEST_PER_ALPHA * self._alpha, ROOMINESS * len(units) // most))
        position = np.arange(len(units))
        in_block = position // (size * block)
        groups = np.maximum(1, np.bincount(in_block) // size)
        order = np.lexsort((position, values, in_block))
        keys = in_block[order] * self._leaves + values[order]
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        rank = position - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        dealt = order[rank < groups[in_block[order]]]
        first = np.searchsorted(in_block[dealt], np.arange(len(groups)))
        turn = (np.arange(len(dealt)) - first[in_block[dealt]]) % groups[in_block[dealt]]
        group = np.full(count, ALONE, dtype=np.int64)
        group[units[dealt]] = (np.cumsum(groups) - groups)[in_block[dealt]] + turn
        return _Deal(group, np.zeros((int(groups.sum()), self._bits.shape[1]), dtype=np.uint64))

    def _drop_unbalanced(self, deal: _Deal) -> None:
        """Take out unbalanced units until there are none; give up groups too small or without an overlapping unit."""
        group, pairs = deal.group, None
        while True:
            pairs, lacking = self._lacking(deal, pairs)
            unbalanced = self._overlaps.unit[pairs[lacking > 0]]
            if not len(unbalanced):
                break
            group[unbalanced] = ALONE
        sizes = np.bincount(group[group != ALONE], minlength=len(deal.counterfeits))
        overlapping = np.zeros(len(deal.counterfeits), dtype=bool)
        overlapping[group[self._overlaps.is_overlapping & (group != ALONE)]] = True
        is_given_up = (sizes < self._least) | ~overlapping
        group[(group != ALONE) & is_given_up[group]] = ALONE

    def _lacking(self, deal: _Deal, among: Rows | None = None) -> tuple[Rows, Rows]:
        """The overlaps (`among` these) of all units in a group, and how many values each lacks to be balanced."""
        group = np.take(deal.group, self._overlaps.unit if among is None else self._overlaps.unit[among])
        here = np.flatnonzero(group != ALONE)
        pairs, group = here if among is None else among[here], group[here]
        lacking = np.full(len(pairs), self._alpha, dtype=np.int64)
        for equals, shown in zip(self._equals, self._shown(deal).T, strict=True):
            lacking -= np.bitwise_count(np.take(equals, pairs) & np.take(shown, group))
        return pairs, lacking

    def _shown(self, deal: _Deal) -> Bits:
        """The values of each group."""
        units = np.flatnonzero(deal.group != ALONE)
        units = units[np.argsort(deal.group[units], kind="stable")]
        shown = deal.counterfeits.copy()
        if len(units):
            groups = deal.group[units]
            starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
            shown[groups[starts]] |= np.bitwise_or.reduceat(self._bits[units], starts)
        return shown

    def _counterfeit(self, deal: _Deal) -> None:
        """Add to each group the values that most of its units lack, as many as its size allows."""
        sizes = np.bincount(deal.group[deal.group != ALONE], minlength=len(deal.counterfeits))
        allowed = sizes // PEOPLE_PER_COUNTERFEIT
        for turn in range(int(allowed.max(initial=0))):
            pairs, lacking = self._lacking(deal)
            pairs = pairs[(lacking > 0) & (allowed[deal.group[self._overlaps.unit[pairs]]] > turn)]
            groups = deal.group[self._overlaps.unit[pairs]]
            missing = self._overlaps.equals[pairs] & ~self._shown(deal)[groups]
            votes = np.zeros((len(deal.counterfeits), self._leaves), dtype=np.int64)
            for leaf in range(self._leaves):
                wants = (missing[:, leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1) == 1
                votes[:, leaf] = np.bincount(groups[wants], minlength=len(deal.counterfeits))
            votes[:, sorted(self._claims.permanent)] = 0  # a permanent value is never counterfeited
            best = votes.argmax(axis=1)
            wanted = np.flatnonzero(votes[np.arange(len(votes)), best] >= ROWS_PER_COUNTERFEIT)
            if not len(wanted):
                return
            deal.counterfeits[wanted] |= bits_of(best[wanted], self._leaves)

    def _drafts(self, deal: _Deal) -> list[Draft]:
        units = np.flatnonzero(deal.group != ALONE)
        units = units[np.argsort(deal.group[units], kind="stable")]
        groups, starts = np.unique(deal.group[units], return_index=True)
        members = np.split(units, starts[1:]) if len(groups) else []
        drafts = []
        for group, part in zip(groups.tolist(), members, strict=True):
            values = self._value[part].tolist()
            counterfeits = self._counterfeits_of(deal.counterfeits[group], values)
            draft = Draft(part.tolist(), dict.fromkeys(values, 1), counterfeits)
            draft.shown |= draft.counterfeits
            drafts.append(draft)
        return drafts

    def _counterfeits_of(self, bits: Bits, values: list[int]) -> dict[int, int]:
        """The counterfeits of a group, without the values that a member has."""
        if not bits.any():
            return {}
        added = [leaf for leaf in range(self._leaves) if int(bits[leaf // 64]) >> (leaf % 64) & 1]
        return {leaf: 1 for leaf in added if leaf not in values}
