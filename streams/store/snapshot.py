"""The whole state of a table at once: read by a planner that starts, written by a rebuild."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import State
from shoal.streams.errors import LostError
from shoal.streams.memory import without_cycle_search
from shoal.streams.store.keys import EXTERNAL, INGEST, META, SKIPPED, rejects_key
from shoal.streams.store.meta import Identity, TableMeta, write_meta
from shoal.streams.store.records import CHUNK, KINDS, Counts, RecordKind, RejectNote, decode, encode, pack
from shoal.streams.store.skipped import members_of
from shoal.streams.store.staging import offset_fields
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import first_place
from shoal.streams.thread import ahead, in_thread

_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A table between two releases, with no window open."""

    state: State
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
    """By label, the offsets of records that are left out, of those that no release has yet."""
    rejects: Mapping[str, Sequence[RejectNote]]
    """By label, rejected records that are not dead letters yet."""


async def load_state(store: Store, policy: Policy, key: bytes, meta: TableMeta) -> State:
    """The state of the last release, which must be applied. Raises LostError if records are missing.

    Reads a million people in some seconds, the event loop free.
    """
    with without_cycle_search():
        hashes = {kind.name: await _read(store, kind.keys(meta.partitions)) for kind in KINDS}
        sizes = (sum(len(found) for found in hashes[kind.name]) for kind in KINDS)
        if Counts(*sizes) != meta.counts:
            raise LostError

        def build() -> State:
            records = {kind.name: decode(kind, hashes[kind.name], store.cipher) for kind in KINDS}
            return State.load(policy, key, meta.sealed, KeyedByHandle, **records)

        return await in_thread(build)


async def _read(store: Store, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
    """Shards whole; a kind that has one key piece by piece, for it may be large."""
    if len(keys) > 1:
        return [found async for found in store.hashes(keys)]
    return [{field: value for key in keys async for chunk in store.scan(key) for field, value in chunk}]


async def write_table(store: Store, identity: Identity, table: Snapshot) -> None:
    """Replace everything that Redis has of the table. `meta` is written last: until then Redis counts as knowing
    nothing.
    """
    await store.wipe()
    counts = Counts(*[await _write(store, kind, table.state) for kind in KINDS])
    if table.external:
        await store.redis.execute_command("HSET", store.key(EXTERNAL), *offset_fields(table.external))
    for label, notes in table.rejects.items():
        for packed in _packed(notes):
            await store.redis.rpush(store.key(rejects_key(label)), *packed)
    ingest = {"trigger": str(table.next_trigger), "fired": repr(table.fired)}
    ingest |= {} if table.at is None else {"at": table.at}
    if table.skipped:
        await store.redis.sadd(store.key(SKIPPED), *members_of(table.skipped))
    ingest |= first_place(dict(enumerate(table.offsets)), table.state.meta.release)
    meta = write_meta(identity, len(table.offsets), time.time(), table.state.meta, counts)
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.hset(store.key(INGEST), mapping=ingest)
    pipeline.hset(store.key(META), mapping=meta)
    await pipeline.execute()


async def _write(store: Store, kind: RecordKind, state: State) -> int:
    """All of a state's records of a kind; returns their number."""
    count = 0
    async for chunks in ahead(encode(kind, kind.of_state(state), store.cipher), _AT_ONCE):
        pipeline = store.redis.pipeline(transaction=False)
        for chunk in chunks:
            pipeline.execute_command("HSET", store.key(chunk.key), *chunk.fields)
            count += len(chunk.fields) // 2
        await pipeline.execute()
    return count


def _packed(notes: Sequence[RejectNote]) -> Iterable[list[bytes]]:
    for start in range(0, len(notes), CHUNK):
        yield [pack(note) for note in notes[start : start + CHUNK]]
