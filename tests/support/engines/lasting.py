"""A small and naive publisher of a lasting table, to audit: slow, wasteful and right; and wrong ones made of it.

Transient values are cut once and for all into blocks of m or more, and the signature of a value is its block. So
signatures are equal or disjoint without any choosing. Newcomers wait until there are as many as the policy's batch;
then each block is dealt into groups of one entry of each value, and the rest is "*" for its spell, with as many others
as it takes to hide it. Every rule has a method of its own, which a wrong publisher replaces (docs/design.md, "Values
that last").
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from itertools import count
from math import ceil, floor
from random import Random
from typing import Any, NamedTuple

from shoal.core.policy.policy import Policy
from tests.support.engines.lasting_desk import DISEASES, OPEN, PERMANENT, TRANSIENT, LastingDesk, Row, Shown

CELLS = {"c1": (0, 49), "c2": (50, 99)}

Signature = frozenset[str]
Entry = tuple[str, str]  # a person and a value


class Formed(NamedTuple):
    """A group as it was formed: each of its values is shown `each` times."""

    signature: Signature
    each: int
    entries: set[Entry]


class Publisher:
    """People with ages, values and guards, and what was shown of them. Change `table`, then `release`."""

    def __init__(self, policy: Policy, folder: Any = None) -> None:
        self.policy, self.desk = policy, LastingDesk(policy, CELLS, folder)
        self.m = policy.signature
        self.table: dict[str, tuple[int, frozenset[str], Any]] = {}  # age, values, guard
        self._before: dict[str, tuple[int, frozenset[str], Any]] = {}
        self.spells: dict[str, dict[str, int]] = {}
        self.groups: dict[str, Formed] = {}
        self.home: dict[Entry, str] = {}  # the group of each entry that was ever shown in one
        self.starred: set[tuple[str, str, int]] = set()  # spells that stay "*"
        self.plain: dict[str, set[str]] = defaultdict(set)
        self.late: dict[str, tuple[Any, bool]] = {}
        self.cliques: dict[tuple[str, str], list[str]] = {}  # by value and holder: the people, the holder first
        self.others: list[tuple[int, int, dict[str, int]]] = []  # groups of somebody else: ages, and what they show
        self.held: dict[str, frozenset[str]] = defaultdict(frozenset)  # what somebody holds for ever
        self.ages: dict[str, set[int]] = defaultdict(set)
        self.first: dict[Entry, int] = {}  # by entry: how many of others' groups there were when it was first shown
        self.beside: dict[str, set[int]] = defaultdict(set)  # by person: others' groups around them
        self.names: dict[object, str] = {}
        self.waiting = 0
        self._next = count(1)
        self.max_breach = Fraction(0)
        self.rng = Random(len(policy.digest))

    # -- the table -----------------------------------------------------------------------------------------------

    def put(self, person: str, age: int, *values: str, guard: Any = None) -> None:
        held = self.held[person] = self.held[person] | (set(values) & set(PERMANENT))
        self.table[person] = age, held | set(values), guard

    def tell_others(self, low: int, high: int, shown: dict[str, int]) -> None:
        """Somebody else publishes a group of people of these ages."""
        region = {"age": {"min": low, "max": high}}
        group = {"region": region, "sensitive": shown}
        self.desk.tell({"op": "external", "publisher": "north", "groups": [group]})
        self.others.append((low, high, shown))

    def _tell(self) -> None:
        for person in sorted(self._before.keys() - self.table.keys()):
            self.desk.tell({"op": "delete", "id": person})
        for person, (age, values, guard) in sorted(self.table.items()):
            if self._before.get(person) == self.table[person]:
                continue
            event: dict[str, Any] = {"id": person, "qid": {"age": age}, "sensitive": sorted(values)}
            event["guard"] = {"node": None} if guard is None else guard
            self.desk.tell({"op": "update" if person in self._before else "insert", **event})
        self._before = dict(self.table)

    def _follow_spells(self) -> None:
        now = self.desk.number + 1
        self.spells = {
            person: {
                value: 0 if value in PERMANENT else self.spells.get(person, {}).get(value, now) for value in values
            }
            for person, (_, values, _) in self.table.items()
        }
        for person, (age, _, _) in self.table.items():
            self.ages[person].add(age)
            self.beside[person] = {at for age in self.ages[person] for at in self._groups_around(age)}

    def _groups_around(self, age: int) -> set[int]:
        """Others' groups that hold an age, and those that meet them directly or through others."""
        low, high, found = age, age, set[int]()
        while fresh := {at for at, (first, last, _) in enumerate(self.others) if first <= high and low <= last} - found:
            found |= fresh
            low = min(low, *(self.others[at][0] for at in fresh))
            high = max(high, *(self.others[at][1] for at in fresh))
        return found

    def shown(self, person: str) -> dict[Signature, set[str]]:
        """The groups of somebody by signature."""
        found: dict[Signature, set[str]] = defaultdict(set)
        for (one, _), name in self.home.items():
            if one == person:
                found[self.groups[name].signature].add(name)
        return found

    # -- the rules -----------------------------------------------------------------------------------------------

    def signature(self, person: str, value: str) -> Signature:
        """S2: the block of a value."""
        blocks = len(TRANSIENT) // self.m
        at = min(TRANSIENT.index(value) // self.m, blocks - 1)
        return frozenset(TRANSIENT[at * self.m : (at + 1) * self.m if at + 1 < blocks else None])

    def most(self, signature: Signature) -> int:
        return floor((len(signature) - self.policy.insiders) / self.policy.l)

    def find_home(self, person: str, value: str) -> str | None:
        """S1: the group of an entry that was shown."""
        return self.home.get((person, value))

    def is_plain(self, person: str, value: str) -> bool:
        """Open values, and those of the empty guard that lie in none of the person's signatures; then for ever."""
        if value in self.plain[person] or value in OPEN:
            return True
        return self.table[person][2] == "" and not any(value in signature for signature in self.shown(person))

    def can_be_new(self, person: str) -> bool:
        """S3: whether one more value of a person may be shown, wherever it lies."""
        if self.plain[person] - set(OPEN):
            return False  # others of their blocks could only be "*"
        return all(len(groups) < self.most(signature) for signature, groups in self.shown(person).items())

    def is_hidden(self, person: str) -> bool:
        """A guard over an open value, or below 1/(m - c), hides everything."""
        guarded, bound = self._guarded(person)
        return bool(guarded & set(OPEN)) or bool(guarded and bound < Fraction(1, self.m - self.policy.insiders))

    def may_show(self, person: str, value: str) -> bool:
        """Guards: whether an entry may be shown under its signature."""
        guarded, bound = self._guarded(person)
        if not guarded:
            self.late.pop(person, None)
            return True
        mine = self.shown(person)
        spent = sum((self._share(s, guarded) * len(groups) for s, groups in mine.items()), Fraction(0))
        spent += len(self.plain[person] & guarded)
        known = self.late.get(person)
        if known is None or known[0] != self.table[person][2]:
            known = self.late[person] = self.table[person][2], spent > bound
        if known[1]:
            return not self.signature(person, value) & guarded
        if (person, value) in self.home:
            return True
        blocks = {self.signature(person, one) for one in TRANSIENT}
        return spent + max(self._share(block, guarded) for block in blocks) <= bound

    def _share(self, signature: Signature, guarded: set[str]) -> Fraction:
        return Fraction(len(signature & guarded), len(signature) - self.policy.insiders)

    def _guarded(self, person: str) -> tuple[set[str], Fraction]:
        guard = self.table[person][2]
        if guard is None or guard == "":
            return set(), Fraction(1)
        node, bound = (guard, 1 / Fraction(self.policy.l)) if isinstance(guard, str) else (
            guard["node"], Fraction(str(guard["bound"])),
        )  # fmt: skip
        leaves = {leaf for leaf, parent in DISEASES.items() if node in (leaf, parent, "*")}
        return leaves - set(PERMANENT), bound

    def has_block(self, person: str) -> bool:
        """Beside others: whether every block is shown equally often by all groups; people of several share groups."""
        blocks = {self.signature(person, value) for value in TRANSIENT}
        shown = [e for _, _, e in self.others] if self.beside[person] else []
        return all(len({e.get(v, 0) for v in block}) == 1 for e in shown for block in blocks)

    def may_stay(self, person: str, value: str) -> bool:
        """Beside others: whether an entry was shown with them in mind, or they show nothing of its signature."""
        if not self.beside[person] or len(self.others) <= self.first[person, value]:
            return True
        shown = [e for _, _, e in self.others]
        return not any(v in e for e in shown for v in self.signature(person, value))

    def is_big_enough(self, people: int) -> bool:
        """k people share a region, or nobody of it is published."""
        return people >= self.policy.k

    def is_batch(self, newcomers: Collection[Entry]) -> bool:
        """Whether so many wait that they are dealt."""
        return len(newcomers) >= self.policy.batch

    def deal(self, newcomers: Sequence[Entry]) -> list[Formed]:
        """S4: rounds of one entry of each value, as many as leave enough others among the rest to hide it."""
        blocks: dict[Signature, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
        for person, value in newcomers:
            blocks[self.signature(person, value)][value].append((person, value))
        rounds = {block: min(len(mine[value]) for value in block) for block, mine in blocks.items()}
        while any(rounds.values()):
            rest = [len(mine[v]) - rounds[block] for block, mine in blocks.items() for v in block]
            if self.is_covered(rest):
                break
            largest = max(rounds, key=lambda block: rounds[block])
            rounds[largest] -= 1
        return [
            Formed(block, 1, {blocks[block][value][turn] for value in block})
            for block, number in rounds.items()
            for turn in range(number)
        ]

    def is_covered(self, rest: Sequence[int]) -> bool:
        return max(rest, default=0) * Fraction(self.policy.l) <= sum(rest)

    def star(self, left: Sequence[Entry]) -> None:
        """What no round was found for stays "*" for its spell."""
        self.starred |= {(person, value, self.spells[person][value]) for person, value in left}

    def recruit(self, value: str, holder: str, people: list[str]) -> list[str]:
        """A clique for a new holder: people who were never in one of this value, and do not hold it."""
        size = ceil(self.policy.l) + self.policy.insiders
        taken = {person for (v, _), clique in self.cliques.items() if v == value for person in clique}
        clean = [p for p in people if p not in taken | {holder} and value not in self.table[p][1]]
        if holder in taken or len(clean) < size - 1:
            return []
        return [holder, *self.rng.sample(clean, size - 1)]

    def can_show_clique(self, clique: list[str], people: set[str], others: Mapping[str, int]) -> bool:
        return all(person in people and others[person] for person in clique)

    # -- a release -----------------------------------------------------------------------------------------------

    def release(self) -> "Publisher":
        self._tell()
        self._follow_spells()
        cell_of = {p: "c1" if age < 50 else "c2" for p, (age, _, _) in self.table.items()}
        sizes = {cell: sum(one == cell for one in cell_of.values()) for cell in CELLS}
        people = sorted(p for p in self.table if self.is_big_enough(sizes[cell_of[p]]))
        places = {(person, value): how for person in people for value, how in self.place(person).items()}
        self._newcomers(places)
        rows: dict[str, list[Row]] = defaultdict(list)
        for (person, value), how in places.items():
            rows[how].append(Row(person, value, cell_of[person]))
        rows_of = {p: sum(person == p for person, _ in places) for p in people}
        self._hide_holders(people, cell_of, rows_of, rows["*"])
        groups: dict[object, Shown] = {}
        cohorts = self._show_cliques(people, cell_of, rows_of, groups)
        for place, mine in rows.items():
            if place in self.groups:
                groups[place] = self.show_group(self.groups[place], mine)
            elif mine:
                groups[place] = Shown(mine, {place: len(mine)})
        self._remember(groups)
        self.names |= {how: f"g{next(self._next)}" for how in groups if how not in self.names}
        named = {self.names[how]: group for how, group in groups.items()}
        self.desk.publish(named, self.max_breach, cohorts, self.waiting)
        gone = [name for name in self.names if name not in groups and name not in self.groups]
        for name in gone:  # only settled groups come back under their names
            del self.names[name]
        return self

    def place(self, person: str) -> dict[str, str]:
        """By value: the group it is shown in, itself if plainly, "*", or "" for a newcomer; nothing for holders'."""
        found: dict[str, str] = {}
        for value, spell in sorted(self.spells[person].items()):
            if value in PERMANENT:
                continue
            if self.is_hidden(person):
                found[value] = "*"
            elif self.is_plain(person, value):
                found[value] = "*" if value in self._guarded(person)[0] else value
            elif (home := self.find_home(person, value)) is not None:
                is_allowed = self.may_show(person, value) and self.may_stay(person, value)
                found[value] = home if is_allowed else "*"
            else:
                is_allowed = (person, value, spell) not in self.starred and self.may_show(person, value)
                is_new = is_allowed and self.has_block(person) and self.can_be_new(person)
                found[value] = "" if is_new else "*"
        return found

    def _newcomers(self, places: dict[Entry, str]) -> None:
        """Deals newcomers, one of each person, if there are enough of them."""
        newcomers = [entry for entry, how in places.items() if how == ""]
        self.rng.shuffle(newcomers)
        chosen = list({person: (person, value) for person, value in newcomers}.values())
        formed = self.deal(chosen) if self.is_batch(chosen) else []
        for group in formed:
            name = f"group {len(self.groups)}"
            self.groups[name] = group
            for person, value in sorted(group.entries):
                self.home[person, value] = name
                self.first.setdefault((person, value), len(self.others) if self.beside[person] else 0)
        if formed:
            self.star([entry for entry in chosen if entry not in self.home])
        self.waiting = 0
        for entry in newcomers:
            places[entry] = self.home.get(entry, "*")
            spell = (*entry, self.spells[entry[0]][entry[1]])
            self.waiting += entry in chosen and entry not in self.home and spell not in self.starred

    def show_group(self, formed: Formed, rows: list[Row]) -> Shown:
        """S4: a group shows what it showed when it was formed; what has no row is vacant."""
        values = dict.fromkeys(sorted(formed.signature, key=list(DISEASES).index), formed.each)
        return Shown(rows, values, sum(values.values()) - len(rows))

    def _hide_holders(
        self, people: list[str], cell_of: Mapping[str, str], rows_of: dict[str, int], stars: list[Row]
    ) -> None:
        """Somebody all of whose values are permanent has a row that stands for none."""
        for person in people:
            if not rows_of[person]:
                stars.append(Row(person, None, cell_of[person]))
                rows_of[person] = 1

    def _show_cliques(
        self, people: list[str], cell_of: Mapping[str, str], rows_of: Mapping[str, int], groups: dict[object, Shown]
    ) -> dict[str, list[list[str]]]:
        cohorts: dict[str, list[list[str]]] = {}
        for value in PERMANENT:
            shown = []
            for holder in (p for p in people if value in self.table[p][1]):
                if (value, holder) not in self.cliques:
                    fresh = self.recruit(value, holder, people)
                    if fresh:
                        self.cliques[value, holder] = fresh
                clique = self.cliques.get((value, holder))
                if clique is not None and self.can_show_clique(clique, set(people), rows_of):
                    rows = [Row(p, value if p == holder else None, cell_of[p]) for p in clique]
                    groups[value, holder] = Shown(rows, {value: 1})
                    shown.append(clique[: ceil(self.policy.l)])
            cohorts[value] = [list(owners) for owners in zip(*shown, strict=True)]
        return {value: lists for value, lists in cohorts.items() if lists}

    def _remember(self, groups: Mapping[object, Shown]) -> None:
        for how, group in groups.items():
            for row in group.rows:
                if row.value is not None and how == row.value:
                    self.plain[row.person].add(row.value)
        seen = Counter((row.person, self.groups[how].signature) for how, group in groups.items()
                       if isinstance(how, str) and how in self.groups for row in group.rows)  # fmt: skip
        for person, signature in seen:
            if self.table[person][2] is None:
                breach = Fraction(len(self.shown(person)[signature]), len(signature) - self.policy.insiders)
                self.max_breach = max(self.max_breach, breach)
