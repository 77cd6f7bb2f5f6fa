"""The events topic read forward in windows, as a rebuild needs it: each partition up to where a window ended."""

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.partition_reader import open_reader

_POLL_MS = 200


class WindowedEvents:
    """The events topic, read forward in windows."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, begins: Sequence[int]) -> None:
        self._consumer, self._begins = consumer, begins
        self._partitions = [TopicPartition(topic, number) for number in range(len(begins))]
        self._fetched: list[deque[Any]] = [deque() for _ in begins]  # not asked for yet

    async def start(self) -> None:
        """Raises GuaranteeError if an event is gone that is to be read."""
        oldest = await self._consumer.beginning_offsets(self._partitions)
        for partition, begin in zip(self._partitions, self._begins, strict=True):
            if oldest[partition] > begin:
                raise GuaranteeError(
                    f"topic {partition.topic}, partition {partition.partition}, begins at offset {oldest[partition]}, "
                    f"and the state cannot be made again without its events from offset {begin} on: name a newer "
                    "snapshot with --snapshot"
                )
        self._consumer.assign(self._partitions)
        for partition, begin in zip(self._partitions, self._begins, strict=True):
            self._consumer.seek(partition, begin)
            self._consumer.pause(partition)

    async def read(self, number: int, end: int) -> AsyncIterator[list[Any]]:
        """Committed records of one partition up to offset `end`, from where the last call stopped.

        Raises GuaranteeError if the partition is shorter.
        """
        partition, fetched = self._partitions[number], self._fetched[number]
        while True:
            ready = []
            while fetched and fetched[0].offset < end:
                ready.append(fetched.popleft())
            if ready:
                yield ready
            if fetched or await self._consumer.position(partition) >= end:
                return
            self._consumer.resume(partition)
            answer = await self._consumer.getmany(partition, timeout_ms=_POLL_MS)
            self._consumer.pause(partition)
            fetched.extend(answer.get(partition, ()))
            high = self._consumer.highwater(partition)
            if high is not None and high < end:
                raise GuaranteeError(
                    f"topic {partition.topic}, partition {number}, ends at offset {high}, but a release was made from "
                    f"events up to {end}: records are lost"
                )


@asynccontextmanager
async def open_events(servers: list[str], topic: str, begins: Sequence[int]) -> AsyncIterator[WindowedEvents]:
    """Each partition from an offset of `begins` on. Raises ServiceError if Kafka cannot be reached, GuaranteeError if
    an event is gone that is to be read.
    """
    async with open_reader(servers) as consumer:
        events = WindowedEvents(consumer, topic, begins)
        await events.start()
        yield events
