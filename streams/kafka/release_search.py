"""Finding manifests on the releases topic without reading all of it."""

from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.kafka.manifest import ManifestRecord, manifest_of
from shoal.streams.kafka.partition_reader import open_reader, read_at, read_to_end
from shoal.streams.kafka.topics import Topics

Read = Callable[[Any], ManifestRecord | None]


async def manifest_at(servers: list[str], table: str, offset: int) -> ManifestRecord | None:
    """The manifest at an offset of the releases topic, None if none is there (any more). Raises KafkaError."""
    partition = TopicPartition(Topics(table).releases, 0)
    async with open_reader(servers) as consumer:
        begins, ends = await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])
        if not begins[partition] <= offset < ends[partition]:
            return None
        found = await read_at(consumer, partition, [offset])
    return manifest_of(found[offset]) if offset in found else None


async def manifest_from(servers: list[str], table: str, offset: int) -> ManifestRecord | None:
    """The first manifest from an offset of the releases topic on, None if there is none. Raises KafkaError."""
    partition = TopicPartition(Topics(table).releases, 0)
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, partition, offset):
            for record in records:
                if (found := manifest_of(record)) is not None:
                    return found
    return None


async def last_committed(servers: list[str], table: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last release that a consumer can read, None if there is none; see `last_manifest` for `patient`."""
    async with open_reader(servers) as consumer:
        return await last_manifest(consumer, Topics(table).releases, patient=patient)


async def last_manifest(
    consumer: AIOKafkaConsumer, topic: str, read: Read = manifest_of, *, patient: bool = False
) -> ManifestRecord | None:
    """The last release that a consumer can read, None if there is none. Reads only the end of the topic.

    `read` says what a record is: a manifest, or one that announces a release (sealed.py).

    With `patient` it waits for the end of open transactions. The owner of the publisher's transactional id may: its own
    start ended them. Any other caller must not: the open one may be a dead worker's, which only the next owner ends.
    """
    partition = TopicPartition(topic, 0)
    end = (await consumer.end_offsets([partition]))[partition]
    if patient:
        async for _ in read_to_end(consumer, partition, end):
            pass
        end = await consumer.position(partition)
    return await manifest_before(consumer, partition, end, read)


async def manifest_before(
    consumer: AIOKafkaConsumer, partition: TopicPartition, end: int, read: Read = manifest_of
) -> ManifestRecord | None:
    """The last manifest before an offset, None if there is none. Reads backwards from there, as far as it must."""
    begin = (await consumer.beginning_offsets([partition]))[partition]
    span = 4
    while True:
        start = max(begin, end - span)
        last: ManifestRecord | None = None
        async for records in read_to_end(consumer, partition, start, end):
            for record in records:
                if record.offset < end:
                    last = read(record) or last
        if last is not None or start >= end or start == begin:
            return last
        span *= 16
