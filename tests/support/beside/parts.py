"""Even parts beside other publishers' groups that are tied, and what may stay when a publication arrives later."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from random import Random

from tests.support.beside.budget import may_stand
from tests.support.beside.tables import Ward
from tests.support.beside.worlds import Person, Table


def deal_parts(random: Random, ward: Ward, least: int, is_all: bool = True, is_cut: bool = True) -> Table:
    """Groups of anybody inside any e, of whole parts that all of these show alike.

    Wrong: without `is_all` values without a part are "*" for themselves; without `is_cut` signatures cross parts.
    """
    alike = defaultdict(list)
    for value in range(ward.values):
        alike[tuple(e.get(value, 0) for e in ward.others)].append(value)
    parts, has_all = list[list[int]](), True
    for values in alike.values():
        count = len(values) // least
        has_all &= count > 0
        parts += [values[at * least : (at + 1) * least if at < count - 1 else None] for at in range(count)]
    groups, mine = list[dict[int, int]](), dict[str, int]()
    for _ in range(8 if parts and (has_all or not is_all) else 0):
        random.shuffle(parts)
        signature = list[int]()
        for part in parts:
            signature += part if len(signature) < ward.m else []
        if not is_cut:
            signature = random.sample(range(ward.values), min(ward.m, ward.values))
        waiting = {ward.held[one][0]: one for one, places in ward.places.items() if places and one not in mine}
        if len(signature) >= ward.m and waiting.keys() >= set(signature):
            mine |= {waiting[value]: len(groups) for value in signature}
            groups.append(dict.fromkeys(signature, 1))
    return _table(ward, groups, mine)


def deal_before(random: Random, ward: Ward) -> Table:
    """Groups of anybody, formed when nothing of the others was known."""
    groups, mine = list[dict[int, int]](), dict[str, int]()
    for _ in range(5):
        waiting = {held[0]: one for one, held in ward.held.items() if one not in mine}
        if len(waiting) >= ward.m:
            signature = random.sample(sorted(waiting), random.randint(ward.m, min(2 * ward.m - 1, len(waiting))))
            mine |= {waiting[value]: len(groups) for value in signature}
            groups.append(dict.fromkeys(signature, 1))
    return _table(ward, groups, mine)


def _table(ward: Ward, groups: Sequence[Mapping[int, int]], mine: Mapping[str, int]) -> Table:
    people = {
        one: Person([mine.get(one)], [], ward.inside[one]) for one in ward.held if one in mine or ward.inside[one]
    }
    return Table(ward.values, groups, ward.others, people)


class Late:
    """Who of those shown before may stay, once others have published."""

    def __init__(self, ward: Ward, table: Table) -> None:
        self._ward, self._table = ward, table
        self._group = {one: person.groups[0] for one, person in table.people.items()}
        together = [set(ward.places[one]) for one in ward.held]
        self._tied_by_people = _join(len(ward.others), together)
        for at in range(len(table.groups)):
            mates = [one for one, group in self._group.items() if group == at]
            together.append({e for one in mates for e in ward.places[one]})
        self._tied = _join(len(ward.others), together)

    def shown(self) -> list[str]:
        """Everyone inside who was shown."""
        return [one for one, group in self._group.items() if group is not None and self._ward.places[one]]

    def by_rule(self, person: str, least: int) -> bool:
        """Within the budget of an e that nothing ties to another, or in even parts that no signature tells apart."""
        tied = self._tied[self._ward.places[person][0]]
        if self._smallest(person, tied, marked=True) >= least:
            return True
        rounds = Counter(tuple(sorted(self._table.groups[at])) for at in self._inside(tied))
        return len(tied) == 1 and may_stand(self._ward.others[min(tied)], rounds, least, least)

    def by_counts(self, person: str, least: int, through_groups: bool) -> bool:
        """Wrong: in parts that these e show equally often, whatever the signatures of others in them."""
        ties = self._tied if through_groups else self._tied_by_people
        return self._smallest(person, ties[self._ward.places[person][0]], marked=False) >= least

    def _inside(self, tied: set[int]) -> set[int]:
        places = self._ward.places
        return {at for one, at in self._group.items() if at is not None and not tied.isdisjoint(places[one])}

    def _smallest(self, person: str, tied: set[int], marked: bool) -> int:
        at = self._group[person]
        assert at is not None
        marks = [self._table.groups[group] for group in sorted(self._inside(tied))] if marked else []
        others = [self._ward.others[e] for e in sorted(tied)]
        alike = Counter(
            (tuple(e.get(value, 0) for e in others), tuple(value in mark for mark in marks))
            for value in self._table.groups[at]
        )
        return min(alike.values())


def _join(others: int, together: Iterable[Set[int]]) -> list[set[int]]:
    """By e all that are tied to it, directly or through others."""
    found = [{e} for e in range(others)]
    for several in together:
        joined = {one for e in several for one in found[e]}
        for e in joined:
            found[e] = joined
    return found
