"""Everyone Shoal has ever heard of: one row per person over parallel columns, and the record each row is stored as.

Rows are given out in order of first appearance and never removed, because a person's ledger outlives their record. No
result may depend on the order of rows: a restart reads people back in any order. Whatever needs an order uses tags
(keyed hashes of ids) or the ids themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.intake import PRESENT
from core.keyed import Keyed
from core.policy import Attribute
from core.tree import Column, Rows

NOBODY = -1  # the group of someone who is not published

Qid = tuple[int | float, ...]


class Person(NamedTuple):
    """A person as they are stored.

    `home` is the partition their events come from, `qid` one number per attribute (a category's is its leaf code),
    `values` sorted leaf codes, `group` the group they are published in or -1, `exposures` every group they were ever
    published in, and `since` the release at which their quasi-identifiers became what they are.
    """

    status: int
    home: int
    qid: Qid
    values: tuple[int, ...]
    group: int
    exposures: tuple[int, ...]
    since: int


class People:
    """The columns. `copy()` is what planning works on, so that a plan never changes the state it started from."""

    def __init__(self, attributes: Sequence[Attribute], keyed: Keyed) -> None:
        self._keyed = keyed
        self.nowhere: Qid = tuple(attribute.low for attribute in attributes)
        self.ids: list[str] = []
        self.rows: dict[str, int] = {}
        self.values: list[tuple[int, ...]] = []
        self.exposures: list[tuple[int, ...]] = []
        self._columns: list[Column] = [
            np.zeros(0, dtype=np.float64 if attribute.kind == "float" else np.int64) for attribute in attributes
        ]
        self._fixed: dict[str, NDArray[Any]] = {
            "status": np.zeros(0, dtype=np.uint8),
            "home": np.zeros(0, dtype=np.int32),
            "group": np.zeros(0, dtype=np.int64),
            "since": np.zeros(0, dtype=np.int64),
            "leaf": np.zeros(0, dtype=np.int64),
            "tag": np.zeros(0, dtype=np.uint64),
        }

    def copy(self) -> "People":
        twin = object.__new__(People)
        twin._keyed, twin.nowhere = self._keyed, self.nowhere
        twin.ids, twin.rows = self.ids.copy(), self.rows.copy()
        twin.values, twin.exposures = self.values.copy(), self.exposures.copy()
        twin._columns = [column.copy() for column in self._columns]
        twin._fixed = {name: column.copy() for name, column in self._fixed.items()}
        return twin

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> Sequence[Column]:
        """One column of quasi-identifiers per attribute."""
        return [column[: len(self.ids)] for column in self._columns]

    @property
    def status(self) -> NDArray[np.uint8]:
        return self._fixed["status"][: len(self.ids)]

    @property
    def home(self) -> NDArray[np.int32]:
        return self._fixed["home"][: len(self.ids)]

    @property
    def group(self) -> NDArray[np.int64]:
        return self._fixed["group"][: len(self.ids)]

    @property
    def since(self) -> NDArray[np.int64]:
        return self._fixed["since"][: len(self.ids)]

    @property
    def leaf(self) -> NDArray[np.int64]:
        """The tree's leaf of each person, or the last known node above it (see `State.settle`)."""
        return self._fixed["leaf"][: len(self.ids)]

    @property
    def tag(self) -> NDArray[np.uint64]:
        return self._fixed["tag"][: len(self.ids)]

    def present(self) -> Rows:
        return np.flatnonzero(self.status == PRESENT)

    def person(self, row: int) -> Person:
        """One row as it is stored."""
        fixed = self._fixed
        return Person(
            int(fixed["status"][row]),
            int(fixed["home"][row]),
            tuple(column[row].item() for column in self._columns),
            self.values[row],
            int(fixed["group"][row]),
            self.exposures[row],
            int(fixed["since"][row]),
        )

    def persons(self, rows: Rows) -> Iterator[tuple[str, Person]]:
        """Many rows as they are stored; columns are converted once, so this is the way to write a million."""
        qids = zip(*(column[rows].tolist() for column in self._columns), strict=True)
        fixed = (self._fixed[name][rows].tolist() for name in ("status", "home", "group", "since"))
        for row, qid, status, home, group, since in zip(rows.tolist(), qids, *fixed, strict=True):
            yield self.ids[row], Person(status, home, qid, self.values[row], group, self.exposures[row], since)

    def put(self, person_id: str, person: Person) -> int:
        """Overwrite someone known; returns the row. The leaf is the root until the tree settles it."""
        row = self.rows[person_id]
        for column, value in zip(self._columns, person.qid, strict=True):
            column[row] = value
        fixed = self._fixed
        fixed["status"][row], fixed["home"][row] = person.status, person.home
        fixed["group"][row], fixed["since"][row], fixed["leaf"][row] = person.group, person.since, 0
        self.values[row], self.exposures[row] = person.values, person.exposures
        return row

    def extend(self, newcomers: Iterable[tuple[str, Person]]) -> None:
        """Append people who are not known yet."""
        pairs = list(newcomers)
        if not pairs:
            return
        first, last = len(self.ids), len(self.ids) + len(pairs)
        self._reserve(last)
        new_ids = [person_id for person_id, _ in pairs]
        self.ids.extend(new_ids)
        self.rows.update(zip(new_ids, range(first, last), strict=True))
        status, home, qids, values, group, exposures, since = zip(*(person for _, person in pairs), strict=True)
        self.values.extend(values)
        self.exposures.extend(exposures)
        for column, numbers in zip(self._columns, zip(*qids, strict=True), strict=True):
            column[first:last] = numbers
        for name, numbers in (("status", status), ("home", home), ("group", group), ("since", since)):
            self._fixed[name][first:last] = numbers
        self._fixed["leaf"][first:last] = 0
        self._fixed["tag"][first:last] = self._keyed.tags(new_ids)

    def _reserve(self, size: int) -> None:
        capacity = len(self._fixed["status"])
        if size <= capacity:
            return
        more = max(size, 2 * capacity) - capacity
        self._columns = [np.concatenate([c, np.zeros(more, dtype=c.dtype)]) for c in self._columns]
        for name, column in self._fixed.items():
            self._fixed[name] = np.concatenate([column, np.zeros(more, dtype=column.dtype)])

    def check_invariants(self) -> None:
        assert len(self.ids) == len(self.rows) == len(self.values) == len(self.exposures)
        assert all(self.ids[row] == person_id for person_id, row in self.rows.items())
        published = self.group != NOBODY
        assert bool(np.all(self.status[published] == PRESENT))
        for row in np.flatnonzero(published).tolist():
            assert int(self.group[row]) == self.exposures[row][-1]
