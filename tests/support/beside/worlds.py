"""All possible worlds of a small table beside other publishers' groups, counted exactly.

The adversary knows which entries are in which settled group, each other group's multiset, who is really in it, and
which entries each of these people held then: one of them is theirs there. People whom Shoal does not have fill the
rest. A world gives every entry a value. It fits if each group and each multiset comes out, and entries of one person
that were held together, or one right after the other, differ. All worlds are equally likely.

Worlds are counted person by person: `ahead` has how many ways lead to each state of the room that is left, `behind` how
many lead on from it. It shares nothing with the engine or the auditor.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from fractions import Fraction
from itertools import accumulate, product
from math import factorial, prod
from typing import NamedTuple

Multiset = Mapping[int, int]
Entry = tuple[str, int]


class Person(NamedTuple):
    """By entry its group, or none; pairs of entries that differ; by other group the entries that may be in it."""

    groups: Sequence[int | None]
    differ: Sequence[tuple[int, int]] = ()
    inside: Mapping[int, Sequence[int]] = {}


class Table(NamedTuple):
    values: int
    groups: Sequence[Multiset]
    others: Sequence[Multiset]
    people: Mapping[str, Person]


class Counted(NamedTuple):
    worlds: int
    entries: Mapping[Entry, Mapping[int, int]]  # in how many worlds an entry has a value
    people: Mapping[tuple[str, int], int]  # in how many worlds one of the shown entries of a person has it

    def share(self, entry: Entry, value: int) -> Fraction:
        return Fraction(self.entries[entry].get(value, 0), self.worlds)


def count_worlds(table: Table, shown: Set[Entry]) -> Counted:
    """Counts the worlds; at least one fits, the true one."""
    places = {(at, value): 0 for at, room in enumerate(_rooms(table)) for value in sorted(room)}
    places = {pair: place for place, pair in enumerate(places)}
    start = tuple(_rooms(table)[at][value] for at, value in places)
    stories = {name: list(_tell(table, person, places)) for name, person in table.people.items()}
    ahead: list[Counter[tuple[int, ...]]] = [Counter({start: 1})]
    for told in stories.values():
        following: Counter[tuple[int, ...]] = Counter()
        for room, ways in ahead[-1].items():
            for _, uses in told:
                left = _use(room, uses)
                if left is not None:
                    following[left] += ways
        ahead.append(following)
    behind = Counter({room: _fill(table, room) for room in ahead[-1]})
    worlds = sum(ways * behind[room] for room, ways in ahead[-1].items())
    entries: dict[Entry, Counter[int]] = defaultdict(Counter)
    people: Counter[tuple[str, int]] = Counter()
    for (name, told), before in zip(reversed(stories.items()), ahead[-2::-1], strict=True):
        earlier: Counter[tuple[int, ...]] = Counter()
        for values, uses in told:
            through = 0
            for room, ways in before.items():
                left = _use(room, uses)
                if left is not None and left in behind:
                    earlier[room] += behind[left]
                    through += ways * behind[left]
            if through:
                for at, value in enumerate(values):
                    entries[name, at][value] += through
                for value in {value for at, value in enumerate(values) if (name, at) in shown}:
                    people[name, value] += through
        behind = earlier
    return Counted(worlds, entries, people)


class Told(NamedTuple):
    """The people of whom both together tell more than is promised: over 1/l, or too few values."""

    over: frozenset[str]
    few: frozenset[str]


def judge(table: Table, l: int, alpha: int) -> Told:
    """Compares what both together tell with 1/l, with what the others alone tell, and with what Shoal alone tells."""
    shown = {
        (name, at) for name, one in table.people.items() for at, group in enumerate(one.groups) if group is not None
    }
    hidden = {name: one._replace(groups=[None] * len(one.groups)) for name, one in table.people.items()}
    outside = {name: one._replace(inside={}) for name, one in table.people.items()}
    both = count_worlds(table, shown)
    alone = count_worlds(table._replace(groups=[], people=hidden), shown)
    ours = count_worlds(table._replace(others=[], people=outside), shown)
    assert both.worlds, "what is true must be possible"
    over, few = set[str](), set[str]()
    for entry, found in both.entries.items():
        if len(found) < min(alpha, len(alone.entries[entry])):
            few.add(entry[0])
        for value in found:
            most = max(Fraction(1, l), alone.share(entry, value), ours.share(entry, value))
            if both.share(entry, value) > most:
                over.add(entry[0])
    for pair, ways in both.people.items():
        most = max(Fraction(1, l), *(Fraction(one.people.get(pair, 0), one.worlds) for one in (alone, ours)))
        if Fraction(ways, both.worlds) > most:
            over.add(pair[0])
    return Told(frozenset(over), frozenset(few))


def knowing(table: Table, name: str, value: int) -> Table:
    """The table for somebody who knows the only value of a person, who is taken out of the groups they are in."""
    person = table.people[name]
    groups = [
        {one: count - (at == person.groups[0] and one == value) for one, count in group.items()}
        for at, group in enumerate(table.groups)
    ]
    others = [
        {one: count - (at in person.inside and one == value) for one, count in e.items()}
        for at, e in enumerate(table.others)
    ]
    people = {other: one for other, one in table.people.items() if other != name}
    return table._replace(groups=groups, others=others, people=people)


def _rooms(table: Table) -> list[Multiset]:
    return [*table.groups, *table.others]


def _tell(
    table: Table, person: Person, places: Mapping[tuple[int, int], int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every value of each entry and every choice of what the others have: the values, and the places they use."""
    choices = [range(table.values) if group is None else sorted(table.groups[group]) for group in person.groups]
    for values in product(*choices):
        if any(values[one] == values[other] for one, other in person.differ):
            continue
        for which in product(*person.inside.values()):
            pairs = [(group, values[at]) for at, group in enumerate(person.groups) if group is not None]
            pairs += [(len(table.groups) + e, values[at]) for e, at in zip(person.inside, which, strict=True)]
            if all(pair in places for pair in pairs):
                yield values, tuple(places[pair] for pair in pairs)


def _use(room: tuple[int, ...], uses: tuple[int, ...]) -> tuple[int, ...] | None:
    left = list(room)
    for place in uses:
        left[place] -= 1
        if left[place] < 0:
            return None
    return tuple(left)


def _fill(table: Table, room: tuple[int, ...]) -> int:
    """In how many ways people of whom nothing else is known take the room that is left."""
    ends = list(accumulate(len(one) for one in _rooms(table)))
    parts = [room[first:end] for first, end in zip([0, *ends], ends, strict=False)]
    return prod(factorial(sum(part)) // prod(map(factorial, part)) for part in parts)
