"""How everything that Redis keeps is written as msgpack, and one table of the kinds of records a state is made of.

`KINDS` is that table. A release writes the records that it changed, a rebuild writes all of them, a start reads all of
them, and each goes through the table: `encode` is the one encoder, `decode` its inverse. A new kind of record is one
more line of `KINDS`, one field of `Counts` and a higher format; the names are those of `Change`'s fields and of
`RECORDS` and `READERS` in core/state.py.

Every record is an array in the order of its fields. One number stands for the format of all of them together and of the
keys in keys.py (core/migrations.py). It is kept in the table's `meta`, and `shoal upgrade` converts a store with an
older number.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgpack
import msgspec
import numpy as np

from shoal.core.events.event import Reject
from shoal.core.migrations import FORMAT, convert
from shoal.core.person import AWAY
from shoal.core.state import READERS, WRITERS, Change, LazyPeople, Meta, Person, State, Stored
from shoal.core.stored import HOME, read_person
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import (
    BONDS,
    CLIQUES,
    EXTERNALS,
    SIGNATURES,
    TREE,
    group_key,
    group_keys,
    lasting_group_key,
    lasting_group_keys,
    people_key,
    people_keys,
)

PERSON: Final = b"person"
CLIQUE: Final = b"clique"
BOND: Final = b"bond"

CHUNK: Final = 1_000  # fields of one script

pack: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
"""Three times as quick as msgpack's own packer, and the same bytes. Any thread may use it."""


def unpack(raw: bytes) -> Any:
    return msgpack.unpackb(raw, use_list=False)


# -- the state --------------------------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """How many records the state has, by kind. Fewer in Redis means that some were evicted, or deleted by hand."""

    people: int = 0
    groups: int = 0
    nodes: int = 0
    cliques: int = 0
    externals: int = 0
    signatures: int = 0
    lasting_groups: int = 0
    bonds: int = 0

    def __str__(self) -> str:
        return " ".join(map(str, self))


def _never(_state: State, _identity: Any) -> bool:
    return False


def _none(_state: State, _numbers: Sequence[int]) -> Iterable[tuple[int, Any]]:
    return ()


@dataclass(frozen=True)
class RecordKind:
    """One kind of record. Its identity is a person's handle if `is_person`, otherwise a number."""

    name: str
    keys: Callable[[int], Sequence[str]]
    """Every key that may hold such records, in a table of so many partitions."""
    key: Callable[[Any, Stored, bytes], str]
    """The key of one record, by identity, stored fields of the record, and field of the hash."""
    is_person: bool = False
    encrypted: bytes | None = None
    """What the encryption of its values is bound to; None if they say nothing about a person."""
    is_known: Callable[[State, Any], bool] = _never
    """Whether a state has a record of that identity already; never, if records are only ever added."""
    known: Callable[[State, Sequence[int]], Iterable[tuple[int, Any]]] = _none
    """(identity, record) of some that a state has; people aside."""

    def read(self, raw: Sequence[Any]) -> Any:
        """The record in what msgpack gave."""
        return READERS[self.name](raw)

    def of_state(self, state: State) -> Iterable[tuple[Any, Stored]]:
        """(identity, stored fields) of all of a state's."""
        if self.is_person:
            return state.stored_people(state.people.here())
        return self._stored(state.records(self.name))

    def of_change(self, change: Change) -> Iterable[tuple[Any, Stored]]:
        """(identity, stored fields) of what a release changed."""
        changed: Mapping[Any, Any] = getattr(change, self.name)
        return changed.stored() if isinstance(changed, LazyPeople) else self._stored(changed.items())

    def count_new(self, change: Change, before: State) -> int:
        """How many records a release adds to those that the state had."""
        changed: Mapping[Any, Any] = getattr(change, self.name)
        if isinstance(changed, LazyPeople):
            return changed.count_new(before)
        return sum(not self.is_known(before, identity) for identity in changed)

    def of_replaced(self, change: Change, before: State) -> Iterable[tuple[Any, Stored]]:
        """(identity, stored fields) of the records of `before` that a release replaces or takes away.

        `before` is the state that the release was planned from.
        """
        changed: Mapping[Any, Any] = getattr(change, self.name)
        if not self.is_person:
            known = [identity for identity in changed if self.is_known(before, identity)]
            return self._stored(self.known(before, known))
        if isinstance(changed, LazyPeople):
            rows, others = changed.known_to(before), before.people.rows_of(change.departed)
        else:
            rows, others = np.zeros(0, dtype=np.int64), before.people.rows_of([*changed, *change.departed])
        there = np.array([row for row in others if row is not None], dtype=np.int64)
        there = there[before.people.status[there] != AWAY]
        return before.stored_people(np.union1d(rows, there))

    def _stored(self, records: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Stored]]:
        write = WRITERS[self.name]
        return ((identity, write(record)) for identity, record in records)


