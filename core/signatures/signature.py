"""Signatures: the sets of values that entries are shown as, and which of their places may be offered to newcomers.

Layout. A signature is a sorted tuple of leaf codes. Equal sets are one signature, numbered by first use. Beside
the tuples, `members` holds the same as a matrix with one row per signature, filled up with -1. `pending` and `offered`
are matrices of the same shape, by place in the signature:

- `pending`: entries that ended since the last *batch* of this signature was looked at;
- `offered`: places that newcomers with that value may take.

Comparing a newcomer's value with a place that fell free reveals the value of the person who left. So a place is offered
only together with others of its *batch*, the entries that ended since the last offer:

- a batch is looked at in the first release in which it holds l entries. If no value has more than 1/l of it, all its
  places are offered. If one has, but there are values enough, as many of each are offered as `fair_caps` says: those
  offered most often are offered equally often, so any of them may be the one with more;
- otherwise the batch waits. It is then known that its values are alike. Once there are more than l different ones, one
  place of each is offered, and the others never are.

Exchange the values that are offered most often within a batch, and the offers stay the same. So somebody who learns
every offer gives no value of anybody who left more than 1/l (docs/lasting.md, "Places that fall free").
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.runs import each_between, narrow


class SignatureRecord(NamedTuple):
    """A signature as it is stored."""

    values: tuple[int, ...]
    pending: tuple[int, ...]
    offered: tuple[int, ...]
    rows: int = 0
    ended: int = 0


def fair_caps(counts: Rows, share: float) -> Rows:
    """For each line of counts the largest cap c such that the counts from c up are on average 1 in `share` of all.

    Capped at c they are equal, so any of these values may be the one with most. 0 if there are too few values.
    """
    best = np.zeros(len(counts), dtype=np.int64)
    total = counts.sum(axis=1)
    for cap in range(1, int(counts.max(initial=0)) + 1):
        is_top = counts >= cap
        is_fair = np.where(is_top, counts, 0).sum(axis=1) * share <= is_top.sum(axis=1) * total
        best[is_fair & is_top.any(axis=1)] = cap
    return best


class Signatures:
    """Every signature in use. `copy()` is what planning works on."""

    def __init__(self) -> None:
        self.sets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self.members = np.full((0, 0), -1, dtype=np.int64)
        self.pending = np.zeros((0, 0), dtype=np.int64)
        self.offered = np.zeros((0, 0), dtype=np.int64)
        self._past = np.zeros((2, 0), dtype=np.int64)

    def copy(self) -> "Signatures":
        twin = object.__new__(Signatures)
        twin.sets, twin._numbers = list(self.sets), dict(self._numbers)
        twin.members, twin.pending, twin.offered = self.members.copy(), self.pending.copy(), self.offered.copy()
        twin._past = self._past.copy()
        return twin

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def sizes(self) -> Rows:
        """m of each signature."""
        return np.asarray(np.count_nonzero(self.members >= 0, axis=1), dtype=np.int64)

    @property
    def rows(self) -> Rows:
        """By signature, the rows that were shown under it, summed over releases (see `turnover.py`)."""
        return self._past[0, : len(self)]

    @property
    def ended(self) -> Rows:
        """By signature, how many of those rows were not there any more in the release after, because a spell ended."""
        return self._past[1, : len(self)]

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

    def within(self, signatures: Rows, values: Rows) -> Rows:
        """Those of these signatures that hold none but these values."""
        is_one = np.zeros(max(self.members.max(initial=0), values.max(initial=0)) + 2, dtype=bool)
        is_one[values] = is_one[-1] = True  # the last one stands for members that are not there, -1
        return np.asarray(signatures[is_one[self.members[signatures]].all(axis=1)])

    def holding(self, signatures: Rows) -> dict[int, Rows]:
        """By value, those of these signatures that hold it, in the order given."""
        members = self.members[signatures]
        is_there = members >= 0
        value, number = members[is_there], np.repeat(signatures, np.count_nonzero(is_there, axis=1))
        number, counts = number[np.argsort(narrow(value), kind="stable")], np.bincount(value)
        bounds = pairwise([0, *np.cumsum(counts[counts > 0]).tolist()])
        found = zip(np.flatnonzero(counts).tolist(), bounds, strict=True)
        return {value: number[begin:end] for value, (begin, end) in found}

    def offer(self, signatures: Rows, slots: Rows, l: float) -> None:
        """Note the places of entries that ended, and offer those of batches whose values are mixed enough."""
        touched = np.unique(signatures)
        is_fresh = self.pending[touched].sum(axis=1) < l
        np.add.at(self.pending, (signatures, slots), 1)
        pending = self.pending[touched]
        most, is_varied = pending.max(axis=1, initial=0), np.count_nonzero(pending, axis=1) >= l + 1
        is_mixed = most * l <= pending.sum(axis=1)
        cap = np.where(is_fresh, np.where(is_mixed, most, fair_caps(pending, l + 1)), is_varied)
        self.offered[touched] += np.minimum(pending, cap[:, None])
        self.pending[touched[cap > 0]] = 0

    def remember(self, rows: Rows, ended: Rows) -> None:
        """Add up the rows of the last release and those that ended since, by signature."""
        self._past[0, : len(rows)] += rows
        self._past[1] += np.bincount(ended, minlength=self._past.shape[1])

    def free_places(self, counts: Rows, is_asked: NDArray[np.bool_]) -> tuple[Rows, Rows, Rows, Rows]:
        """(signature, slot, round, how many the round lacks) of each place offered in the signatures that are asked.

        `counts` are the entries there now, by signature and slot. What a signature does not lack any more is not
        offered later either, when somebody else may have left.
        """
        is_slot = self.members[: len(self)] >= 0
        lacking = np.where(is_slot, counts.max(axis=1, initial=0)[:, None] - counts, 0)
        free = np.where(is_asked[:, None], np.minimum(lacking, self.offered[: len(self)]), 0)
        self.offered[: len(self)][is_asked] = free[is_asked]
        number, slot = np.nonzero(free)
        times = free[number, slot]
        turn = each_between(counts[number, slot], times)  # the round that each place is in
        number, slot = np.repeat(number, times), np.repeat(slot, times)
        missing = np.count_nonzero((counts[number] <= turn[:, None]) & is_slot[number], axis=1)
        return number, slot, turn, missing

    def records(self, numbers: Rows | None = None) -> Iterator[tuple[int, SignatureRecord]]:
        """Signatures as they are stored, all of them or these. Column by column: a release writes most of them."""
        asked = np.arange(len(self)) if numbers is None else numbers
        widths = self.sizes[asked]
        for width in np.unique(widths).tolist():  # nearly all are of one size
            mine = asked[widths == width]
            values = [self.sets[number] for number in mine.tolist()]
            places = (zip(*matrix[mine, :width].T.tolist(), strict=True) for matrix in (self.pending, self.offered))
            lines = zip(values, *places, *self._past[:, mine].tolist(), strict=True)
            yield from zip(mine.tolist(), map(SignatureRecord._make, lines), strict=True)

    def changed_since(self, before: "Signatures") -> dict[int, SignatureRecord]:
        """The signatures that have to be written to turn `before` into this."""
        known = len(before)
        is_changed = np.ones(len(self), dtype=bool)
        width = before.members.shape[1]
        same_pending = (self.pending[:known, :width] == before.pending[:known]).all(axis=1)
        is_changed[:known] = ~(same_pending & (self.offered[:known, :width] == before.offered[:known]).all(axis=1))
        is_changed[:known] |= (self._past[:, :known] != before._past[:, :known]).any(axis=0)
        return dict(self.records(np.flatnonzero(is_changed)))

    def put(self, records: Iterable[tuple[int, SignatureRecord]]) -> None:
        """Write signatures as they were stored, in the order of their numbers."""
        for number, record in sorted(records):
            found = self.number(tuple(record.values))
            assert found == number
            width = len(record.values)
            self.pending[number, :width], self.offered[number, :width] = record.pending, record.offered
            self._past[:, number] = record.rows, record.ended

    def freeze(self) -> dict[str, NDArray[np.int64]]:
        """Everything as columns; a set is a line of `members`."""
        count = len(self)
        columns = {name: getattr(self, name)[:count] for name in ("members", "pending", "offered")}
        return columns | {"past": self._past[:, :count]}

    def thaw(self, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """The inverse."""
        self.members, self.pending, self.offered = (columns[name] for name in ("members", "pending", "offered"))
        self._past = columns["past"]
        self.sets = [tuple(value for value in line if value >= 0) for line in self.members.tolist()]
        self._numbers = {values: number for number, values in enumerate(self.sets)}

    def _reserve(self, count: int, width: int) -> None:
        rows, columns = self.members.shape
        if count <= rows and width <= columns:
            return
        shape = (max(count, 2 * rows) if count > rows else rows, max(width, columns))
        for name, empty in (("members", -1), ("pending", 0), ("offered", 0)):
            grown = np.full(shape, empty, dtype=np.int64)
            grown[:rows, :columns] = getattr(self, name)
            setattr(self, name, grown)
        self._past = np.pad(self._past, ((0, 0), (0, shape[0] - rows)))
