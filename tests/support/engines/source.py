"""A desk with everybody at hand, as if every batch had one change, for tests of what it decides."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from shoal.core.events.event import Reject
from shoal.core.policy.policy import build_policy
from shoal.streams.files.mapping.conversion import AttributeRule, Spell, ValueRule
from shoal.streams.files.mapping.mapping import CapturedTable, TableMapping
from shoal.streams.source.desk import Desk, Record, Role
from shoal.streams.source.envelope import Change, read_change
from tests.support.histories.debezium import record

TODAY = date(2026, 3, 1)
CODES = {"J1": "flu", "M1": "gout", "J4": "asthma"}
POLICY = build_policy(
    {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 120},
            "zip": {"type": "category", "values": [f"z{n}" for n in range(10)]},
        },
        "sensitive": {"name": "disease", "values": ["flu", "gout", "asthma", "healthy"]},
        "privacy": {"k": 2, "l": 2},
    },
    {},
    b"",
)
PEOPLE = CapturedTable(topic="people", id_columns=("id",), columns=frozenset({"id", "born", "zip"}))
VALUES = CapturedTable(topic="values", id_columns=("id",), columns=frozenset({"id", "code", "since", "until"}))
MAPPING = TableMapping(
    people=PEOPLE,
    values_table=VALUES,
    attributes=(
        AttributeRule(name="age", kind="int", column="born", convert="age"),
        AttributeRule(name="zip", kind="category", column="zip", withholds=True),
    ),
    values=ValueRule(columns=("code",), lookup=CODES),
    spell=Spell(start="since", end="until", unit=None),
    none=None,
)


class Office:
    """A desk, its book in memory, and what Shoal was told."""

    def __init__(
        self, none: str | None = None, id_columns: tuple[str, ...] = ("id",), array: str | None = None
    ) -> None:
        people = replace(PEOPLE, id_columns=id_columns, columns=PEOPLE.columns | {*id_columns})
        mapping = replace(MAPPING, none=none, people=people)
        if array is not None:
            people = replace(people, columns=people.columns | {array})
            rule = replace(MAPPING.values, columns=(array,), is_array=True)
            mapping = replace(mapping, people=people, values_table=None, spell=None, values=rule)
        self.mapping, self.desk = mapping, Desk(POLICY, mapping)
        self.told: dict[str, Record] = {}
        self.lsn = 100

    def with_flu(self, number: int, **columns: Any) -> "Office":
        """Somebody, whose row of the second table has the same number."""
        self.person(number, **columns)
        self.value(number, number, "J1")
        return self

    def person(self, number: Any, op: str = "u", lsn: int | None = None, key: Any = None, **columns: Any) -> Any:
        row = {"id": number, "born": "1980-02-03", "zip": "z1", "unread": self.lsn, **columns}
        return self.apply(Role.PEOPLE, op, key or {"id": number}, row, lsn)

    def person_gone(self, number: int, key: Any = None) -> Any:
        key = key or {"id": number}
        return self.apply(Role.PEOPLE, "d", key, None, None, before=key | {"id": number})

    def value(self, row: int, number: int, code: str, op: str = "u", lsn: int | None = None, **columns: Any) -> Any:
        values = {"row": row, "id": number, "code": code, "since": None, "until": None, **columns}
        return self.apply(Role.VALUES, op, {"row": row}, values, lsn)

    def value_gone(self, row: int) -> Any:
        return self.apply(Role.VALUES, "d", {"row": row}, None, None)

    def truncate(self, role: Role, lsn: int | None = None) -> int:
        self.lsn += 8
        at = self.lsn if lsn is None else lsn
        assert self.desk.apply(role, Change("truncated", "", None, None, at, None), TODAY) is None
        return at

    def apply(
        self, role: Role, op: str, key: Any, row: Any, lsn: int | None, before: Any = None, today: date = TODAY
    ) -> Any:
        """The events that a change makes, or why it is rejected."""
        self.lsn += 8
        table = self.mapping.people if role is Role.PEOPLE else self.mapping.values_table
        assert table is not None
        at = self.lsn if lsn is None else lsn
        pair = record(op, key, row, at, snapshot="true" if op == "r" else "false", before=before)
        change = read_change(*pair, (), table)
        assert isinstance(change, Change), change
        outcome = self.desk.apply(role, change, today)
        events = self.settle(today)
        return outcome if isinstance(outcome, Reject) else events

    def person_id(self, row: Mapping[str, Any]) -> Any:
        change = read_change(*record("c", row, row), (), self.mapping.people)
        assert isinstance(change, Change)
        return self.desk.person_id(change)

    def sweep(self, role: Role, today: date = TODAY) -> list[dict[str, Any]]:
        for person_id in list(self.desk.people):
            self.desk.sweep(role, person_id)
        return self.settle(today)

    def on(self, today: date) -> list[dict[str, Any]]:
        """What is told on a day on which no row changes."""
        self.desk.touched = {one for one, person in self.desk.people.items() if 0 < person.due <= today.toordinal()}
        return self.settle(today)

    @property
    def due(self) -> dict[str, date]:
        return {one: date.fromordinal(person.due) for one, person in self.desk.people.items() if person.due}

    def settle(self, today: date) -> list[dict[str, Any]]:
        events = self.desk.settle(today)
        self.desk.touched, self.desk.touched_rows = set(), set()
        for event in events:
            if event["op"] == "delete":
                del self.told[event["id"]]
            else:
                self.told[event["id"]] = Record(event["qid"], event["sensitive"])
        return events
