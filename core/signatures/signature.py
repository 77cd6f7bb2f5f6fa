"""Signatures: the sets of values that entries are shown as.

Layout. A signature is a sorted tuple of leaf codes. Equal sets are one signature, numbered by first use. Beside
the tuples, `members` holds the same as a matrix with one row per signature, filled up with -1.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows


class SignatureRecord(NamedTuple):
    """A signature as it is stored."""

    values: tuple[int, ...]


class Signatures:
    """Every signature in use. `copy()` is what planning works on."""

    def __init__(self) -> None:
        self.sets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._members = np.full((0, 0), -1, dtype=np.int64)

    def copy(self) -> "Signatures":
        twin = object.__new__(Signatures)
        twin.sets, twin._numbers, twin._members = list(self.sets), dict(self._numbers), self._members.copy()
        return twin

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def members(self) -> Rows:
        """The values of each signature, a line each, filled up with -1."""
        return self._members[: len(self)]

    @property
    def sizes(self) -> Rows:
        """m of each signature."""
        return np.asarray(np.count_nonzero(self.members >= 0, axis=1), dtype=np.int64)

    def number(self, values: tuple[int, ...]) -> int:
        """The number of a signature, given as sorted leaf codes; a new one if it was not in use."""
        found = self._numbers.get(values)
        if found is None:
            found = self._numbers[values] = len(self.sets)
            self.sets.append(values)
            self._reserve(len(self.sets), len(values))
            self._members[found, : len(values)] = values
        return found

    def records(self, numbers: Iterable[int] | None = None) -> Iterator[tuple[int, SignatureRecord]]:
        """Signatures as they are stored, all of them or these."""
        asked = range(len(self)) if numbers is None else numbers
        return ((number, SignatureRecord(self.sets[number])) for number in asked)

    def new_since(self, before: "Signatures") -> dict[int, SignatureRecord]:
        """The signatures that have to be written to turn `before` into this."""
        return dict(self.records(range(len(before), len(self))))

    def put(self, records: Iterable[tuple[int, SignatureRecord]]) -> None:
        """Write signatures as they were stored, in the order of their numbers."""
        for number, record in sorted(records):
            found = self.number(tuple(record.values))
            assert found == number

    def freeze(self) -> dict[str, Rows]:
        """Everything as columns; a set is a line of `members`."""
        return {"members": self.members}

    def thaw(self, columns: Mapping[str, Rows]) -> None:
        """Take over the columns of `freeze`."""
        self._members = columns["members"]
        self.sets = [tuple(value for value in line if value >= 0) for line in self._members.tolist()]
        self._numbers = {values: number for number, values in enumerate(self.sets)}

    def _reserve(self, count: int, width: int) -> None:
        rows, columns = self._members.shape
        if count > rows or width > columns:
            grown = np.full((max(count, 2 * rows) if count > rows else rows, max(width, columns)), -1, dtype=np.int64)
            grown[:rows, :columns] = self._members
            self._members = grown
