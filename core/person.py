"""A person as they are stored, the numbers that stand for nobody, nothing and nowhere, and how ids are looked up."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from shoal.core.events.guard import Guard

NOBODY = -1  # the group of someone who is not published
NOTHING = -1  # the end of a chain of exposures
NOWHERE = -1  # the coarse cell of someone who is published at their leaf
NONE = 0  # the code of the empty set of values
AWAY = 0  # the status of a row whose person lives in another shard now: nothing of them is left here
FORGOTTEN = 1 << 31  # the release at which the quasi-identifiers of somebody erased became what they are: after all

Qid = tuple[int | float, ...]
Values = tuple[int, ...]


class Person(NamedTuple):
    """A person as they are stored.

    `home` is the partition their events come from, `qid` one number per attribute (a category's is its leaf code),
    `values` sorted leaf codes, `group` the group they are published in or -1, `exposures` every group they were ever
    published in, `since` the release at which their quasi-identifiers became what they are, `guard` their wish, `held`
    the permanent values they were ever given, sorted, also while they are absent, `coarse` the inner node they are
    published at instead of their leaf, or -1 (see `core/overlap/generalize.py`). In a lasting table `entries` says what
    was shown of them (see `core/signatures/entries.py`) and `trail` where they were before; there is neither group,
    exposure nor coarse cell then.
    """

    status: int
    home: int
    qid: Qid
    values: Values
    group: int
    exposures: tuple[int, ...]
    since: int
    guard: Guard | None = None
    held: Values = ()
    coarse: int = NOWHERE
    entries: tuple[tuple[int, ...], ...] = ()
    trail: tuple[Qid, ...] = ()


class IdList(Protocol):
    """Ids by row. It only ever grows."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> str: ...

    def extend(self, ids: Iterable[str], /) -> None: ...


class RowsById(Protocol):
    """Rows by id. It only ever grows."""

    def get(self, person_id: str, /) -> int | None: ...

    def update(self, rows: Mapping[str, int], /) -> None: ...


class Ids(IdList, RowsById, Protocol):
    """Both at once, of people who are read from a file."""
