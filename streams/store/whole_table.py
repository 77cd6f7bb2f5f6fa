"""A whole table at once: read by a planner that starts and by a snapshot, written by a rebuild and by a restore.

The *place* of a table between two releases is everything but the state of its people: where each source was read to,
and what of it waits. No window is open in it. Events after the last release are read again, and their dead letters are
found on their topic and not sent again (streams/deadletter/box.py), so nothing that happened since is needed.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from shoal.core.cuts import Cuts
from shoal.core.state import Meta, State
from shoal.streams.errors import LostError
from shoal.streams.faults import crash_point
from shoal.streams.store.keys import (
    BARRIER,
    EXTERNAL,
    INGEST,
    META,
    SHARDS_META,
    SKIPPED,
    TRIGGERS,
    external_label,
    rejects_key,
    shard_key,
)
from shoal.streams.store.meta import Identity, TableMeta, read_meta, write_meta
from shoal.streams.store.records import CHUNK, KINDS, Counts, RecordKind, RejectNote, encode, pack, read_note
from shoal.streams.store.shard_records import pack_cuts, write_shard_records
from shoal.streams.store.skipped import group_members, members_of
from shoal.streams.store.staging import offset_fields
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import first_place
from shoal.streams.thread import ahead

_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class TablePlace:
    """Where a table is between two releases, with no window open."""

    offsets: Sequence[int]
    """By partition, where the window of the last release ended."""
    external: Sequence[int]
    """By partition of the external topic, where reading for the last release stopped."""
    next_trigger: int
    fired: float
    """When the last trigger was handled, in seconds."""
    at: str | None = None
    """The last time that a release has named."""
    skipped: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By label, the offsets of records that are left out."""
    rejects: Mapping[str, Sequence[RejectNote]]
    """By label, rejected records that are not dead letters yet."""

    def ends(self) -> dict[str, int]:
        """By label, the first record of each source that no release has taken."""
        ends = {str(number): end for number, end in enumerate(self.offsets)}
        ends |= {external_label(number): end for number, end in enumerate(self.external)}
        return {**ends, TRIGGERS: self.next_trigger}

    def needed(self) -> dict[str, int]:
        """By label, the first record that is still to be read, or to be read again for its dead letter."""
        return {
            label: min((end, *(note.offset for note in self.rejects.get(label, ()))))
            for label, end in self.ends().items()
        }


async def read_settled(store: Store) -> TableMeta | None:
    """What Redis says of the table if its last release is sent and applied and the next one is not frozen; else None.

    Only then are the records those of one release, and `at` and `fired` those of its trigger. Raises LostError.
    """
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.hgetall(store.key(META))
    pipeline.exists(store.key(BARRIER))
    found, is_frozen = await pipeline.execute()
    if not found:
        raise LostError
    meta = read_meta(found, store.table)
    return None if is_frozen or not meta.release == meta.sent == meta.applied else meta


async def read_place(store: Store, offsets: Sequence[int], external: Sequence[int], next_trigger: int) -> TablePlace:
    """The place behind the last release, which has taken everything up to these offsets.

    A reject of a record behind them is left out: the record is read again, and rejected again.
    """
    labels = [*map(str, range(len(offsets))), *map(external_label, range(len(external))), TRIGGERS]
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.hmget(store.key(INGEST), ["fired", "at"])
    pipeline.smembers(store.key(SKIPPED))
    for label in labels:
        pipeline.lrange(store.key(rejects_key(label)), 0, -1)
    (fired, at), skipped, *waiting = await pipeline.execute()
    if fired is None:
        raise LostError
    place = TablePlace(
        offsets=offsets,
        external=external,
        next_trigger=next_trigger,
        fired=float(fired),
        at=None if at is None else at.decode(),
        skipped=group_members(skipped),
        rejects={},
    )
    ends, rejects = place.ends(), dict(zip(labels, (map(read_note, packed) for packed in waiting), strict=True))
    settled = {label: [note for note in notes if note.offset < ends[label]] for label, notes in rejects.items()}
    return replace(place, rejects={label: notes for label, notes in settled.items() if notes})


