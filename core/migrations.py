"""The number of the format in which a table's records are stored, and what makes records of an older one into it.

The records of Redis, of a snapshot and of a state file are the same and have one format. There has been one so far.
docs/contributing.md ("The next format") says how a second one is added.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shoal.core.state import ENGINE

FORMAT: Final = 1

Fields = Sequence[Any]
Migration = Callable[[str, Fields], Fields]
"""What makes the stored fields of a record, of a kind as `RECORDS` names it, those of the next format."""

MIGRATIONS: Final[Mapping[int, Migration]] = {}
"""By the number of the format that each begins with."""


class Layout(NamedTuple):
    """In which format a table is stored, and by which engine."""

    number: int
    engine: str

    @property
    def is_known(self) -> bool:
        """Whether this version can go on with such a table."""
        is_reached = self.number <= FORMAT and all(number in MIGRATIONS for number in range(self.number, FORMAT))
        return is_reached and _version(self.engine) <= _version(ENGINE)

    @property
    def is_current(self) -> bool:
        """Whether the records need no conversion. The engine may still be an older one."""
        return self.number == FORMAT


def convert(number: int, kind: str, fields: Fields) -> Fields:
    """The fields in this version's format of a record that is stored in format `number`, which is known."""
    for older in range(number, FORMAT):
        fields = MIGRATIONS[older](kind, fields)
    return fields


def _version(engine: str) -> tuple[int, ...]:
    """What puts engines in order; a name that is no version comes after all of them."""
    parts = engine.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else (1 << 30,)
