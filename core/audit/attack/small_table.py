"""Counts the worlds of an audited lasting table, as long as it is small enough; for a larger one it says nothing.

The rows of the membership become spells, and cliques are kept apart. What comes out is compared with
the promise: every spell exactly 1/m, every person and value at most j/m, every holder among at least l people.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.insider import Insight, best_insider
from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell, TooManyWorlds, Uneven, count_holders
from shoal.core.audit.attack.worlds import Token

PEOPLE = 20
LIMIT = 20_000

Shown = Mapping[Token, int]
Row = tuple[str, int | None]  # a person, and the leaf that the row stands for


class Enumerated(NamedTuple):
    """All worlds of a small table against the promise; `holder` is the likeliest holder of a clique."""

    worlds: int
    uneven: Uneven
    holder: Fraction
    insider: Insight

    def is_kept(self, bound: Fraction) -> bool:
        """Whether every spell is 1/m, and nobody is over their bound."""
        is_even = self.worlds > 0 and (self.uneven.spells, self.uneven.pairs) == (0, 0)
        return is_even and max(self.uneven.largest, self.holder) <= bound

    def as_json(self) -> dict[str, Any]:
        return {
            "worlds": self.worlds,
            "uneven_spells": self.uneven.spells,
            "pairs_over": self.uneven.pairs,
            "largest": float(self.uneven.largest),
            "holder": float(self.holder),
            "insider": self.insider.as_json(),
        }


class SmallTable:
    """Sees the releases of a lasting table until they are too many people for it."""

    def __init__(self, l: float) -> None:
        self._l = l
        self._number = 0
        self._people: set[str] = set()
        self._since: dict[tuple[str, int], int] = {}
        self._until: dict[tuple[str, int, int], int] = {}  # by person, leaf and first release
        self._rows: list[list[tuple[Shown, list[tuple[str, int, int]]]]] = []
        self._cliques: dict[Token, list[Sequence[str]]] = defaultdict(list)
        self._gained: dict[int, int] = {}  # by leaf, the release with which it came

    def see(
        self,
        entries: Iterable[tuple[Shown, Sequence[Row]]],
        cliques: Iterable[tuple[Token, Sequence[str]]],
        held: Mapping[str, Iterable[int]],
        came: Iterable[int] = (),
    ) -> None:
        """Takes a release: signatures and plain groups, cliques, everybody's values, and those that came with it."""
        self._people |= held.keys()
        self._number += 1
        self._gained |= dict.fromkeys(came, self._number)
        if len(self._people) > PEOPLE:
            self._rows.clear()
            return
        now = {(person, leaf) for person, values in held.items() for leaf in values}
        self._since = {pair: self._since.get(pair, self._number) for pair in now}
        for (person, leaf), first in self._since.items():
            self._until[person, leaf, first] = self._number
        self._rows.append(
            [
                (shown, [(person, leaf, self._since[person, leaf]) for person, leaf in rows if leaf is not None])
                for shown, rows in entries
            ]
        )
        for token, people in cliques:
            self._cliques[token].append(people)

    def count(self) -> Enumerated | None:
        """All worlds; None if the table is too large."""
        if len(self._people) > PEOPLE:
            return None
        spells = {
            (person, leaf, first): Spell(person, first, last, number)
            for number, ((person, leaf, first), last) in enumerate(self._until.items())
        }
        releases, truth = [], {}
        for groups in self._rows:
            release = []
            for shown, rows in groups:
                release.append(EntryGroup([spells[row] for row in rows], shown))
                for row in rows:
                    truth[spells[row]] = next((token for token in shown if row[1] in token), (row[1],))
            releases.append(release)
        try:
            series = Series(releases, self._l, limit=LIMIT, since=self._gained)
            counted = series.count()
            holders = [share for groups in self._cliques.values() for share in count_holders(groups, LIMIT).values()]
            insider = best_insider(series, truth, self._l)
        except TooManyWorlds:
            return None
        return Enumerated(counted.worlds, series.check(counted), max(holders, default=Fraction(0)), insider)
