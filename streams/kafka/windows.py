"""The events topic read forward in windows, as a rebuild needs it: each partition up to where a window ended."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.partition_reader import open_reader

_POLL_MS = 200


class WindowedEvents:
    """The events topic, read forward in windows."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, partitions: int) -> None:
        self._consumer = consumer
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._fetched: list[deque[Any]] = [deque() for _ in range(partitions)]  # not asked for yet

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
                    f"topic {partition.topic}, partition {number}, ends at offset {high}, and a release was made of "
                    f"events up to {end}: records are lost"
                )


@asynccontextmanager
async def open_events(servers: list[str], topic: str, partitions: int) -> AsyncIterator[WindowedEvents]:
    """Raises ServiceError if Kafka cannot be reached, GuaranteeError if the beginning of the topic is gone."""
    async with open_reader(servers) as consumer:
        events = WindowedEvents(consumer, topic, partitions)
        await events.start()
        yield events
