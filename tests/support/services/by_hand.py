"""A release of a table with one shard made by hand in Redis, step by step, without a worker or a topic."""

from shoal.core.fold import Window
from shoal.core.plan import plan
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from shoal.streams.store.keys import TRIGGERS, shard_label
from shoal.streams.store.records import pack
from shoal.streams.store.release_log import ReleaseLog
from shoal.streams.store.shard_records import read_shard_records, write_shard_records
from shoal.streams.store.shard_table import load_shard
from shoal.streams.store.staging import SealedRelease, chunks_of, counts_after, foreign_ids
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import read_window
from tests.support.services.table import KEY

VECTOR = "v" * 64
REPORT = b"report"


async def load_only(store: Store, policy: Policy) -> State:
    """The state of the last release that is applied."""
    meta = await store.meta()
    assert meta is not None
    return await load_shard(store, policy, KEY.encode(), None, meta.partitions, await read_shard_records(store))


async def owner_log(store: Store, partitions: int) -> ReleaseLog:
    """What the owner of the only shard writes, under a token of its own."""
    return ReleaseLog(store, await store.own(shard_label(0)), partitions, 0)


async def planner_log(store: Store, partitions: int) -> ReleaseLog:
    """What the coordinator writes, under the token that is stored."""
    token = await store.redis.hget(store.key("ingest"), f"token:{TRIGGERS}")
    return ReleaseLog(store, token.decode(), partitions)


async def seal_by_hand(store: Store, policy: Policy, number: int, partitions: int, at: str | None = None) -> None:
    """Steps 2 to 5 of a release that is frozen and passed."""
    coordinator, owner = await planner_log(store, partitions), await owner_log(store, partitions)
    state, meta = await load_only(store, policy), await store.meta()
    assert meta is not None
    await coordinator.tell_vector(number, VECTOR, b"origin")
    windows = {partition: await read_window(store, number, partition) for partition in range(partitions)}
    state.meta = state.meta._replace(manifest=meta.manifest)
    made = plan(state, Window(at, windows), policy, number)
    foreign = foreign_ids(made, state, windows)
    chunks = chunks_of(made, state, store.cipher, number, misrouted=made.misrouted, foreign=foreign)
    await owner.report(number, VECTOR, await owner.stage(number, VECTOR, chunks), REPORT)
    counts, own = counts_after(made, state, meta.counts), pack(tuple(made.change.meta))
    sealed = SealedRelease(number=number, manifest=made.release.manifest, headers=())
    await coordinator.seal(
        state.meta.manifest, made.change.meta, VECTOR, [REPORT], write_shard_records([own], None, counts=[counts]),
        counts, sealed,
    )  # fmt: skip


async def apply_by_hand(store: Store, number: int, partitions: int) -> None:
    """Steps 8 to 10, but for publishing."""
    coordinator = await planner_log(store, partitions)
    await coordinator.sent(number)
    await (await owner_log(store, partitions)).apply(number)
    await coordinator.finish(number)
