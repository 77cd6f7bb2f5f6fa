"""Holder sets, counted one by one, by an adversary who knows who is in which group (Bu, Definition 5).

A holder set fits if there is a way for its people to have come to hold a permanent value s, one after the other, so
that nobody who is published loses s again, and that every group has at least as many holders as it shows s, and at most
as many as it shows s and "*". A group that is carried over says it is unchanged, so it allows what it allowed when it
was formed. Anyone may become a holder between two releases, seen or unseen. Of the sets that fit, the smallest count: a
new holder is a rare event, and nobody believes in more of them than it takes (docs/permanent-audit.md has the other
counts).

Sets are kept separately for people who were never, by way of others, in one group that shows s or "*": what is true of
some then says nothing about the rest. Where there are more than `LIMIT` sets, counting stops for these people, for
good.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import NamedTuple

LIMIT = 4_000

Sets = set[frozenset[str]]


class Drawn(NamedTuple):
    """A group formed in this release: its people, and how often it shows s and "*"."""

    people: Sequence[str]
    shown: int
    stars: int


@dataclass(eq=False)
class Component:
    """People whose holding s depends on one another. `sets` is None where there were too many to count."""

    people: set[str]
    sets: Sets | None = field(repr=False)
    is_starred: bool = False  # a group of theirs has ever shown "*"

    def risks(self, is_fewest: bool = True) -> Mapping[str, Fraction]:
        """For each person the share of sets, the smallest or all, that they are in; nothing if there are no sets."""
        if not self.sets:
            return {}
        fewest = min(map(len, self.sets))
        sets = [holders for holders in self.sets if not is_fewest or len(holders) == fewest]
        holding = dict.fromkeys(self.people, 0)
        for holders in sets:
            for person in holders:
                holding[person] += 1
        return {person: Fraction(count, len(sets)) for person, count in holding.items()}


class HolderSets:
    """Counts the worlds of one permanent value, release by release."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._of: dict[str, Component] = {}

    def see(self, formed: Iterable[Drawn]) -> list[Component]:
        """Takes the groups formed in a release; returns the components about which they say something new."""
        drawn = list(formed)
        touched: dict[Component, None] = {}
        for group in drawn:
            if not group.shown and not group.stars:
                for person in group.people:
                    component = self._of.get(person)
                    if component is not None:
                        self._exclude(component, person)
                        touched[component] = None
        for group in drawn:
            if group.shown or group.stars:
                component = self._join(group)
                self._constrain(component, group)
                touched[component] = None
        return [component for component in touched if self._is_current(component)]

    @property
    def components(self) -> list[Component]:
        return list(dict.fromkeys(self._of.values()))

    def _is_current(self, component: Component) -> bool:
        """Whether it was not joined to others since."""
        return self._of[next(iter(component.people))] is component

    @staticmethod
    def _exclude(component: Component, person: str) -> None:
        """Somebody is in a group without s and "*", so they do not hold s yet."""
        if component.sets is not None:
            component.sets = {holders for holders in component.sets if person not in holders}

    def _join(self, group: Drawn) -> Component:
        """One component of everyone in the group and all whom they depend on."""
        parts = dict.fromkeys(self._of[person] for person in group.people if person in self._of)
        people = set(group.people).union(*(part.people for part in parts))
        sets: Sets | None = {frozenset()}
        for part in parts:
            if sets is None or part.sets is None or len(sets) * len(part.sets) > self._limit:
                sets = None
            else:
                sets = {a | b for a in sets for b in part.sets}
        joined = Component(people, sets, group.stars > 0 or any(part.is_starred for part in parts))
        self._of.update(dict.fromkeys(people, joined))
        return joined

    def _constrain(self, component: Component, group: Drawn) -> None:
        """Keeps the sets that fit the group, each with every choice of new holders in it that does."""
        if component.sets is None:
            return
        members = frozenset(group.people)
        found: Sets = set()
        for holders in component.sets:
            there = holders & members
            others = sorted(members - there)
            least, most = max(0, group.shown - len(there)), group.shown + group.stars - len(there)
            sizes = range(least, min(most, len(others)) + 1)
            if len(found) + sum(comb(len(others), size) for size in sizes) > self._limit:
                component.sets = None
                return
            found.update(holders.union(fresh) for size in sizes for fresh in combinations(others, size))
        component.sets = found
