"""Follows rows from release to release: which groups one value of one person was shown in, one after the other.

A *trail* is what an attack takes for one value of one person. Somebody with one row has one trail, whatever group the
row is in. Somebody with several rows is followed row by row: a row goes on with the trail that was in the same group,
or else in a group with the same values, or else in the group with the most values in common; a row with nothing in
common begins a trail. A *step* of a trail is a group that it came to. A group that is carried, with the same rows and
the same values as in the release before, is no new step: it says that nothing changed, and nothing else. Nor is a
settled group, which has the same name and values, and none but rows that it had at first: some left, or came back.

Layout. Groups are numbered as they are first seen. A *pair* is two groups that some trails went to one after the
other, with the number of values that did so; -1 stands for no group before. Steps are parallel lists, in the order of
releases; `until` is the last release in which the step's group was still carried.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.worlds import Token

NOWHERE = -1


class Content(NamedTuple):
    """What one group shows: leaves with their counts, inner nodes with theirs, "*", and all of it added up.

    Where a group has more rows than values, as a clique has, the rest of its rows are counted as the leaf "nothing",
    which stands behind all others.
    """

    leaves: tuple[int, ...]
    counts: tuple[int, ...]
    nodes: tuple[tuple[Token, int], ...]
    stars: int
    total: int
    is_plain: bool


class _Place(NamedTuple):
    """Where a trail was last seen."""

    trail: int
    group: int
    release: int
    step: int


class Trails:
    """Takes releases one after the other. A row holds all values of its person, or, by entry, one of them."""

    def __init__(self, leaves: int, is_by_person: bool) -> None:
        self.nothing = leaves
        self._is_by_person = is_by_person
        self.releases = 0
        self.contents: list[Content] = []
        self.person_of: list[int] = []  # by trail
        self.previous = array("q")  # these three by pair: its two groups,
        self.group = array("q")
        self.common = array("q")  # and how many values went from one to the other
        self.trail = array("q")  # these and the following by step
        self.release = array("q")
        self.until = array("q")
        self.gap = array("q")  # releases since the trail was last seen; 0 for its first step
        self.pair = array("q")
        self.values = array("q")  # how many values the row holds
        self.held: list[Collection[int]] = []  # the truth: what the person held then
        self.numbers: dict[str, int] = {}  # of people
        self._pairs: dict[int, int] = {}  # of those that end in this release
        self._carried: dict[object, int] = {}
        self._settled: dict[object, tuple[int, frozenset[str], Mapping[Token, int]]] = {}  # as they were at first
        self._keys: list[object] = []
        self._places: dict[int, list[_Place]] = {}
        self.shown: Counter[Token] = Counter()  # over all releases

    @property
    def people(self) -> int:
        """How many people were ever seen."""
        return len(self.numbers)

    def see(self, groups: Iterable[ShownGroup], held: Mapping[str, Collection[int]]) -> None:
        """Takes the next release; `held` is the truth about everyone present. Costs what the release has rows."""
        self.releases += 1
        carried: dict[object, int] = {}
        rows: dict[int, list[int]] = {}
        truth: dict[int, Collection[int]] = {}
        for group in groups:
            content = tuple(sorted(group.rows)), frozenset(group.shown.items())
            number = self._carried.get(content)
            if number is None:
                number = self._find_settled(group)
            if number is None:
                number = self._add(group, held)
                if group.key is not None:
                    self._settled[group.key] = number, frozenset(group.rows), group.shown
            carried[content] = number
            for token, count in group.shown.items():
                self.shown[token] += count
            if self.contents[number].counts and self.contents[number].leaves[-1] == self.nothing:
                self.shown[self.nothing,] += self.contents[number].counts[-1]
            for person in group.rows:
                at = self.numbers.setdefault(person, len(self.numbers))
                rows.setdefault(at, []).append(number)
                truth[at] = held[person]
        self._carried = carried
        self._pairs.clear()  # a pair ends in one release: a group that is carried is no step
        for at, numbers in rows.items():
            self._follow(at, numbers, truth[at])

    def _find_settled(self, group: ShownGroup) -> int | None:
        """The number of the group that this one is, with fewer rows; None if it is another."""
        number, rows, shown = self._settled.get(group.key, (None, frozenset(), {}))
        return number if shown == group.shown and rows.issuperset(group.rows) else None

    def _add(self, group: ShownGroup, held: Mapping[str, Collection[int]]) -> int:
        leaves = {token[0]: count for token, count in sorted(group.shown.items()) if len(token) == 1}
        total = sum(group.shown.values())
        size = sum(len(held[person]) for person in group.rows) if self._is_by_person else len(group.rows)
        if size > total:
            leaves[self.nothing] = size - total
        self.contents.append(
            Content(
                tuple(leaves),
                tuple(leaves.values()),
                tuple((token, count) for token, count in group.shown.items() if len(token) > 1),
                group.shown.get((), 0),
                max(size, total),
                group.is_plain,
            )
        )
        self._keys.append(group.key)
        return len(self.contents) - 1

    def _follow(self, person: int, numbers: list[int], held: Collection[int]) -> None:
        places = self._places.get(person, [])
        if len(numbers) == len(places) == 1:
            self._places[person] = [self._step(places[0], person, numbers[0], held)]
            return
        matched, left = self._match(places, numbers)
        self._places[person] = left + [self._step(place, person, number, held) for place, number in matched]

    def _step(self, before: _Place | None, person: int, number: int, held: Collection[int]) -> _Place:
        now = self.releases
        if before is None:
            trail, gap, previous = len(self.person_of), 0, NOWHERE
            self.person_of.append(person)
        else:
            trail, gap, previous = before.trail, now - before.release, before.group
            if previous == number:
                self.until[before.step] = now
                return _Place(trail, number, now, before.step)
        pair = self._pairs.setdefault(previous << 32 | number, len(self.common))
        if pair == len(self.common):
            self.previous.append(previous)
            self.group.append(number)
            self.common.append(0)
        values = len(held) if self._is_by_person else 1
        self.common[pair] += values
        self.trail.append(trail)
        self.release.append(now)
        self.until.append(now)
        self.gap.append(gap)
        self.pair.append(pair)
        self.values.append(values)
        self.held.append(held)
        return _Place(trail, number, now, len(self.trail) - 1)

    def _match(
        self, places: Sequence[_Place], numbers: Sequence[int]
    ) -> tuple[list[tuple[_Place | None, int]], list[_Place]]:
        """Which row goes on with which trail; None begins one. Also the trails that no row goes on with."""
        likeness = []
        for row, number in enumerate(numbers):
            for at, place in enumerate(places):
                how = self._likeness(place, number)
                if how != (0, 0, 0, 0):
                    likeness.append((how, place.release, row, at))
        likeness.sort(reverse=True)
        found: dict[int, int] = {}
        for _, _, row, at in likeness:
            if row not in found and at not in found.values():
                found[row] = at
        matched = [(places[found[row]] if row in found else None, number) for row, number in enumerate(numbers)]
        return matched, [place for at, place in enumerate(places) if at not in found.values()]

    def _likeness(self, place: _Place, number: int) -> tuple[int, int, int, int]:
        one, other = self.contents[place.group], self.contents[number]
        is_same_key = self._keys[place.group] == self._keys[number]
        shared = len(set(one.leaves) & set(other.leaves))
        return place.group == number, is_same_key, shared > 0 and one.leaves == other.leaves, shared
