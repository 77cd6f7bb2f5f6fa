"""Ingest on real services: each event once, rejects written with their batch, and dead letters once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from pydantic import SecretStr

from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE, State
from shoal.streams.deadletter.box import DeadLetterBox, sent_offsets, target_of
from shoal.streams.errors import FencedError, GuaranteeError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.ingest import Ingest
from shoal.streams.kafka.cloud_event import dead_letter_event
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics, ensure_topics
from shoal.streams.settings import Settings
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.records import RejectNote, pack
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import read_window
from tests.support.services.table import KEY, POLICY, handles, insert

PARTITIONS = 2


class Running:
    """An ingest service in this process."""

    def __init__(self, settings: Settings, policy: Policy, store: Store) -> None:
        self.settings, self.policy, self.store = settings, policy, store
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.ingest = Ingest(settings, policy, store, PARTITIONS, self.failure.set_result)

    async def until(self, condition: Callable[[], Awaitable[bool]], within_s: float = 20.0) -> None:
        deadline = time.monotonic() + within_s
        while not await condition():
            assert not self.failure.done(), self.failure
            assert time.monotonic() < deadline, "it did not happen in time"
            await asyncio.sleep(0.05)

    async def until_taken(self, count: int) -> None:
        async def is_taken() -> bool:
            counted = self.ingest.metrics()
            return counted.accepted + counted.rejected >= count

        await self.until(is_taken)


@pytest.fixture
def policy(tmp_path: Path, table: str) -> Policy:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"table": table, **POLICY}))
    return load_policy(path)


@pytest.fixture
async def running(kafka: str, redis_url: str, policy: Policy) -> AsyncIterator[Running]:
    settings = Settings(kafka=kafka, redis=redis_url, session_s=2, batch=500, key=SecretStr(KEY))
    await ensure_topics([kafka], policy.table, PARTITIONS)
    store = Store(redis_url, policy.table, make_cipher(None))
    await store.connect(5)
    identity = {"policy": "p", "engine": ENGINE, "key": "k", "seal": ""}
    await store.create(identity, PARTITIONS, time.time(), State.empty(policy, KEY.encode()).meta)
    found = Running(settings, policy, store)
    yield found
    await found.ingest.stop()
    await store.wipe()
    await store.close()


async def send(kafka: str, topic: str, values: list[bytes], partition: int = 0, **options: object) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=kafka, **options)
    await producer.start()
    if "transactional_id" in options:
        await producer.begin_transaction()
    for value in values:
        await producer.send(topic, value, partition=partition)
    await producer.flush()
    return producer


def lines(*numbers: int) -> list[bytes]:
    return [json.dumps(insert(number)).encode() for number in numbers]


async def test_events_go_to_their_window_and_rejects_to_the_dead_letter_topic(kafka: str, running: Running) -> None:
    topics = Topics(running.policy.table)
    producer = await send(kafka, topics.events, [*lines(*range(1_000)), b"junk", *lines(5)], 0)
    await producer.stop()
    producer = await send(kafka, topics.events, lines(*range(1_000, 1_500)), 1)
    await producer.stop()
    await running.ingest.start()
    await running.until_taken(1_502)
    assert running.ingest.metrics().as_dict() == {"accepted": 1_500, "rejected": 2, "lag": 0}
    windows = [await read_window(running.store, 1, number) for number in range(PARTITIONS)]
    assert [len(window) for window in windows] == [1_000, 500]
    letters: list[dict[str, bytes]] = []

    async def are_sent() -> bool:
        async with open_reader([kafka]) as consumer:
            target = target_of(topics)
            letters[:] = [dict(r.headers) async for chunk in read_to_end(consumer, target, 0) for r in chunk]
        return len(letters) == 2

    await running.until(are_sent)
    assert letters == [
        {
            "reason": b"bad-json", "topic": topics.events.encode(), "partition": b"0", "offset": b"1000",
            **dict(dead_letter_event(topics.table, topics.events, 0, 1000)),
        },
        {
            "reason": b"already-present", "op": b"insert", "field": b"id",
            "topic": topics.events.encode(), "partition": b"0", "offset": b"1001",
            **dict(dead_letter_event(topics.table, topics.events, 0, 1001)),
        },
    ]  # fmt: skip

    async def are_cleared() -> bool:
        return not await running.store.redis.exists(running.store.key("rejects:0"))

    await running.until(are_cleared)


async def test_transactions_of_producers_are_respected_and_their_ends_are_passed(kafka: str, running: Running) -> None:
    """An aborted event has no effect, and a barrier behind a transaction's end is reached."""
    topics = Topics(running.policy.table)
    committed = await send(kafka, topics.events, lines(1, 2), 0, transactional_id=f"{topics.table}.a")
    await committed.commit_transaction()
    aborted = await send(kafka, topics.events, lines(3, 4), 0, transactional_id=f"{topics.table}.b")
    await aborted.abort_transaction()
    await running.ingest.start()

    async def is_at_the_end() -> bool:
        offset: bytes = await running.store.redis.hget(running.store.key("ingest"), "offset:0")
        return offset == b"6"

    await running.until(is_at_the_end)
    assert set(await read_window(running.store, 1, 0)) == handles(running.store.table, 1, 2)
    await committed.stop()
    await aborted.stop()


