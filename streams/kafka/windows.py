"""What a published release was made of: the window that its headers tell of, and the events up to its end."""

import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.release_reader import PublishedRelease

_POLL_MS = 200


class WindowedEvents:
    """The events topic, read forward in windows."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, partitions: int) -> None:
        self._consumer = consumer
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._held: list[deque[Any]] = [deque() for _ in range(partitions)]

    async def start(self) -> None:
        """Raises GuaranteeError if the beginning of the topic is gone."""
        begins = await self._consumer.beginning_offsets(self._partitions)
        if any(begins.values()):
            topic = self._partitions[0].topic
            raise GuaranteeError(f"the start of topic {topic} is gone, so the state cannot be made again from it")
        self._consumer.assign(self._partitions)
        for partition in self._partitions:
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)

    async def read(self, number: int, end: int) -> AsyncIterator[list[Any]]:
        """Committed records of one partition up to offset `end`, from where the last call stopped."""
        partition, held = self._partitions[number], self._held[number]
        while True:
            ready = []
            while held and held[0].offset < end:
                ready.append(held.popleft())
            if ready:
                yield ready
            if held or await self._consumer.position(partition) >= end:
                return
            self._consumer.resume(partition)
            fetched = await self._consumer.getmany(partition, timeout_ms=_POLL_MS)
            self._consumer.pause(partition)
            held.extend(fetched.get(partition, ()))
            high = self._consumer.highwater(partition)
            if high is not None and high < end:
                raise GuaranteeError(
                    f"topic {partition.topic}, partition {number}, ends at offset {high}, and a release was made of "
                    f"events up to {end}: records are lost"
                )


@asynccontextmanager
async def open_events(servers: list[str], topic: str, partitions: int) -> AsyncIterator[WindowedEvents]:
    async with open_reader(servers) as consumer:
        events = WindowedEvents(consumer, topic, partitions)
        await events.start()
        yield events


def offsets_of(release: PublishedRelease, partitions: int) -> Sequence[int]:
    """Where the window ended in each partition of the events topic. Raises InputError if it does not say so."""
    try:
        ends = json.loads(release.headers["offsets"])
        int(release.headers["trigger"])
    except (KeyError, ValueError):
        raise InputError(
            f"release {release.number} does not say what it was made of, so it cannot be made again"
        ) from None
    if len(ends) != partitions:
        raise InputError(
            f"release {release.number} was made of {len(ends)} partitions of the events topic, which has {partitions}"
        )
    return [int(end) for end in ends]


def external_of(release: PublishedRelease) -> Sequence[int]:
    """Where the window ended in the external topic; a release from before there was one does not say."""
    try:
        return [int(end) for end in json.loads(release.headers.get("external", b"[]"))]
    except (ValueError, TypeError):
        raise InputError(
            f"release {release.number} does not say what it was made of, so it cannot be made again"
        ) from None


def time_of(release: PublishedRelease) -> str | None:
    """When its trigger said it was made."""
    value = release.headers.get("at")
    return None if value is None else value.decode()
