"""Joins the rows of the captured tables into people, and decides which events Shoal needs about them.

The desk is pure. Its caller reads the people whom a batch is about into `people` and `rows` (`rows` says whose a row of
the second table is), applies the changes in order, and settles. Only a difference to what Shoal was told last makes an
event, so rows that come again make none.
"""

import hashlib
from collections.abc import Iterable
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from shoal.core.events.event import Reason, Reject
from shoal.core.events.record import RecordReader
from shoal.core.policy.policy import Policy
from shoal.streams.files.mapping.conversion import WITHHELD, Row, Withheld, id_of
from shoal.streams.files.mapping.mapping import TableMapping
from shoal.streams.source.census import Census
from shoal.streams.source.envelope import Change
from shoal.streams.source.person import MARK_DAYS, Held, Person

_pack = msgspec.msgpack.Encoder(order="deterministic").encode


class Role(StrEnum):
    """What a captured table is for."""

    PEOPLE = "people"
    VALUES = "values"


class Record(NamedTuple):
    """What is true of a person now."""

    qid: dict[str, Any]
    sensitive: list[str]


class Desk:
    """Applies changes to people. After `settle`, `touched` and `touched_rows` are what must be written down."""

    def __init__(self, policy: Policy, mapping: TableMapping) -> None:
        self._mapping = mapping
        self._reader = RecordReader(policy)
        self.census = {role: Census() for role in Role}
        self.people: dict[str, Person] = {}
        self.rows: dict[str, str] = {}  # key of a row of the second table → id of its person
        self.touched: set[str] = set()
        self.touched_rows: set[str] = set()

    def forget(self) -> None:
        """Begin a batch with nobody at hand."""
        self.people, self.rows, self.touched, self.touched_rows = {}, {}, set(), set()

    # -- changes ------------------------------------------------------------------------------------------------------

    def person_id(self, change: Change) -> str | Reject:
        """The id of the person whom a change is about, as the record has it."""
        if change.id_values is None:
            return Reject(Reason.MISSING_FIELD, None, "id")
        return id_of(change.id_values)

    def apply(self, role: Role, change: Change, today: date) -> Reject | None:
        """Take a change, or say why its row cannot be taken. A change that was taken before has no effect."""
        census = self.census[role]
        if change.kind == "truncated":
            census.truncate(change.lsn)
            return None
        if change.snapshot is not None:
            census.see(change.snapshot)
        return (self._apply_person if role is Role.PEOPLE else self._apply_value)(change, census.epoch, today)

    def _apply_person(self, change: Change, epoch: int, today: date) -> Reject | None:
        person_id = self.person_id(change)
        if isinstance(person_id, Reject):
            return person_id
        person = self._touch(person_id)
        held = person.row
        if held is not None and held.key != change.key:
            if change.row is None:
                return None  # a second row of this person, which was rejected when it came
            if held.row is not None:
                return Reject(Reason.ALREADY_PRESENT, None, "id")
            held = None
        if held is not None and held.is_older(change.lsn):
            return None
        known = held or Held(change.key, None, epoch, None, today.toordinal())
        if change.row is None:
            person.row = known.mark(change.lsn, epoch, today)
            return None
        row = known.completed(change.row)
        reject = self._wrong_person(row, today)
        if reject is not None:  # the row stays as it was, and the change is known if it comes again
            person.row = Held(change.key, change.lsn, epoch, known.row, known.gone_on)
            return reject
        person.row = Held(change.key, change.lsn, epoch, row)
        return None

    def _apply_value(self, change: Change, epoch: int, today: date) -> Reject | None:
        before = self.rows.get(change.key)
        held = None if before is None else self._touch(before).values.get(change.key)
        if held is not None and held.is_older(change.lsn):
            return None
        if change.row is None:
            if before is not None and held is not None:
                self.people[before].values[change.key] = held.mark(change.lsn, epoch, today)
            return None
        known = held or Held(change.key, None, epoch, None, today.toordinal())
        row = known.completed(change.row)
        person_id = self.person_id(change)
        reject = person_id if isinstance(person_id, Reject) else self._wrong_value(row)
        if reject is not None:
            if before is not None and held is not None:
                self.people[before].values[change.key] = Held(change.key, change.lsn, epoch, held.row, held.gone_on)
            return reject
        assert isinstance(person_id, str)
        if before is not None and before != person_id:
            self.people[before].values.pop(change.key, None)
        self._touch(person_id).values[change.key] = Held(change.key, change.lsn, epoch, row)
        self._own(change.key, person_id)
        return None

    def complete_looks(self, role: Role, change: Change) -> list[Role]:
        """The tables that were looked at completely with this change, each once. What was not found must be swept."""
        snapshot = change.snapshot
        complete = [role] if change.kind == "truncated" or (snapshot is not None and snapshot.is_last) else []
        if snapshot is not None and snapshot.is_last_of_all:
            complete = [one for one, look in self.census.items() if look.identity == snapshot.identity]
        fresh = [one for one in complete if not self.census[one].is_swept]
        for one in fresh:
            self.census[one].is_swept = True
        return fresh

    def sweep(self, role: Role, person_id: str) -> None:
        """Take away what a complete look at a table did not find of somebody who is at hand."""
        person, census = self.people[person_id], self.census[role]
        if role is Role.PEOPLE:
            if person.row is not None and census.is_missing(person.row):
                self._touch(person_id).row = None
            return
        for key in [key for key, held in person.values.items() if census.is_missing(held)]:
            del self._touch(person_id).values[key]
            self._disown(key)

    def _touch(self, person_id: str) -> Person:
        self.touched.add(person_id)
        return self.people.setdefault(person_id, Person())

    def _own(self, key: str, person_id: str) -> None:
        if self.rows.get(key) != person_id:
            self.rows[key] = person_id
            self.touched_rows.add(key)

    def _disown(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self.touched_rows.add(key)

    # -- what is true -------------------------------------------------------------------------------------------------

    def _wrong_person(self, row: Row, today: date) -> Reject | None:
        """Why a row of the people's table cannot be taken."""
        qid = self._qid(row, today)
        if isinstance(qid, Reject):
            return qid
        if self._mapping.values_table is not None:
            return None
        labels = self._mapping.values.read(row)
        if not labels and self._mapping.rejects_no_value and self._mapping.none is None:
            return Reject(Reason.EMPTY, None, "sensitive")
        return labels if isinstance(labels, Reject) else self._wrong_labels(labels)

    def _wrong_value(self, row: Row) -> Reject | None:
        """Why a row of the second table cannot be taken."""
        labels = self._mapping.values.read(row)
        if isinstance(labels, Reject):
            return labels
        wrong = None if self._mapping.spell is None else self._mapping.spell.wrong(row)
        return wrong or self._wrong_labels(labels)

    def _wrong_labels(self, labels: list[str]) -> Reject | None:
        read = self._reader.read_values(labels) if labels else None
        return read if isinstance(read, Reject) else None

    def _qid(self, row: Row, today: date) -> dict[str, Any] | Reject | Withheld:
        qid: dict[str, Any] = {}
        for rule in self._mapping.attributes:
            value = rule.read(row, today)
            if value is WITHHELD or isinstance(value, Reject):
                return value
            qid[rule.name] = value
        read = self._reader.read_qid(qid)
        return read if isinstance(read, Reject) else qid

    def record_of(self, person: Person, today: date) -> Record | None:
        """What Shoal should know of a person; None if they are not there, or left out."""
        row = None if person.row is None else person.row.row
        if row is None:
            return None
        qid = self._qid(row, today)
        if not isinstance(qid, dict):  # an age that has grown out of its domain
            return None
        labels: set[str] = set()
        for source in self._value_rows(person, row, today):
            found = self._mapping.values.read(source)
            if isinstance(found, Reject):
                return None
            labels.update(found)
        if not labels and self._mapping.none is not None:
            labels = {self._mapping.none}
        return Record(qid, sorted(labels)) if labels else None

    def _value_rows(self, person: Person, row: Row, today: date) -> Iterable[Row]:
        if self._mapping.values_table is None:
            return [row]
        spell = self._mapping.spell
        there = [held.row for held in person.values.values() if held.row is not None]
        return there if spell is None else [one for one in there if spell.holds(one, today)]

    def settle(self, today: date, *, is_silent: bool = False) -> list[dict[str, Any]]:
        """The events that tell Shoal what has changed about the people touched; none while the source is silent."""
        events: list[dict[str, Any]] = []
        for person_id in sorted(self.touched):
            person = self.people[person_id]
            self._wear(person, today)
            person.due = self._due(person, today)
            if is_silent:
                continue
            record = self.record_of(person, today)
            digest = None if record is None else hashlib.blake2b(_pack(record), digest_size=12).digest()
            if digest == person.told:
                continue
            person.told = digest
            if record is None:
                events.append({"op": "delete", "id": person_id})
            else:
                events.append({"op": "upsert", "id": person_id, "qid": record.qid, "sensitive": record.sensitive})
        return events

    def _wear(self, person: Person, today: date) -> None:
        """Drop marks that are too old to matter."""
        if person.row is not None and person.row.is_worn(today):
            person.row = None
        for key in [key for key, held in person.values.items() if held.is_worn(today)]:
            del person.values[key]
            self._disown(key)

    def _due(self, person: Person, today: date) -> int:
        """The next day on which somebody changes although no row does."""
        rows = (person.row, *person.values.values())
        days = [held.gone_on + MARK_DAYS for held in rows if held is not None and held.row is None]
        row = None if person.row is None else person.row.row
        if row is not None:
            changes = [rule.next_change(row, today) for rule in self._mapping.attributes]
            if self._mapping.spell is not None:
                there = (held.row for held in person.values.values() if held.row is not None)
                changes += [self._mapping.spell.next_change(one, today) for one in there]
            days += [day.toordinal() for day in changes if day is not None]
        return min(days, default=0)
