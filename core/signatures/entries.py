"""Entries: one row for each value that a person holds or was ever shown with, as parallel columns.

Layout. Entries are appended and never removed, because a signature and a group are for ever (S1). `signature` and
`home` say where an entry was shown first, `group` where it has a row now. The entries of one person form a
chain, newest first: `head` is by the person's row, `before` by entry. What is stored of an entry is an `EntryRecord` in
its person's record; entries that nothing remains of (not held, never shown) are left out there.

Of an erased person, two facts stay: under which signatures they were shown, and in how many spells. So the promise to
them still counts this if they come back. The values do not stay. Such an entry is a *remainder*: its value is a number
below 0.

No result may depend on the order of entries: a restart reads them back in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.signatures.signature import Signatures

HELD: Final = 1  # the person has a record and this value is in it: a spell goes on
STARRED: Final = 2  # it found no round before it was ever shown, and stays "*" for its spell
BARRED: Final = 4  # what others published tells its signature apart: "*" for ever
CURRENT: Final = 8  # it was shown in this spell
SECOND: Final = 16  # starred because there was no round of the signature of its person that holds it
COMPANY: Final = 32  # starred with others, who found no round
ENDED: Final = 64  # a spell of it ended before it was ever shown: it is kept, since it counts beside other publishers
REASONS: Final = STARRED | SECOND | COMPANY

NO_SIGNATURE: Final = -1  # never shown, but as "*"
PLAIN: Final = -2  # once shown plainly: plain or "*" for ever
NO_GROUP: Final = -1
END: Final = -1

Flags = NDArray[np.uint8]
Stored = tuple[int, ...]  # an EntryRecord as msgpack gives it

SAME: Final = 0  # a stored home that is the group itself; there is no group 0


class EntryRecord(NamedTuple):
    """An entry as it is stored: the value's leaf code, its signature, its group, the flags above, and its home."""

    value: int
    signature: int
    group: int
    flags: int
    home: int = SAME


