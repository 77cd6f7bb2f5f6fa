"""What an audit finds: broken promises as fixed sentences, with how often and where, never with a person or a value."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

PLACES_KEPT: Final = 3


class Promise(StrEnum):
    """What a finding is about."""

    G1 = "G1"
    G2 = "G2"
    G3 = "G3"
    G4 = "G4"
    G5 = "G5"
    G6 = "G6"
    CONTRACT = "contract"


TITLES: Final = {
    Promise.G1: "cells (Pei)",
    Promise.G2: "global (Wong)",
    Promise.G3: "permanent (Bu)",
    Promise.G4: "personal (Xiao-Tao)",
    Promise.G5: "composition (Baig)",
    Promise.G6: "one truth",
    Promise.CONTRACT: "what releases say of themselves",
}


LASTING_TITLES: Final = TITLES | {
    Promise.G2: "settled groups (m-invariance)",
    Promise.G3: "permanent (cliques)",
    Promise.G5: "composition (blocks)",
}


@dataclass
class Broken:
    """One way in which a promise is broken: how often, in which releases, and the first places, by published names."""

    promise: Promise
    sentence: str
    times: int = 0
    releases: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        releases = f"release {self.releases[0]}" if len(self.releases) == 1 else f"{len(self.releases)} releases"
        first = "" if len(self.releases) == 1 else f", first in release {self.releases[0]}"
        times = "once" if self.times == 1 else f"{self.times:,} times"
        places = f" ({', '.join(self.places)}{', …' if self.times > len(self.places) else ''})" if self.places else ""
        return f"{self.sentence}: {times} in {releases}{first}{places}"


class Findings:
    """Collects what is broken. A sentence never holds an id or a value; a place is a name that was published."""

    def __init__(self) -> None:
        self._broken: dict[tuple[Promise, str], Broken] = {}

    def say(self, promise: Promise, sentence: str, release: int, place: str | None = None, times: int = 1) -> None:
        """Notes that a promise was broken in a release; `times` of 0 is nothing."""
        if not times:
            return
        found = self._broken.setdefault((promise, sentence), Broken(promise, sentence))
        found.times += times
        if release not in found.releases:
            found.releases.append(release)
        if place is not None and len(found.places) < PLACES_KEPT and place not in found.places:
            found.places.append(place)

    def about(self, promise: Promise) -> list[Broken]:
        """Everything that breaks one promise, in the order in which it was found."""
        return [broken for broken in self._broken.values() if broken.promise is promise]

    def __iter__(self) -> Iterator[Broken]:
        return iter(self._broken.values())

    def __len__(self) -> int:
        return len(self._broken)
