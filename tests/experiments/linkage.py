"""Linkage exclusion (Bu, section III): one attack on the permanent values of whatever publisher, release by release.

The adversary keeps every release, and knows either who has a row in which group, or only the registration list: who
lives where. They look at one permanent value s at a time, and of each group that shows it, or a "*", they know who
*may* be in it. Nobody who holds s ever loses it, so everything they find out about somebody is one of two dates:

- *cleared*: the last release at which the person cannot have held s. A person who is certainly published, and in no
  group that shows s or a "*", does not hold it; nor did they earlier. They may fall ill later.
- *sure*: the first release from which on the person must hold s.

A group with as many people left as it shows s makes all of them sure; a group with as many sure people as it could show
clears the others. That spreads from release to release, forwards and back. Then Bu's own argument: suppose that
somebody holds s; if that contradicts anything published, they do not. (In a group with hundreds of people left that
is not tried: it would tell nothing and take for ever.) What is left is shared out evenly: of a group that shows s c
times, with n people left, each is believed to hold it with c/n. A holder is *breached* once that is more than 1/l.
Every step is sound: nobody is cleared who holds s, or sure who does not, which `check_against` asserts.

Layout. `_with` has the groups of everyone; of each group the number of people left and of sure ones is kept up to date
as dates change, so that a conclusion costs the groups of the person it is about, however large they are. `_trail` has
every date as it was before, to take back what was only supposed.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import NamedTuple

NEVER = 1 << 30
TRIED = 200  # people left in a group that are tried as holders, at most


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
    cleared: Set[int]


class Contradiction(Exception):
    """Something published cannot be, if what was supposed is true."""


class Adversary:
    """All that follows from the clues about one permanent value."""

    def __init__(self) -> None:
        self._at: list[int] = []  # of each group: its release
        self._groups: list[Clue] = []
        self._left: list[int] = []  # of each group: how many may hold s at its release
        self._held: list[int] = []  # of each group: how many of `must` are sure to
        self._with: defaultdict[int, list[int]] = defaultdict(list)  # by person: the groups they may be in
        self._cleared: dict[int, int] = {}
        self._sure: dict[int, int] = {}
        self._trail: list[tuple[dict[int, int], int, int]] = []
        self._waiting: deque[int] = deque()

    def see(self, release: int, clues: Clues) -> None:
        """Takes a release, and draws every conclusion this attack knows."""
        touched: set[int] = set()
        for group in clues.groups:
            place = len(self._groups)
            self._at.append(release)
            self._groups.append(group)
            self._left.append(len(group.may))  # nobody was cleared at this release yet
            self._held.append(sum(person in self._sure for person in group.must))
            self._waiting.append(place)
            touched.add(place)
            for person in group.may:
                self._with[person].append(place)
        for person in self._with.keys() & clues.cleared:  # of others it would say nothing about any group
            self._clear(person, release)
        self._spread()
        touched |= self._keep()
        while touched:
            touched = self._suppose(touched)

    def risk(self, person: int) -> Fraction:
        """What this adversary believes the chance to be that somebody holds s; 0 where no clue is left of them."""
        if person in self._sure:
            return Fraction(1)
        found = Fraction(0)
        for place in self._with.get(person, ()):
            if self._is_left(person, place):
                release, group = self._at[place], self._groups[place]
                sure = sum(date <= release and one in group.may for one, date in self._sure.items())
                if group.least > sure:
                    found = max(found, Fraction(group.least - sure, self._left[place] - sure))
        return found

    def check_against(self, since: Mapping[int, int]) -> None:
        """Asserts that nothing false was concluded; `since` has the release from which on each holder holds s."""
        for person, release in self._sure.items():
            assert since.get(person, NEVER) <= release, "somebody is taken for a holder who is none"
        for person, release in since.items():
            assert self._cleared.get(person, 0) < release, "a holder is taken for somebody who is none"

    def _is_left(self, person: int, place: int) -> bool:
        """Whether somebody may hold s at the release of a group."""
        return self._cleared.get(person, 0) < self._at[place]

    def _is_sure(self, person: int, place: int) -> bool:
        return self._sure.get(person, NEVER) <= self._at[place]

    def _clear(self, person: int, release: int) -> None:
        if self._cleared.get(person, 0) < release:
            self._set(self._cleared, person, release)

    def _make_sure(self, person: int, release: int) -> None:
        if self._sure.get(person, NEVER) > release:
            self._set(self._sure, person, release)

    def _set(self, dates: dict[int, int], person: int, release: int) -> None:
        before = dates.get(person, 0 if dates is self._cleared else NEVER)
        self._trail.append((dates, person, before))
        dates[person] = release
        self._waiting.extend(self._count(dates, person, before, release, 1))
        if self._sure.get(person, NEVER) <= self._cleared.get(person, 0):
            raise Contradiction

    def _count(self, dates: dict[int, int], person: int, one: int, other: int, step: int) -> list[int]:
        """Counts somebody's groups up or down after a date of theirs went from one to another; returns those groups."""
        is_cleared = dates is self._cleared
        early, late = (one + 1, other) if is_cleared else (other, one - 1)
        found = [place for place in self._with.get(person, ()) if early <= self._at[place] <= late]
        for place in found:
            if is_cleared:
                self._left[place] -= step
            elif person in self._groups[place].must:
                self._held[place] += step
        return found

    def _spread(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            release, group = self._at[place], self._groups[place]
            left, held = self._left[place], self._held[place]
            if left < group.least or held > group.most:
                raise Contradiction
            if left == held:
                continue  # everyone left is sure already
            if left == group.least:
                for person in group.may:
                    if self._is_left(person, place):
                        self._make_sure(person, release)
            if held == group.most:
                for person in group.must:
                    if not self._is_sure(person, place):
                        self._clear(person, release)

    def _suppose(self, places: Iterable[int]) -> set[int]:
        """Tries everyone left in these groups as a holder; returns the groups about which that told something."""
        touched: set[int] = set()
        for place in sorted(places):
            if self._left[place] > TRIED:
                continue
            for person in sorted(self._groups[place].may):
                is_open = self._is_left(person, place) and not self._is_sure(person, place)
                if is_open and not self._can_hold(person, self._at[place]):
                    self._clear(person, self._at[place])
                    self._spread()
                    touched |= self._keep()
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
                # Back through the same range of releases, in the same direction, with the opposite sign.
                self._count(dates, one, before, dates[one], -1)
                if before in (0, NEVER):
                    del dates[one]
                else:
                    dates[one] = before
        return True

    def _keep(self) -> set[int]:
        """Keeps what was concluded; returns the groups of everyone it is about."""
        touched = {place for _, person, _ in self._trail for place in self._with.get(person, ())}
        self._trail.clear()
        return touched


def breached(adversary: Adversary, holders: Iterable[int], l: float) -> Iterator[int]:
    """The holders whom the adversary believes to be one with more than 1/l."""
    bound = 1 / Fraction(l)
    return (holder for holder in holders if adversary.risk(holder) > bound)
