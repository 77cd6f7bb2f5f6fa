"""Reading one partition of a topic up to its end, committed records only, outside any consumer group.

The end is the high watermark, not the last stable offset. While another producer's transaction is open, committed
records may already lie behind it, and whoever looks for a record to decide whether to send it again must not stop
before them. So reading waits until the position has reached the watermark: until every transaction begun before is
over.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.topics import retry_until, unreachable

_POLL_MS = 200
KIND, MANIFEST = "kind", b"manifest"


class Manifest(NamedTuple):
    """The manifest of a published release, as its record on the topic says."""

    number: int
    value: bytes
    headers: Mapping[str, bytes]
    offset: int


@asynccontextmanager
async def open_reader(
    servers: list[str], within_s: float = 15.0, *, committed: bool = True
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer of its own, nobody's group. Raises ServiceError if Kafka cannot be reached in time."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="none",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=8 * 1024 * 1024,
        request_timeout_ms=30_000,
    )
    try:
        try:
            await retry_until(consumer.start, within_s)
        except KafkaError as error:
            raise unreachable(servers) from error
        yield consumer
    finally:
        await stop_client(consumer)


async def read_to_end(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, end: int | None = None
) -> AsyncIterator[list[Any]]:
    """Committed records from `start` to the end as it is now (see above). Raises KafkaError, GuaranteeError if
    `start` is gone.
    """
    _assign(consumer, partition)
    consumer.seek(partition, start)
    while end is None or await consumer.position(partition) < end:
        try:
            fetched = await consumer.getmany(partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            raise GuaranteeError(
                f"topic {partition.topic}, partition {partition.partition}, does not hold offset {start} any more: "
                "its records must be kept for ever"
            ) from None
        if end is None:
            end = consumer.highwater(partition)  # of the first answer: what comes later is not waited for
        if records := fetched.get(partition):
            yield records


async def read_at(consumer: AIOKafkaConsumer, partition: TopicPartition, offsets: Collection[int]) -> dict[int, Any]:
    """The records at these offsets, those that are there. Costs a request per gap. Raises KafkaError."""
    found: dict[int, Any] = {}
    wanted = sorted(set(offsets) - found.keys())
    _assign(consumer, partition)
    while wanted:
        consumer.seek(partition, wanted[0])
        try:
            fetched = await consumer.getmany(partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError:
            del wanted[0]
            continue
        position = await consumer.position(partition)
        for record in fetched.get(partition, ()):
            found[record.offset] = record
        wanted = [offset for offset in wanted if offset >= position]
    return {offset: found[offset] for offset in offsets if offset in found}


async def read_ends(servers: list[str], topic: str, partitions: int) -> dict[int, int]:
    """Where each partition of a topic ends now: its high watermark."""
    async with open_reader(servers, committed=False) as consumer:
        ends = await consumer.end_offsets([TopicPartition(topic, number) for number in range(partitions)])
    return {partition.partition: end for partition, end in ends.items()}


async def last_manifest(consumer: AIOKafkaConsumer, topic: str, *, patient: bool) -> Manifest | None:
    """The last release that anyone can read, None if there is none. Reads only the end of the topic.

    `patient` waits for the end of open transactions. Who has just initialised the publisher's transactional id has none
    to wait for; who has not must not wait, for it may be a dead worker's, which only the next publisher ends.
    """
    partition = TopicPartition(topic, 0)
    begin = (await consumer.beginning_offsets([partition]))[partition]
    span = 4
    end = (await consumer.end_offsets([partition]))[partition]
    if patient:
        async for _ in read_to_end(consumer, partition, end):
            pass
        end = await consumer.position(partition)
    while True:
        start = max(begin, end - span)
        last: Manifest | None = None
        async for records in read_to_end(consumer, partition, start, end):
            for record in records:
                last = manifest_of(record) or last
        if last is not None or start == begin:
            return last
        span *= 16


async def stop_client(client: Any, within_s: float = 3.0) -> None:
    """Stop a consumer or producer of aiokafka, whatever state it is in.

    Its fetcher can swallow the cancellation that `stop` sends it, and a producer waits for a broker that is gone; being
    cancelled once more ends both.
    """
    with contextlib.suppress(KafkaError, asyncio.TimeoutError):
        await asyncio.wait_for(client.stop(), within_s)


def _assign(consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
    # Assigning what is assigned already would restart the fetcher for nothing.
    if consumer.assignment() != {partition}:
        consumer.assign([partition])


def manifest_of(record: Any) -> Manifest | None:
    """The manifest in a record of the releases topic, None if it is a group's."""
    headers = dict(record.headers)
    if headers.get(KIND) != MANIFEST:
        return None
    return Manifest(int(json.loads(record.value)["release"]), record.value, headers, record.offset)
