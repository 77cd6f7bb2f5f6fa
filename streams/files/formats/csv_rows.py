"""The rows of a CSV file as events or, where the mapping names a period, as the states of a panel.

The mapping says which columns are read and what becomes of them (docs/mapping.md). Without one, columns are named as in
the policy: `id`, one for each attribute, the sensitive attribute's name, and `op` if there is one.

A row without an op is an insert; in a list of who exists it is a register, which needs no value. An empty field of an
update means "unchanged". A row whose op is `release` asks for a release.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from shoal.core.events.event import Reason, Reject
from shoal.core.events.fields import FIELDS
from shoal.core.policy.policy import Policy
from shoal.streams.files.formats.csv_file import CsvRow, read_rows
from shoal.streams.files.formats.format import Blocks, EventReader, FormatChoice, Line
from shoal.streams.files.mapping.conversion import WITHHELD, Withheld, id_of
from shoal.streams.files.mapping.mapping import Reads, TableMapping, load_mapping, plain_mapping

INSERT, REGISTER, UPDATE, RELEASE = "insert", "register", "update", "release"
WITHOUT_RECORD: Final = frozenset({"delete", "deregister", "erase"})
_CARRIED: Final = frozenset({INSERT, "upsert", UPDATE, REGISTER, RELEASE}) | WITHOUT_RECORD
_ANY_DAY: Final = date.min  # where no column is an age

Read = dict[str, Any] | Reject | Withheld
"""What a row comes to."""


def reader(policy: Policy, choice: FormatChoice) -> EventReader:
    """The reader of CSV files under a mapping. Raises `InputError` with every mistake in the mapping."""
    if choice.mapping is None:
        mapping = plain_mapping(policy, choice.columns)
    else:
        mapping = load_mapping(choice.mapping, policy, Reads.FILES, choice.columns)
    if mapping.period is None:
        return CsvRows(policy, mapping)
    from shoal.streams.files.formats.panel import Panel

    return Panel(policy, mapping)


class RowRules:
    """Turns the wanted columns of a row into parts of an event."""

    def __init__(self, mapping: TableMapping) -> None:
        self._mapping = mapping
        self.columns = tuple(sorted(mapping.people.columns))

    def row(self, fields: list[str | None]) -> dict[str, str | None]:
        return dict(zip(self.columns, fields, strict=False))

    def person(self, row: Mapping[str, str | None]) -> str | Reject:
        return id_of([row[column] or "" for column in self._mapping.people.id_columns])

    def record(self, row: Mapping[str, str | None], day: date) -> Read:
        """A whole record: `qid`, and `sensitive` unless the mapping has no columns of values."""
        known = self.qid(row, day)
        if known is WITHHELD or isinstance(known, Reject) or not self._mapping.values.columns:
            return known
        values = self.values(row)
        if isinstance(values, Reject):
            return values
        if not values:
            return Reject(Reason.EMPTY, None, "sensitive") if self._mapping.rejects_no_value else WITHHELD
        return {**known, "sensitive": values}

    def qid(self, row: Mapping[str, str | None], day: date) -> Read:
        """The quasi-identifiers alone, for somebody without a record."""
        qid: dict[str, Any] = {}
        for rule in self._mapping.attributes:
            value = rule.read(row, day)
            if value is WITHHELD or isinstance(value, Reject):
                return value
            qid[rule.name] = value
        return {"qid": qid}

    def patch(self, row: Mapping[str, str | None], day: date) -> dict[str, Any] | Reject:
        """What a row says of a record, where an empty field says nothing."""
        qid: dict[str, Any] = {}
        for rule in self._mapping.attributes:
            if rule.column is None or row[rule.column] is None:
                continue
            value = rule.read(row, day)
            if isinstance(value, Reject):
                return value
            if value is not WITHHELD:
                qid[rule.name] = value
        found: dict[str, Any] = {"qid": qid} if qid else {}
        if any(row[column] is not None for column in self._mapping.values.columns):
            values = self.values(row)
            if isinstance(values, Reject):
                return values
            if values:
                found["sensitive"] = values
        return found

    def values(self, row: Mapping[str, str | None]) -> list[str] | Reject:
        """The sensitive values of a row, or the one that people without any have."""
        values = self._mapping.values.read(row)
        if not values and self._mapping.none is not None:
            return [self._mapping.none]
        return values


class CsvRows(EventReader):
    """Reads the rows of CSV files as events."""

    def __init__(self, policy: Policy, mapping: TableMapping) -> None:
        self._policy, self._mapping = policy, mapping
        self._rules = RowRules(mapping)
        self._usual = REGISTER if mapping.file.registers else INSERT
        self._day = mapping.file.day or _ANY_DAY

    def read(self, blocks: Blocks) -> Iterator[Line]:
        """Yields one `Line` per row. Raises `InputError` if the header lacks a column or the file is no CSV."""
        file, columns = self._mapping.file, self._rules.columns
        wanted, optional = [*columns], ["op", "at"]
        for name, column in enumerate((file.op, file.at)):
            if column is not None:
                optional[name] = column
                wanted.append(column)
        for row in read_rows(blocks, file.delimiter, wanted, optional):
            line = self._line(row, len(wanted))
            if line is None:
                self.left_out += 1
            else:
                yield line

    def _line(self, row: CsvRow, count: int) -> Line | None:
        """None if the mapping leaves the row out."""
        if row.fields is None:
            return Line(row.number, None, "it does not have as many fields as the header", reject=_UNEVEN)
        op, at = row.fields[count:]
        op = op or self._usual
        if op not in _CARRIED:
            return _not_carried(row.number, op)
        if op == RELEASE:
            return Line(row.number, {"op": RELEASE} if at is None else {"op": RELEASE, "at": at})
        found = self._event(op, self._rules.row(row.fields))
        if isinstance(found, Reject):
            found = found._replace(op=op)
            return Line(row.number, None, in_words(found), reject=found)
        return None if isinstance(found, Withheld) else Line(row.number, found)

    def _event(self, op: str, row: Mapping[str, str | None]) -> Read:
        person = self._rules.person(row)
        if isinstance(person, Reject):
            return person
        event: dict[str, Any] = {"op": op, "id": person}
        if op in WITHOUT_RECORD:
            return event
        how = {UPDATE: self._rules.patch, REGISTER: self._rules.qid}.get(op, self._rules.record)
        found = how(row, self._day)
        return event | found if isinstance(found, dict) else found


_UNEVEN: Final = Reject(Reason.MISSING_FIELD)


def _not_carried(number: int, op: str) -> Line:
    """The refusal of an op. Only the name of one that Shoal knows may be repeated."""
    if op in FIELDS:
        why = f"the op {op} needs more than a row can hold; send it as a line of JSON"
        return Line(number, None, why, reject=Reject(Reason.UNKNOWN_OP, op, "op"))
    return Line(
        number, None, f"its op is none of {', '.join(sorted(_CARRIED))}", reject=Reject(Reason.UNKNOWN_OP, None, "op")
    )


def in_words(reject: Reject) -> str:
    """A reject as a part of a sentence: what is wrong and in which field."""
    return f"{reject.field} is {reject.reason}" if reject.field else f"it is {reject.reason}"
