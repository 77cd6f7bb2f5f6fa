"""The shards of a table as Redis keeps them: read by owners, counted at a start, written by releases and rebuilds."""

from collections.abc import Iterator, Mapping, Sequence

from shoal.core.cells.shard import Shard
from shoal.core.parts import PartPlan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.state import State, WholeChange
from shoal.streams.errors import LostError
from shoal.streams.memory import without_cycle_search
from shoal.streams.store.coordination import ShardRecords, read_shard_records
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import EXTERNAL, GONE, foreign_key, people_key, rejects_key, shard_key
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.records import CHUNK, KINDS, Chunk, Counts, RejectNote, decode, encode, meta_of, pack
from shoal.streams.store.staging import offset_fields
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import foreign_fields
from shoal.streams.thread import in_thread


async def load_shard(
    store: Store, policy: Policy, key: bytes, shard: Shard, partitions: int, records: ShardRecords
) -> State:
    """The state of a shard at the last release that is applied. Raises LostError if records of it are missing."""
    packed = records.state(shard.number)
    if packed is None:
        return State.empty(policy, key, KeyedByHandle, shard)
    with without_cycle_search():
        keys = {kind.name: [shard_key(shard.number, one) for one in kind.keys(partitions)] for kind in KINDS}
        hashes = {name: [found async for found in store.hashes(here)] for name, here in keys.items()}
        sizes = (sum(len(found) for found in hashes[kind.name]) for kind in KINDS)
        if Counts(*sizes) != records.counts(shard.number):
            raise LostError

        def build() -> State:
            found = {kind.name: decode(kind, hashes[kind.name], store.cipher) for kind in KINDS}
            return State.load(policy, key, meta_of(packed), KeyedByHandle, shard, **found)

        return await in_thread(build)


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


async def digest_of(state: State, records: ShardRecords) -> StateDigest:
    """The digest of a shard's state, as it is stored, or from scratch if the last release did not know of digests."""
    assert state.shard is not None
    stored = records.digest(state.shard.number)
    if stored is None:
        return await in_thread(StateDigest.of_state, state)
    return StateDigest(state.keyed, stored)


def counts_after(made: PartPlan, state: State, before: Counts) -> Counts:
    """How many records a shard has once a plan is applied. `state` is the one that the plan started from."""
    if isinstance(made.change, WholeChange):
        return Counts(*(len(getattr(made.change, kind.name)) for kind in KINDS))
    added = Counts(*(kind.count_new(made.change, state) for kind in KINDS))
    counts = Counts(*(count + more for count, more in zip(before, added, strict=True)))
    return counts._replace(people=counts.people - len(made.change.departed))


def shard_chunks(
    made: PartPlan,
    state: State,
    cipher: Cipher,
    release: int,
    *,
    misrouted: Sequence[tuple[int, int]],
    foreign: Mapping[int, Sequence[str]],
    external_ends: Sequence[int] = (),
    rejects: Mapping[str, Sequence[RejectNote]] | None = None,
    digest: StateDigest,
) -> Iterator[Chunk]:
    """Everything that a plan changes in a shard, and what its desk and, for one of the shards, the external topic adds.

    `digest` is that of the state before; when the last chunk is read it is that of the state after.

    Packed as it is read: that takes seconds for a million people, so in a thread. `state` is the one that the plan
    started from.
    """
    assert state.shard is not None
    shard = state.shard.number
    digest.leave(made.change, state)
    for kind in KINDS:
        for chunk in encode(kind, kind.of_change(made.change), cipher, digest.adder(kind.name)):
            yield Chunk(shard_key(shard, chunk.key), chunk.fields)
    gone: dict[str, list[bytes]] = {}
    rows = state.people.rows_of(made.change.departed)
    for handle, row in zip(made.change.departed, rows, strict=True):
        assert row is not None, "nobody leaves a shard that they are not in"
        field = handle.encode()
        gone.setdefault(people_key(int(state.people.home[row]), field), []).extend((field, b""))
    for key, fields in gone.items():
        yield from _chunked(GONE + shard_key(shard, key), fields)
    yield from _chunked(EXTERNAL, offset_fields(external_ends))
    waiting: dict[str, list[RejectNote]] = {}
    for partition, offset in misrouted:
        waiting.setdefault(str(partition), []).append(RejectNote(offset, "wrong-partition"))
    for label, notes in {**waiting, **(rejects or {})}.items():
        numbered = ((str(number).encode(), pack(note)) for number, note in enumerate(notes))
        yield from _chunked(rejects_key(label), [part for pair in numbered for part in pair])
    for partition, people in foreign.items():
        yield from _chunked(foreign_key(release, partition), foreign_fields(people))


def _chunked(key: str, fields: list[bytes]) -> Iterator[Chunk]:
    for start in range(0, len(fields), 2 * CHUNK):
        yield Chunk(key, fields[start : start + 2 * CHUNK])
