"""What people of the table could learn of each other: neighbours, who know their own values, and coalitions of them.

`best_insiders` counts worlds, on small tables, and is exact. `Neighbours` is for large ones: the most that the best
placed coalition could learn of anybody, by the permutations that change nothing published (docs/design.md, "Values that
last"). Where all people of a group have one value under its signature S, those are the permutations of the group
itself: a coalition of t in a group of q entries of each of m values is left with q of qm − t. Where somebody has more,
groups are tied to each other by them, and the permutations of S are left: j of m − t.

Where the policy's `insiders` are at least t, that is a promise: at most 1/l. Otherwise it is reported.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

from shoal.core.audit.attack.lasting_worlds import Series, Spell
from shoal.core.audit.attack.worlds import Token


class Insight(NamedTuple):
    """The most that so many insiders are sure of about somebody else, for how many it is over 1/l, of how many."""

    insiders: int
    largest: Fraction
    over: int
    people: int

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "largest": float(self.largest)}


def best_insiders(series: Series, truth: Mapping[Spell, Token], l: float, insiders: int = 1) -> Insight:
    """For everyone the best placed so many of the others, with all of their values known. Raises `TooManyWorlds`."""
    people = sorted({spell.person for spell in series.groups})
    surest = dict.fromkeys(people, Fraction(0))
    for coalition in combinations(people, insiders):
        known = {spell: token for spell, token in truth.items() if spell.person in coalition}
        for (person, token), share in series.count(known).people.items():
            if person not in coalition and not series.is_plain(person, token):
                surest[person] = max(surest[person], share)
    return _insight(insiders, list(surest.values()), l)


@dataclass
class _Places:
    """The groups of a person under one signature, and their values there."""

    groups: set[str] = field(default_factory=set)
    values: set[int | None] = field(default_factory=set)


class Neighbours:
    """Sees the groups of a lasting table release by release, and who is in which."""

    def __init__(self, l: float, insiders: int) -> None:
        self._l, self._insiders = l, max(1, insiders)
        self._shown: dict[str, Mapping[Token, int]] = {}
        self._places: dict[frozenset[Token], dict[str, _Places]] = defaultdict(lambda: defaultdict(_Places))

    def see(self, groups: Iterable[tuple[str, Mapping[Token, int], Sequence[tuple[str, int | None]]]]) -> None:
        """Takes the groups of the next release that show signatures, by name, with the person and leaf of each row."""
        for name, shown, rows in groups:
            self._shown.setdefault(name, shown)
            under = self._places[frozenset(shown)]
            for person, leaf in rows:
                under[person].groups.add(name)
                under[person].values.add(leaf)

    def result(self) -> Insight:
        surest: dict[str, Fraction] = {}
        for signature, people in self._places.items():
            tied = {name for places in people.values() if len(places.groups) > 1 for name in places.groups}
            for person, places in people.items():
                share = self._share(signature, places, is_tied=bool(places.groups & tied))
                surest[person] = max(surest.get(person, share), share)
        return _insight(self._insiders, list(surest.values()), self._l)

    def _share(self, signature: frozenset[Token], places: "_Places", *, is_tied: bool) -> Fraction:
        if is_tied:
            return min(Fraction(1), Fraction(len(places.values), max(1, len(signature) - self._insiders)))
        (name,) = places.groups
        counts = self._shown[name].values()
        return min(Fraction(1), Fraction(max(counts), max(1, sum(counts) - self._insiders)))


def _insight(insiders: int, surest: Sequence[Fraction], l: float) -> Insight:
    bound = 1 / Fraction(l)
    return Insight(insiders, max(surest, default=Fraction(0)), sum(share > bound for share in surest), len(surest))
