"""What ingest has counted, and who is told of it: Prometheus, the log, and tools that watch the lag in Kafka."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.metrics import Metrics
from shoal.streams.prometheus import EVENTS, KAFKA_SECONDS

_GROUP_COMMIT_S: Final = 5.0
_PROGRESS_S: Final = 10.0


class Progress:
    """The counts of one worker's ingest."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._metrics = Metrics()
        self._committed_s = self._told_s = 0.0
        self._told = 0

    def metrics(self, lag: int) -> Metrics:
        """The counts, with the records that are still to be taken."""
        self._metrics.lag = lag
        return self._metrics

    def count(self, partition: int, accepted: int, rejected: int) -> None:
        """Count a batch that Redis has."""
        self._metrics.accepted += accepted
        self._metrics.rejected += rejected
        EVENTS.labels(partition, "accepted").inc(accepted)
        EVENTS.labels(partition, "rejected").inc(rejected)

    async def commit(self, consumer: AIOKafkaConsumer, offsets: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Tell the consumer group how far this worker is, now and then. Nothing depends on it."""
        now = time.monotonic()
        if now - self._committed_s <= _GROUP_COMMIT_S:
            return
        self._committed_s = now
        only_for_tools = contextlib.suppress(KafkaError, asyncio.TimeoutError)  # those that watch the lag
        with only_for_tools, KAFKA_SECONDS.labels("group-commit").time():
            await asyncio.wait_for(consumer.commit(dict(offsets())), 3.0)

    def tell(self, metrics: Callable[[], Metrics]) -> None:
        """Log the counts, now and then, if there is news."""
        now, seen = time.monotonic(), self._metrics.accepted + self._metrics.rejected
        if now - self._told_s > _PROGRESS_S and seen != self._told:
            self._told_s, self._told = now, seen
            self._log.info("ingest.progress", **metrics().as_dict())
