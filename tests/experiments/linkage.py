"""Linkage exclusion (Bu, section III): one attack on the permanent values of whatever publisher, release by release.

The adversary keeps every release, and knows either who has a row in which group, or only the registration list: who
lives where. They look at one permanent value s at a time, and of each group that shows it, or a "*", they know who
*may* be in it. Nobody who holds s ever loses it, so everything they find out about somebody is one of two dates:

- *cleared*: the last release at which the person cannot have held s. Whoever is certainly published, and in no group
  that shows s or a "*", does not hold it; nor did they earlier. They may fall ill later.
- *sure*: the first release from which on the person must hold s.

A group with as many people left as it shows s makes all of them sure; a group with as many sure people as it could show
clears the others. That spreads from release to release, forwards and back. Then Bu's own argument: suppose that
somebody holds s; if that contradicts anything published, they do not. What is left is shared out evenly: of a group
that shows s c times, with n people left, each is believed to hold it with c/n. A holder is *breached* once that is more
than 1/l. Every step is sound: nobody is cleared who holds s, or sure who does not, which `check_against` asserts.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

NEVER = 1 << 30


class Clue(NamedTuple):
    """A group that shows s or a "*": who may be in it, how many of them hold s at least, and of `must` at most.

    Those of `must` are certainly published and could be shown with s nowhere else.
    """

    may: frozenset[int]
    must: frozenset[int]
    least: int
    most: int


class Clues(NamedTuple):
    """What one release says about one value: its groups, and who is certainly published and in none of them."""

    groups: Sequence[Clue]
    cleared: Iterable[int]


class Contradiction(Exception):
    """Something published cannot be, if what was supposed is true."""


class Adversary:
    """All that follows from the clues about one permanent value."""

    def __init__(self) -> None:
        self._at: list[int] = []  # of each group: its release
        self._groups: list[Clue] = []
        self._with: defaultdict[int, list[int]] = defaultdict(list)  # by person: the groups they may be in
        self._cleared: dict[int, int] = {}
        self._sure: dict[int, int] = {}
        self._trail: list[tuple[dict[int, int], int, int | None]] = []  # what to put back after a supposition
        self._waiting: deque[int] = deque()

    def see(self, release: int, clues: Clues) -> None:
        """Takes a release, and draws every conclusion this attack knows."""
        touched: set[int] = set()
        for group in clues.groups:
            self._at.append(release)
            self._groups.append(group)
            place = len(self._groups) - 1
            self._waiting.append(place)
            touched.add(place)
            for person in group.may:
                self._with[person].append(place)
        for person in clues.cleared:
            self._clear(person, release)
        touched.update(self._waiting)
        self._spread()
        touched |= self._forget_trail()
        while touched:
            touched = self._suppose(touched)

    def risk(self, person: int) -> Fraction:
        """What this adversary believes the chance to be that somebody holds s; 0 where no clue is left of them."""
        if person in self._sure:
            return Fraction(1)
        found = Fraction(0)
        for place in self._with.get(person, ()):
            release, group = self._at[place], self._groups[place]
            if self._cleared.get(person, 0) < release:
                left = self._left(place)
                sure = sum(self._sure.get(one, NEVER) <= release for one in left)
                if group.least > sure:
                    found = max(found, Fraction(group.least - sure, len(left) - sure))
        return found

    def check_against(self, since: Mapping[int, int]) -> None:
        """Asserts that nothing false was concluded; `since` has the release from which on each holder holds s."""
        for person, release in self._sure.items():
            assert since.get(person, NEVER) <= release, "somebody is taken for a holder who is none"
        for person, release in self._cleared.items():
            assert since.get(person, NEVER) > release, "a holder is taken for somebody who is none"

    def _left(self, place: int) -> list[int]:
        """Those of a group who may hold s at its release."""
        release, cleared = self._at[place], self._cleared
        return [person for person in self._groups[place].may if cleared.get(person, 0) < release]

    def _clear(self, person: int, release: int) -> None:
        before = self._cleared.get(person, 0)
        if before < release:
            self._set(self._cleared, person, release)
            if self._sure.get(person, NEVER) <= release:
                raise Contradiction

    def _make_sure(self, person: int, release: int) -> None:
        if release < self._sure.get(person, NEVER):
            self._set(self._sure, person, release)
            if self._cleared.get(person, 0) >= release:
                raise Contradiction

    def _set(self, dates: dict[int, int], person: int, release: int) -> None:
        self._trail.append((dates, person, dates.get(person)))
        dates[person] = release
        self._waiting.extend(self._with.get(person, ()))

    def _spread(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            release, group = self._at[place], self._groups[place]
            if group.least:
                left = self._left(place)
                if len(left) < group.least:
                    raise Contradiction
                if len(left) == group.least:
                    for person in left:
                        self._make_sure(person, release)
            holders = [person for person in group.must if self._sure.get(person, NEVER) <= release]
            if len(holders) > group.most:
                raise Contradiction
            if holders and len(holders) == group.most:
                for person in group.must.difference(holders):
                    self._clear(person, release)

    def _suppose(self, places: Iterable[int]) -> set[int]:
        """Tries everyone left in these groups as a holder; returns the groups about which that told something."""
        touched: set[int] = set()
        for place in sorted(places):
            release = self._at[place]
            for person in self._left(place):
                if self._sure.get(person, NEVER) > release and not self._can_hold(person, release):
                    self._clear(person, release)
                    self._spread()
                    touched |= self._forget_trail()
        return touched

    def _can_hold(self, person: int, release: int) -> bool:
        try:
            self._make_sure(person, release)
            self._spread()
        except Contradiction:
            return False
        finally:
            self._waiting.clear()
            while self._trail:
                dates, one, before = self._trail.pop()
                if before is None:
                    del dates[one]
                else:
                    dates[one] = before
        return True

    def _forget_trail(self) -> set[int]:
        """Keeps what was concluded; returns the groups of everyone it is about."""
        touched = {place for _, person, _ in self._trail for place in self._with.get(person, ())}
        self._trail.clear()
        return touched


def breached(adversary: Adversary, holders: Iterable[int], l: float) -> Iterator[int]:
    """The holders whom the adversary believes to be one with more than 1/l."""
    bound = 1 / Fraction(l)
    return (holder for holder in holders if adversary.risk(holder) > bound)