KINDS: Final = (
    RecordKind(
        "people",
        keys=lambda partitions: [key for number in range(partitions) for key in people_keys(number)],
        key=lambda _, person, field: people_key(person[HOME], field),
        is_person=True,
        encrypted=PERSON,
        is_known=lambda state, person_id: state.people.row(person_id) is not None,
    ),
    RecordKind(
        "groups",
        keys=lambda _: group_keys(),
        key=lambda group, _, __: group_key(group),
    ),
    RecordKind(
        "nodes",
        keys=lambda _: [TREE],
        key=lambda _, __, ___: TREE,
    ),
    RecordKind(
        "cliques",
        keys=lambda _: [CLIQUES],
        key=lambda _, __, ___: CLIQUES,
        encrypted=CLIQUE,
        is_known=lambda state, number: number in state.cohorts.cliques,
        known=lambda state, numbers: [(number, state.cohorts.cliques[number]) for number in numbers],
    ),
    RecordKind(
        "externals",
        keys=lambda _: [EXTERNALS],
        key=lambda _, __, ___: EXTERNALS,
    ),
    RecordKind(
        "signatures",
        keys=lambda _: [SIGNATURES],
        key=lambda _, __, ___: SIGNATURES,
        is_known=lambda state, number: number < len(state.signatures),
        known=lambda state, numbers: state.signatures.records(np.array(numbers, dtype=np.int64)),
    ),
    RecordKind(
        "lasting_groups",
        keys=lambda _: lasting_group_keys(),
        key=lambda group, _, __: lasting_group_key(group),
        is_known=lambda state, group: group < state.groups.size,
        known=lambda state, groups: state.groups.records(np.array(groups, dtype=np.int64)),
    ),
    RecordKind(
        "bonds",
        keys=lambda _: [BONDS],
        key=lambda _, __, ___: BONDS,
        encrypted=BOND,
        is_known=lambda state, number: number in state.bonds.bonds,
        known=lambda state, numbers: [(number, state.bonds.bonds[number]) for number in numbers],
    ),
)


@dataclass(frozen=True)
class Chunk:
    """Fields and values, by turns, of one key of the current state; at most `CHUNK` of each."""

    key: str
    fields: list[bytes]


def encode(
    kind: RecordKind,
    records: Iterable[tuple[Any, Stored]],
    cipher: Cipher,
    note: Callable[[bytes, bytes], None] | None = None,
) -> Iterator[Chunk]:
    """Records as Redis keeps them, as they come: a chunk is there when it is full, and those that never are at the end.

    `note` is shown every field with its value before it is encrypted. Packing a million people takes seconds: read it
    in a thread.
    """
    waiting: dict[str, list[bytes]] = {}
    kind_of_value, key_of = kind.encrypted, kind.key
    for identity, record in records:
        field = str(identity).encode()
        value = pack(record)
        if note is not None:
            note(field, value)
        if kind_of_value is not None:
            value = cipher.encrypt(kind_of_value, field, value)
        key = key_of(identity, record, field)
        fields = waiting.get(key)
        if fields is None:
            fields = waiting[key] = []
        fields += (field, value)
        if len(fields) == 2 * CHUNK:
            yield Chunk(key, waiting.pop(key))
    for key, fields in waiting.items():
        yield Chunk(key, fields)


def decode(
    kind: RecordKind, hashes: Iterable[Mapping[bytes, bytes]], cipher: Cipher, number: int = FORMAT
) -> Iterator[tuple[Any, Any]]:
    """(identity, record) of what these hashes hold in a format. Raises InputError if a value cannot be decrypted."""
    for found in hashes:
        for identity, value in open_hash(kind, found, cipher):
            fields = unpack(value)
            yield identity, kind.read(fields if number == FORMAT else convert(number, kind.name, fields))


def open_hash(kind: RecordKind, found: Mapping[bytes, bytes], cipher: Cipher) -> Iterator[tuple[Any, bytes]]:
    """(identity, packed record) of what a hash holds, decrypted. Raises InputError if a value cannot be."""
    for field, value in found.items():
        if kind.encrypted is not None:
            value = cipher.decrypt(kind.encrypted, field, value)
        yield field.decode() if kind.is_person else int(field), value


def person_of(raw: bytes) -> Person:
    return read_person(unpack(raw))


def status_of(raw: bytes) -> int:
    """A packed person's status, without unpacking the rest: it is the first field, a small number, after the array's
    head.
    """
    return raw[1]


def meta_of(raw: bytes) -> Meta:
    return Meta(*unpack(raw))


# -- rejects ----------------------------------------------------------------------------------------------------------


class RejectNote(NamedTuple):
    """A rejected record that is not a dead letter yet. It has no content: that is read from the topic again."""

    offset: int
    reason: str
    field: str | None = None
    op: str | None = None


def note_of(offset: int, reject: Reject) -> RejectNote:
    return RejectNote(offset, str(reject.reason), reject.field, reject.op)


def read_note(raw: bytes) -> RejectNote:
    return RejectNote(*unpack(raw))
