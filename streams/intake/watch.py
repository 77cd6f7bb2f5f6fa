"""The progress of ingest, for `/ready` and `/metrics`: it is stuck if a rebalance does not end.

Ingest says when something moved; nothing is decided from it. What is stuck shows by the clock alone: partitions that
are not loaded for far longer than a rebalance takes, a batch that Redis has not taken for a minute, a Kafka that
answers no fetch, though each waits a tenth of a second at most. A Redis without room says so itself, at once.
"""

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

BATCH_S: Final = 60.0
SILENCE_S: Final = 30.0
_MORE_S: Final = 60.0


class Course(StrEnum):
    """How ingest is getting on."""

    STARTING = "starting"
    RUNNING = "running"
    REBALANCING = "rebalancing"
    STUCK = "stuck"
    SILENT = "silent"


class Place(NamedTuple):
    """One loaded partition as of now."""

    lag: int
    """Records still to be taken."""
    window: int
    """People in the open window."""
    letters_s: float
    """For how long it has had rejects that are not dead letters; 0 if it has none."""
    silence_s: float | None
    """Seconds since Kafka answered a fetch; None before the first answer."""


class Heard(NamedTuple):
    """What a consumer knows of a partition."""

    lag: int
    silence_s: float | None


def hear(consumer: AIOKafkaConsumer | None, partition: TopicPartition, offset: int) -> Heard:
    """How far a partition goes beyond `offset`, by Kafka's last answer, and how long ago that was."""
    if consumer is None or partition not in consumer.assignment():
        return Heard(0, None)
    high, heard_ms = consumer.highwater(partition), consumer.last_poll_timestamp(partition)
    return Heard(max(0, (high or 0) - offset), None if heard_ms is None else max(0.0, time.time() - heard_ms / 1000))


class Watch:
    """When ingest last moved, by the monotonic clock."""

    def __init__(self, session_s: float) -> None:
        self._rebalance_s = 2 * max(session_s, 10.0) + _MORE_S
        self._moved = time.monotonic()
        self._departed: dict[int, float] = {}
        self._has_run = self._is_running = False
        self.trouble: str | None = None
        """What an operator has to do before Redis takes a write again."""

    def run(self) -> None:
        """Every assigned partition is loaded."""
        self._has_run = self._is_running = True

    def lose(self) -> None:
        """Partitions were taken away, or Kafka was. Losing them again before ingest ran is no news."""
        if self._is_running:
            self._is_running, self._moved = False, time.monotonic()

    def move(self) -> None:
        """One more of the assigned partitions is loaded, or a batch is committed: Redis takes writes."""
        self._moved, self.trouble = time.monotonic(), None

    def refuse(self, trouble: str | None) -> None:
        """Redis did not take a write. Only what an operator has to end is trouble."""
        self.trouble = trouble or self.trouble

    def depart(self, number: int) -> None:
        """A batch of this partition is on its way to Redis."""
        self._departed[number] = time.monotonic()

    def land(self, number: int) -> None:
        self._departed.pop(number, None)

    def course(self, places: Iterable[Place], *, is_loaded: bool) -> Course:
        """How ingest is getting on, by its places and whether every assigned partition is loaded."""
        now = time.monotonic()
        if self.trouble is not None:
            return Course.STUCK
        if not is_loaded:
            if now - self._moved > self._rebalance_s:
                return Course.STUCK
            return Course.REBALANCING if self._has_run else Course.STARTING
        if any(now - departed > BATCH_S for departed in self._departed.values()):
            return Course.STUCK
        if any(place.silence_s is not None and place.silence_s > SILENCE_S for place in places):
            return Course.SILENT
        return Course.RUNNING
