"""Counts the worlds of an audited lasting table, as long as it is small enough; for a larger one it says nothing.

A row of the membership becomes an entry: one value of one person, with all of its spells. Cliques are kept apart. What
comes out is compared with the promise: every entry exactly 1/m, every person and value at most j/m, every holder among
at least l people, and, with the values of as many people known as the policy has insiders, at most 1/l.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell, TooManyWorlds, Uneven, count_holders
from shoal.core.audit.attack.neighbours import Insight, best_insiders
from shoal.core.audit.attack.worlds import Token

PEOPLE = 20
LIMIT = 20_000
LARGEST_COALITION = 2  # of larger ones there are too many to go through

Shown = Mapping[Token, int]
Row = tuple[str, int | None]  # a person, and the leaf that the row stands for
Entry = tuple[str, int, int]  # a person, a leaf, and a number: somebody erased has another entry when they come back


class Enumerated(NamedTuple):
    """All worlds of a small table against the promise; `holder` is the likeliest holder of a clique.

    `insiders` has every single person of the table as the insider, and where the policy says so every two.
    """

    worlds: int
    uneven: Uneven
    holder: Fraction
    insiders: tuple[Insight, ...]

    def is_kept(self, bound: Fraction, insiders: int = 0) -> bool:
        """Whether every entry is 1/m, and nobody is over their bound, for so many insiders either."""
        is_even = self.worlds > 0 and (self.uneven.spells, self.uneven.pairs) == (0, 0)
        told = [one.largest for one in self.insiders if one.insiders <= insiders]
        return is_even and max(self.uneven.largest, self.holder, *told, Fraction(0)) <= bound

    def as_json(self) -> dict[str, Any]:
        return {
            "worlds": self.worlds,
            "uneven_spells": self.uneven.spells,
            "pairs_over": self.uneven.pairs,
            "largest": float(self.uneven.largest),
            "holder": float(self.holder),
            "insiders": [one.as_json() for one in self.insiders],
        }


class SmallTable:
    """Sees the releases of a lasting table until they are too many people for it."""

    def __init__(self, l: float, insiders: int) -> None:
        self._l, self._insiders = l, insiders
        self._number = 0
        self._people: set[str] = set()
        self._since: dict[tuple[str, int], int] = {}
        self._entries: dict[tuple[str, int], Entry] = {}
        self._held: Mapping[str, Iterable[int]] = {}
        self._spells: dict[Entry, tuple[int, int]] = {}  # by entry: its first release, and its last
        self._groups: dict[str, tuple[Shown, frozenset[Entry]]] = {}
        self._releases: list[list[tuple[Shown, frozenset[Entry]]]] = []
        self._cliques: dict[Token, list[Sequence[str]]] = defaultdict(list)
        self._gained: dict[int, int] = {}  # by leaf, the release with which it came

    def see(
        self,
        groups: Iterable[tuple[str, Shown, Sequence[Row]]],
        cliques: Iterable[tuple[Token, Sequence[str]]],
        held: Mapping[str, Iterable[int]],
        came: Iterable[int] = (),
        erased: Iterable[str] = (),
    ) -> None:
        """Takes a release: signatures and plain groups, cliques, everybody's values, and those that came with it."""
        self._people |= held.keys()
        self._number += 1
        self._gained |= dict.fromkeys(came, self._number)
        if len(self._people) > PEOPLE:
            self._releases.clear()
            return
        now = {(person, leaf) for person, values in held.items() for leaf in values}
        self._since = {pair: self._since.get(pair, self._number) for pair in now}
        for person in erased:
            stay = set(self._held.get(person, ())) & set(held.get(person, ()))
            for leaf in [leaf for one, leaf in self._entries if one == person and leaf not in stay]:
                del self._entries[person, leaf]
        self._held = held
        release = []
        for name, shown, rows in groups:
            entries = frozenset(self._entry(person, leaf) for person, leaf in rows if leaf is not None)
            first_shown, first_entries = self._groups.setdefault(name, (shown, entries))
            is_first = first_entries is entries
            if is_first or shown != first_shown or not entries <= first_entries:
                release.append((shown, entries))  # what a settled group shows later says nothing more
        self._releases.append(release)
        for token, people in cliques:
            self._cliques[token].append(people)

    def _entry(self, person: str, leaf: int) -> Entry:
        entry = self._entries.setdefault((person, leaf), (person, leaf, len(self._spells)))
        first, _ = self._spells.get(entry, (self._since[person, leaf], 0))
        self._spells[entry] = first, self._number
        return entry

    def count(self) -> Enumerated | None:
        """All worlds; None if the table is too large."""
        if len(self._people) > PEOPLE:
            return None
        spells = {
            entry: Spell(entry[0], first, last, number)
            for number, (entry, (first, last)) in enumerate(self._spells.items())
        }
        releases = [
            [EntryGroup([spells[entry] for entry in sorted(entries)], shown) for shown, entries in groups]
            for groups in self._releases
        ]
        truth: dict[Spell, Token] = {spell: (leaf,) for (_, leaf, _), spell in spells.items()}
        try:
            series = Series(releases, limit=LIMIT, since=self._gained)
            counted = series.count()
            holders = [share for groups in self._cliques.values() for share in count_holders(groups, LIMIT).values()]
            sizes = range(1, min(LARGEST_COALITION, max(1, self._insiders)) + 1)
            insiders = tuple(best_insiders(series, truth, self._l, size) for size in sizes)
        except TooManyWorlds:
            return None
        return Enumerated(counted.worlds, series.check(counted), max(holders, default=Fraction(0)), insiders)
