"""Signatures: the sets of values that entries are shown as, and which of their places may be offered to newcomers.

Layout. A signature is a sorted tuple of leaf codes. Equal sets are one signature, numbered by first use. Beside
the tuples, `members` holds the same as a matrix with one row per signature, filled up with -1. `pending` and `offered`
are matrices of the same shape, by place in the signature:

- `pending`: entries that ended since the last *batch* of this signature was looked at;
- `offered`: places that newcomers with that value may take.

Comparing a newcomer's value with a place that fell free tells what the one who left had. So a place is offered only
together with others: once a batch holds at least `BATCH` times l entries that ended, whatever their values, it is
looked at once. If no value has more than 1/l of the batch, all its places are offered; otherwise none of them ever is.
Somebody who learns the whole batch then still gives no value of anybody in it more than 1/l, and a batch that is not
offered only says that its values are alike, not which they are (docs/lasting.md, "Places that fall free").
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.tuning import BATCH


class SignatureRecord(NamedTuple):
    """A signature as it is stored."""

    values: tuple[int, ...]
    pending: tuple[int, ...]
    offered: tuple[int, ...]


class Signatures:
    """Every signature in use. `copy()` is what planning works on."""

    def __init__(self) -> None:
        self.sets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self.members = np.full((0, 0), -1, dtype=np.int64)
        self.pending = np.zeros((0, 0), dtype=np.int64)
        self.offered = np.zeros((0, 0), dtype=np.int64)

    def copy(self) -> "Signatures":
        twin = object.__new__(Signatures)
        twin.sets, twin._numbers = list(self.sets), dict(self._numbers)
        twin.members, twin.pending, twin.offered = self.members.copy(), self.pending.copy(), self.offered.copy()
        return twin

    def __len__(self) -> int:
        return len(self.sets)

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
            self.members[found, : len(values)] = values
        return found

    def slots(self, signatures: Rows, values: Rows) -> Rows:
        """The place of each value in its signature."""
        if not len(signatures):
            return np.zeros(0, dtype=np.int64)
        return np.asarray(np.argmax(self.members[signatures] == values[:, None], axis=1), dtype=np.int64)

    def offer(self, signatures: Rows, slots: Rows, l: float) -> None:
        """Note the places of entries that ended, and offer the batches that are full and mixed."""
        np.add.at(self.pending, (signatures, slots), 1)
        touched = np.unique(signatures)
        pending = self.pending[touched]
        total, most = pending.sum(axis=1), pending.max(axis=1, initial=0)
        is_full = total >= BATCH * l
        is_mixed = most * l <= total
        self.offered[touched[is_full & is_mixed]] += pending[is_full & is_mixed]
        self.pending[touched[is_full]] = 0

    def records(self) -> Iterator[tuple[int, SignatureRecord]]:
        for number in range(len(self.sets)):
            yield number, self.record(number)

    def record(self, number: int) -> SignatureRecord:
        values = self.sets[number]
        width = len(values)
        pending, offered = self.pending[number, :width].tolist(), self.offered[number, :width].tolist()
        return SignatureRecord(values, tuple(pending), tuple(offered))

    def changed_since(self, before: "Signatures") -> dict[int, SignatureRecord]:
        """The signatures that have to be written to turn `before` into this."""
        known = len(before)
        is_changed = np.ones(len(self), dtype=bool)
        width = before.members.shape[1]
        same_pending = (self.pending[:known, :width] == before.pending[:known]).all(axis=1)
        is_changed[:known] = ~(same_pending & (self.offered[:known, :width] == before.offered[:known]).all(axis=1))
        return {number: self.record(number) for number in np.flatnonzero(is_changed).tolist()}

    def put(self, records: Iterable[tuple[int, SignatureRecord]]) -> None:
        """Write signatures as they were stored, in the order of their numbers."""
        for number, record in sorted(records):
            found = self.number(tuple(record.values))
            assert found == number
            width = len(record.values)
            self.pending[number, :width], self.offered[number, :width] = record.pending, record.offered

    def _reserve(self, count: int, width: int) -> None:
        rows, columns = self.members.shape
        if count <= rows and width <= columns:
            return
        shape = (max(count, 2 * rows) if count > rows else rows, max(width, columns))
        for name, empty in (("members", -1), ("pending", 0), ("offered", 0)):
            grown = np.full(shape, empty, dtype=np.int64)
            grown[:rows, :columns] = getattr(self, name)
            setattr(self, name, grown)
