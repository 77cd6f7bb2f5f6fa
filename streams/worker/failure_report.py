"""A step that fails in memory: it is reported, and the record that causes it is looked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.streams.errors import FencedError, LostError, ServiceError
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError
from shoal.streams.store.course import Course
from shoal.streams.store.release_log import DisturbedError, ReleaseLog
from shoal.streams.worker.culprit import search_window
from shoal.streams.worker.failed_step import FailedStep
from shoal.streams.worker.plan_failure import why_not
from shoal.streams.worker.vector import origin_in


class StepFailedError(Exception):
    """A shard cannot be planned, or its desk cannot gather. It was reported. Never leaves the worker."""


class FailureReport:
    """What one shard says of a step that fails, under the shard's token."""

    def __init__(
        self, settings: Settings, policy: Policy, release_log: ReleaseLog, number: int, *, is_only: bool
    ) -> None:
        self._settings, self._policy, self._release_log = settings, policy, release_log
        self._number, self._is_only = number, is_only
        self._search: asyncio.Task[None] | None = None  # for the record that stops this shard
        self._log = get_log(table=policy.table)

    @asynccontextmanager
    async def failing(self, course: Course, step: FailedStep | None) -> AsyncIterator[None]:
        """What is pure raises for everybody, so an error stops the release, and not the worker. The record that causes
        it is looked for by repeating the step.
        """
        try:
            yield
        except (DisturbedError, FencedError, LostError, RedisError, KafkaError, ServiceError):
            raise  # of Redis and Kafka, beside which the chunks are packed
        except Exception as error:
            if course.is_sealed:
                raise
            assert course.vector is not None
            is_gathered = self._is_only or self._number in course.gathered
            who, done = ("shard", "planned") if is_gathered else ("desk", "gathered")
            why = why_not(course.number, error, done)
            why = why if self._is_only else f"{who} {self._number} of {why}"
            self._log.error("shard.failed", shard=self._number, release=course.number, reason=why)
            await self._release_log.fail(course.number, course.vector, why)
            if step is not None:
                self._search = asyncio.create_task(self._name_culprit(course, why, step))
            raise StepFailedError from error

    async def _name_culprit(self, course: Course, why: str, step: FailedStep) -> None:
        """Say which record is to be left out, when that is found out. It takes some twenty plans."""
        assert course.vector is not None
        try:
            found = await search_window(self._settings, self._policy, step, origin_in(course).offsets)
            if found is not None:
                await self._release_log.fail(course.number, course.vector, f"{why}: {found.advice}")
        except (DisturbedError, FencedError, LostError, RedisError, KafkaError, ServiceError) as error:
            self._log.warning("shard.retry", shard=self._number, error=type(error).__name__)

    async def stop(self) -> None:
        """Let go of a search that is under way."""
        search, self._search = self._search, None
        if search is not None:
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
