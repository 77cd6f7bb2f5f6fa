"""Dead letters on real services: each once, whatever is let go, or set back, in the middle."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.state import ENGINE, State
from shoal.streams.deadletter.box import DeadLetterBox, letter_offset, target_of
from shoal.streams.deadletter.scheduler import DeadLetters
from shoal.streams.errors import FencedError
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.partition import Partition, load_partition
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics, ensure_topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.keys import TRIGGERS
from shoal.streams.store.records import RejectNote, pack
from shoal.streams.store.release_log import ReleaseLog
from shoal.streams.store.store import Store
from tests.support.services.by_hand import apply_by_hand, seal_by_hand
from tests.support.services.table import KEY, POLICY, insert

PARTITIONS = 2


class Desk:
    """A table of which a test does every step itself: what ingest, the planner and the boxes do, one at a time."""

    def __init__(self, kafka: str, store: Store, policy: Policy) -> None:
        self.kafka, self.store, self.policy = kafka, store, policy
        self.topics = Topics(policy.table)
        self._boxes: list[DeadLetterBox] = []

    def source(self, number: int) -> TopicPartition:
        return TopicPartition(self.topics.events, number)

    async def send(self, number: int, *events: Any) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.kafka) as producer:
            for event in events:
                value = event if isinstance(event, bytes) else json.dumps(event).encode()
                await producer.send_and_wait(self.topics.events, value, partition=number)

    async def hold(self, number: int) -> Partition:
        keyed = Keyed(KEY.encode(), self.policy.table)
        return await load_partition(self.store, number, await self.store.own(str(number)), self.policy, keyed)

    async def take(self, part: Partition, end: int | None = None) -> None:
        """What is on the topic, up to `end`, in one batch."""
        async with open_reader([self.kafka]) as consumer:
            source = self.source(part.number)
            records = [r async for chunk in read_to_end(consumer, source, part.offset, end) for r in chunk]
        records = [record for record in records if end is None or record.offset < end]
        reply = await part.commit(self.store, part.take(records, part.offset + len(records), self.store.cipher))
        if reply.applied > part.homes_known:
            await part.learn_homes(self.store, reply.applied)

    async def freeze(self, number: int, *parts: Partition) -> ReleaseLog:
        release_log = ReleaseLog(self.store, await self.store.own(TRIGGERS), PARTITIONS)
        assert await release_log.freeze(number, number - 1, None, time.time(), {}) == "ok"
        for part in parts:
            await self.take(part, part.offset)
        return release_log

    async def seal(self, number: int) -> None:
        await seal_by_hand(self.store, self.policy, number, PARTITIONS)

    async def apply(self, number: int) -> None:
        """What a tenure does with a sealed release that is on the topic."""
        await self.store.own(TRIGGERS)
        await apply_by_hand(self.store, number, PARTITIONS)

    async def box(self, number: int) -> DeadLetterBox:
        """As a worker that has just claimed the partition has it."""
        token = await self.store.redis.hget(self.store.key("ingest"), f"token:{number}")
        made = DeadLetterBox([self.kafka], self.store, self.source(number), str(number), token.decode())
        self._boxes.append(made)
        return made

    async def reject(self, number: int, *offsets: int) -> None:
        rejects = [pack(RejectNote(offset, "bad-json")) for offset in offsets]
        await self.store.redis.rpush(self.store.key(f"rejects:{number}"), *rejects)

    async def letters(self, number: int) -> Counter[int]:
        async with open_reader([self.kafka]) as consumer:
            records = [r async for chunk in read_to_end(consumer, target_of(self.topics), 0) for r in chunk]
        found = (letter_offset(record.headers, self.source(number)) for record in records)
        return Counter(offset for offset in found if offset >= 0)

    async def floor(self, number: int) -> int:
        return int(await self.store.redis.hget(self.store.key("ingest"), f"floor:{number}") or 0)

    async def copy(self) -> dict[bytes, bytes]:
        redis = self.store.redis
        return {key: await redis.dump(key) async for key in redis.scan_iter(match=self.store.prefix + b"*")}

    async def set_back(self, copy: dict[bytes, bytes]) -> None:
        await self.store.wipe()
        for key, value in copy.items():
            await self.store.redis.restore(key, 0, value)

    async def close(self) -> None:
        for box in self._boxes:
            await box.close()


@pytest.fixture
async def desk(kafka: str, redis_url: str, table: str, tmp_path: Path) -> AsyncIterator[Desk]:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"table": table, **POLICY}))
    policy = load_policy(path)
    await ensure_topics([kafka], table, PARTITIONS)
    store = Store(redis_url, table, make_cipher(None))
    await store.connect(5)
    identity = {"policy": "p", "engine": ENGINE, "key": "k", "seal": ""}
    await store.create(identity, PARTITIONS, time.time(), State.empty(policy, KEY.encode()).meta)
    made = Desk(kafka, store, policy)
    yield made
    await made.close()
    await store.wipe()
    await store.close()


class Pause:
    """Holds up every transaction from now on, after its records are sent and before it is committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.over = asyncio.Event(), asyncio.Event()
        send_all = Transaction._send_all

        async def and_wait(transaction: Transaction, topic: str, partition: int, messages: Iterable[Message]) -> int:
            end = await send_all(transaction, topic, partition, messages)
            self.reached.set()
            await self.over.wait()
            return end

        monkeypatch.setattr(Transaction, "_send_all", and_wait)


