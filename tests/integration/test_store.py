"""The scripts in Redis: what they refuse, and that a refusal has no effect."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.events.window import PRESENT, Delta
from shoal.core.migrations import FORMAT
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed, KeyedByHandle
from shoal.core.state import ENGINE, RECORDS, Meta, State
from shoal.streams.errors import FencedError, InputError, LostError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.partition import Partition, load_partition
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.keys import TRIGGERS
from shoal.streams.store.meta import check_identity
from shoal.streams.store.records import Chunk, Counts, RejectNote, pack, read_note, unpack
from shoal.streams.store.release_log import DisturbedError, ReleaseLog
from shoal.streams.store.replacing import fence, replace
from shoal.streams.store.staging import SealedRelease
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import MovedError, read_window
from tests.support.services.by_hand import REPORT, VECTOR, apply_by_hand, load_only, owner_log, seal_by_hand
from tests.support.services.table import KEY, REDRAWN, Taken, handles, insert, write_policy

PARTITIONS = 2
FIRST = Meta(1, "d", 1, 0.0, ENGINE, "p")
IDENTITY = {"policy": "p", "engine": ENGINE, "key": "k", "seal": "", "events": "e"}


@pytest.fixture(params=["lasting", "redrawn"])
def policy(request: pytest.FixtureRequest, tmp_path: Path, table: str) -> Policy:
    return load_policy(write_policy(tmp_path, table, **(REDRAWN if request.param == "redrawn" else {})))


def identity(store: Store) -> dict[str, str]:
    return {**IDENTITY, "seal": ",".join(store.cipher.fingerprints)}


@pytest.fixture(params=[None, b"a state key"], ids=["plain", "encrypted"])
async def store(request: pytest.FixtureRequest, redis_url: str, policy: Policy) -> AsyncIterator[Store]:
    found = Store(redis_url, policy.table, make_cipher(request.param))
    await found.connect(5)
    await found.create(identity(found), PARTITIONS, time.time(), State.empty(policy, KEY.encode()).meta)
    yield found
    await found.wipe()
    await found.close()


async def take(store: Store, part: Partition, *events: Any) -> Any:
    """One batch of ingest."""
    records = [Taken(part.offset + place, event) for place, event in enumerate(events)]
    return await part.commit(store, part.take(records, part.offset + len(records), store.cipher))


def keyed(policy: Policy) -> Keyed:
    return Keyed(KEY.encode(), policy.table)


async def hold(store: Store, policy: Policy, number: int = 0) -> Partition:
    return await load_partition(store, number, await store.own(str(number)), policy, keyed(policy))


async def release(
    store: Store, policy: Policy, *parts: Partition, number: int = 1, at: str | None = None
) -> ReleaseLog:
    """Everything a planner does for one release, but for publishing it."""
    token = await store.own(TRIGGERS)
    release_log = ReleaseLog(store, token, PARTITIONS)
    assert await release_log.freeze(number, number - 1, at, time.time(), {}) == "ok"
    for part in parts:
        await take(store, part)
    assert await release_log.has_passed(number)
    await finish(store, policy, number, at)
    return release_log


async def finish(store: Store, policy: Policy, number: int, at: str | None = None) -> None:
    """Steps 2 to 10, but for publishing, of a release that is frozen and passed."""
    await seal_by_hand(store, policy, number, PARTITIONS, at)
    await apply_by_hand(store, number, PARTITIONS)


def as_written(window: dict[str, Delta]) -> object:
    """Without the difference between a tuple and a list."""
    return unpack(pack(window))


async def test_a_batch_is_written_whole_and_read_back_by_the_next_owner(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    reply = await take(store, part, insert(1), insert(2), b"junk", {"op": "update", "id": "p1", "qid": {"age": 5}})
    assert (part.offset, reply.waiting) == (4, 1)
    again = await hold(store, policy)
    assert (again.offset, again.window) == (4, 1)
    assert again.intake.roster == dict.fromkeys(handles(policy.table, 1, 2), PRESENT)
    assert as_written(again.intake.window) == as_written(part.intake.window)
    rejects = await store.redis.lrange(store.key("rejects:0"), 0, -1)
    assert [read_note(raw) for raw in rejects] == [RejectNote(2, "bad-json")]
    assert await store.redis.hget(store.key("ingest"), "accepted:1") == b"3"


async def test_who_lost_a_partition_cannot_write_to_it(store: Store, policy: Policy) -> None:
    former = await hold(store, policy)
    owner = await hold(store, policy)
    await take(store, owner, insert(1))
    before = await contents(store)
    with pytest.raises(FencedError):
        await take(store, former, insert(2), b"junk")
    assert await contents(store) == before
    with pytest.raises(FencedError):
        await load_partition(store, 0, former.token, policy, keyed(policy))


async def test_a_batch_that_does_not_follow_is_refused(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    await take(store, part, insert(1))
    await store.redis.hset(store.key("ingest"), "offset:0", "0")  # as if Redis had been set back
    before = await contents(store)
    with pytest.raises(MovedError):
        await take(store, part, insert(2))
    assert await contents(store) == before


async def test_a_table_that_is_not_there_any_more_is_lost_to_everyone(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    release_log = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    await store.wipe()
    for attempt in (
        take(store, part, insert(1)),
        store.own("0"),
        release_log.freeze(1, 0, None, 0.0, {}),
        release_log.skip(0),
        load_partition(store, 0, part.token, policy, keyed(policy)),
    ):
        with pytest.raises(LostError):
            await attempt
    assert await contents(store) == {}


async def test_the_first_batch_after_a_freeze_fixes_the_barrier(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    await take(store, part, insert(1))
    release_log = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    assert await release_log.freeze(1, 0, None, time.time(), {}) == "ok"
    reply = await take(store, part, insert(2), insert(3))
    assert (reply.passed, part.offset, part.window) == (True, 3, 2)
    assert part.intake.window == {}
    barrier = await release_log.barrier()
    assert barrier is not None
    assert barrier.ends == {0: 3}
    await take(store, part, {"op": "update", "id": "p1", "qid": {"age": 9}})
    windows = await read_window(store, 1, 0)
    assert set(windows) == handles(policy.table, 1, 2, 3)


async def test_a_barrier_further_on_is_where_later_batches_are_split(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    release_log = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    await release_log.freeze(1, 0, None, time.time(), {0: 3, 1: 0})
    reply = await take(store, part, insert(1))
    assert (reply.passed, part.barrier, part.window) == (False, 3, 1)
    records = [Taken(offset, insert(offset + 1)) for offset in range(1, 6)]
    head, rest, after = part.split(records, 6)
    assert ([record.offset for record in head], [record.offset for record in rest], after) == ([1, 2], [3, 4, 5], 3)
    whole = part.take(records, 6, store.cipher)
    with pytest.raises(MovedError):  # a batch that is not split is refused
        await part.commit(store, whole)
    again = await hold(store, policy)
    assert again.barrier == 3, "the next owner knows of it"
    await again.commit(store, again.take(head, after, store.cipher))
    assert (again.window, again.offset) == (2, 3)


async def test_a_trigger_makes_one_release(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    await take(store, parts[0], *(insert(number) for number in range(20)))
    release_log = await release(store, policy, *parts)
    assert await release_log.freeze(2, 0, None, time.time(), {}) == "seen"
    assert await release_log.freeze(2, 1, None, time.time(), {}) == "ok"
    assert await release_log.freeze(2, 2, None, time.time(), {}) == "frozen"
    with pytest.raises(DisturbedError):
        await release_log.freeze(4, 5, None, time.time(), {})


async def test_an_applied_release_is_the_state_and_its_windows_are_gone(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    people = [insert(number) for number in range(200)]
    await take(store, parts[0], *people[:120])
    await take(store, parts[1], *people[120:])
    await release(store, policy, *parts, at="2026-01-01T00:00:00Z")
    await take(store, parts[0], {"op": "delete", "id": "p3"})
    await release(store, policy, *parts, number=2)
    meta = await store.meta()
    assert meta is not None
    assert (meta.release, meta.sent, meta.applied) == (2, 2, 2)
    loaded = await load_only(store, policy)
    # the same by core alone
    state = State.empty(policy, KEY.encode(), KeyedByHandle)
    intakes = [Intake(policy, {}, handle_of=state.keyed.handle) for _ in range(PARTITIONS)]
    for number, event in enumerate(people):
        intakes[0 if number < 120 else 1].take(event, number)
    first = plan(state, Window("2026-01-01T00:00:00Z", {n: i.cut() for n, i in enumerate(intakes)}), policy, 1)
    state.apply(first.change)
    intakes[0].take({"op": "delete", "id": "p3"}, 120)
    state.apply(plan(state, Window(None, {n: i.cut() for n, i in enumerate(intakes)}), policy, 2).change)
    assert loaded.meta == state.meta
    for name in RECORDS:
        assert dict(loaded.records(name)) == dict(state.records(name)), name
    loaded.check_invariants()
    names = {name.split(b":", 2)[2].split(b":")[0] for name in await contents(store)}
    kinds = {b"groups"} if policy.values == "redrawn" else {b"signatures", b"lasting"}
    assert names == {b"meta", b"ingest", b"shards", b"people", b"tree", *kinds}, (
        "nothing of the release's making is left"
    )


async def test_a_state_of_which_a_part_is_missing_is_not_loaded(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    await take(store, parts[0], *(insert(number) for number in range(40)))
    await release(store, policy, *parts)
    meta = await store.meta()
    assert meta is not None
    assert meta.counts.people == 40
    doomed = next(name for name in await contents(store) if b":people:" in name)
    await store.redis.delete(doomed)
    with pytest.raises(LostError):
        await load_only(store, policy)


async def test_a_redis_that_evicts_keys_is_refused(store: Store) -> None:
    before = await store.redis.config_get("maxmemory-policy")
    try:
        await store.redis.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(InputError, match="noeviction"):
            await store.check_server()
        await store.redis.config_set("maxmemory-policy", "noeviction")
        assert await store.check_server() == []
    finally:
        await store.redis.config_set("maxmemory-policy", next(iter(before.values())))


async def test_a_running_roster_is_the_one_that_would_be_read_back(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    events: list[Any] = [insert(number) for number in range(30)]
    events += [{"op": "delete", "id": f"p{number}"} for number in range(0, 30, 3)]
    events += [{"op": "deregister", "id": "p0"}, insert(3)]
    events += [
        {"op": "register", "id": "r1", "qid": insert(1)["qid"]},
        {"op": "register", "id": "r2", "qid": insert(1)["qid"]},
    ]
    events += [{"op": "deregister", "id": "r2"}]
    await take(store, parts[0], *events)
    running = dict(parts[0].intake.roster)
    assert (await hold(store, policy)).intake.roster == running, "in an open window"
    parts[0] = await hold(store, policy)
    await release(store, policy, *parts)
    assert (await hold(store, policy)).intake.roster == running, "after its release"


async def test_somebody_at_home_elsewhere_is_forgotten_and_their_events_are_rejected(
    store: Store, policy: Policy
) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    await take(store, parts[0], *(insert(number) for number in range(12)))
    await take(store, parts[1], insert(5), insert(50))
    token = await store.own(TRIGGERS)
    assert await ReleaseLog(store, token, PARTITIONS).freeze(1, 0, None, 0.0, {}) == "ok"
    for part in parts:
        await take(store, part)
    # the next window is open before the release is planned
    await take(store, parts[1], {"op": "update", "id": "p5", "qid": {"age": 1}})
    assert parts[1].intake.without_home == handles(policy.table, 5, 50)
    await finish(store, policy, 1)
    rejects = [read_note(raw) for raw in await store.redis.lrange(store.key("rejects:1"), 0, -1)]
    assert rejects == [RejectNote(0, "wrong-partition")]
    reply = await take(store, parts[1])
    await parts[1].learn_homes(store, reply.applied)
    assert set(parts[1].intake.roster) == handles(policy.table, 50)
    assert not parts[1].intake.without_home
    assert (await take(store, parts[1], {"op": "update", "id": "p5", "qid": {"age": 2}})).waiting == 2, "unknown here"
    await release(store, policy, *parts, number=2)
    rejects = [read_note(raw) for raw in await store.redis.lrange(store.key("rejects:1"), 0, -1)]
    assert RejectNote(2, "wrong-partition") in rejects, "what came while nobody knew is rejected by the next release"


async def test_a_seal_over_a_stage_that_lost_a_chunk_is_refused(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    release_log = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    await release_log.freeze(1, 0, None, 0.0, {})
    for part in parts:
        await take(store, part)
    await release_log.tell_vector(1, VECTOR, b"origin")
    owner = await owner_log(store, PARTITIONS)
    count = await owner.stage(1, VECTOR, [Chunk("tree", [b"0", b"x"]), Chunk("groups:1", [b"1", b"y"])])
    await owner.report(1, VECTOR, count, REPORT)
    await store.redis.srem(store.key("stage:1:shard:0:chunks"), "0")
    sealed = SealedRelease(number=1, manifest=b"{}", headers=())
    with pytest.raises(DisturbedError):
        await release_log.seal(None, FIRST, VECTOR, [REPORT], {}, Counts(), sealed)
    with pytest.raises(DisturbedError):
        await owner.report(1, VECTOR, count, REPORT)
    meta = await store.meta()
    assert meta is not None
    assert meta.release == 0


async def test_a_former_planner_can_neither_tell_nor_seal_nor_finish(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    former = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    await former.freeze(1, 0, None, 0.0, {})
    for part in parts:
        await take(store, part)
    await store.own(TRIGGERS)
    before = await contents(store)
    for attempt in (
        former.freeze(1, 1, None, 0.0, {}),
        former.skip(5),
        former.tell_vector(1, VECTOR, b"origin"),
        former.seal(None, FIRST, VECTOR, [], {}, Counts(), SealedRelease(number=1, manifest=b"{}", headers=())),
        former.sent(1),
        former.finish(1),
    ):
        with pytest.raises(FencedError):
            await attempt
    assert await contents(store) == before


async def test_what_an_earlier_attempt_staged_is_thrown_away(store: Store, policy: Policy) -> None:
    parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
    release_log = ReleaseLog(store, await store.own(TRIGGERS), PARTITIONS)
    await release_log.freeze(1, 0, None, 0.0, {})
    for part in parts:
        await take(store, part)
    await release_log.tell_vector(1, VECTOR, b"origin")
    owner = await owner_log(store, PARTITIONS)
    await owner.stage(1, VECTOR, [Chunk("tree", [b"7", b"wrong"]), Chunk("people:0:1", [b"x", b"wrong"])])
    count = await owner.stage(1, VECTOR, [Chunk("tree", [b"0", b"right"])])
    assert count == 1
    assert await store.redis.hgetall(store.key("stage:1:shard:0:tree")) == {b"0": b"right"}
    assert not await store.redis.exists(store.key("stage:1:shard:0:people:0:1"))


async def test_state_of_another_format_is_refused_in_one_sentence(store: Store) -> None:
    await store.redis.hset(store.key("meta"), "format", "99")
    with pytest.raises(InputError, match=rf"format 99.*format {FORMAT}") as caught:
        await store.meta()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["policy", "key", "seal", "engine", "events"])
async def test_a_table_begun_under_another_identity_is_refused(store: Store, name: str) -> None:
    meta = await store.meta()
    assert meta is not None
    check_identity(meta, identity(store), PARTITIONS, "t")
    with pytest.raises(InputError):
        check_identity(meta, {**identity(store), name: "another"}, PARTITIONS, "t")
    check_identity(meta, {**identity(store), "events": ""}, PARTITIONS, "t")  # a broker too old to know ids of topics
    with pytest.raises(InputError, match="partitions"):
        check_identity(meta, identity(store), PARTITIONS + 1, "t")


async def test_a_worker_of_another_engine_owns_nothing(store: Store) -> None:
    await store.redis.hset(store.key("meta"), "engine", "99.0")
    for label in ("0", TRIGGERS):
        with pytest.raises(InputError, match="was upgraded to another engine"):
            await store.own(label)


async def test_what_stands_beside_a_table_takes_its_place_unless_somebody_works_on_it(store: Store) -> None:
    await store.own("0")
    await store.redis.hset(store.key("tree"), "1", "old")
    await store.redis.hset(store.beside().key("meta"), "format", "new")
    with pytest.raises(InputError, match="is running"):
        await fence(store, 7)
    await fence(store, 0)
    await store.own("0")
    with pytest.raises(InputError, match="is running"):
        await replace(store)
    assert await store.redis.exists(store.key("tree"))
    await fence(store, 0)
    await replace(store)
    assert [name async for name in store.names()] == ["meta"]
    assert await store.meta_fields() == {b"format": b"new"}


async def test_a_table_begins_once(store: Store, policy: Policy) -> None:
    part = await hold(store, policy)
    await take(store, part, insert(1))
    await store.create({**IDENTITY, "key": "another"}, PARTITIONS, 0.0, State.empty(policy, b"k").meta)
    meta = await store.meta()
    assert meta is not None
    assert meta.identity["key"] == "k"
    assert (await hold(store, policy)).offset == 1


async def test_with_a_state_key_nothing_about_people_can_be_read_in_redis(
    redis_url: str, policy: Policy, request: pytest.FixtureRequest
) -> None:
    store = Store(redis_url, policy.table, make_cipher(b"a state key"))
    await store.connect(5)
    await store.create(identity(store), PARTITIONS, time.time(), State.empty(policy, KEY.encode()).meta)
    try:
        parts = [await hold(store, policy, number) for number in range(PARTITIONS)]
        await take(store, parts[0], *(insert(number, id=f"canary-{number}") for number in range(40)))
        await take(store, parts[1], insert(1, id="canary-1"))
        await release(store, policy, *parts)
        await take(store, parts[0], {"op": "update", "id": "canary-2", "qid": {"age": 3}})
        for name, value in (await contents(store)).items():
            assert b"canary" not in name + repr(value).encode()
    finally:
        await store.wipe()
        await store.close()


async def contents(store: Store) -> dict[bytes, Any]:
    """Everything Redis holds of the table."""
    found: dict[bytes, Any] = {}
    async for name in store.redis.scan_iter(match=store.prefix + b"*"):
        kind = await store.redis.type(name)
        if kind == b"hash":
            found[name] = await store.redis.hgetall(name)
        elif kind == b"list":
            found[name] = await store.redis.lrange(name, 0, -1)
        else:
            found[name] = await store.redis.smembers(name)
    return found
