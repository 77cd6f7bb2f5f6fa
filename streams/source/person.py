"""What is kept of one person between two changes: their rows, and what Shoal was told last.

A row is kept as the columns that the mapping names. A deleted row leaves a *mark*, which has the place of its last
change and no content, so that an older change of it that comes again is known as such. Marks go after `MARK_DAYS`, or
when a complete snapshot has said which rows there are.

The newest change of a row is the one with the largest LSN: PostgreSQL lets one transaction at a time write a row. Rows
of a snapshot count whenever they come, and put that order back to its start: a transaction that was open during the
snapshot has written earlier, and is seen only after it; a database that was restored counts from elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final

from shoal.streams.files.mapping.conversion import is_unavailable

MARK_DAYS: Final = 7
UNKNOWN: Final = b""  # Shoal was told something, and nobody knows what


@dataclass(frozen=True, slots=True)
class Held:
    """One row of a captured table, or the mark of one. `epoch` counts the complete looks at the table, see census.py.

    `gone_on` is the day of its deletion, as an ordinal number; 0 for a row that is there.
    """

    key: str
    lsn: int | None
    epoch: int
    row: Mapping[str, Any] | None
    gone_on: int = 0

    def is_older(self, lsn: int | None) -> bool:
        """Whether a change with this LSN was taken already."""
        return lsn is not None and self.lsn is not None and lsn <= self.lsn

    def mark(self, lsn: int | None, epoch: int, today: date) -> "Held":
        """The same row, deleted."""
        return replace(self, lsn=lsn, epoch=epoch, row=None, gone_on=today.toordinal())

    def completed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A newer content of this row; what PostgreSQL did not send is as it was."""
        known = self.row or {}
        return {name: known.get(name, value) if is_unavailable(value) else value for name, value in row.items()}

    def is_worn(self, today: date) -> bool:
        """Whether this is a mark that is not needed any more."""
        return self.row is None and today.toordinal() - self.gone_on >= MARK_DAYS


@dataclass(slots=True)
class Person:
    """The rows of one person, by the key of the row, and a digest of the last event about them, None after a delete."""

    row: Held | None = None
    values: dict[str, Held] = field(default_factory=dict)
    told: bytes | None = None
    due: int = 0  # the day, as an ordinal number, on which something changes although no row does; 0 for none

    @property
    def is_empty(self) -> bool:
        """Whether nothing about them needs to be kept."""
        return self.row is None and not self.values and self.told is None

    def pack(self) -> tuple[Any, ...]:
        """The inverse of `read_person`, for msgpack."""
        return (_pack(self.row), [_pack(held) for held in self.values.values()], self.told, self.due)


def read_person(stored: Any) -> Person:
    """A person as `pack` wrote them."""
    row, values, told, due = stored
    held = [Held(*one) for one in values]
    return Person(None if row is None else Held(*row), {one.key: one for one in held}, told, due)


def _pack(held: Held | None) -> tuple[Any, ...] | None:
    return None if held is None else (held.key, held.lsn, held.epoch, held.row, held.gone_on)
