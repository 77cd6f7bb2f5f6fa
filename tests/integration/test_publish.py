"""Transactions on a real Kafka: all or nothing, the last holder only, and looking at what was committed before
sending.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from shoal.streams.errors import FencedError, GuaranteeError
from shoal.streams.kafka.cloud_event import release_event
from shoal.streams.kafka.manifest import Origin, read_origin, write_origin
from shoal.streams.kafka.partition_reader import open_reader, read_at, read_to_end
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.topics import Topics, ensure_topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.store.staging import Headers, SealedRelease
from shoal.streams.worker.publish import Publisher


@pytest.fixture
async def topics(kafka: str, table: str) -> Topics:
    await ensure_topics([kafka], table, 2)
    return Topics(table)


@pytest.fixture
async def publisher(kafka: str, topics: Topics) -> AsyncIterator[Publisher]:
    found = Publisher([kafka], topics.table)
    await found.start()
    yield found
    await found.stop()


async def values(kafka: str, topic: str, start: int = 0) -> list[bytes | None]:
    async with open_reader([kafka]) as consumer:
        return [r.value async for chunk in read_to_end(consumer, TopicPartition(topic, 0), start) for r in chunk]


def release(number: int) -> bytes:
    return b'{"release":%d}' % number


def sealed(number: int, *records: bytes, headers: Headers = ()) -> tuple[SealedRelease, Sequence[bytes]]:
    return SealedRelease(number=number, manifest=release(number), headers=headers), records


async def test_topics_are_made_once_and_found_afterwards(kafka: str, table: str) -> None:
    assert await ensure_topics([kafka], table, 3) == 3
    assert await ensure_topics([kafka], table, 8) == 3


async def test_a_release_is_its_records_and_then_its_manifest(kafka: str, topics: Topics, publisher: Publisher) -> None:
    assert await publisher.last() is None
    origin = Origin([3, 0], 7, "2026-01-01T00:00:00Z", [5, 2], policy="ab" * 32, key="cd" * 8)
    await publisher.publish(*sealed(1, b"a", b"b", headers=write_origin(origin)))
    await publisher.publish(*sealed(2, headers=write_origin(Origin([3, 1], 8))))
    async with open_reader([kafka]) as consumer:
        found = [r async for chunk in read_to_end(consumer, TopicPartition(topics.releases, 0), 0) for r in chunk]
    assert [record.value for record in found] == [b"a", b"b", release(1), release(2)]
    assert {record.key for record in found} == {f"{topics.table}/1".encode(), f"{topics.table}/2".encode()}
    assert dict(found[2].headers) == {
        "kind": b"manifest", "offsets": b"[3,0]", "external": b"[5,2]", "trigger": b"7", "at": b"2026-01-01T00:00:00Z",
        "policy": b"ab" * 32, "key": b"cd" * 8,
        **dict(release_event(topics.table, 1, "2026-01-01T00:00:00Z")),
    }  # fmt: skip
    assert read_origin(1, dict(found[2].headers), 2) == origin
    last = await publisher.last()
    assert last is not None
    assert (last.number, last.value) == (2, release(2))
    assert read_origin(2, last.headers, 2) == Origin([3, 1], 8, None, [])


async def test_a_former_publisher_is_refused(kafka: str, topics: Topics, publisher: Publisher) -> None:
    successor = Publisher([kafka], topics.table)
    await successor.start()
    try:
        with pytest.raises(FencedError):
            await publisher.publish(*sealed(1, b"a"))
        await successor.publish(*sealed(1, b"b"))
    finally:
        await successor.stop()
    assert await values(kafka, topics.releases) == [b"b", release(1)]


async def test_what_a_former_publisher_left_open_is_never_seen(kafka: str, topics: Topics) -> None:
    dead = Transaction([kafka], topics.publisher)
    await dead.start()
    await dead._producer.begin_transaction()
    await dead._send_all(topics.releases, 0, [Message(b"k", b"half a release")])
    assert await last_committed([kafka], topics.table) is None, "an onlooker does not wait for it"
    successor = Publisher([kafka], topics.table)
    await successor.start()
    try:
        assert await successor.last() is None
        await successor.publish(*sealed(1, b"a"))
        assert await values(kafka, topics.releases) == [b"a", release(1)]
    finally:
        await successor.stop()
        await dead.stop()


async def test_the_last_manifest_is_found_behind_a_long_aborted_transaction(
    kafka: str, topics: Topics, publisher: Publisher
) -> None:
    await publisher.publish(*sealed(1, *[b"x"] * 500))
    dead = Transaction([kafka], topics.publisher)
    await dead.start()
    await dead._producer.begin_transaction()
    await dead._send_all(topics.releases, 0, [Message(b"k", b"y")] * 3_000)
    await dead._producer.abort_transaction()
    await dead.stop()
    last = await last_committed([kafka], topics.table, patient=True)
    assert last is not None
    assert last.number == 1


async def test_reading_to_the_end_waits_for_a_transaction_that_hides_a_committed_record(
    kafka: str, topics: Topics
) -> None:
    """The twin: an ordinary reader, which stops at the last stable offset, does not see the record."""
    slow, quick = Transaction([kafka], f"{topics.table}.slow"), Transaction([kafka], f"{topics.table}.quick")
    target = TopicPartition(topics.dead_letter, 0)
    await slow.start()
    await quick.start()
    try:
        await slow._producer.begin_transaction()
        await slow._send_all(target.topic, 0, [Message(None, b"slow")])
        await quick.send(target.topic, 0, [Message(None, b"quick")])
        async with open_reader([kafka]) as consumer:
            assert (await consumer.end_offsets([target]))[target] == 0, "the last stable offset hides both"
        reading = asyncio.create_task(values(kafka, target.topic))
        await asyncio.sleep(1.0)
        assert not reading.done()
        await slow._producer.abort_transaction()
        assert await asyncio.wait_for(reading, 10) == [b"quick"]
    finally:
        await slow.stop()
        await quick.stop()


async def test_a_record_is_sent_on_as_it_was_even_without_key_and_value(kafka: str, topics: Topics) -> None:
    sender = Transaction([kafka], f"{topics.table}.any")
    await sender.start()
    try:
        big = b"x" * 1_500_000
        end = await sender.send(
            topics.dead_letter, 0, [Message(None, None, (("a", b"b"), ("a", b"c"))), Message(b"k", big)]
        )
    finally:
        await sender.stop()
    assert end == 2
    async with open_reader([kafka]) as consumer:
        found = await read_at(consumer, TopicPartition(topics.dead_letter, 0), [0, 1, 99])
    assert (found[0].key, found[0].value, found[0].headers) == (None, None, (("a", b"b"), ("a", b"c")))
    assert (found[1].key, found[1].value) == (b"k", big)
    assert 99 not in found


async def test_a_batch_that_fails_stops_the_whole_transaction(kafka: str, topics: Topics) -> None:
    sender = Transaction([kafka], f"{topics.table}.large")
    await sender.start()
    try:
        too_large = b"x" * 3_000_000  # the releases topic takes a megabyte
        with pytest.raises(Exception, match=r".") as caught:
            await sender.send(topics.releases, 0, [Message(b"k", b"small"), Message(b"k", too_large)])
        assert not isinstance(caught.value, FencedError)
    finally:
        await sender.stop()
    successor = Publisher([kafka], topics.table)
    await successor.start()
    await successor.stop()
    ender = Transaction([kafka], f"{topics.table}.large")
    await ender.start()
    await ender.stop()
    assert await values(kafka, topics.releases) == []


async def test_a_topic_that_lost_its_start_is_refused(kafka: str, topics: Topics, publisher: Publisher) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

    await publisher.publish(*sealed(1, *[b"a"] * 10))
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topics.releases, 0): RecordsToDelete(before_offset=5)})
    finally:
        await admin.close()
    with pytest.raises(GuaranteeError, match="still needed"):
        await values(kafka, topics.releases)


async def test_a_broker_that_names_no_broker_counts_as_away(
    kafka: str, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a broker answers that has just come back; aiokafka then fails an assertion."""
    transaction = Transaction([kafka], f"test-{topics.table}")
    with monkeypatch.context() as broker:
        broker.setattr(AIOKafkaClient, "get_random_node", lambda _: None)
        with pytest.raises(KafkaError, match="names no broker"):
            await transaction.start()
    await transaction.stop()
