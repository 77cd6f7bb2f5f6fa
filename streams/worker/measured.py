"""Figures of the last releases that can only be computed from their records, and only while somebody has the page open.

A separate program measures them at low priority, the newest first, several small releases at a time.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiokafka.errors import KafkaError

from shoal.core.policy.policy import Policy
from shoal.streams.errors import StreamsError
from shoal.streams.kafka.history import History
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.report.figures import Unread
from shoal.streams.report.metrics.metric import Figures

_MOST: Final = 30  # releases, the newest
_BYTES_AT_ONCE: Final = 32 << 20
_INTEREST_S: Final = 60.0  # after the page was last asked for
_FIRST_S: Final = 2.0  # that the first visitor waits

Run = Callable[[str, object], Awaitable[bytes]]
"""Runs a program of Shoal's with something pickled on its standard input; its standard output. Raises StreamsError."""


class Measured:
    """By number, the figures of the releases that were measured. One measurement runs at a time."""

    def __init__(self, policy: Policy, history: History, run: Run) -> None:
        self._policy, self._history, self._run = policy, history, run
        self._figures: dict[int, Figures] = {}
        self._known: Sequence[ManifestRecord] = ()
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def figures(self, known: Sequence[ManifestRecord]) -> dict[int, Figures]:
        """What is measured by now of these releases; what is not will be."""
        self._known, self._asked_at = known, time.monotonic()
        if self._next() and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._measure())
            if not self._figures:
                await asyncio.wait({self._task}, timeout=_FIRST_S)
        return self._figures

    def _next(self) -> list[ManifestRecord]:
        return [release for release in reversed(self._known[-_MOST:]) if release.number not in self._figures]

    async def _measure(self) -> None:
        while (wanted := self._next()) and time.monotonic() - self._asked_at < _INTEREST_S:
            taken: list[Unread] = []
            size = 0
            try:
                for release in wanted:
                    records = await self._history.records(release.number)
                    taken.append((release.head.told, records))
                    size += sum(map(len, records))
                    if size > _BYTES_AT_ONCE:
                        break
                made = json.loads(await self._run("shoal.streams.report.figures", (self._policy, taken)))
            except (StreamsError, KafkaError):
                return  # the next visitor has it tried again
            self._figures |= {int(number): figures for number, figures in made.items()}
            for number in sorted(self._figures)[:-_MOST]:
                del self._figures[number]
