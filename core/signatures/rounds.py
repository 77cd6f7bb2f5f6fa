"""Rounds of newcomers who shun values: built one by one, and mended around those who found none.

A newcomer *fits* a round if it shows none of the values they shun, does not show their own value, and nobody in it
shuns that. Rounds are built from the value that most newcomers are left of, with the newcomer who shuns most, so that
no value is left over in the end and those who fit nowhere else choose first. Whoever is left joins a round that was
built, if it has room. Then a few dozen rounds are taken apart and built anew together with those who are left, with
other draws, as often as that helps.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from shoal.core.signatures.newcomers import NO_ROUND, Newcomers
from shoal.core.signatures.tuning import CANDIDATES_TRIED, MENDED_AT_ONCE, MENDED_IN_VAIN, MENDED_WITH

Draws = Callable[[int], list[int]]


class Rounds:
    """The rounds of one pool, of `least` values each or some more.

    `draws` gives so many fresh random numbers. `blocks` says by value which values go together best.
    """

    def __init__(self, newcomers: Newcomers, least: int, blocks: Sequence[int], draws: Draws) -> None:
        self._value: list[int] = newcomers.value.tolist()
        self._shunned, self._siblings = newcomers.shunned, newcomers.siblings
        self._least, self._most = least, 2 * least - 1
        self._blocks, self._draws = blocks, draws
        self._members_of: dict[int, list[int]] = {}  # by block its values
        for value, block in enumerate(blocks):
            self._members_of.setdefault(block, []).append(value)
        self.round_of = [NO_ROUND] * len(self._value)
        self.members: list[list[int]] = []
        self.masks: list[int] = []
        self.closed: set[int] = set()  # rounds that stay as they are
        self.unseen: set[int] = set()  # newcomers who are starred: their values have no say in any round

    # -- what fits ----------------------------------------------------------------------------------------------

    def shuns(self, newcomer: int) -> int:
        """The values that a round of this newcomer must not show, as things stand."""
        found = self._shunned.get(newcomer, 0)
        for sibling in self._siblings.get(newcomer, ()):
            place = self.round_of[sibling]
            if place != NO_ROUND:
                found |= self.masks[place]
            elif sibling not in self.unseen:
                found |= 1 << self._value[sibling]
        return found

    def is_at_home(self, newcomer: int) -> bool:
        """Whether somebody's round shows nothing that they shun."""
        return not self.shuns(newcomer) & self.masks[self.round_of[newcomer]]

    def may_enter(self, newcomer: int, mask: int, members: Sequence[int]) -> bool:
        """Whether somebody may be in a round with these values and these members."""
        return not self.shuns(newcomer) & mask and not self._is_sibling(newcomer, members)

    # -- changes ------------------------------------------------------------------------------------------------

    def add(self, members: Iterable[int]) -> int:
        """A new round of these newcomers."""
        listed = list(members)
        mask = 0
        for one in listed:
            mask |= 1 << self._value[one]
            self.round_of[one] = len(self.members)
        self.members.append(listed)
        self.masks.append(mask)
        return len(self.members) - 1

    def add_all(self, newcomers: Iterable[int], rounds: Iterable[int], masks: Sequence[int]) -> int:
        """New rounds with these values, and for each of these newcomers the one they are in; returns the first."""
        first = len(self.members)
        self.members += [[] for _ in masks]
        self.masks += masks
        for one, place in zip(newcomers, rounds, strict=True):
            self.members[first + place].append(one)
            self.round_of[one] = first + place
        return first

    def take_apart(self, place: int) -> list[int]:
        """Undo a round; returns who was in it."""
        freed, self.members[place], self.masks[place] = self.members[place], [], 0
        for one in freed:
            self.round_of[one] = NO_ROUND
        return freed

    def swap(self, newcomer: int, others: Iterable[int]) -> bool:
        """Let a newcomer who does not fit their round change with one of these, of the same value, if both fit then."""
        here = self.round_of[newcomer]
        for other in islice(others, CANDIDATES_TRIED):
            there = self.round_of[other]
            if there in (NO_ROUND, here) or self.shuns(newcomer) & self.masks[there]:
                continue
            if self.shuns(other) & self.masks[here]:
                continue
            for one, old, new in ((newcomer, here, there), (other, there, here)):
                self.members[old].remove(one)
                self.members[new].append(one)
                self.round_of[one] = new
            if not self.shuns(newcomer) & self.masks[there] and not self.shuns(other) & self.masks[here]:
                return True  # they may be siblings' siblings: looked at again with both in their new rounds
            for one, old, new in ((newcomer, there, here), (other, here, there)):
                self.members[old].remove(one)
                self.members[new].append(one)
                self.round_of[one] = new
        return False

    # -- building -----------------------------------------------------------------------------------------------

    def build(self, waiting: Sequence[int]) -> list[int]:
        """Build rounds of these newcomers; returns those who are left."""
        leads, queues = self._queues(waiting)
        order = sorted(queues, key=lambda one: (-len(queues[one]), one))
        frequent = order[: 2 * self._least]
        total, failed, first = len(waiting), set[int](), len(self.members)
        while leads and total >= self._least:
            must = [value for value in frequent if len(queues[value]) * (self._least + 1) >= total]
            must.sort(key=lambda one: -len(queues[one]))
            lead = queues[must[0]][-1] if must else leads.pop()
            if self.round_of[lead] != NO_ROUND or lead in failed:
                continue
            queues[self._value[lead]].remove(lead)
            total -= 1
            wanted = [*must, *self._members_of[self._blocks[self._value[lead]]], *order]
            members = self._company(lead, queues, wanted) or self._company(lead, queues, wanted, is_last=False)
            if members:
                total -= len(members) - 1
                self.add(members)
            else:
                failed.add(lead)
        left = [*sorted(failed), *(one for queue in queues.values() for one in queue)]
        return [one for one in left if not self._join(one, range(first, len(self.members)))]

    def _queues(self, waiting: Sequence[int]) -> tuple[list[int], dict[int, list[int]]]:
        """All of these, and by value, those who shun most last."""
        drawn = dict(zip(waiting, self._draws(len(waiting)), strict=True))
        ordered = sorted(waiting, key=lambda one: (self.shuns(one).bit_count(), drawn[one]))
        queues: dict[int, list[int]] = {}
        for one in ordered:
            queues.setdefault(self._value[one], []).append(one)
        return ordered, queues

    def _company(
        self, lead: int, queues: dict[int, list[int]], wanted: Sequence[int], *, is_last: bool = True
    ) -> list[int]:
        """A round around its first newcomer, of the values that are wanted most; nobody if there are too few.

        Of each value it takes those who shun most, or else least.
        """
        value = self._value[lead]
        members, mask, shunned = [lead], 1 << value, self.shuns(lead)
        if mask & shunned:
            return []
        for other in wanted:
            own, queue = 1 << other, queues.get(other)
            if own & (mask | shunned) or not queue:
                continue
            tried = range(min(len(queue), CANDIDATES_TRIED))
            for at in (-1 - one for one in tried) if is_last else tried:
                theirs = self.shuns(queue[at])
                if not theirs & (mask | own) and not self._is_sibling(queue[at], members):
                    members.append(queue.pop(at))
                    mask, shunned = mask | own, shunned | theirs
                    break
            if len(members) == self._least:
                return members
        for other in members[1:]:
            queues[self._value[other]].append(other)
        return []

    def _is_sibling(self, newcomer: int, members: Sequence[int]) -> bool:
        siblings = self._siblings.get(newcomer)
        return siblings is not None and not set(siblings).isdisjoint(members)

    def _join(self, newcomer: int, places: Iterable[int]) -> bool:
        """Let somebody join one of these rounds, if they fit one that has room."""
        own = 1 << self._value[newcomer]
        shunned = self.shuns(newcomer) | own
        for place in places:
            members, mask = self.members[place], self.masks[place]
            if mask & shunned or not 0 < len(members) < self._most or place in self.closed:
                continue
            if not any(self.shuns(other) & own for other in members) and not self._is_sibling(newcomer, members):
                members.append(newcomer)
                self.masks[place] |= own
                self.round_of[newcomer] = place
                return True
        return False

    # -- mending ------------------------------------------------------------------------------------------------

    def mend(self, left: list[int]) -> list[int]:
        """Build some rounds anew with those who are left, until nobody is or it has not helped for a while."""
        left = [one for one in left if not self._join(one, range(len(self.members)))]
        in_vain, places = 0, list[int]()
        while left and in_vain < MENDED_IN_VAIN:
            if not places:
                drawn = self._draws(len(self.members))
                places = sorted(range(len(drawn)), key=drawn.__getitem__)
                places = [place for place in places if self.members[place] and place not in self.closed]
            chosen, places = places[:MENDED_WITH], places[MENDED_WITH:]
            kept = [self.members[place] for place in chosen]
            few = left[:MENDED_AT_ONCE]
            freed = [one for place in chosen for one in self.take_apart(place)]
            first = len(self.members)
            now = self.build([*few, *freed])
            if len(now) > len(few):
                for place in range(first, len(self.members)):
                    self.take_apart(place)
                for members in kept:
                    self.add(members)
                now = few
            in_vain = 0 if len(now) < len(few) else in_vain + 1
            left = left[MENDED_AT_ONCE:] + now
        return left