async def test_a_partition_let_go_in_the_middle_of_a_transaction_does_not_keep_the_letters_of_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = DeadLetters([desk.kafka], desk.store)
    for number in range(PARTITIONS):
        await desk.send(number, b"junk", b"junk")
        await desk.reject(number, 0)
        await letters.add(desk.source(number), await desk.store.own(str(number)), {})
    running = asyncio.create_task(letters.run())
    try:
        for number in range(PARTITIONS):
            await asyncio.wait_for(letters.drained(number), 20)
        pause = Pause(monkeypatch)
        for number in range(PARTITIONS):
            await desk.reject(number, 1)
            letters.wake(number)
        await asyncio.wait_for(pause.reached.wait(), 20)  # the lower partition's turn is first
        let_go = asyncio.create_task(letters.drop(0))  # as when it is given to another worker
        await asyncio.sleep(0.5)
        pause.over.set()
        await asyncio.wait_for(let_go, 20)
        await asyncio.wait_for(letters.drained(1), 20)
        await letters.add(desk.source(0), await desk.store.own("0"), {})
        await asyncio.wait_for(letters.drained(0), 20)
        for number in range(PARTITIONS):
            assert await desk.letters(number) == {0: 1, 1: 1}
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await letters.close()


async def test_a_transaction_that_comes_to_no_end_is_given_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    Pause(monkeypatch)
    transaction = Transaction([desk.kafka], desk.topics.publisher, timeout_s=1.0)
    await transaction.start()
    try:
        with pytest.raises(KafkaError, match="too long"):
            await asyncio.wait_for(transaction.send(desk.topics.releases, 0, [Message(b"k", b"v")]), 20)
    finally:
        await transaction.stop()


async def test_a_closed_box_sends_nothing_and_refuses_nobody(desk: Desk) -> None:
    """What it was doing when its partition was let go of may come back to it late; the token may still be right."""
    await desk.send(0, b"junk", b"junk")
    await desk.reject(0, 0)
    await desk.hold(0)
    closed, box = await desk.box(0), await desk.box(0)
    await closed.close()
    with pytest.raises(FencedError):
        await closed.empty({})
    assert await desk.letters(0) == {}
    assert await box.empty({}) == 1
    await desk.reject(0, 1)
    with pytest.raises(FencedError):
        await closed.empty({})
    assert await box.empty({}) == 1, "the transactional id is still its own"
    assert await desk.letters(0) == {0: 1, 1: 1}


async def test_a_misrouted_events_letter_is_sent_once_when_redis_is_set_back_to_before_its_release_was_applied(
    desk: Desk,
) -> None:
    """The reject comes with the release, not with its event's batch: the offset alone does not say that it will."""
    await desk.send(0, *(insert(number) for number in range(12)))
    await desk.send(1, insert(5), insert(50))  # p5 is at home in partition 0
    parts = [await desk.hold(number) for number in range(PARTITIONS)]
    for part in parts:
        await desk.take(part)
    await desk.freeze(1, *parts)
    await desk.seal(1)
    copy = await desk.copy()  # sealed; then it was published, and marked as sent, and applied
    await desk.apply(1)
    assert await (await desk.box(1)).empty({}) == 1
    assert await desk.letters(1) == {0: 1}

    await desk.set_back(copy)
    part = await desk.hold(1)
    box = await desk.box(1)
    await desk.send(1, b"junk")
    await desk.take(part)
    assert await box.empty({}) == 1, "the new one"
    await desk.apply(1)
    await box.empty({})
    assert await desk.letters(1) == {0: 1, 2: 1}
    assert await desk.floor(1) == 0, "it waits for the release of the window that was open when they were passed"
    await desk.freeze(2, await desk.hold(0), part)
    await desk.seal(2)
    await desk.apply(2)
    await desk.send(1, b"junk")
    await desk.take(part)
    assert await box.empty({}) == 1
    assert await desk.floor(1) > 3, "and then goes on"
    assert await desk.letters(1) == {0: 1, 2: 1, 3: 1}


async def test_a_letter_is_sent_once_when_its_event_is_judged_only_by_a_release_the_second_time(desk: Desk) -> None:
    """Unknown here when it was read first; read again before that was known, it is for the next release to say."""
    await desk.send(0, *(insert(number) for number in range(12)))
    await desk.send(1, insert(5), insert(50))
    parts = [await desk.hold(number) for number in range(PARTITIONS)]
    for part in parts:
        await desk.take(part)
    await desk.freeze(1, *parts)
    await desk.seal(1)
    copy = await desk.copy()
    await desk.apply(1)
    await desk.take(parts[1])
    await desk.send(1, {"op": "update", "id": "p5", "qid": {"age": 1}})  # offset 2: unknown here
    await desk.take(parts[1])
    assert await (await desk.box(1)).empty({}) == 2
    assert await desk.letters(1) == {0: 1, 2: 1}

    await desk.set_back(copy)
    parts = [await desk.hold(number) for number in range(PARTITIONS)]
    await desk.take(parts[1])  # before release 1 is applied: it is taken into window 2
    await desk.apply(1)
    await (await desk.box(1)).empty({})
    await desk.send(1, b"junk")
    for part in parts:
        await desk.take(part)
    box = await desk.box(1)  # another worker's, that has only what Redis and the topic say
    assert await box.empty({}) == 1, "the new one"
    await desk.freeze(2, *parts)
    await desk.seal(2)
    await desk.apply(2)
    await box.empty({})
    assert await desk.letters(1) == {0: 1, 2: 1, 3: 1}
