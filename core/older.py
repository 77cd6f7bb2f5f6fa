"""Records as older versions stored them, and what they are in this one.

The records of Redis, of a snapshot and of a state file are the same and have one layout, whose number is that of Redis.
A state file's number is one less.

| layout | engine   | what is different there                                                       |
|--------|----------|-------------------------------------------------------------------------------|
| 5      | 1.0      | there are redrawn tables only, and no policy says so; a person has ten fields |
| 6      | 2.0      | all of a person's fields are stored, in the order of `Person`                 |
| 7, 8   | 2.0      | a table is bound to the bytes of its policy's files, not to what they mean    |
| 9      | 2.0      | people are called by their ids, as in all layouts before                      |
| 9      | from 2.1 | nothing                                                                       |

What a record says has never changed. So each is read as it was written, people get handles in place of ids, and the
table goes on. A change of the layout is one more line here, one more file of tests/golden/older, and what `convert` has
to do about it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from shoal.core.person import Person
from shoal.core.randomness import Keyed
from shoal.core.state import ENGINE, READERS

LAYOUT: Final = 9
_OLDEST, _SHORT_PEOPLE, _MEANING = 5, 7, 9
_WITH_IDS: Final = ("1.0", "2.0")
_REDRAWN: Final = "1.0"


class Layout(NamedTuple):
    """How the records of a table are stored, and by which engine."""

    number: int
    engine: str

    @property
    def is_known(self) -> bool:
        """Whether this version can go on with such a table."""
        return _OLDEST <= self.number <= LAYOUT and _version(self.engine) <= _version(ENGINE)

    @property
    def is_current(self) -> bool:
        """Whether the records need no conversion. The engine may still be an older one."""
        return self.number == LAYOUT and not self.has_ids

    @property
    def has_ids(self) -> bool:
        """Whether people are called by their ids."""
        return self.engine in _WITH_IDS

    @property
    def names_meaning(self) -> bool:
        """Whether the table is bound to what its policy means, not to the digest of the files."""
        return self.number >= _MEANING

    @property
    def values(self) -> str | None:
        """The model of tables whose policy names none, if it is not today's."""
        return "redrawn" if self.engine == _REDRAWN else None


def convert(
    layout: Layout, name: str, records: Iterable[tuple[Any, Sequence[Any]]], keyed: Keyed
) -> Iterator[tuple[Any, Any]]:
    """Identities and records of a kind, named as in `RECORDS`, from identities and stored fields in a layout."""

    def called(identity: str) -> str:
        return keyed.handle(identity) if identity and layout.has_ids else identity

    read = _reader(layout, name)
    for identity, fields in records:
        record = read(fields)
        if name == "people":
            yield called(identity), record
        elif name in ("cliques", "bonds"):
            yield identity, record._replace(owners=tuple(map(called, record.owners)))
        else:
            yield identity, record


def _reader(layout: Layout, name: str) -> Callable[[Sequence[Any]], Any]:
    if name == "people" and layout.number < _SHORT_PEOPLE:
        return lambda fields: Person(*fields)
    return READERS[name]


def _version(engine: str) -> tuple[int, ...]:
    """What puts engines in order; a name that is no version comes after all of them."""
    parts = engine.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else (1 << 30,)
