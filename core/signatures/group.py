"""The groups of a lasting table: what each of them shows, and since when.

A group is one of four kinds (docs/contract.md, "Releases"): a signature, with each of its values `rounds` times; plain,
with one value that needs no protection; "*"; or a clique, which shows one permanent value once. The entries (and the
cliques) say who is in a group. Nobody ever joins a group after it was formed. A group without rows is not published;
its rows come back when their people do.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows

STAR: Final = -3
PLAIN_GROUP: Final = -2
CLIQUE_GROUP: Final = -4
NO_KIND: Final = -9  # of group 0, which does not exist


class LastingGroup(NamedTuple):
    """A group as it is stored. `kind` is a signature's number, or one of the kinds above, with the value it shows."""

    formed: int
    changed: int
    kind: int
    value: int
    rounds: int


class Groups:
    """Every group ever formed, by number, as columns. Groups are numbered from 1."""

    def __init__(self) -> None:
        self.size = 1
        self._columns = {name: np.full(1, NO_KIND, dtype=np.int64) for name in LastingGroup._fields}

    def copy(self) -> "Groups":
        twin = object.__new__(Groups)
        twin.size = self.size
        twin._columns = {name: column.copy() for name, column in self._columns.items()}
        return twin

    @property
    def formed(self) -> Rows:
        return self._columns["formed"][: self.size]

    @property
    def changed(self) -> Rows:
        return self._columns["changed"][: self.size]

    @property
    def kind(self) -> Rows:
        return self._columns["kind"][: self.size]

    @property
    def value(self) -> Rows:
        return self._columns["value"][: self.size]

    @property
    def rounds(self) -> Rows:
        return self._columns["rounds"][: self.size]

    def is_star(self, groups: Rows) -> NDArray[np.bool_]:
        return np.asarray(self.kind[groups] == STAR)

    def form(self, kinds: Rows, values: Rows, number: int, rounds: Rows | int = 0) -> Rows:
        """New groups, in this order; returns their numbers."""
        first, last = self.size, self.size + len(kinds)
        self._reserve(last)
        self.size = last
        for name, numbers in zip(LastingGroup._fields, (number, number, kinds, values, rounds), strict=True):
            self._columns[name][first:last] = numbers
        return np.arange(first, last)

    def records(self, groups: Rows | None = None) -> Iterator[tuple[int, LastingGroup]]:
        """Groups as they are stored, all of them or these. Column by column: one by one takes a tenth of a release."""
        asked = np.arange(1, self.size) if groups is None else groups
        columns = (self._columns[name][asked].tolist() for name in LastingGroup._fields)
        return zip(asked.tolist(), map(LastingGroup._make, zip(*columns, strict=True)), strict=True)

    def put(self, records: Iterable[tuple[int, LastingGroup]]) -> None:
        """Write groups as they were stored."""
        for group, record in records:
            self._reserve(group + 1)
            self.size = max(self.size, group + 1)
            for name, number in record._asdict().items():
                self._columns[name][group] = number

    def freeze(self) -> dict[str, Rows]:
        """The columns."""
        return {name: column[: self.size] for name, column in self._columns.items()}

    def thaw(self, columns: Mapping[str, Rows]) -> None:
        """Take over the columns of `freeze`."""
        self._columns = {name: columns[name] for name in self._columns}
        self.size = len(columns["kind"])

    def _reserve(self, size: int) -> None:
        capacity = len(self._columns["kind"])
        if size > capacity:
            more = max(size, capacity + capacity // 4) - capacity
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros(more, dtype=column.dtype)])
