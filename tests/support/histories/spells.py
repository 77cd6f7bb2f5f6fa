"""Small random histories of people with spells, and publishers that keep rules S1 to S4 or leave one of them out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeAlias

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Spell
from shoal.core.audit.attack.worlds import Token

M = 4
Entries: TypeAlias = dict[Spell, int]  # spells of one release with their values
Signature: TypeAlias = tuple[int, ...]
Sign: TypeAlias = Callable[[Spell, int, int], Signature]  # of a spell with a value in a release


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


def draw_history(random: Random, values: int, most: int = 2) -> list[dict[str, frozenset[int]]]:
    """Three to six people in three or four releases, who come, go, return and change, with up to `most` values."""
    people = [f"p{n}" for n in range(random.randint(3, 6))]
    held: dict[str, frozenset[int]] = {}
    found = []
    for _ in range(random.randint(3, 4)):
        for person in people:
            fate = random.random()
            if fate < 0.15:
                held.pop(person, None)
            elif person not in held or fate < 0.4:
                held[person] = frozenset(random.sample(range(values), random.randint(1, most)))
        found.append(dict(held))
    return found


def few(history: Sequence[Entries], most: int) -> list[Entries]:
    """Only what S3 allows to be shown, with blocks of M values as signatures: the rest is "*", and says nothing."""
    shown: dict[tuple[str, int], set[int]] = defaultdict(set)
    found = []
    for entries in history:
        kept = {}
        for spell, value in sorted(entries.items()):
            values = shown[spell.person, value // M]
            if value in values or len(values) < most:
                values.add(value)
                kept[spell] = value
        found.append(kept)
    return found


def publish(history: Sequence[Entries], sign: Sign, random: Random, is_even: bool = True) -> list[list[EntryGroup]]:
    """Entries of one signature in groups of up to five, drawn anew in each release; counts made even, or not."""
    found = []
    for number, entries in enumerate(history, start=1):
        rows: dict[Signature, list[Spell]] = defaultdict(list)
        for spell, value in entries.items():
            rows[sign(spell, value, number)].append(spell)
        groups = []
        for signature, spells in sorted(rows.items()):
            random.shuffle(spells)
            size = random.randint(2, 5)
            for at in range(0, len(spells), size):
                part = spells[at : at + size]
                counts = Counter(entries[spell] for spell in part)
                each = max(counts.values())
                shown: dict[Token, int] = {
                    (value,): each if is_even else counts[value] or 1 for value in signature if is_even or counts[value]
                }
                groups.append(EntryGroup(tuple(part), shown))
        found.append(groups)
    return found


def by_block(_spell: Spell, value: int, _number: int) -> Signature:
    """S1 and S2: the same cut of all values into blocks, for everybody and always."""
    return tuple(range(value // M * M, (value // M + 1) * M))


def drawn_each_time(values: int, seed: int) -> Sign:
    """Without S1: a signature is drawn for every spell in every release."""
    return lambda spell, value, number: _draw(values, value, (spell.person, value, number, seed))


def drawn_once(values: int, seed: int) -> Sign:
    """Without S2: a signature is drawn once for each person and value, whatever the person's others are."""
    return lambda spell, value, _: _draw(values, value, (spell.person, value, seed))


def _draw(values: int, value: int, seed: Iterable[object]) -> Signature:
    others = [one for one in range(values) if one != value]
    return tuple(sorted([value, *Random(repr(seed)).sample(others, M - 1)]))