class Shards(Protocol):
    """A table with shards, whose states are asked for once, one after the other."""

    @property
    def meta(self) -> Meta: ...
    @property
    def cuts(self) -> Cuts | None: ...
    @property
    def states(self) -> Iterable[State]: ...


async def write_table(store: Store, identity: Identity, whole: State | Shards, place: TablePlace) -> None:
    """Replace everything that Redis has of the table. `meta` is written last: until then Redis counts as knowing
    nothing.
    """

    async def write() -> Counts:
        if isinstance(whole, State):
            counts = Counts(*[await _write(store, kind, whole) for kind in KINDS])
            own = pack(tuple(whole.meta._replace(manifest=None)))  # which only the table as a whole has
            await _write_records(store, write_shard_records([own], None, counts=[counts]))
            return counts
        return await _write_shards(store, whole)

    await _replace(store, identity, whole.meta, place, write)


async def _write_shards(store: Store, table: Shards) -> Counts:
    """The records of every shard, and those of the shards themselves; returns how many there are."""
    counts, digests, states = [], [], []
    for shard, state in enumerate(table.states):
        digest = StateDigest(state.keyed)
        counts.append(Counts(*[await _write(store, kind, state, shard, digest) for kind in KINDS]))
        digests.append(digest.value)
        states.append(pack(tuple(state.meta)))
    lasting = write_shard_records(states, pack_cuts(table.cuts), counts=counts, digests=digests)
    await _write_records(store, lasting)
    return Counts(*map(sum, zip(*counts, strict=True)))


async def _write_records(store: Store, fields: Mapping[str, bytes]) -> None:
    await store.redis.hset(store.key(SHARDS_META), mapping=fields)


async def _replace(
    store: Store, identity: Identity, sealed: Meta, place: TablePlace, write: Callable[[], Awaitable[Counts]]
) -> None:
    await store.wipe()
    crash_point("table.1")
    counts = await write()
    if place.external:
        await store.redis.execute_command("HSET", store.key(EXTERNAL), *offset_fields(place.external))
    for label, notes in place.rejects.items():
        for packed in _packed(notes):
            await store.redis.rpush(store.key(rejects_key(label)), *packed)
    ingest = {"trigger": str(place.next_trigger), "fired": repr(place.fired)}
    ingest |= {} if place.at is None else {"at": place.at}
    if place.skipped:
        await store.redis.sadd(store.key(SKIPPED), *members_of(place.skipped))
    ingest |= first_place(dict(enumerate(place.offsets)), sealed.release)
    meta = write_meta(identity, len(place.offsets), time.time(), sealed, counts)
    crash_point("table.2")
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.hset(store.key(INGEST), mapping=ingest)
    pipeline.hset(store.key(META), mapping=meta)
    await pipeline.execute()
    crash_point("table.3")


async def _write(
    store: Store, kind: RecordKind, state: State, shard: int | None = None, digest: StateDigest | None = None
) -> int:
    """All of a state's records of a kind; returns their number."""
    count, note = 0, None if digest is None else digest.adder(kind.name)
    async for chunks in ahead(encode(kind, kind.of_state(state), store.cipher, note), _AT_ONCE):
        pipeline = store.redis.pipeline(transaction=False)
        for chunk in chunks:
            pipeline.execute_command("HSET", store.key(shard_key(shard, chunk.key)), *chunk.fields)
            count += len(chunk.fields) // 2
        await pipeline.execute()
        crash_point("table.part")
    return count


def _packed(notes: Sequence[RejectNote]) -> Iterable[list[bytes]]:
    for start in range(0, len(notes), CHUNK):
        yield [pack(note) for note in notes[start : start + CHUNK]]
