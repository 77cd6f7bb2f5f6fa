"""A naive judge of permanent values (G3): it sees what was published, the private files, and who really holds what.

It shares no code with the engine. Cohort balance is counted group by group. With `participation: all` the rules of
docs/design.md, "Participation all" are checked one by one, and alibis as "What the auditor computes" defines them.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ScarcityJudge:
    """Sees releases one by one, in order."""

    l: int
    permanent: frozenset[str]
    is_everyone_known: bool = False
    number: int = 0
    registered: set[str] = field(default_factory=set)
    shown_for: set[tuple[str, str]] = field(default_factory=set)  # (value, holder) ever shown
    excluded: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    suppressed: int = 0
    shown: int = 0

    def see(
        self,
        records: Sequence[bytes],
        members: Iterable[tuple[str, str, str]],
        cohorts: Mapping[str, Sequence[Sequence[str]]],
        held: Mapping[str, frozenset[str]],
        registered: Iterable[str],
        hidden: Iterable[Iterable[str]],
    ) -> list[str]:
        """Everything wrong with the next release.

        `held` is what everyone holds, present or not; `hidden` the owners of each clique whose value is not shown.
        """
        self.number += 1
        self.registered |= set(registered)
        shows = {group["group"]: group["sensitive"] for group in map(json.loads, records) if "group" in group}
        where = {person: group for person, group, _ in members}
        wrong = self._cohorts(shows, where, cohorts, held) + self._covers(shows, where, hidden)
        if self.is_everyone_known:
            wrong += self._alibis(shows, where, held)
        return [f"release {self.number}: {sentence}" for sentence in wrong]

    def _cohorts(self, shows: Any, where: Any, cohorts: Any, held: Any) -> list[str]:
        wrong = []
        if set(cohorts) != self.permanent:
            wrong.append("a permanent value has no cohorts, or something else has")
        for value, lists in cohorts.items():
            owners = [owner for cohort in lists for owner in cohort]
            if len(lists) != self.l:
                wrong.append("there are not l cohorts")
            if len(set(owners)) != len(owners):
                wrong.append("one person owns two instances of a value")
            if not set(owners) <= where.keys():
                wrong.append("an owner is listed who is not published")
            holders = {person for person in where if value in held.get(person, ())}
            if not set(lists[0]) <= holders or holders & {owner for cohort in lists[1:] for owner in cohort}:
                wrong.append("the first cohort and no other is of holders")
            for group, shown in shows.items():
                times = shown.get(value, 0)
                self.shown += times
                if self.is_everyone_known and times > 1:
                    wrong.append("a group shows a permanent value twice")
                if any(sum(where.get(owner) == group for owner in cohort) != times for cohort in lists):
                    wrong.append("a group's owners of a cohort are not as many as the value is shown")
        return wrong

    def _covers(self, shows: Any, where: Any, hidden: Iterable[Iterable[str]]) -> list[str]:
        """The published people of a clique whose value is not shown are together, under a "*" of its own."""
        wrong = []
        needed: dict[str, int] = defaultdict(int)
        for owners in hidden:
            groups = {where[owner] for owner in owners if owner in where}
            if len(groups) > 1:
                wrong.append("a clique is torn apart")
            for group in groups:
                needed[group] += 1
        self.suppressed += sum(needed.values())
        if any(stars > shows[group].get("*", 0) for group, stars in needed.items()):
            wrong.append("a clique has neither its value nor a * of its own")
        return wrong

    def _alibis(self, shows: Any, where: Any, held: Any) -> list[str]:
        """A(h) of docs/design.md, "What the auditor computes", for every holder whose value was ever shown."""
        wrong = []
        holders_in: dict[tuple[str, str], int] = defaultdict(int)
        for person, group in where.items():
            for value in held.get(person, ()):
                holders_in[value, group] += 1
        for person in where:
            for value in held.get(person, ()):
                if shows[where[person]].get(value, 0):
                    self.shown_for.add((value, person))
        for value, holder in self.shown_for:
            out = self.excluded[value, holder]
            group = where.get(holder)
            if group is not None and shows[group].get(value, 0):
                out |= {person for person in self.registered if where.get(person) != group}
            for person, other in where.items():
                room = shows[other].get(value, 0) + shows[other].get("*", 0)
                if other != group and room < holders_in[value, other] + 1:
                    out.add(person)
            if len(self.registered - out) < self.l:
                wrong.append("fewer than l people could be a holder")
        return wrong
