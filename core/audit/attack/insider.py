"""What one insider could learn about the others: somebody in the table who knows their own values.

It is reported, not promised. An insider subtracts: of a group that shows each value q times, the insider's own value is
left q - 1 times for the others. And somebody who takes a single leaver's place has the leaver's value, so they know it,
at any size of group (docs/design.md, "Outside the model").

`best_insider` counts worlds, on small tables, and is exact. `Changes` is for large ones: what a single change of a
single group tells at once. Longer chains of changes, and several groups together, may tell more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.attack.lasting_worlds import Series, Spell
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.worlds import Token


class Insight(NamedTuple):
    """The most that any insider is sure of about somebody else, for how many people it is over 1/l, of how many."""

    largest: Fraction
    over: int
    people: int

    def as_json(self) -> dict[str, Any]:
        return {"largest": float(self.largest), "over": self.over, "people": self.people}


def best_insider(series: Series, truth: Mapping[Spell, Token], l: float) -> Insight:
    """For everyone the best placed of the others, with all of that insider's values known. Raises `TooManyWorlds`."""
    people = sorted({spell.person for spell in series.groups})
    surest = dict.fromkeys(people, Fraction(0))
    for insider in people:
        own = {spell: token for spell, token in truth.items() if spell.person == insider}
        for (person, _), share in series.count(own).people.items():
            if person != insider:
                surest[person] = max(surest[person], share)
    bound = 1 / Fraction(l)
    return Insight(max(surest.values(), default=Fraction(0)), sum(s > bound for s in surest.values()), len(surest))


class Changes:
    """Sees the groups of a lasting table release by release, and what each change tells one of those it concerns."""

    def __init__(self, l: float) -> None:
        self._bound = 1 / Fraction(l)
        self._before: dict[object, ShownGroup] = {}
        self._surest: dict[str, Fraction] = {}

    def see(self, groups: Sequence[ShownGroup]) -> None:
        """Takes the groups of the next release that show signatures; a group keeps its key."""
        now = {group.key: group for group in groups}
        for key, group in now.items():
            before = self._before.get(key)
            if before is not None and before.rows == group.rows and before.shown == group.shown:
                continue
            people = set(group.rows)
            for person in people if len(people) > 1 else ():
                self._learn(person, _share_of_mates(group))
            if before is not None:
                self._compare(before, group)
        self._before = now

    def _compare(self, before: ShownGroup, after: ShownGroup) -> None:
        """Of x values that left a group and x that came, as many alike: who came has the value of one who left.

        A leaver has the value of one newcomer with 1/x, and otherwise with at most what it is among the others. A
        counterfeit, before or after, may be who left or came.
        """
        old, new = Counter(before.rows), Counter(after.rows)
        left, came = old - new, new - old
        if not left or not came:
            return
        places = max(left.total() + _counterfeits(before), came.total() + _counterfeits(after))
        mates = max(_share_of_mates(before), _share_of_mates(after))
        sure = Fraction(1, places) + (1 - Fraction(1, places)) * mates
        for person in left.keys() | came.keys():
            others = (came if person in left else left).keys() - {person}
            if others:
                self._learn(person, sure)

    def _learn(self, person: str, share: Fraction) -> None:
        if share > self._surest.get(person, 0):
            self._surest[person] = share

    def result(self) -> Insight:
        found = self._surest.values()
        return Insight(max(found, default=Fraction(0)), sum(share > self._bound for share in found), len(found))


def _counterfeits(group: ShownGroup) -> int:
    return max(0, sum(group.shown.values()) - len(group.rows))


def _share_of_mates(group: ShownGroup) -> Fraction:
    """What an insider believes of a mate: q of the n - 1 values that are not the insider's own."""
    total = sum(group.shown.values())
    return min(Fraction(1), Fraction(max(group.shown.values()), max(1, total - 1)))
