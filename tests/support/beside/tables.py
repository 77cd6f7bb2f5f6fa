"""Random small tables beside other publishers' groups, dealt into settled groups under a rule."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from tests.support.beside.budget import Counts, Signature
from tests.support.beside.worlds import Person, Table

Rule = Callable[[Counts, Counter[Signature]], bool]


class Ward(NamedTuple):
    """People with their values, in whose regions they were, and what others published of those really in it."""

    values: int
    m: int
    held: Mapping[str, Sequence[int]]
    places: Mapping[str, Sequence[int]]
    inside: Mapping[str, Mapping[int, Sequence[int]]]  # by person and other group, the entries that may be in it
    others: Sequence[Counts]


def draw_ward(
    random: Random, others: int = 1, moving: bool = False, several: bool = False, people: tuple[int, int] = (3, 8)
) -> Ward:
    """So many people; those inside a region may be in the group or not, and strangers are in it as well."""
    values, m = random.randint(4, 8), random.choice([2, 2, 3, 3, 4])
    skew = random.choice([0, 0.5, 1, 1])
    weights = [1 / (1 + rank) ** skew for rank in range(values)]
    held, places, inside = dict[str, list[int]](), dict[str, list[int]](), dict[str, dict[int, list[int]]]()
    share = random.choice([1, 0.8, 0.5])
    for number in range(random.randint(*people)):
        person, mine = f"p{number}", [random.choices(range(values), weights)[0]]
        if several and random.random() < 1 / 3:
            mine.append(random.choice([value for value in range(values) if value not in mine]))
        held[person] = mine
        many = 2 if moving and others > 1 and random.random() < 0.2 else 1
        places[person] = sorted(random.sample(range(others), many)) if others == 1 or random.random() < 0.85 else []
        then = sorted(random.sample(range(len(mine)), random.randint(1, len(mine))))
        inside[person] = {e: then for e in places[person] if random.random() < share}
    found = []
    for e in range(others):
        counts = Counter(held[one][random.choice(which[e])] for one, which in inside.items() if e in which)
        counts.update(random.choices(range(values), weights, k=random.choice([0, 0, 1, 2])))
        found.append(dict(counts))
    return Ward(values, m, held, places, inside, found)


def deal(random: Random, ward: Ward, pools: Iterable[Sequence[str]], rule: Rule, most: int = 1) -> Table:
    """Deals rounds of each pool at random, as many as the rule allows; of people with at most so many values."""
    groups: list[dict[int, int]] = []
    mine: dict[tuple[str, int], int] = {}
    rounds = [Counter[Signature]() for _ in ward.others]
    for pool in pools:
        for _ in range(8):
            waiting = defaultdict[int, list[tuple[str, int]]](list)
            for person in pool:
                if len(ward.held[person]) <= most:
                    for at, value in enumerate(ward.held[person]):
                        if (person, at) not in mine:
                            waiting[value].append((person, at))
            if len(waiting) < ward.m:
                break
            size = random.randint(ward.m, min(2 * ward.m - 1, len(waiting)))
            signature = tuple(sorted(random.sample(sorted(waiting), size)))
            entries = [random.choice(waiting[value]) for value in signature]
            if len({person for person, _ in entries}) < size or not _is_disjoint(signature, entries, mine, groups):
                continue
            beside = {e for person, _ in entries for e in ward.places[person]}
            trial = {e: rounds[e] + Counter([signature]) for e in beside}
            if not all(rule(ward.others[e], after) for e, after in trial.items()):
                continue
            for e, after in trial.items():
                rounds[e] = after
            mine |= dict.fromkeys(entries, len(groups))
            groups.append(dict.fromkeys(signature, 1))
    people = {}
    for person, held in ward.held.items():
        here = [mine.get((person, at)) for at in range(len(held))]
        if ward.inside[person] or any(group is not None for group in here):
            people[person] = Person(here, [(0, 1)] if len(held) > 1 else [], ward.inside[person])
    return Table(ward.values, groups, ward.others, people)


def _is_disjoint(
    signature: Signature,
    entries: Iterable[tuple[str, int]],
    mine: Mapping[tuple[str, int], int],
    groups: Sequence[Counts],
) -> bool:
    """S2: what these people are shown among already has nothing in common with it."""
    people = {person for person, _ in entries}
    return not any(set(groups[group]) & set(signature) for (person, _), group in mine.items() if person in people)


def each_alone(ward: Ward) -> list[list[str]]:
    """The safe pools: people inside one e that shares nobody with another, and people in none."""
    tied = {e for places in ward.places.values() if len(places) > 1 for e in places}
    pools: list[list[str]] = [[] for _ in range(len(ward.others) + 1)]
    for person, places in ward.places.items():
        if not tied.intersection(places):
            pools[places[0] if places else -1].append(person)
    return pools


def untied(ward: Ward) -> list[list[str]]:
    """Wrong: only people inside two of them are left out."""
    return [[one for one, places in ward.places.items() if places == [e]] for e in range(len(ward.others))]


def together(ward: Ward) -> list[list[str]]:
    """Wrong: a group may have people of several e."""
    return [[person for pool in each_alone(ward) for person in pool]]
