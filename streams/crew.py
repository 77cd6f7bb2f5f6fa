"""Ingest in processes of its own, so that it has more than one processor and planning does not hold it up.

Python runs one thread at a time. A release of a million people takes many seconds to plan, and an event some
microseconds to fold; in one process each would slow the other down. The worker starts the processes, passes on what
they say, stops them with itself, and ends when one of them ends: there is no half-working worker.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol

from mode import Service

from streams.errors import GUARANTEE, INPUT, GuaranteeError, InputError, ServiceError, StreamsError
from streams.log import get_log
from streams.settings import PREFIX, Settings
from streams.store import LostError

_STOP_S = 10.0
_MOST = 4
_KINDS: dict[int, type[StreamsError]] = {GUARANTEE: GuaranteeError, INPUT: InputError}


class Progress(Protocol):
    """What the web views ask of ingest, wherever it runs."""

    accepted: int
    rejected: int

    @property
    def held(self) -> list[int]: ...
    @property
    def is_settled(self) -> bool: ...
    def lag(self) -> int: ...


def processes_for(settings: Settings, partitions: int) -> int:
    """How many processes ingest gets; 0 means the worker's own. One a processor, and not more than are of use."""
    if settings.ingest_processes is not None:
        return min(settings.ingest_processes, partitions)
    return 0 if settings.embedded else min(os.cpu_count() or 1, partitions, _MOST)


class Crew(Service):
    """The processes, as one service."""

    def __init__(
        self, settings: Settings, table: str, partitions: int, count: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._partitions, self._count, self._fail = settings, partitions, count, fail
        self._processes: list[asyncio.subprocess.Process] = []
        self._said: dict[int, dict[str, Any]] = {}
        self._log = get_log(table=table)

    @property
    def held(self) -> list[int]:
        return sorted(number for said in self._said.values() for number in said["held"])

    @property
    def is_settled(self) -> bool:
        return len(self._said) == self._count and all(said["is_settled"] for said in self._said.values())

    @property
    def accepted(self) -> int:
        return sum(said["accepted"] for said in self._said.values())

    @property
    def rejected(self) -> int:
        return sum(said["rejected"] for said in self._said.values())

    def lag(self) -> int:
        return sum(said["lag"] for said in self._said.values())

    @Service.task
    async def _watch(self) -> None:
        try:
            for _ in range(self._count):
                self._processes.append(await self._start_one())
            await asyncio.gather(*(self._follow(process) for process in self._processes))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the worker must end, not go on without ingest
            self._fail(error)

    async def on_stop(self) -> None:
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                try:
                    await asyncio.wait_for(process.wait(), _STOP_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()

    async def _start_one(self) -> asyncio.subprocess.Process:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        if crash_at := os.environ.get("SHOAL_CRASH_AT"):
            inherited["SHOAL_CRASH_AT"] = crash_at
        environ = inherited | self._settings.environ(without=("key",))  # it plans nothing, so it needs no secret
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "streams.ingestor", str(self._partitions), env=environ,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        failure: dict[str, Any] | None = None
        async for line in process.stdout:
            said = json.loads(line)
            failure = said.get("failed", failure)
            if "held" in said:
                self._said[process.pid] = said
        code = await process.wait()
        if self.should_stop:
            return
        if code == -signal.SIGKILL and os.environ.get("SHOAL_CRASH_AT"):
            os.kill(os.getpid(), signal.SIGKILL)  # the crash point is the worker's, wherever it lies
        raise _error_of(failure, code)


def _error_of(failure: dict[str, Any] | None, code: int) -> BaseException:
    if failure is None:
        return GuaranteeError(f"an ingest process ended unasked (exit code {code}); start the worker again")
    if "code" in failure:
        return _KINDS.get(failure["code"], ServiceError)(failure["message"])
    if failure["lost"]:
        return LostError()
    return GuaranteeError(f"something inside ingest went wrong ({failure['kind']}); start the worker again")
