"""Reading one partition of a topic up to its end, committed records only, outside any consumer group.

The end is the high watermark, not the last stable offset. While another producer's transaction is open, committed
records may already lie behind it. A caller that looks for a record to decide whether to send it again must not stop
before them. So reading waits until the position has reached the watermark, that is, until every transaction that had
begun is over.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.topics import connect_within

_POLL_MS = 200
_STALLED_S = 330.0  # a transaction may be open for 300
_SILENT_S = 60.0


@asynccontextmanager
async def open_reader(
    servers: list[str], within_s: float = 15.0, *, committed: bool = True
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer outside any group. Raises ServiceError if Kafka cannot be reached in time, InputError if it does not
    let this client in.
    """
    consumer = AIOKafkaConsumer(
        **client_options(servers),
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=8 * 1024 * 1024,
        request_timeout_ms=30_000,
    )
    try:
        await connect_within(consumer.start, within_s, servers)
        yield consumer
    finally:
        await stop_client(consumer)


async def read_to_end(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, end: int | None = None
) -> AsyncIterator[list[Any]]:
    """Committed records from `start` to `end`, by default to where the partition ends now (see above).

    Raises KafkaError, also if nothing has moved for longer than any transaction may take, and GuaranteeError if the
    record at `start` is gone.
    """
    _assign(consumer, partition)
    consumer.seek(partition, start)
    seen, moved = start, time.monotonic()
    while end is None or seen < end:
        position = await consumer.position(partition)
        if position != seen:
            seen, moved = position, time.monotonic()
            continue
        _check_moving(consumer, partition, moved, _STALLED_S)
        try:
            fetched = await consumer.getmany(partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            raise GuaranteeError(
                f"topic {partition.topic}, partition {partition.partition}, no longer has offset {start}, "
                "which is still needed"
            ) from None
        if end is None:
            end = consumer.highwater(partition)  # of the first answer: later records are not waited for
        if records := fetched.get(partition):
            yield records


async def read_oldest(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int:
    """The offset of the first record that a partition still has, or would have. Raises KafkaError."""
    await _learn(consumer, partition.topic)
    return int((await consumer.beginning_offsets([partition]))[partition])


async def read_at(consumer: AIOKafkaConsumer, partition: TopicPartition, offsets: Collection[int]) -> dict[int, Any]:
    """The records at these offsets, those that are there. Costs a request per gap.

    Raises KafkaError, also if nothing comes for a minute.
    """
    found: dict[int, Any] = {}
    wanted = sorted(set(offsets))
    _assign(consumer, partition)
    moved = time.monotonic()
    while wanted:
        _check_moving(consumer, partition, moved, _SILENT_S)
        consumer.seek(partition, wanted[0])
        try:
            fetched = await consumer.getmany(partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            del wanted[0]
            moved = time.monotonic()
            continue
        position = await consumer.position(partition)
        for record in fetched.get(partition, ()):
            found[record.offset] = record
        if position > wanted[0]:
            moved = time.monotonic()
        wanted = [offset for offset in wanted if offset >= position]
    return {offset: found[offset] for offset in offsets if offset in found}


async def read_ends(servers: list[str], topic: str, partitions: int) -> dict[int, int]:
    """Where each partition of a topic ends now: its high watermark."""
    async with open_reader(servers, committed=False) as consumer:
        await _learn(consumer, topic)
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in range(partitions)])
    return {partition.partition: end for partition, end in ends.items()}


async def _learn(consumer: AIOKafkaConsumer, topic: str) -> None:
    """Ask who has a topic. Asked for offsets of a topic that it does not know, aiokafka waits 0.1 s and tries again."""
    await consumer._client.add_topic(topic)


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Raises KafkaError if the task that fetches, or the one that asks for metadata, has ended with an error.

    aiokafka does not report it: such a consumer is silent for ever, as if no record came.
    """
    for task in (consumer._fetcher.error_future, consumer._client._sync_task):
        if task is not None and task.done():
            raise KafkaError("a part of the consumer has ended")


async def stop_client(client: Any, within_s: float = 3.0) -> None:
    """Stop a consumer or producer of aiokafka, whatever state it is in.

    A consumer's fetcher can swallow the cancellation that `stop` sends it, and a producer waits for a broker that is
    gone. A second cancellation, after `within_s`, ends both.
    """
    with contextlib.suppress(KafkaError, asyncio.TimeoutError):
        await asyncio.wait_for(client.stop(), within_s)


def _check_moving(consumer: AIOKafkaConsumer, partition: TopicPartition, moved: float, within_s: float) -> None:
    check_alive(consumer)
    if time.monotonic() - moved > within_s:
        raise KafkaError(f"topic {partition.topic} cannot be read any further")


def _assign(consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
    # Assigning the same partition again would restart the fetcher for nothing.
    if consumer.assignment() != {partition}:
        consumer.assign([partition])
