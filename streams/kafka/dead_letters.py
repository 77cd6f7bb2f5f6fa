"""Reading the dead-letter topic: which records had no effect, why, and where the originals stand."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.errors import InputError, ServiceError
from shoal.streams.kafka.cluster import UNKNOWN_TOPIC, describe
from shoal.streams.kafka.partition_reader import open_reader, read_oldest, read_to_end
from shoal.streams.kafka.rights import check_rights, letter_rights
from shoal.streams.kafka.topics import Topics, admin_client
from shoal.streams.settings import Settings

_LOOK_S: Final = 1.0
_JUDGED_LOOK_S: Final = 0.5


class Letter(NamedTuple):
    """A dead letter. `topic`, `partition` and `offset` are the original's; `place` is its own offset."""

    place: int
    at: str
    reason: str
    field: str | None
    op: str | None
    topic: str
    partition: int
    offset: int
    key: bytes | None
    content: bytes | None

    @property
    def what(self) -> str:
        field = "" if self.field is None else f" ({self.field})"
        return f"{self.reason}{field}" + ("" if self.op is None else f" in {self.op}")

    @property
    def origin(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


def letter_of(record: Any) -> Letter | None:
    """A record of the topic as a letter; None if it is none of ours. Ours come after the original's own headers."""
    headers: Mapping[str, bytes] = dict(record.headers)
    try:
        partition, offset = int(headers["partition"]), int(headers["offset"])
        reason, topic = headers["reason"].decode(), headers["topic"].decode()
        field, op = (headers[name].decode() if name in headers else None for name in ("field", "op"))
    except (KeyError, ValueError):
        return None
    at = datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Letter(record.offset, at, reason, field, op, topic, partition, offset, record.key, record.value)


async def find_end(settings: Settings, table: str) -> int:
    """Where the next letter will stand. Raises ServiceError; InputError without the topic or the right to read it."""
    await _check(settings, table)
    async with open_reader(settings.kafka_servers, settings.connect_s) as consumer:
        partition = TopicPartition(Topics(table).dead_letter, 0)
        await consumer._client.add_topic(partition.topic)
        return int((await consumer.end_offsets([partition]))[partition])


async def read_letters(
    settings: Settings, table: str, start: int = 0, *, follow: bool = False
) -> AsyncIterator[Letter]:
    """The letters from a place on that the topic still has; with `follow` later ones, too, for ever.

    Raises ServiceError; InputError without the topic or the right to read it.
    """
    await _check(settings, table)
    partition = TopicPartition(Topics(table).dead_letter, 0)
    try:
        async with open_reader(settings.kafka_servers, settings.connect_s) as consumer:
            place = max(start, await read_oldest(consumer, partition))
            while True:
                async for records in read_to_end(consumer, partition, place):
                    for record in records:
                        place = record.offset + 1
                        letter = letter_of(record)
                        if letter is not None:
                            yield letter
                if not follow:
                    return
                await asyncio.sleep(_LOOK_S)
    except KafkaError as error:
        raise ServiceError("Kafka went away while the dead letters were being read.") from error


async def await_judged(settings: Settings, table: str, ends: Mapping[int, int], within_s: float) -> bool:
    """Waits until workers have taken the events before these offsets, by partition; False if time is up.

    Workers tell Kafka how far they are every few seconds.
    """
    topics = Topics(table)
    deadline = asyncio.get_running_loop().time() + within_s
    async with admin_client(settings.kafka_servers, settings.connect_s) as admin:
        while True:
            places = [TopicPartition(topics.events, number) for number in ends]
            told = await admin.list_consumer_group_offsets(topics.ingest_group, partitions=places)
            reached = {place.partition: one.offset for place, one in told.items()}
            if all(reached.get(partition, 0) >= end for partition, end in ends.items()):
                return True
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_JUDGED_LOOK_S)


async def _check(settings: Settings, table: str) -> None:
    topic, servers = Topics(table).dead_letter, settings.kafka_servers
    async with admin_client(servers, settings.connect_s) as admin:
        cluster = await describe(admin, [topic])
        if not settings.embedded:
            await check_rights(admin, servers, cluster, letter_rights(table))
    if cluster.topics[topic].error == UNKNOWN_TOPIC:
        raise InputError(f"there is no topic {topic} yet; a worker for this table makes it when it first starts.")