async def test_a_topic_that_does_not_hold_the_next_offset_ends_the_worker(kafka: str, running: Running) -> None:
    producer = await send(kafka, Topics(running.policy.table).events, lines(1), 0)
    await producer.stop()
    await running.store.redis.hset(running.store.key("ingest"), "offset:0", "1000")
    await running.ingest.start()
    failure = await asyncio.wait_for(running.failure, 20)
    assert isinstance(failure, GuaranteeError)
    assert failure.exit_code == 1


async def test_a_partition_that_another_claimed_is_let_go(kafka: str, running: Running) -> None:
    topics = Topics(running.policy.table)
    await running.ingest.start()

    async def is_held() -> bool:
        return running.ingest.owned == [0, 1]

    await running.until(is_held)
    await running.store.own("0")  # another worker, of which Kafka has not told us
    producer = await send(kafka, topics.events, lines(1), 0)
    await producer.stop()

    async def is_let_go() -> bool:
        return running.ingest.owned == [1]

    await running.until(is_let_go)
    assert await read_window(running.store, 1, 0) == {}
    await running.until_taken(1)  # Kafka never says anything, so after a session it is claimed again
    assert set(await read_window(running.store, 1, 0)) == handles(running.store.table, 1)


async def test_letters_found_on_the_topic_are_not_sent_again(kafka: str, running: Running) -> None:
    """As after a crash between sending and clearing, and after Redis was set back to before the clearing."""
    topics, store = Topics(running.policy.table), running.store
    source = TopicPartition(topics.events, 0)
    producer = await send(kafka, topics.events, [b"a", b"b", b"c"], 0)
    await producer.stop()
    rejects = [pack(RejectNote(offset, "bad-json")) for offset in range(3)]
    await store.redis.rpush(store.key("rejects:0"), *rejects[:2])
    first = DeadLetterBox([kafka], store, source, "0", await store.own("0"))
    assert await first.empty({}) == 2
    await store.redis.rpush(store.key("rejects:0"), *rejects)  # the same two, and a third
    await store.redis.hdel(store.key("ingest"), "floor:0")
    second = DeadLetterBox([kafka], store, source, "0", await store.own("0"))
    assert await second.empty({}) == 1
    await store.redis.rpush(store.key("rejects:0"), *rejects)
    await store.redis.hdel(store.key("ingest"), "floor:0")  # set back under a living worker
    assert await second.empty({}) == 0
    await store.redis.rpush(store.key("rejects:0"), *rejects)
    with pytest.raises(FencedError):
        await first.empty({})
    assert await sent_offsets([kafka], target_of(topics), source, 0) == {0, 1, 2}
    async with open_reader([kafka]) as consumer:
        found = [r.value async for chunk in read_to_end(consumer, target_of(topics), 0) for r in chunk]
    assert found == [b"a", b"b", b"c"]
    await first.close()
    await second.close()
