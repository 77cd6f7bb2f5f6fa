"""The shards of a table as Redis keeps them: read by owners, counted at a start, written by releases and rebuilds."""

from collections.abc import AsyncIterator

from shoal.core.cells.shard import Shard
from shoal.core.migrations import FORMAT
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import State
from shoal.streams.errors import LostError
from shoal.streams.memory import without_cycle_search
from shoal.streams.store.keys import shard_key
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.records import KINDS, Counts, RecordKind, decode, meta_of
from shoal.streams.store.shard_records import ShardRecords, read_shard_records
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.store.store import Store
from shoal.streams.thread import in_thread


async def load_shard(
    store: Store,
    policy: Policy,
    key: bytes,
    shard: Shard | None,
    partitions: int,
    records: ShardRecords,
    layout: int = FORMAT,
) -> State:
    """The state of a shard at the last release that is applied; `shard` is None in a table with one. Raises LostError
    if records of it are missing. `layout` is the format that they are in.

    Reads a million people in some seconds, the event loop free.
    """
    number = None if shard is None else shard.number
    packed = records.state(number or 0)
    if packed is None:
        return State.empty(policy, key, KeyedByHandle, shard)
    with without_cycle_search():
        hashes = {kind.name: [one async for one in read_hashes(store, kind, partitions, number)] for kind in KINDS}
        sizes = (sum(len(found) for found in hashes[kind.name]) for kind in KINDS)
        if Counts(*sizes) != records.counts(number or 0):
            raise LostError

        def build() -> State:
            found = {kind.name: decode(kind, hashes[kind.name], store.cipher, layout) for kind in KINDS}
            return State.load(policy, key, meta_of(packed), KeyedByHandle, shard, **found)

        return await in_thread(build)


async def read_hashes(
    store: Store, kind: RecordKind, partitions: int, shard: int | None = None
) -> AsyncIterator[dict[bytes, bytes]]:
    """Everything of a kind, of the table or of one shard, as Redis keeps it: hash by hash, or piece by piece where a
    kind has one key, for that may be large.
    """
    keys = [shard_key(shard, key) for key in kind.keys(partitions)]
    if len(keys) > 1:
        async for found in store.hashes(keys):
            yield found
    else:
        yield {field: value for key in keys async for chunk in store.scan(key) for field, value in chunk}


async def are_whole(store: Store, partitions: int, records: ShardRecords) -> bool:
    """Whether every shard has as many records as were sealed; asked while no release is being applied."""
    for shard in range(store.shards):
        pipeline = store.redis.pipeline(transaction=False)
        names = [shard_key(shard, one) for kind in KINDS for one in kind.keys(partitions)]
        for name in names:
            pipeline.hlen(store.key(name))
        if sum(await pipeline.execute()) != sum(records.counts(shard)):
            return False
    return True


async def is_whole(store: Store, meta: TableMeta) -> bool:
    """Whether as many records are there as were sealed. While a release is being applied nobody can tell."""
    if store.shards == 1 or meta.applied != meta.release:
        return await store.is_whole(meta)
    return await are_whole(store, meta.partitions, await read_shard_records(store))


async def digest_of(state: State, records: ShardRecords) -> StateDigest | None:
    """The digest of a shard's state, as it is stored, or from scratch if the last release did not know of digests."""
    if state.shard is None:
        return None  # a table with one shard proves nothing of its state
    stored = records.digest(state.shard.number)
    if stored is None:
        return await in_thread(StateDigest.of_state, state)
    return StateDigest(state.keyed, stored)
