"""From a row of a CSV file or of a database to a quasi-identifier or a sensitive value, by one rule for each.

A rule gives a value, a Reject that names what does not fit, or WITHHELD where the mapping leaves such rows out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Literal

from shoal.core.events.event import Reason, Reject, wrong_id
from shoal.streams.files.mapping.moments import day_of, full_years, next_birthday, number_of

Row = Mapping[str, Any]
"""Columns that the mapping names, by name."""

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""What Debezium writes for a large column that an update did not touch, and PostgreSQL did not send."""

_SEPARATOR: Final = "/"  # between the columns of an id


class Withheld(Enum):
    """The mapping leaves this row out."""

    WITHHELD = "withheld"


WITHHELD: Final = Withheld.WITHHELD


def is_unavailable(value: object) -> bool:
    return value == UNAVAILABLE or value == [UNAVAILABLE]


def read_column(row: Row, column: str, field: str) -> Any:
    """A column's value. Reject if the row does not have it, or PostgreSQL did not send it and it is not known."""
    if column not in row:
        return Reject(Reason.MISSING_FIELD, None, field)
    value = row[column]
    return Reject(Reason.UNAVAILABLE, None, field) if is_unavailable(value) else value


def text_of(value: object, *, trim: bool) -> str | None:
    """A label from text, a whole number or a truth value; None from anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    return (value.strip() if trim else value) if isinstance(value, str) else None


def id_of(values: Sequence[object]) -> str | Reject:
    """A person's id, from one column or from several, joined by a slash."""
    parts = [text_of(value, trim=False) for value in values]
    if any(part is None for part in parts):
        return Reject(Reason.WRONG_TYPE, None, "id")
    if len(parts) > 1 and any(_SEPARATOR in (part or "") for part in parts):
        return Reject(Reason.BAD_TEXT, None, "id")  # a/b and c would be the same person as a and b/c
    if len(parts) > 1 and not all(parts):
        return Reject(Reason.EMPTY, None, "id")
    person = _SEPARATOR.join(part or "" for part in parts)
    wrong = wrong_id(person)
    return person if wrong is None else Reject(wrong, None, "id")


@dataclass(frozen=True, kw_only=True)
class AttributeRule:
    """Where one quasi-identifier comes from. `lookup` and `missing_value` give what an event would have."""

    name: str
    kind: Literal["int", "float", "category"]
    column: str | None
    constant: Any = None
    convert: str | None = None
    bin: float | None = None
    lookup: Mapping[str, str] | None = None
    trim: bool = False
    no_value: frozenset[str] = frozenset()
    withholds: bool = False
    missing_value: Any = None
    unit: str | None = None
    scale: int | None = None

    def read(self, row: Row, today: date) -> Any:
        """The value for an event; its domain is for the policy to judge."""
        if self.column is None:
            return self.constant
        field = f"qid.{self.name}"
        value = read_column(row, self.column, field)
        if isinstance(value, Reject):
            return value
        if self.trim and isinstance(value, str):
            value = value.strip() or None
        if value is None or (self.no_value and text_of(value, trim=False) in self.no_value):
            return self._missing(field)
        if self.lookup is not None:
            value = self.lookup.get(text_of(value, trim=False) or "")
            if value is None:
                return Reject(Reason.UNKNOWN_NODE, None, field)
        if self.kind == "category":
            found: Any = text_of(value, trim=False)
        else:
            found = self._number(value, today)
        return Reject(Reason.WRONG_TYPE, None, field) if found is None else found

    def next_change(self, row: Row, today: date) -> date | None:
        """The day on which the value changes although the row does not: a birthday."""
        if self.convert != "age" or self.column is None:
            return None
        born = day_of(row.get(self.column), self.unit)
        return None if born is None else next_birthday(born, today)

    def _missing(self, field: str) -> Any:
        if self.missing_value is not None:
            return self.missing_value
        return WITHHELD if self.withholds else Reject(Reason.MISSING_ATTRIBUTE, None, field)

    def _number(self, value: object, today: date) -> int | float | None:
        if self.convert is not None:
            day = day_of(value, self.unit)
            if day is None:
                return None
            number = Decimal(full_years(day, today) if self.convert == "age" else day.year)
        else:
            found = number_of(value, self.scale)
            if found is None:
                return None
            number = found
        if self.bin is not None:
            width = Decimal(repr(self.bin))
            number = (number / width).to_integral_value("ROUND_FLOOR") * width
        if self.kind == "float":
            return float(number)
        return int(number) if number == number.to_integral_value() else None


@dataclass(frozen=True, kw_only=True)
class ValueRule:
    """How sensitive values are written: in columns, in one text with separators or, with `is_array`, in one array."""

    columns: tuple[str, ...]
    is_array: bool = False
    separator: str | None = None
    lookup: Mapping[str, str] | None = None
    trim: bool = False
    no_value: frozenset[str] = frozenset()

    def read(self, row: Row) -> list[str] | Reject:
        """The labels in a row; none where the columns are empty."""
        found: dict[str, None] = {}
        for column in self.columns:
            value = read_column(row, column, "sensitive")
            if isinstance(value, Reject):
                return value
            if value is None:
                continue
            if isinstance(value, list) != self.is_array:
                return Reject(Reason.WRONG_TYPE, None, "sensitive")
            for item in value if self.is_array else self._parts(value):
                label = self._label(item)
                if isinstance(label, Reject):
                    return label
                if label is not None:
                    found[label] = None
        return [*found]

    def _parts(self, value: object) -> list[object]:
        if self.separator is None or not isinstance(value, str):
            return [value]
        return [part.strip() for part in value.split(self.separator) if part.strip()]

    def _label(self, value: object) -> str | Reject | None:
        label = text_of(value, trim=self.trim)
        if label is None:
            return Reject(Reason.WRONG_TYPE, None, "sensitive")
        if label in self.no_value or (self.trim and not label):
            return None
        if self.lookup is None:
            return label
        found = self.lookup.get(label)
        return Reject(Reason.UNKNOWN_NODE, None, "sensitive") if found is None else found


@dataclass(frozen=True, kw_only=True)
class Spell:
    """The columns between whose days a value of the second table holds; without one it holds."""

    start: str | None
    end: str | None
    unit: str | None

    def wrong(self, row: Row) -> Reject | None:
        """What is wrong with the days in a row."""
        for column in filter(None, (self.start, self.end)):
            value = read_column(row, column, "sensitive")
            if isinstance(value, Reject):
                return value
            if value is not None and day_of(value, self.unit) is None:
                return Reject(Reason.BAD_TIME, None, "sensitive")
        return None

    def holds(self, row: Row, today: date) -> bool:
        start, end = self._days(row)
        return (start is None or start <= today) and (end is None or today < end)

    def next_change(self, row: Row, today: date) -> date | None:
        """The next day on which the value begins or ends."""
        return min((day for day in self._days(row) if day is not None and day > today), default=None)

    def _days(self, row: Row) -> tuple[date | None, date | None]:
        start, end = ((None if name is None else day_of(row.get(name), self.unit)) for name in (self.start, self.end))
        return start, end
