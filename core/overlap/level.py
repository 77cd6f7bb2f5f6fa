"""Most overlapping rows at once: groups in which every value stands exactly once, dealt like cards.

Beside a group e that shows a person's value as often as alpha - 1 others of their group's, such a group balances them
whatever else e shows, and one group can stand beside any number of e's. So rows, overlapping or not, are dealt block by
block along the tree's order, no value twice to a group. Then each group is settled: a value that would content most of
those who are not is fetched from the rows left over or, on the last round, counterfeited; whoever is still not content
is taken out again. A set of values is an integer's bits, so asking costs a few machine instructions.
"""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from core.overlap.desk import Desk, Draft
from core.tree import Rows

BLOCK = 16  # groups dealt to together
ROUNDS = 3
PEOPLE_PER_FAKE = 8


def deal_level(desk: Desk) -> None:
    """Put as many of the desk's units as possible into groups that show each of their values once."""
    alpha, base = desk.beside.alpha, desk.claims.target_base
    levels: dict[int, list[int]] = {}
    for turn in range(ROUNDS):
        units = desk.left()
        least = max(math.ceil(base * (1 - 1e-12)), 2)
        if len(units) < least:
            return
        values = np.array([desk.value(unit) for unit in units], dtype=np.int64)
        most = max(1, int(np.bincount(values).max()))
        size = max(least, alpha, min(2 * alpha, len(units) // most))
        is_last = turn == ROUNDS - 1
        block = BLOCK if turn == 0 else max(1, len(units) // size)
        for members in _deal(np.array(units, dtype=np.int64), values, size, block):
            if any(desk.beside.overlaps[unit] for unit in members):
                _Settling(desk, levels, members, least, is_last).run()


def _deal(units: Rows, values: Rows, size: int, block: int) -> Iterator[list[int]]:
    """Tentative groups, no value twice in one; what a block has too often is left over."""
    position = np.arange(len(units))
    in_block = position // (size * block)
    last = int(in_block[-1])
    groups = np.maximum(1, np.bincount(in_block) // size)
    order = np.lexsort((position, values, in_block))
    keys = in_block[order] * (int(values.max()) + 1) + values[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    rank = position - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    dealt = order[rank < groups[in_block[order]]]
    first = np.searchsorted(in_block[dealt], np.arange(last + 1))
    turn = np.arange(len(dealt)) - first[in_block[dealt]]
    group = in_block[dealt] * (int(groups.max()) + 1) + turn % groups[in_block[dealt]]
    by_group = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[by_group])) + 1
    for part in np.split(units[dealt[by_group]], cuts):
        yield sorted(part.tolist())


class _Settling:
    """One tentative group, until everybody in it is content or it is given up."""

    def __init__(self, desk: Desk, levels: dict[int, list[int]], members: list[int], least: int, may_fake: bool) -> None:
        self._desk, self._levels, self._least, self._may_fake = desk, levels, least, may_fake
        self._alpha = desk.beside.alpha
        self._draft = Draft(members)
        self._taken: list[int] = []

    def run(self) -> None:
        desk, draft = self._desk, self._draft
        for unit in draft.members:
            desk.take(unit)
        everybody = list(draft.members)
        while True:
            shown = self._bits()
            wanting = [(unit, level) for unit in draft.members for level in self._wanting(unit, shown)]
            if not wanting:
                break
            if not self._help(wanting, shown):
                unhappy = {unit for unit, _ in wanting}
                draft.members = [unit for unit in draft.members if unit not in unhappy]
                if len(draft.members) < self._least:
                    break
        draft.counterfeits = {value: 1 for value in draft.counterfeits}
        draft.shown = {desk.value(unit): 1 for unit in draft.members} | draft.counterfeits
        if self._is_worth_it() and desk.is_kept(draft):
            desk.keep(draft)
            kept = set(draft.members)
        else:
            kept = set()
        desk.lay_out(unit for unit in [*everybody, *self._taken] if unit not in kept)

    def _is_worth_it(self) -> bool:
        members, overlaps = self._draft.members, self._desk.beside.overlaps
        return len(members) >= self._least and any(overlaps[unit] for unit in members)

    def _bits(self) -> int:
        bits = 0
        for unit in self._draft.members:
            bits |= 1 << self._desk.value(unit)
        for value in self._draft.counterfeits:
            bits |= 1 << value
        return bits

    def _wanting(self, unit: int, shown: int) -> list[int]:
        """The overlaps of a unit that are not balanced."""
        levels = self._levels.get(unit)
        if levels is None:
            levels = self._levels[unit] = self._desk.beside.levels(unit)
        return [level for level in levels if (level & shown).bit_count() < self._alpha]

    def _help(self, wanting: list[tuple[int, int]], shown: int) -> bool:
        """Add the value that most of those who are not content want; false if that cannot be done."""
        votes: Counter[int] = Counter()
        for _, level in wanting:
            missing = level & ~shown
            if (level & shown).bit_count() + missing.bit_count() < self._alpha:
                continue  # nothing will content them here
            while missing:
                votes[(missing & -missing).bit_length() - 1] += 1
                missing &= missing - 1
        for value, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
            for unit in self._desk.nearest(value, self._draft):
                if not self._wanting(unit, shown | 1 << value):
                    self._desk.take(unit)
                    self._taken.append(unit)
                    self._draft.members.append(unit)
                    return True
        draft = self._draft
        if votes and self._may_fake and (draft.fakes + 1) * PEOPLE_PER_FAKE <= len(draft.members):
            value = min(votes, key=lambda value: (-votes[value], value))
            draft.counterfeits[value] = 1
            return True
        return False
