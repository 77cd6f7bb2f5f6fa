"""Small random histories of people with spells, and publishers that keep rules S1 to S4 or leave one of them out."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Spell
from shoal.core.audit.attack.worlds import Token

Entries: TypeAlias = dict[Spell, int]  # spells of one release with their values
Place: TypeAlias = tuple[str, int]  # a person and a value


def spell_out(history: Sequence[dict[str, frozenset[int]]]) -> list[Entries]:
    """The spells of each release: a value lasts while its person is there and holds it."""
    runs: dict[tuple[str, int], list[list[int]]] = defaultdict(list)
    for number, table in enumerate(history, start=1):
        for person, values in table.items():
            for value in values:
                known = runs[person, value]
                if known and known[-1][1] == number - 1:
                    known[-1][1] = number
                else:
                    known.append([number, number])
    found: list[Entries] = [{} for _ in history]
    for (person, value), spells in runs.items():
        for first, last in spells:
            # Values are named by a number that says nothing to the adversary, and tells two spells alike apart.
            for number in range(first, last + 1):
                found[number - 1][Spell(person, first, last, value)] = value
    return found


def draw_history(random: Random, values: int, people: int, most: int = 2) -> list[dict[str, frozenset[int]]]:
    """People in four releases, who come, go, return and change, with up to `most` values."""
    held: dict[str, frozenset[int]] = {}
    found = []
    for _ in range(4):
        for person in (f"p{n}" for n in range(people)):
            fate = random.random()
            if fate < 0.15:
                held.pop(person, None)
            elif person not in held or fate < 0.4:
                held[person] = frozenset(random.sample(range(values), random.randint(1, most)))
        found.append(dict(held))
    return found


class Settled:
    """Publishes settled groups of up to `rounds` entries of each value, with blocks of `m` values as signatures.

    `without` is the rule that it does not keep: S2 (everybody is a newcomer again in each release, and blocks are cut
    in two ways in turn), S3 (any number of values of a person), S4 (groups are not even), or places (newcomers take
    those of who left).
    """

    def __init__(self, m: int, values: int, most: int, rounds: int = 1, without: str = "") -> None:
        self.m, self.values, self.most, self.rounds, self.without = m, values, most, rounds, without
        self.shift = 0
        self.truth: dict[Spell, Token] = {}

    def publish(self, history: Sequence[Entries], random: Random) -> list[list[EntryGroup]]:
        """The groups of each release. An entry that is starred once stays so for its spell."""
        hulls = self._hulls(history)
        groups: list[tuple[tuple[int, ...], int, list[Spell]]] = []  # signature, how often, and who was ever in it
        homes: dict[Spell, int] = {}
        starred: set[Spell] = set()
        found = []
        for number, entries in enumerate(history):
            if self.without == "S2":
                homes, self.shift = {}, self.m // 2 * (number % 2)
            newcomers = [spell for spell in entries if hulls[spell] not in homes and spell not in starred]
            random.shuffle(newcomers)
            if self.without == "places":
                newcomers = self._refill(newcomers, entries, hulls, groups, homes)
            for signature, each, rows in self._deal(newcomers, hulls, groups, random):
                groups.append((signature, each, rows))
                homes |= dict.fromkeys(rows, len(groups) - 1)
            starred |= {spell for spell in newcomers if hulls[spell] not in homes}
            shown: dict[int, list[Spell]] = defaultdict(list)
            for spell, value in entries.items():
                if hulls[spell] in homes:
                    shown[homes[hulls[spell]]].append(hulls[spell])
                    self.truth[hulls[spell]] = (value,)
            found.append(
                [
                    EntryGroup(rows, dict.fromkeys([(v,) for v in groups[at][0]], groups[at][1]))
                    for at, rows in shown.items()
                ]
            )
        return found

    def _hulls(self, history: Sequence[Entries]) -> dict[Spell, Spell]:
        """What a spell is known as: with S1, all spells of one value of a person are one."""
        spans: dict[Place, tuple[int, int]] = {}
        for entries in history:
            for spell, value in entries.items():
                first, last = spans.get((spell.person, value), (spell.first, spell.last))
                spans[spell.person, value] = min(first, spell.first), max(last, spell.last)
        everything = {spell: value for entries in history for spell, value in entries.items()}
        return {spell: Spell(spell.person, *spans[spell.person, value], value) for spell, value in everything.items()}

    def signature(self, spell: Spell) -> tuple[int, ...]:
        first = (spell.number - self.shift) % self.values // self.m * self.m + self.shift
        return tuple(sorted(one % self.values for one in range(first, first + self.m)))

    def _deal(
        self,
        newcomers: Sequence[Spell],
        hulls: dict[Spell, Spell],
        groups: Sequence[tuple[tuple[int, ...], int, list[Spell]]],
        random: Random,
    ) -> list[tuple[tuple[int, ...], int, list[Spell]]]:
        """As many groups as there are; one entry of a person in each, and no more of theirs than S3 allows."""
        spent = Counter((row.person, signature) for signature, _, rows in groups for row in rows)
        waiting: dict[tuple[int, ...], list[Spell]] = defaultdict(list)
        for spell in newcomers:
            signature = self.signature(spell)
            if self.without == "S3" or spent[spell.person, signature] < self.most:
                spent[spell.person, signature] += 1
                waiting[signature].append(hulls[spell])
        found = []
        for signature, spells in waiting.items():
            left = spells
            while group := self._form(signature, left, random):
                found.append(group)
                left = [spell for spell in left if spell not in group[2]]
        return found

    def _form(
        self, signature: tuple[int, ...], spells: Sequence[Spell], random: Random
    ) -> tuple[tuple[int, ...], int, list[Spell]] | None:
        if self.without == "S4":
            rows = list({spell.person: spell for spell in spells[: self.m]}.values())
            shown = tuple(sorted({row.number for row in rows}))
            return (shown, max(Counter(row.number for row in rows).values()), rows) if rows else None
        for each in range(random.randint(1, self.rounds), 0, -1):
            rows, people = [], set[str]()
            for value in signature:
                mine = [spell for spell in spells if spell.number == value and spell.person not in people][:each]
                people |= {spell.person for spell in mine}
                rows += mine
            if len(rows) == each * len(signature):
                return signature, each, rows
        return None

    def _refill(
        self,
        newcomers: Sequence[Spell],
        entries: Entries,
        hulls: dict[Spell, Spell],
        groups: Sequence[tuple[tuple[int, ...], int, list[Spell]]],
        homes: dict[Spell, int],
    ) -> list[Spell]:
        left = []
        there = {hulls[spell] for spell in entries}
        for spell in newcomers:
            for at, (signature, each, rows) in enumerate(groups):
                taken = sum(row in there and row.number == spell.number for row in rows)
                if spell.number in signature and taken < each and spell.person not in {row.person for row in rows}:
                    rows.append(hulls[spell])
                    homes[hulls[spell]] = at
                    break
            else:
                left.append(spell)
        return left
