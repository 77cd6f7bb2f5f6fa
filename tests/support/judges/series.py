"""A naive judge of a series of releases: knows the truth, shares no code with the engine, counts in exact fractions.

It looks at what was published (JSON), at who was where (private membership) and at the true table at each release, and
returns every broken promise as a sentence. Tests feed it engines that are right and engines that are known to be wrong.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

# id -> quasi-identifiers, sensitive values, and a guard if there is one: "" or (node, bound or None)
Record = tuple[dict[str, Any], frozenset[str]] | tuple[dict[str, Any], frozenset[str], Any]
Table = Mapping[str, Record]


@dataclass(frozen=True)
class Rules:
    """What the judge needs of a policy. `leaves` maps each label of a hierarchy to the leaves under it."""

    k: int
    l: int
    sensitive: Mapping[str, frozenset[str]]
    attributes: Mapping[str, Mapping[str, frozenset[str]] | None]
    open: frozenset[str] = frozenset()
    domains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    permanent: frozenset[str] = frozenset()


@dataclass
class Judge:
    """Sees releases one by one, in order."""

    rules: Rules
    number: int = 0
    paid: dict[str, list[tuple[dict[str, Fraction], int]]] = field(default_factory=lambda: defaultdict(list))
    largest: Fraction = Fraction(0)
    seen: list[tuple[dict[str, str], Table]] = field(default_factory=list)
    regions: dict[str, dict[str, Any]] = field(default_factory=dict)
    apart: dict[frozenset[str], int] = field(default_factory=dict)
    formations: dict[str, tuple[int, frozenset[str], Counter[str]]] = field(default_factory=dict)

    def see(
        self, records: Sequence[bytes], manifest: bytes, members: Iterable[tuple[str, str, str]], table: Table
    ) -> list[str]:
        """Everything wrong with the next release."""
        self.number += 1
        wrong: list[str] = []
        read = [json.loads(record) for record in records]
        cells = {record["cell"]: record for record in read if "cell" in record}
        groups = {record["group"]: record for record in read if "group" in record}
        facts = json.loads(manifest)
        people = {person: (group, cell) for person, group, cell in members}
        by_group: dict[str, list[str]] = defaultdict(list)
        for person, (group, _) in people.items():
            by_group[group].append(person)
        wrong += self._counts(groups, facts, people, by_group, table)
        wrong += self._listed(read, cells, groups, facts, people)
        wrong += self._cells(cells, groups, people, by_group, table)
        wrong += self._values(groups, by_group, table)
        wrong += self._carried(groups, by_group, table)
        wrong += self._global(groups, by_group, facts, table)
        self.seen.append(({person: cell for person, (_, cell) in people.items()}, dict(table)))
        return [f"release {self.number}: {sentence}" for sentence in wrong]

    def _counts(self, groups: Any, facts: Any, people: Any, by_group: Any, table: Table) -> list[str]:
        wrong = []
        if facts["release"] != self.number:
            wrong.append("the manifest's number is not the next one")
        if set(people) - set(table):
            wrong.append("someone is published who is not present")
        if facts["people"] != len(people) or facts["people"] + facts["withheld"] + facts["unsampled"] != len(table):
            wrong.append("people, withheld and unsampled do not add up to everyone present")
        if facts["rows"] != facts["people"]:
            wrong.append("a person does not have one row")
        if facts["groups"] != len(groups) or set(groups) != set(by_group):
            wrong.append("the groups published are not those people are in")
        for name, group in groups.items():
            if sum(_rows(shown) for shown in group["cells"].values()) != len(by_group[name]):
                wrong.append("a group's rows do not add up to its people")
        stars = sum(group["sensitive"].get("*", 0) for group in groups.values())
        if facts["suppressed"] != stars:
            wrong.append("suppressed is not the number of * shown")
        raised = [
            count
            for group in groups.values()
            for label, count in group["sensitive"].items()
            if label != "*" and self.rules.sensitive[label] != {label}
        ]
        if facts["generalized"] != sum(raised):
            wrong.append("generalized is not the number of raised values shown")
        if facts["counterfeits"] != sum(group["counterfeits"] for group in groups.values()):
            wrong.append("counterfeits are miscounted")
        formed = sum(group["formed"] == self.number for group in groups.values())
        if (facts["formed"], facts["carried"]) != (formed, len(groups) - formed):
            wrong.append("formed and carried are miscounted")
        return wrong

    def _listed(self, read: Any, cells: Any, groups: Any, facts: Any, people: Any) -> list[str]:
        """The records are of the cells and then of the groups that people are in, each once and rightly counted."""
        wrong = []
        if [*cells, *groups] != [record.get("cell", record.get("group")) for record in read]:
            wrong.append("the records are not those of the cells and then those of the groups, each once")
        if any(group["changed"] != group["formed"] for group in groups.values()):
            wrong.append("a group changed after it was formed")
        if (facts["format"], facts["values"], facts["cells"]) != (1, "redrawn", len(cells)):
            wrong.append("the manifest does not say what the records are")
        if (facts["waiting"], facts["vacant"]) != (0, 0) or any("vacant" in group for group in groups.values()):
            wrong.append("values that are redrawn neither wait nor leave anything vacant")
        if {name: cell["people"] for name, cell in cells.items()} != Counter(cell for _, cell in people.values()):
            wrong.append("the people of a cell are miscounted")
        return wrong

    def _cells(self, cells: Any, groups: Any, people: Any, by_group: Any, table: Table) -> list[str]:
        """G1: regions of at least k rows, of one tree, that hold their people and only ever get finer."""
        wrong = []
        rows: Counter[str] = Counter()
        regions: dict[str, Any] = {name: cell["region"] for name, cell in cells.items()}
        for name, group in groups.items():
            true_cells = Counter(people[person][1] for person in by_group[name])
            shown_cells = Counter({cell: _rows(shown) for cell, shown in group["cells"].items()})
            if true_cells != shown_cells:
                wrong.append("a group's cells are not those of its people")
            rows += shown_cells
        same = {json.dumps(region) for region in regions.values()}
        if len(same) != len(regions):
            wrong.append("one region has two cells")
        if any(count < self.rules.k for count in rows.values()):
            wrong.append("a region is shared by fewer than k people")
        for name, region in regions.items():
            if self.regions.setdefault(name, region) != region:
                wrong.append("a cell's region changed")
        for one in regions.values():
            for other in self.regions.values():
                is_tree = self._inside(one, other) or self._inside(other, one) or self._disjoint(one, other)
                wrong += [] if is_tree else ["two regions overlap without one holding the other"]
        for person, (_, cell) in people.items():
            if not self._holds(regions[cell], table[person][0]):
                wrong.append("a region does not hold the person in it")
            for cells, before in self.seen:
                if person not in cells or not self._stayed(person, before, table):
                    continue
                if not self._inside(regions[cell], self.regions[cells[person]]):
                    wrong.append("a person's region is not inside an earlier one")
        for cells, before in self.seen:
            together: dict[str, set[str]] = defaultdict(set)
            for person, (_, cell) in people.items():
                if person in cells and self._stayed(person, before, table):
                    together[cell].add(cells[person])
            for earlier in together.values():
                wrong += ["two people once told apart share a region"] if len(earlier) > 1 else []
        return wrong

    def _stayed(self, person: str, before: Table, now: Table) -> bool:
        """Present since `before` with the same quasi-identifiers at every release from then on."""
        start = next(index for index, (_, table) in enumerate(self.seen) if table == before)
        tables = [table for _, table in self.seen[start:]] + [now]
        return all(person in table and table[person][0] == now[person][0] for table in tables)

    def _values(self, groups: Any, by_group: Any, table: Table) -> list[str]:
        wrong = []
        for name, group in groups.items():
            if group["formed"] != self.number:
                continue
            true = Counter(value for person in by_group[name] for value in table[person][1])
            shown = Counter(group["sensitive"])
            if shown.total() != true.total() + group["counterfeits"]:
                wrong.append("a group does not show each value once")
            nobodys = 0
            for label, count in shown.items():
                under = self.rules.sensitive[label]
                nobodys += max(0, count - sum(times for value, times in true.items() if value in under))
                if label != "*" and label not in self.rules.permanent and under & self.rules.permanent:
                    wrong.append("a node above a permanent value is shown")
                if any(under < self.rules.sensitive[other] for other in shown if "*" not in (label, other)):
                    wrong.append("a group shows a node and another one above it")
            if nobodys > group["counterfeits"]:
                wrong.append("a group shows values its people do not have")
        return wrong

    def _carried(self, groups: Any, by_group: Any, table: Table) -> list[str]:
        wrong = []
        for name, group in groups.items():
            now = (group["formed"], frozenset(by_group[name]), Counter(group["sensitive"]))
            if group["formed"] == self.number:
                if name in self.formations:
                    wrong.append("a group id is used again")
                self.formations[name] = now
            elif self.formations.get(name) != now:
                wrong.append("a carried group is not what it was")
            elif any(table[person] != self.seen[-1][1].get(person) for person in now[1]):
                wrong.append("a group is carried although one of its people changed")
        return wrong

    def _global(self, groups: Any, by_group: Any, facts: Any, table: Table) -> list[str]:
        """G2 and G4: breach over all formations so far, exactly, of single values or of the set a guard names.

        Where a wish came after the fact, what it forbids must not be shown to its owner any more.
        """
        wrong = []
        for name, group in groups.items():
            if group["formed"] != self.number:
                continue
            aside = {"*", *self.rules.permanent}
            n = max(1, len(by_group[name]) - sum(group["sensitive"].get(label, 0) for label in aside))
            weight: dict[str, Fraction] = defaultdict(Fraction)
            for label, count in group["sensitive"].items():
                leaves = self.rules.sensitive[label] if label not in aside else frozenset()
                for leaf in leaves:
                    weight[leaf] += Fraction(count, len(leaves))
            for person in by_group[name]:
                self.paid[person].append((weight, n))
                guard = (*table[person], None)[2]
                if guard is None:
                    breaches = [self._breach(person, {leaf}) for leaf in weight.keys() - self.rules.open]
                    self.largest = max([self.largest, *breaches])
                elif guard != "":
                    hidden, bound = self.rules.sensitive[guard[0]] - self.rules.permanent, guard[1]
                    limit = Fraction(1, self.rules.l) if bound is None else Fraction(bound)
                    if hidden & weight.keys() and self._breach(person, hidden) > limit:
                        wrong.append("a guarded person's breach is over their bound")
        if self.largest > Fraction(1, self.rules.l):
            wrong.append("somebody's breach is over 1/l")
        if abs(float(self.largest) - facts["max_breach"]) > 1e-9:
            wrong.append("max_breach is not the largest breach")
        if facts["max_breach"] > facts["bound"]:
            wrong.append("max_breach is over the bound")
        return wrong

    def _breach(self, person: str, leaves: Iterable[str]) -> Fraction:
        survival = Fraction(1)
        for weight, n in self.paid[person]:
            survival *= 1 - min(Fraction(1), sum((weight.get(leaf, Fraction(0)) for leaf in leaves), Fraction(0)) / n)
        return 1 - survival

    def _pair(self, name: str, one: Any, other: Any) -> tuple[Any, Any]:
        leaves = self.rules.attributes[name]
        if leaves is not None:
            return tuple(frozenset().union(*(leaves[label] for label in side["nodes"])) for side in (one, other))  # type: ignore[return-value]
        return one, other

    def _inside(self, one: Any, other: Any) -> bool:
        for name in self.rules.attributes:
            inner, outer = self._pair(name, one[name], other[name])
            if isinstance(inner, frozenset):
                if not inner <= outer:
                    return False
            elif inner["min"] < outer["min"] or self._end(inner) > self._end(outer):
                return False
        return True

    def _disjoint(self, one: Any, other: Any) -> bool:
        for name in self.rules.attributes:
            left, right = self._pair(name, one[name], other[name])
            if isinstance(left, frozenset):
                if not left & right:
                    return True
            elif self._end(left) <= (right["min"], 0) or self._end(right) <= (left["min"], 0):
                return True
        return False

    def _holds(self, region: Any, qid: Mapping[str, Any]) -> bool:
        for name, leaves in self.rules.attributes.items():
            side, value = region[name], qid[name]
            if leaves is not None:
                if value not in frozenset().union(*(leaves[label] for label in side["nodes"])):
                    return False
            elif not (side["min"] <= value and (value, 0) < self._end(side)):
                return False
        return True

    @staticmethod
    def _end(side: Mapping[str, Any]) -> tuple[Any, int]:
        """The upper end as a pair that compares right: `max` is inside, `below` is not."""
        return (side["max"], 1) if "max" in side else (side["below"], 0)


def _rows(shown: int | list[str]) -> int:
    """How many rows of a group are in one cell: a number, or their case ids."""
    return shown if isinstance(shown, int) else len(shown)
