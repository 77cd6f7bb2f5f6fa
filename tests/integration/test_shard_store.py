"""The scripts of a table with shards on a real Redis: a worker that is not the owner, or not of this vector, writes
nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from shoal.core.events.window import PUT, Delta
from shoal.core.state import Meta, State
from shoal.streams.errors import FencedError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.kafka.sealed import Announcements
from shoal.streams.settings import Settings
from shoal.streams.store.course import read_course, word_of
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.keys import TRIGGERS, shard_label, window_key
from shoal.streams.store.records import Chunk, Counts
from shoal.streams.store.release_log import DisturbedError, ReleaseLog
from shoal.streams.store.staging import SealedRelease
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import pack_changes
from shoal.streams.worker.owners import pause_between_looks_s
from shoal.streams.worker.shard_owner import ShardOwner
from shoal.streams.worker.together import Together
from tests.support.services.table import KEY, write_policy

SHARDS, VECTOR, OTHER = 2, "v" * 64, "w" * 64


class Stage:
    """A table with two shards and one partition, frozen at its first release, and those who work on it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def begin(self, policy_path: Path) -> None:
        policy = load_policy(policy_path)
        empty = State.empty(policy, KEY.encode()).meta
        identity = {"policy": "", "engine": empty.engine, "key": "", "seal": "", "shards": str(SHARDS)}
        await self.store.create(identity, 1, 0.0, empty)
        self.token = await self.store.own(TRIGGERS)
        self.release_log = ReleaseLog(self.store, self.token, 1)
        self.owners = [await self.owner(shard) for shard in range(SHARDS)]
        assert await self.release_log.freeze(1, 0, None, 0.0, {0: 0}) == "ok"
        await self.store.redis.hset(self.store.key("ingest"), "window:0", "2")
        await self.release_log.tell_vector(1, VECTOR, b"origin")

    async def owner(self, shard: int) -> ReleaseLog:
        return ReleaseLog(self.store, await self.store.own(shard_label(shard)), 1, shard)

    async def plan(self) -> None:
        """Steps 3 and 4 of every shard."""
        for shard, owner in enumerate(self.owners):
            await owner.gather(1, VECTOR, {0: [b"a"], 1: []}, [])
            count = await owner.stage(1, VECTOR, [Chunk(f"shard:{shard}:tree", [b"1", b"node"])])
            await owner.report(1, VECTOR, count, b"report %d" % shard)

    async def seal(self, *reports: bytes, vector: str = VECTOR) -> None:
        meta = Meta(1, "digest", 0, 0.0, "engine", "policy")
        sealed = SealedRelease(number=1, manifest=b"{}", headers=[("trigger", b"0")])
        await self.release_log.seal(None, meta, vector, reports, {"cuts": b"cuts"}, Counts(), sealed)


