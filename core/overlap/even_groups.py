"""Most overlapping rows at once: groups in which every value stands exactly once, dealt like cards.

Beside a group e that shows a person's value as often as alpha - 1 others of their group's, such a group balances them,
whatever else e shows, and one group can stand beside any number of e's. So rows, overlapping or not, are dealt in the
tree's order, no value twice to a group. Whoever is not content is taken out again, which may discontent others, until
nobody is: what remains is the largest part of the group that can stand. The next round deals what is left anew. In the
last rounds a value that would content several at once is counterfeited first.

A set of values is the bits of some words, so that all groups of a round are asked at once.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.groups.deal import ALONE
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.overlap.assembly import Draft
from shoal.core.overlap.overlaps import Beside, Bits, bits_of

BLOCKS = (16, 64, 8, 256, 16, 64)  # groups dealt to together, round by round
GENEROUS = 2  # times larger than a group in which the most frequent value stands once: more values, more company
FAKING = 2  # of which so many at the end may counterfeit
PEOPLE_PER_FAKE = 10
CONTENTED = 2  # rows that one counterfeit must be wanted by


@dataclass
class _Deal:
    """Tentative groups: of each unit its group or ALONE, and the values counterfeited in each group."""

    group: Rows
    fakes: Bits


def deal_level(pool: Pool, beside: Beside, promises: Promises, is_left: NDArray[np.bool_]) -> list[Draft]:
    """Groups that show each of their values once, of units with one value; clears `is_left` of who is in one."""
    return _Level(pool, beside, promises).run(is_left)


class _Level:
    def __init__(self, pool: Pool, beside: Beside, promises: Promises) -> None:
        self._beside, self._promises, self._alpha = beside, promises, beside.alpha
        self._value = np.array([values[0] for values in pool.sets], dtype=np.int64)
        self._leaves = promises.leaves
        self._bits = bits_of(self._value, self._leaves)
        self._levels = np.ascontiguousarray(beside.level.T)  # word by word
        self._least = max(math.ceil(promises.target_base * (1 - 1e-12)), 2)
        self._can_be = np.ones(len(pool), dtype=bool)  # content in some group or other
        possible = np.bitwise_count(beside.level).sum(axis=1) >= self._alpha
        self._can_be[beside.unit[~possible]] = False

    def run(self, is_left: NDArray[np.bool_]) -> list[Draft]:
        drafts: list[Draft] = []
        for turn, block in enumerate(BLOCKS):
            units = np.flatnonzero(is_left & self._can_be)
            if len(units) < self._least or not self._beside.overlaps[units].any():
                break
            deal = self._deal(units, block, len(is_left))
            if turn >= len(BLOCKS) - FAKING:
                self._counterfeit(deal)
            self._settle(deal)
            for draft in self._drafts(deal):
                if self._promises.wrong_in(draft.members, draft.standing(self._promises), is_planned=True) is None:
                    drafts.append(draft)
                    is_left[draft.members] = False
        return drafts

    def _deal(self, units: Rows, block: int, count: int) -> _Deal:
        """Tentative groups, no value twice in one; what a block has too often is left over."""
        values = self._value[units]
        most = int(np.bincount(values).max())
        size = max(self._least, self._alpha, min(3 * self._alpha, GENEROUS * len(units) // most))
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

    def _settle(self, deal: _Deal) -> None:
        """Take out whoever is not content, until everybody is; groups too small or without an overlap are given up."""
        group, pairs = deal.group, None
        while True:
            pairs, lacking = self._lacking(deal, pairs)
            unhappy = self._beside.unit[pairs[lacking > 0]]
            if not len(unhappy):
                break
            group[unhappy] = ALONE
        sizes = np.bincount(group[group != ALONE], minlength=len(deal.fakes))
        overlapping = np.zeros(len(deal.fakes), dtype=bool)
        overlapping[group[self._beside.overlaps & (group != ALONE)]] = True
        is_given_up = (sizes < self._least) | ~overlapping
        group[(group != ALONE) & is_given_up[group]] = ALONE

    def _lacking(self, deal: _Deal, among: Rows | None = None) -> tuple[Rows, Rows]:
        """The overlaps (`among` these) of everybody in a group, and how many values each lacks to be balanced."""
        group = np.take(deal.group, self._beside.unit if among is None else self._beside.unit[among])
        here = np.flatnonzero(group != ALONE)
        pairs, group = here if among is None else among[here], group[here]
        lacking = np.full(len(pairs), self._alpha, dtype=np.int64)
        for level, shown in zip(self._levels, self._shown(deal).T, strict=True):
            lacking -= np.bitwise_count(np.take(level, pairs) & np.take(shown, group))
        return pairs, lacking

    def _shown(self, deal: _Deal) -> Bits:
        """The values of each group."""
        units = np.flatnonzero(deal.group != ALONE)
        units = units[np.argsort(deal.group[units], kind="stable")]
        shown = deal.fakes.copy()
        if len(units):
            groups = deal.group[units]
            starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
            shown[groups[starts]] |= np.bitwise_or.reduceat(self._bits[units], starts)
        return shown

    def _counterfeit(self, deal: _Deal) -> None:
        """Add to each group the values wanted by most, as far as its size allows."""
        allowed = np.bincount(deal.group[deal.group != ALONE], minlength=len(deal.fakes)) // PEOPLE_PER_FAKE
        for turn in range(int(allowed.max(initial=0))):
            pairs, lacking = self._lacking(deal)
            pairs = pairs[(lacking > 0) & (allowed[deal.group[self._beside.unit[pairs]]] > turn)]
            groups = deal.group[self._beside.unit[pairs]]
            missing = self._beside.level[pairs] & ~self._shown(deal)[groups]
            votes = np.zeros((len(deal.fakes), self._leaves), dtype=np.int64)
            for leaf in range(self._leaves):
                wants = (missing[:, leaf // 64] >> np.uint64(leaf % 64)) & np.uint64(1) == 1
                votes[:, leaf] = np.bincount(groups[wants], minlength=len(deal.fakes))
            votes[:, sorted(self._promises.permanent)] = 0  # nobody is made to seem to hold what never goes away
            best = votes.argmax(axis=1)
            wanted = np.flatnonzero(votes[np.arange(len(votes)), best] >= CONTENTED)
            if not len(wanted):
                return
            deal.fakes[wanted] |= bits_of(best[wanted], self._leaves)

    def _drafts(self, deal: _Deal) -> list[Draft]:
        units = np.flatnonzero(deal.group != ALONE)
        units = units[np.argsort(deal.group[units], kind="stable")]
        groups, starts = np.unique(deal.group[units], return_index=True)
        members = np.split(units, starts[1:]) if len(groups) else []
        drafts = []
        for group, part in zip(groups.tolist(), members, strict=True):
            values = self._value[part].tolist()
            draft = Draft(part.tolist(), dict.fromkeys(values, 1), self._fakes_of(deal.fakes[group], values))
            draft.shown |= draft.counterfeits
            drafts.append(draft)
        return drafts

    def _fakes_of(self, bits: Bits, values: list[int]) -> dict[int, int]:
        """The counterfeits of a group, but for values that somebody in it has."""
        faked = [leaf for leaf in range(self._leaves) if int(bits[leaf // 64]) >> (leaf % 64) & 1] if bits.any() else []
        return {leaf: 1 for leaf in faked if leaf not in values}
