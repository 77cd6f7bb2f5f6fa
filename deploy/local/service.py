"""One server process on the loopback interface: started, stopped, killed, frozen, and started again where it was.

Fault tests need the last three: `kill()` is kill -9, `pause()` leaves connections open and answers nothing, and
`restart()` brings the service back on the same port with what reached its disk.
"""

import contextlib
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from deploy.local import watchdog
from deploy.local.ports import answers, free_port

_POLL_S = 0.05


class Unavailable(Exception):
    """The service cannot run on this machine; the message says what is missing and what to do."""


class Service(ABC):
    """A server whose data and log live in one folder. Not for use from two threads at once."""

    name: ClassVar[str]
    ready_within_s: ClassVar[float] = 60.0

    def __init__(self, folder: Path, port: int | None = None, *, watched: bool = True) -> None:
        """Nothing is started yet. A watched service ends with this process; another one outlives it."""
        self.folder = folder
        self.port = port if port is not None else free_port()
        self.started_in_s = 0.0
        self._watched = watched
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """What a client is given to connect."""

    @abstractmethod
    def prepare(self) -> list[str]:
        """Make the folder ready, whether new or used, and return the command to run. Raises Unavailable."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether a client's requests are served; asked only once the port accepts connections."""

    @property
    def log_path(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until it serves requests. Raises Unavailable, with where its log is, if it does not."""
        if self.is_running:
            raise RuntimeError(f"{self.name} is running already")
        self._reap()
        began = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self.prepare()
        with self.log_path.open("ab") as log:
            # Its own session: Ctrl-C in a terminal must reach the tests first, which then stop their services.
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if self._watched:
            watchdog.watch(self._process.pid)
        self._await_ready(time.monotonic() + self.ready_within_s)  # preparing may have downloaded something
        self.started_in_s = time.monotonic() - began
        return self

    def stop(self, within_s: float = 15.0) -> None:
        """Ask it to end, and make it end if it does not. Harmless when it does not run."""
        if self.is_running:
            self.resume()
            self._signal(signal.SIGTERM)
            try:
                self._reap(within_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """kill -9: no connection is closed and nothing is flushed. Returns once the process is gone."""
        self._signal(signal.SIGKILL)
        self._reap()

    def restart(self) -> Self:
        """Start again on the same port and data, after `kill()` or `stop()`; a running service is stopped first."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, and no request is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause()`."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await_ready(self, deadline: float) -> None:
        while not (answers(self.port) and self.is_running and self.is_ready()):
            if not self.is_running or time.monotonic() > deadline:
                said = "ended at once" if not self.is_running else f"did not answer within {self.ready_within_s:.0f} s"
                self.stop(within_s=1)
                raise Unavailable(f"{self.name} {said}; its log is {self.log_path}, ending:\n{self._end_of_log()}")
            time.sleep(_POLL_S)

    def _end_of_log(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-12:])
        return "(there is no log)"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _reap(self, within_s: float | None = None) -> None:
        if self._process is not None:
            self._process.wait(within_s)
            if self._watched:
                watchdog.forget(self._process.pid)
            self._process = None
