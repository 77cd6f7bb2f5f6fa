"""The source beside a naive database: whatever happens to the records on their way, Shoal is told what is true.

The log is what Debezium writes: changes in the order of their commits, some with an LSN from before a snapshot, some of
them again after a restart, snapshots after which changes were missed, and TRUNCATE. The two topics are read in any
interleaving and in batches of any size, with everything kept between two batches in the form that Redis keeps.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.streams.source.census import Census
from shoal.streams.source.desk import Desk, Record, Role
from shoal.streams.source.envelope import Change, read_change
from shoal.streams.source.person import Held, read_person
from tests.support.engines.source import CODES, MAPPING, TODAY, Office
from tests.support.histories.debezium import record

Entry = tuple[Role, bytes, bytes]


class Database:
    """Two tables and their log. Some rows always stay: nothing says that a table is empty, and Debezium marks the only
    row of its first table as the first and not as the last.
    """

    def __init__(self, rnd: Random) -> None:
        self.rnd, self.lsn, self.snapshots = rnd, 1000, 0
        self.people: dict[int, str | None] = {0: "z0", 6: "z0"}
        self.values: dict[int, tuple[int, str]] = {0: (0, "J1"), 6: (6, "J1")}
        self.written: dict[tuple[Role, int], int] = {}  # the LSN of the last change of a row
        self.truncated = 0  # nobody writes to a table while it is truncated
        self.log: list[Entry] = []
        self.since_snapshot = 0

    def change(self, *, is_missed: bool = False) -> None:
        """One random change; a missed one is not in the log."""
        rnd = self.rnd
        role, number = rnd.choice((Role.PEOPLE, Role.VALUES)), rnd.randrange(1, 6)
        table: dict[int, Any] = self.people if role is Role.PEOPLE else self.values
        if number in table and rnd.random() < 0.4:
            del table[number]
            op = "d"
        else:
            op = "u" if number in table else "c"
            zip_code = rnd.choice(("z1", "z2", None))
            table[number] = zip_code if role is Role.PEOPLE else (rnd.randrange(6), rnd.choice(list(CODES)))
        self.lsn += 10
        earliest = max(self.written.get((role, number), 0), self.truncated) + 1
        earlier = max(self.lsn - rnd.choice((0, 0, 95)), earliest)
        self.written[role, number] = earlier
        if not is_missed:
            self.append(role, number, op, earlier)

    def append(self, role: Role, number: int, op: str, lsn: int, marker: str = "false") -> None:
        row = None
        if op != "d" and role is Role.PEOPLE:
            row = {"id": number, "born": "1980-02-03", "zip": self.people[number]}
        elif op != "d":
            person, code = self.values[number]
            row = {"row": number, "id": person, "code": code, "since": None, "until": None}
        key = {"id" if role is Role.PEOPLE else "row": number}
        self.log.append((role, *record(op, key, row, lsn, snapshot=marker, before=None if row else key)))

    def truncate(self) -> None:
        self.lsn += 10
        self.values.clear()
        self.log.append((Role.VALUES, *record("t", {"row": 0}, None, self.lsn)))
        self.values |= {0: (0, "J1"), 6: (6, "J1")}
        self.truncated = self.lsn
        for number in (0, 6):
            self.lsn += 10
            self.append(Role.VALUES, number, "c", self.lsn)

    def restart(self) -> None:
        """The connector sends some of the last changes again."""
        start = self.rnd.randrange(self.since_snapshot, len(self.log) + 1)
        self.log += self.log[start:]

    def snapshot(self) -> None:
        for _ in range(self.rnd.randrange(4)):
            self.change(is_missed=True)
        self.lsn += 10
        tables: list[tuple[Role, dict[int, Any]]] = [(Role.PEOPLE, self.people), (Role.VALUES, self.values)]
        rows = [(role, number) for role, table in tables for number in sorted(table)]
        for at, (role, number) in enumerate(rows):
            is_last = at + 1 == len(rows) or rows[at + 1][0] is not role
            marker = "last" if at + 1 == len(rows) else "first" if at == 0 else "true"
            if is_last and marker == "true":
                marker = "last_in_data_collection"
            self.append(role, number, "r", self.lsn, marker)
        self.since_snapshot = len(self.log)

    def truth(self) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for number, zip_code in self.people.items():
            labels = {CODES[code] for person, code in self.values.values() if person == number}
            if labels and zip_code:
                found[str(number)] = Record({"age": 46, "zip": zip_code}, sorted(labels))
        return found


class Reader:
    """Reads a log as the service does, with its book in memory."""

    def __init__(self) -> None:
        self.office = Office()
        self.people: dict[str, Any] = {}
        self.rows: dict[str, str] = {}
        self.later: set[Role] = set()  # sweeps that wait until the other topic is read
        self.was_told = self.was_lost = False  # of person 6, who is always there

    def take(self, batch: list[Entry]) -> None:
        """One batch; it is cut where the service cuts it."""
        desk = self.office.desk
        while batch:
            self.open()
            sweeps: list[Role] = []
            while batch and not sweeps:
                role, key, value = batch.pop(0)
                table = MAPPING.people if role is Role.PEOPLE else MAPPING.values_table
                assert table is not None
                change = read_change(None if b'"op": "t"' in value else key, value, (), table)
                assert isinstance(change, Change)
                assert desk.apply(role, change, TODAY) is None
                sweeps = desk.complete_looks(role, change)
            self.close()
            self.later.update(one for one in sweeps if one is not role)
            self.sweep(one for one in sweeps if one is role)

    def sweep(self, roles: Iterable[Role]) -> None:
        for role in roles:
            self.open()
            self.office.sweep(role)
            self.close()

    def open(self) -> None:
        self.office.desk.people = {one: read_person(stored) for one, stored in self.people.items()}
        self.office.desk.rows = dict(self.rows)

    def close(self) -> None:
        self.office.settle(TODAY)
        desk = self.office.desk
        self.people = {one: person.pack() for one, person in desk.people.items() if not person.is_empty}
        self.rows = dict(desk.rows)
        self.was_lost |= self.was_told and "6" not in self.office.told
        self.was_told |= "6" in self.office.told
        self.check_invariants()

    def check_invariants(self) -> None:
        """Every row of the second table is at one person, and the index says at whom."""
        at = {key: one for one, stored in self.people.items() for key in read_person(stored).values}
        assert at == self.rows


def interleave(rnd: Random, log: list[Entry]) -> list[Entry]:
    """The log as it may be read: each topic in its order."""
    topics = [[entry for entry in log if entry[0] is role] for role in Role]
    merged = []
    while any(topics):
        # Mostly alike, so that a batch often has both, and sometimes far apart.
        topic = rnd.choice([topic for topic in topics if topic])
        size = rnd.choice((1, 1, 2, 20))
        merged += topic[:size]
        del topic[:size]
    return merged


def is_told_what_is_true(seed: int) -> bool:
    rnd = Random(seed)
    database, reader = Database(rnd), Reader()
    database.snapshot()
    for _ in range(rnd.randrange(40)):
        step = rnd.choice((database.change,) * 8 + (database.restart, database.snapshot, database.truncate))
        step()
    waiting = interleave(rnd, database.log)
    while waiting:
        size = rnd.randrange(1, 10)
        reader.take(waiting[:size])
        waiting = waiting[size:]
    reader.sweep(reader.later)
    # Nobody is told to be gone who never was: only TRUNCATE takes person 6 away for a moment.
    return reader.office.told == database.truth() and (database.truncated > 0 or not reader.was_lost)


@given(st.integers(0, 2**32))
def test_whatever_happens_on_the_way_shoal_is_told_what_is_true(seed: int) -> None:
    assert is_told_what_is_true(seed)


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (Census, "is_missing", lambda _, __: False),  # nobody is missing after a snapshot
        (Census, "is_missing", lambda _, __: True),  # everybody is
        (Held, "is_older", lambda held, lsn: lsn is not None and lsn < 1300),  # changes are forgotten
        (Desk, "_disown", lambda _, __: None),  # rows that are gone stay in the index
    ],
)
def test_a_source_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any) -> None:
    monkeypatch.setattr(owner, name, wrong)

    def is_right(seed: int) -> bool:
        try:
            return is_told_what_is_true(seed)
        except AssertionError:
            return False

    assert not all(is_right(seed) for seed in range(100))