@pytest_asyncio.fixture
async def stage(redis_db: str, table: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    store = Store(redis_db, table, make_cipher(None), shards=SHARDS)
    made = Stage(store)
    path = write_policy(tmp_path_factory.mktemp("policy"), table, scale={"shards": SHARDS})
    await made.begin(path)
    yield made
    await store.close()


_REPORTS = (b"report 0", b"report 1")
_WRITES: dict[str, Callable[[ReleaseLog, str], Awaitable[object]]] = {
    "cuts": lambda log, vector: log.tell_cuts(1, vector, b""),
    "gather": lambda log, vector: log.gather(1, vector, {0: [b"x"], 1: [b"y"]}, []),
    "regather": lambda log, vector: log.regather(1, vector, 0),
    "stage": lambda log, vector: log.stage(1, vector, [Chunk("shard:0:tree", [b"1", b"other"])]),
    "report": lambda log, vector: log.report(1, vector, 1, b"other"),
    "fail": lambda log, vector: log.fail(1, vector, "it fails"),
}


@pytest.mark.parametrize("write", _WRITES)
async def test_a_former_owner_and_an_owner_of_another_vector_write_nothing(stage: Stage, write: str) -> None:
    await stage.plan()
    before = await _everything(stage.store)
    with pytest.raises(DisturbedError):
        await _WRITES[write](stage.owners[0], OTHER)
    former, now = stage.owners[0], await stage.owner(0)
    with pytest.raises(FencedError):
        await _WRITES[write](former, VECTOR)
    assert await _everything(stage.store) == before
    await _WRITES[write](now, VECTOR)


async def test_former_owners_note_no_part_and_apply_nothing(stage: Stage) -> None:
    await stage.plan()
    await stage.seal(*_REPORTS)
    await stage.release_log.announced(1, {0: 0, 1: 0})
    former, now = stage.owners[0], await stage.owner(0)
    with pytest.raises(FencedError):
        await former.note_part(1, 0, 5)
    await now.note_part(1, 0, 5)
    with pytest.raises(DisturbedError):
        await now.apply(1)  # not sent yet
    await stage.release_log.sent(1)
    with pytest.raises(FencedError):
        await former.apply(1)
    with pytest.raises(DisturbedError):
        await stage.release_log.finish(1)  # not all applied
    await now.apply(1)
    await stage.owners[1].apply(1)
    await stage.release_log.finish(1)
    found = await _everything(stage.store)
    assert found["shard:0:tree"] == {b"1": b"node"}
    assert found["shards"] == {b"cuts": b"cuts"}
    left = {name for name in found if name.startswith(("moves:", "stage:", "course", "window:", "barrier"))}
    assert not left, "a release left something behind"


async def test_a_former_coordinator_writes_nothing(stage: Stage) -> None:
    await stage.plan()
    await stage.store.own(TRIGGERS)
    before = await _everything(stage.store)
    attempts: tuple[Callable[[], Awaitable[None]], ...] = (
        lambda: stage.release_log.tell_vector(1, OTHER, b"other"),
        stage.release_log.retry,
        lambda: stage.seal(*_REPORTS),
        lambda: stage.release_log.announced(1, {0: 0, 1: 0}),
        lambda: stage.release_log.sent(1),
        lambda: stage.release_log.finish(1),
    )
    for attempt in attempts:
        with pytest.raises(FencedError):
            await attempt()
    assert await _everything(stage.store) == before


async def test_a_seal_needs_every_report_of_this_vector_and_every_chunk(stage: Stage) -> None:
    await stage.plan()
    with pytest.raises(DisturbedError):
        await stage.seal(b"report 0", b"another report")
    with pytest.raises(DisturbedError):
        await stage.seal(*_REPORTS, vector=OTHER)
    await stage.store.redis.unlink(stage.store.key("stage:1:shard:1:chunks"))  # lost by a Redis that was set back
    with pytest.raises(DisturbedError):
        await stage.seal(*_REPORTS)
    course = await read_course(stage.store)
    assert set(course.reports) == {0}, "the shard whose chunks are lost must stage them again"
    assert [word_of(course, shard) for shard in range(SHARDS)] == ["planned", "gathered"]
    count = await stage.owners[1].stage(1, VECTOR, [Chunk("shard:1:tree", [b"1", b"node"])])
    await stage.owners[1].report(1, VECTOR, count, b"report 1")
    await stage.seal(*_REPORTS)


async def test_another_vector_throws_away_what_was_gathered_and_reported(stage: Stage) -> None:
    await stage.plan()
    await stage.release_log.tell_vector(1, VECTOR, b"origin")
    assert len((await read_course(stage.store)).reports) == SHARDS
    await stage.release_log.tell_vector(1, OTHER, b"other")
    course = await read_course(stage.store)
    assert (course.vector, course.gathered, course.reports) == (OTHER, {}, {})
    with pytest.raises(DisturbedError):
        await stage.seal(*_REPORTS, vector=VECTOR)


async def _everything(store: Store) -> dict[str, object]:
    """Every key but those that say who owns what."""
    readers: dict[bytes, Callable[[bytes], Awaitable[object]]] = {
        b"hash": store.redis.hgetall,
        b"set": store.redis.smembers,
        b"list": lambda key: store.redis.lrange(key, 0, -1),
        b"string": store.redis.get,
    }
    names = [name async for name in store.names() if name != "ingest"]
    keys = {name: store.key(name) for name in names}
    return {name: await readers[await store.redis.type(key)](key) for name, key in keys.items()}


async def test_owners_look_more_often_from_the_freeze_on_while_a_shard_waits(stage: Stage) -> None:
    barrier = stage.store.key("barrier")
    await stage.store.redis.hdel(barrier, "vector")
    frozen = await read_course(stage.store)
    assert (frozen.is_frozen, frozen.vector) == (True, None), "ingest has not passed yet"
    await stage.store.redis.delete(barrier)
    idle = await read_course(stage.store)
    often, seldom = (pause_between_looks_s(frozen, has_waiting=waits) for waits in (True, False))
    assert often < seldom
    assert pause_between_looks_s(idle, has_waiting=True) == seldom


async def test_a_desk_reads_its_window_once_while_the_cuts_are_made(stage: Stage, tmp_path: Path) -> None:
    path = write_policy(tmp_path, stage.store.table, scale={"shards": SHARDS})
    settings = Settings(key=SecretStr(KEY))
    together = Together(Announcements(settings.kafka_servers, stage.store.table))
    token = await stage.store.own(shard_label(1))
    owner = ShardOwner(settings, load_policy(path), stage.store, 1, 1, token, together)
    deltas: dict[str, Delta] = {"somebody": (PUT, (1,), (2,), (0,), None)}
    window = stage.store.key(window_key(1, 0, 1))
    await stage.store.redis.rpush(window, pack_changes(stage.store.cipher, 1, 0, deltas, 1))
    course = await read_course(stage.store)
    assert owner.next(course) == "read"
    assert await owner.advance(course)
    await stage.store.redis.delete(window)
    assert owner.next(course) is None, "the owner of shard 0 makes the cuts"
    assert together.kept(1, course) == {0: deltas}
    assert together.kept(1, course._replace(vector=OTHER)) is None, "a window belongs to its vector"
    await owner.close()
    assert together.kept(1, course) is None
