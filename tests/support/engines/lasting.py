"""A small and naive publisher of a lasting table, to audit: slow, wasteful and right; and wrong ones made of it.

Transient values are cut once and for all into blocks of m or more, and the signature of a value is its block. So
signatures are sticky, and equal or disjoint, without any choosing. Everything that cannot be balanced is "*". Every
rule has a method of its own, which a wrong publisher replaces (docs/design.md, "Values that last").
"""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from math import ceil, floor
from random import Random
from typing import Any

from shoal.core.policy.policy import Policy
from tests.support.engines.lasting_desk import DISEASES, OPEN, PERMANENT, TRANSIENT, LastingDesk, Row, Shown

CELLS = {"c1": (0, 49), "c2": (50, 99)}

Signature = frozenset[str]


class Publisher:
    """People with ages, values and guards, and what was shown of them. Change `table`, then `release`."""

    def __init__(self, policy: Policy, folder: Any = None) -> None:
        self.policy, self.desk = policy, LastingDesk(policy, CELLS, folder)
        self.m, self.most = policy.signature, floor(policy.signature / policy.l)
        self.table: dict[str, tuple[int, frozenset[str], Any]] = {}  # age, values, guard
        self._before: dict[str, tuple[int, frozenset[str], Any]] = {}
        self.spells: dict[str, dict[str, int]] = {}
        self.shown: dict[str, dict[Signature, set[tuple[str, int]]]] = defaultdict(lambda: defaultdict(set))
        self.plain: dict[str, set[str]] = defaultdict(set)
        self.late: dict[str, tuple[Any, bool]] = {}
        self.cliques: dict[tuple[str, str], list[str]] = {}  # by value and holder: the people, the holder first
        self.others: list[tuple[int, int, dict[str, int]]] = []  # groups of somebody else: ages, and what they show
        self.held: dict[str, frozenset[str]] = defaultdict(frozenset)  # what somebody holds for ever
        self.ages: dict[str, set[int]] = defaultdict(set)
        self.first: dict[tuple[str, str], int] = {}  # by entry: beside how many groups it was first shown
        self.beside: dict[str, list[dict[str, int]]] = defaultdict(list)  # by person: what others' groups show
        self.names: dict[object, str] = {}
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
            self.beside[person] = [
                e for low, high, e in self.others if any(low <= a <= high for a in self.ages[person])
            ]

    # -- the rules -----------------------------------------------------------------------------------------------

    def signature(self, person: str, value: str) -> Signature:
        """S1, S2: the block of a value."""
        blocks = len(TRANSIENT) // self.m
        at = min(TRANSIENT.index(value) // self.m, blocks - 1)
        return frozenset(TRANSIENT[at * self.m : (at + 1) * self.m if at + 1 < blocks else None])

    def is_plain(self, person: str, value: str) -> bool:
        """Open values, and those of the empty guard that lie in none of the person's signatures; then for ever."""
        if value in self.plain[person] or value in OPEN:
            return True
        return self.table[person][2] == "" and not any(value in signature for signature in self.shown[person])

    def can_be_new(self, person: str, fresh: int) -> int:
        """S3: how many values of a person may be shown for the first time."""
        if self.plain[person] - set(OPEN):
            return 0  # others of their blocks could only be "*"
        taken = [len({value for value, _ in spells}) for spells in self.shown[person].values()]
        rooms = (floor(len(s) / self.policy.l) - one for s, one in zip(self.shown[person], taken, strict=True))
        return min(fresh, *rooms, self.most)

    def is_hidden(self, person: str) -> bool:
        """A guard over an open value, or below 1/m, hides everything."""
        guarded, bound = self._guarded(person)
        return bool(guarded & set(OPEN)) or bool(guarded and bound < Fraction(1, self.m))

    def may_show(self, person: str, value: str, spell: int) -> bool:
        """Guards: whether an entry may be shown under its signature."""
        guarded, bound = self._guarded(person)
        if not guarded:
            self.late.pop(person, None)
            return True
        mine = self.shown[person]
        spent = sum((self._share(s, len(spells), guarded) for s, spells in mine.items()), Fraction(0))
        spent += len(self.plain[person] & guarded)
        known = self.late.get(person)
        if known is None or known[0] != self.table[person][2]:
            known = self.late[person] = self.table[person][2], spent > bound
        signature = self.signature(person, value)
        if known[1]:
            return not signature & guarded
        if (value, spell) in mine.get(signature, ()):
            return True
        fresh = sum(
            (v, s) not in mine.get(self.signature(person, v), ())
            for v, s in self.spells[person].items()
            if v in TRANSIENT
        )
        return spent + fresh * Fraction(len(guarded & set(TRANSIENT)), self.m) <= bound

    def _share(self, signature: Signature, spells: int, guarded: set[str]) -> Fraction:
        most = floor(len(signature) / self.policy.l)
        return Fraction(min(spells, most) * len(signature & guarded), len(signature))

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
        """Beside others: whether every block is shown equally often by all groups that the person was ever in."""
        blocks = {self.signature(person, value) for value in TRANSIENT}
        return all(len({e.get(v, 0) for v in block}) == 1 for e in self.beside[person] for block in blocks)

    def may_stay(self, person: str, value: str) -> bool:
        """Beside others: whether an entry was shown with them in mind, or they show nothing of its signature."""
        fresh = self.beside[person][self.first[person, value] :]
        return not any(v in e for e in fresh for v in self.signature(person, value))

    def is_big_enough(self, people: int) -> bool:
        """k people share a region, or nobody of it is published."""
        return people >= self.policy.k

    def balance(self, counts: Mapping[str, int]) -> int:
        """S4: how often each value of a signature is shown, so that the fewest rows are surplus."""
        best = 0
        for q in range(1, max(counts.values(), default=0) + 1):
            missing = sum(q - n for n in counts.values() if n < q)
            if missing <= Fraction("0.02") * q * len(counts):
                best = q
        return best

    def recruit(self, value: str, holder: str, people: list[str]) -> list[str]:
        """A clique for a new holder: people who were never in one of this value, and do not hold it."""
        taken = {person for (v, _), clique in self.cliques.items() if v == value for person in clique}
        clean = [p for p in people if p not in taken | {holder} and value not in self.table[p][1]]
        if holder in taken or len(clean) < ceil(self.policy.l) - 1:
            return []
        return [holder, *self.rng.sample(clean, ceil(self.policy.l) - 1)]

    def can_show_clique(self, clique: list[str], people: set[str], others: Mapping[str, int]) -> bool:
        return all(person in people and others[person] for person in clique)

    # -- a release -----------------------------------------------------------------------------------------------

    def release(self) -> "Publisher":
        self._tell()
        self._follow_spells()
        cell_of = {p: "c1" if age < 50 else "c2" for p, (age, _, _) in self.table.items()}
        sizes = {cell: sum(one == cell for one in cell_of.values()) for cell in CELLS}
        people = sorted(p for p in self.table if self.is_big_enough(sizes[cell_of[p]]))
        places: dict[object, list[Row]] = defaultdict(list)
        for person in people:
            for value, how in self.place(person).items():
                places[how].append(Row(person, value, cell_of[person]))
        groups: dict[object, Shown] = {}
        for how, rows in list(places.items()):
            if isinstance(how, frozenset):
                self._show_signature(how, rows, groups, places["*"])
        rows_of = {p: sum(row.person == p for rows in places.values() for row in rows) for p in people}
        self._hide_holders(people, cell_of, rows_of, places["*"])
        cohorts = self._show_cliques(people, cell_of, rows_of, groups)
        for how, rows in places.items():
            if isinstance(how, str) and rows:
                groups[how] = Shown(rows, {how: len(rows)})
        self._remember(groups)
        self.names = {how: self.names.get(how) or f"g{next(self._next)}" for how in groups}
        self.desk.publish({self.names[how]: group for how, group in groups.items()}, self.max_breach, cohorts)
        return self

    def place(self, person: str) -> dict[str, object]:
        """By value: the signature it is to be shown under, itself if plainly, or "*"; nothing for permanent ones."""
        values = sorted(self.spells[person].items())
        if self.is_hidden(person):
            return {value: "*" for value, _ in values if value not in PERMANENT}
        found: dict[str, object] = {}
        fresh = []
        for value, spell in values:
            if value in PERMANENT:
                continue
            if self.is_plain(person, value):
                guarded, _ = self._guarded(person)
                found[value] = "*" if value in guarded else value
                continue
            known = any(value == v for v, _ in self.shown[person].get(self.signature(person, value), ()))
            is_safe = self.may_stay(person, value) if known else self.has_block(person)
            is_allowed = self.may_show(person, value, spell) and is_safe
            found[value] = self.signature(person, value) if known and is_allowed else "*"
            if not known and is_allowed:
                fresh.append(value)
        for value in self.rng.sample(fresh, max(0, self.can_be_new(person, len(fresh)))):
            found[value] = self.signature(person, value)
        return found

    def _show_signature(
        self, signature: Signature, rows: list[Row], groups: dict[object, Shown], stars: list[Row]
    ) -> None:
        by_value = {value: [row for row in rows if row.value == value] for value in signature}
        q = self.balance({value: len(mine) for value, mine in by_value.items()})
        shown = [row for mine in by_value.values() for row in mine[:q]]
        stars += [row for mine in by_value.values() for row in mine[q:]]
        if shown:
            values = dict.fromkeys(sorted(signature, key=list(DISEASES).index), q)
            groups[signature] = Shown(shown, values, q * len(signature) - len(shown))

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
                if row.value is None:
                    continue
                if isinstance(how, frozenset):
                    spells = self.shown[row.person][how]
                    self.first.setdefault((row.person, row.value), len(self.beside[row.person]))
                    spells.add((row.value, self.spells[row.person][row.value]))
                    if self.table[row.person][2] is None:
                        j = min(len(spells), floor(len(how) / self.policy.l))
                        self.max_breach = max(self.max_breach, Fraction(j, len(how)))
                elif how == row.value:
                    self.plain[row.person].add(row.value)
