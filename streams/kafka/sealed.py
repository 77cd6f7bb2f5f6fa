"""The `sealed` record of a release with shards: it stands on the releases topic before any of the release is seen.

Its key is `<table>/<release>/sealed` and its value the manifest's bytes. Its headers say what the release is made of,
as those of the manifest do (manifest.py), and `kind` is `sealed`. From its commit on it is this release, even if Redis
is lost. Readers of releases pass over it.
"""

from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.kafka.manifest import KIND, Headers, ManifestRecord, read_number
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message

SEALED: Final = b"sealed"


def sealed_message(table: str, number: int, manifest: bytes, headers: Headers) -> Message:
    return Message(f"{table}/{number}/sealed".encode(), manifest, ((KIND, SEALED), *headers))


def sealed_of(record: Any) -> ManifestRecord | None:
    """What a record of the releases topic announces, None if it is no `sealed` record. Raises GuaranteeError if it
    calls itself one and is none.
    """
    headers = dict(record.headers)
    if headers.get(KIND) != SEALED:
        return None
    return ManifestRecord(read_number(record), record.value, headers, record.offset)


async def last_announced(servers: list[str], table: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last `sealed` record that is committed, None if there is none. `patient` as for `last_manifest`.

    Raises KafkaError, ServiceError.
    """
    partition = TopicPartition(Topics(table).releases, 0)
    async with open_reader(servers) as consumer:
        end = (await consumer.end_offsets([partition]))[partition]
        if patient:
            async for _ in read_to_end(consumer, partition, end):
                pass
            end = await consumer.position(partition)
        return await _announced_before(consumer, partition, end)


async def _announced_before(consumer: AIOKafkaConsumer, partition: TopicPartition, end: int) -> ManifestRecord | None:
    """With shards a release is two records here, so the last of a kind is among the last few."""
    begin = (await consumer.beginning_offsets([partition]))[partition]
    span = 8
    while True:
        start = max(begin, end - span)
        last: ManifestRecord | None = None
        async for records in read_to_end(consumer, partition, start, end):
            for record in records:
                if record.offset < end:
                    last = sealed_of(record) or last
        if last is not None or start == begin or start >= end:
            return last
        span *= 16
