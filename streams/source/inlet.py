"""Reads the topics of the captured tables, committed records only, in the order of each partition.

A topic appears with its first row, and may be given more partitions later: both are looked for while it runs.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from shoal.streams.errors import GuaranteeError
from shoal.streams.kafka.topics import partition_counts

_POLL_MS = 200
_LOOK_S = 60.0
_LOOK_FOR_MISSING_S = 3.0


class Inlet:
    """The records after a place. `take` hands them out; what was taken back comes again."""

    def __init__(self, consumer: AIOKafkaConsumer, servers: list[str], topics: Iterable[str]) -> None:
        self._consumer, self._servers, self._topics = consumer, servers, tuple(topics)
        self._queue: deque[tuple[TopicPartition, Any]] = deque()
        self._next_look = 0.0

    async def open(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Begin after a place; a partition that the place does not have is read from its beginning."""
        self._queue.clear()
        await self._assign(offsets)

    @property
    def partitions(self) -> int:
        """How many partitions are read."""
        return len(self._consumer.assignment())

    async def take(self, limit: int) -> list[tuple[TopicPartition, Any]]:
        """Up to so many records; none if there are none now. Raises KafkaError, GuaranteeError."""
        await self.look()
        if not self._queue and self._consumer.assignment():
            try:
                answer = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=limit)
            except OffsetOutOfRangeError:
                raise GuaranteeError(
                    "the topic of a captured table no longer has the records that come next: take a new "
                    "snapshot with Debezium, and start the source with --anew"
                ) from None
            for partition, records in answer.items():
                self._queue.extend((partition, record) for record in records)
        elif not self._queue:
            await asyncio.sleep(_POLL_MS / 1000)
        return [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]

    def take_back(self, records: list[tuple[TopicPartition, Any]]) -> None:
        """Have these come first the next time."""
        self._queue.extendleft(reversed(records))

    async def ends(self, topic: str) -> dict[TopicPartition, int]:
        """Where each partition of a topic ends now."""
        partitions = [one for one in self._consumer.assignment() if one.topic == topic]
        return dict(await self._consumer.end_offsets(partitions)) if partitions else {}

    async def begins_at_zero(self, topic: str) -> bool:
        """Whether a topic has its first records, as far as offsets say."""
        partitions = [one for one in self._consumer.assignment() if one.topic == topic]
        begins = await self._consumer.beginning_offsets(partitions) if partitions else {}
        return not any(begins.values())

    async def positions(self) -> dict[TopicPartition, int]:
        """Where reading goes on, if everything that was read has been taken."""
        if self._queue:
            return {}
        return {one: await self._consumer.position(one) for one in self._consumer.assignment()}

    def lag(self, offsets: Mapping[TopicPartition, int]) -> int:
        """How many records there are after a place, as far as the last answers of the brokers say."""
        ends = {one: self._consumer.highwater(one) for one in self._consumer.assignment()}
        return sum(max(0, end - offsets.get(one, 0)) for one, end in ends.items() if end is not None)

    async def is_at_end(self) -> bool:
        """Whether everything that is there now was taken."""
        if self._queue:
            return False
        ends = await self._consumer.end_offsets(list(self._consumer.assignment()))
        return all([await self._consumer.position(partition) >= end for partition, end in ends.items()])

    async def look(self) -> None:
        """See to topics and partitions that are new, now and then."""
        now = asyncio.get_running_loop().time()
        if now >= self._next_look:
            await self._assign({one: await self._consumer.position(one) for one in self._consumer.assignment()})
            found = {partition.topic for partition in self._consumer.assignment()}
            self._next_look = now + (_LOOK_S if found.issuperset(self._topics) else _LOOK_FOR_MISSING_S)

    async def _assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        counts = await partition_counts(self._servers)
        wanted = {TopicPartition(topic, number) for topic in self._topics for number in range(counts.get(topic, 0))}
        if not wanted or wanted == self._consumer.assignment():
            return
        fresh = wanted - offsets.keys()
        self._consumer.assign(sorted(wanted))
        begins = await self._consumer.beginning_offsets(sorted(fresh)) if fresh else {}
        for partition in wanted:
            self._consumer.seek(partition, begins[partition] if partition in fresh else offsets[partition])