class Entries:
    """The columns. `copy()` is what planning works on."""

    def __init__(self) -> None:
        self.size = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(0, dtype=dtype)
            for name, dtype in (
                ("owner", np.int64),
                ("value", np.int64),
                ("signature", np.int32),
                ("group", np.int64),
                ("home", np.int64),
                ("flags", np.uint8),
                ("before", np.int64),
            )
        }
        self._head = np.zeros(0, dtype=np.int64)

    def copy(self) -> "Entries":
        twin = object.__new__(Entries)
        twin.size, twin._head = self.size, self._head.copy()
        twin._columns = {name: column.copy() for name, column in self._columns.items()}
        return twin

    def __len__(self) -> int:
        return self.size

    @property
    def owner(self) -> Rows:
        """Each entry's person, by row."""
        return self._columns["owner"][: self.size]

    @property
    def value(self) -> Rows:
        """The leaf code of each entry's value; below 0 for a remainder."""
        return self._columns["value"][: self.size]

    @property
    def signature(self) -> NDArray[np.int32]:
        """Each entry's signature by number, NO_SIGNATURE, or PLAIN."""
        return self._columns["signature"][: self.size]

    @property
    def group(self) -> Rows:
        """The group each entry is published in, or NO_GROUP."""
        return self._columns["group"][: self.size]

    @property
    def home(self) -> Rows:
        """The group each entry was shown in first; NO_GROUP if it was not, or in another shard."""
        return self._columns["home"][: self.size]

    @property
    def flags(self) -> Flags:
        return self._columns["flags"][: self.size]

    def has(self, flag: int) -> NDArray[np.bool_]:
        """Whether each entry has a flag."""
        return np.asarray((self.flags & flag) != 0)

    def of(self, rows: Rows) -> tuple[Rows, Rows]:
        """All entries of these people: positions in `rows`, and the entries."""
        self._know(int(rows.max(initial=-1)) + 1)
        positions, found = [], []
        at, who = self._head[rows], np.arange(len(rows))
        while who.size:
            is_there = at != END
            at, who = at[is_there], who[is_there]
            positions.append(who)
            found.append(at)
            at = self._columns["before"][at]
        return np.concatenate([*positions, who]), np.concatenate([*found, who])

    def of_person(self, row: int) -> list[int]:
        """All entries of one person."""
        found, at = [], int(self._head[row]) if row < len(self._head) else END
        while at != END:
            found.append(at)
            at = int(self._columns["before"][at])
        return found

    def counts(self, people: int) -> Rows:
        """How many entries each person has."""
        return np.bincount(self.owner, minlength=people)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, owners: Rows, values: Rows) -> Rows:
        """Add entries that are held and have no signature yet; returns them. No person has two with one value."""
        first, last = self.size, self.size + len(owners)
        self._reserve(last)
        self._know(int(owners.max(initial=-1)) + 1)
        fixed: dict[str, Any] = {"owner": owners, "value": values, "signature": NO_SIGNATURE}
        fixed |= {"group": NO_GROUP, "home": NO_GROUP, "flags": HELD, "before": END}
        for name, numbers in fixed.items():
            self._columns[name][first:last] = numbers
        new = np.arange(first, last)
        order = np.argsort(owners, kind="stable")
        sorted_owners = owners[order]
        is_first = np.r_[True, sorted_owners[1:] != sorted_owners[:-1]][: len(order)]
        before = np.r_[END, new[order][:-1]][: len(order)]
        before[is_first] = self._head[sorted_owners[is_first]]
        self._columns["before"][new[order]] = before
        is_last = np.r_[is_first[1:], True][: len(order)]
        self._head[sorted_owners[is_last]] = new[order][is_last]
        self.size = last
        return new

    def hold(self, touched: Rows, wanted_owner: Rows, wanted_value: Rows, is_permanent: NDArray[np.bool_]) -> Rows:
        """Make exactly these (person, value) pairs the held ones of the people touched; returns entries that ended.

        `is_permanent` is by value. The spell of a permanent value never ends, only its person may be absent.
        """
        leaves = len(is_permanent)
        _, known = self.of(touched)
        known = known[self.value[known] >= 0]
        keys = self.owner[known] * leaves + self.value[known]
        wanted = wanted_owner * leaves + wanted_value
        is_wanted = np.isin(keys, wanted)
        was_held = self.has(HELD)[known]
        ended = known[was_held & ~is_wanted]
        self.flags[ended] &= ~np.uint8(HELD)
        self.flags[ended[self.signature[ended] == NO_SIGNATURE]] |= ENDED
        self.flags[ended[~is_permanent[self.value[ended]]]] &= ~np.uint8(REASONS | CURRENT)
        self.flags[known[~was_held & is_wanted]] |= HELD
        is_new = ~np.isin(wanted, keys)
        self.append(wanted_owner[is_new], wanted_value[is_new])
        return ended

    def settle(self, entries: Rows, signatures: Rows | int, groups: Rows) -> None:
        """Give entries their signatures and homes, for ever."""
        self.signature[entries] = signatures
        self.home[entries] = groups
        self.show(entries)

    def show(self, entries: Rows) -> None:
        """Give entries their rows, in their homes."""
        self.group[entries] = self.home[entries]
        self.flags[entries] |= CURRENT

    def erase(self, rows: Rows, open_values: Collection[int]) -> None:
        """Forget the values of these people's entries that are not held; what was shown of them becomes remainders.

        Remainders are numbered by what they say, so that their order tells nothing.
        """
        for row in rows.tolist():
            past = np.array([entry for entry in self.of_person(row) if not self.flags[entry] & HELD], dtype=np.int64)
            is_plain = (self.signature[past] == PLAIN) & ~np.isin(self.value[past], list(open_values))
            is_kept = (self.signature[past] >= 0) | is_plain
            gone, left = past[~is_kept], past[is_kept]
            self._clear(gone)
            self.flags[left] &= np.uint8(BARRED)
            self.group[left] = self.home[left] = NO_GROUP
            order = np.lexsort((self.flags[left], self.signature[left]))
            self.value[left[order]] = -1 - np.arange(len(left))
            idle = gone[self.value[gone] < 0]  # of somebody who was in another shard meanwhile
            self.value[idle] = -1 - len(left) - np.arange(len(idle))

    def forget(self, rows: Rows) -> None:
        """Leave nothing of these people's entries; those who come back are `put` again."""
        self._clear(self.of(rows)[1])

    def _clear(self, some: Rows) -> None:
        self.signature[some], self.flags[some] = NO_SIGNATURE, 0
        self.group[some] = self.home[some] = NO_GROUP

    def put(self, row: int, records: Iterable[Stored]) -> None:
        """Write one person's entries as they were stored; those of them that are not in `records` are forgotten."""
        self._know(row + 1)
        mine = {int(self.value[entry]): entry for entry in self.of_person(row)}
        for record in map(EntryRecord._make, records):
            entry = mine.pop(record.value, None)
            if entry is None:
                entry = int(self.append(np.array([row]), np.array([record.value]))[0])
            self.signature[entry], self.group[entry], self.flags[entry] = record.signature, record.group, record.flags
            self.home[entry] = _home(record)
        for entry in mine.values():
            self._clear(np.array([entry]))

    def put_all(self, rows: Sequence[int], records: Sequence[Sequence[Stored]]) -> None:
        """Write the entries of people who have none yet, as they were stored."""
        numbers = np.fromiter(chain.from_iterable(chain.from_iterable(records)), dtype=np.int64)
        values, signatures, groups, flags, homes = numbers.reshape(-1, len(EntryRecord._fields)).T
        times = np.fromiter(map(len, records), dtype=np.int64)
        new = self.append(np.repeat(np.asarray(rows, dtype=np.int64), times), values)
        self.signature[new], self.group[new], self.flags[new] = signatures, groups, flags
        self.home[new] = np.where(homes != SAME, homes, np.where(signatures != NO_SIGNATURE, groups, NO_GROUP))

    def records(self, rows: Rows) -> Iterator[tuple[Stored, ...]]:
        """The entries of each of these people as they are stored, in the order of their values.

        A first release stores a million people, so these are plain tuples, and most people have one.
        """
        positions, found = self.of(rows)
        is_kept = (self.flags[found] != 0) | (self.signature[found] != NO_SIGNATURE)
        positions, found = positions[is_kept], found[is_kept]
        order = np.lexsort((self.value[found], positions))
        positions, found = positions[order], found[order]
        home, group, signature = self.home[found], self.group[found], self.signature[found]
        home = np.where(home == np.where(signature != NO_SIGNATURE, group, NO_GROUP), SAME, home)
        columns = (self.value[found], signature, group, self.flags[found], home)
        lines = zip(*(column.tolist() for column in columns), strict=True)
        if len(positions) == len(rows) and bool(np.all(np.diff(positions) == 1)):
            return zip(lines, strict=True)  # one each
        listed = list(lines)
        bounds = np.searchsorted(positions, np.arange(len(rows) + 1)).tolist()
        return (tuple(listed[begin:end]) for begin, end in pairwise(bounds))

    def freeze(self) -> dict[str, NDArray[Any]]:
        """The columns."""
        return {name: column[: self.size] for name, column in self._columns.items()} | {"head": self._head}

    def thaw(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Take over the columns of `freeze`."""
        self._columns = {name: columns[name] for name in self._columns}
        self._head, self.size = columns["head"], len(columns["owner"])

    def _know(self, people: int) -> None:
        if people > len(self._head):
            more = max(people, len(self._head) + len(self._head) // 4) - len(self._head)
            self._head = np.concatenate([self._head, np.full(more, END, dtype=np.int64)])

    def _reserve(self, size: int) -> None:
        capacity = len(self._columns["owner"])
        if size > capacity:
            more = max(size, capacity + capacity // 4) - capacity
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros(more, dtype=column.dtype)])

    def check_invariants(self, known: Signatures) -> None:
        """Chains and columns agree, a signature holds its value, and only what is held is published."""
        seen = [entry for row in range(len(self._head)) for entry in self.of_person(row)]
        assert sorted(seen) == list(range(self.size))
        for entry in range(self.size):
            signature = int(self.signature[entry])
            if signature >= 0 and self.value[entry] >= 0:
                assert self.value[entry] in known.sets[signature]
        assert bool(np.all(self.has(HELD)[self.group != NO_GROUP]))
        assert np.unique(np.stack([self.owner, self.value]), axis=1).shape[1] == self.size
        assert not bool(np.any(self.has(HELD)[self.value < 0]))


def _home(record: EntryRecord) -> int:
    if record.home != SAME:
        return record.home
    return record.group if record.signature != NO_SIGNATURE else NO_GROUP
