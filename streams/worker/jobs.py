"""`shoal worker --jobs J`: J workers, each a separate process, under a parent that starts them and ends with them.

The parent does no work. It passes on Ctrl-C and SIGTERM. When a worker ends for any reason, the parent ends the others
and then itself, with the exit code of the first. So its container fails and is started again, like one with a single
worker. A worker whose parent is gone for any reason ends in good order.

Each job has its own port, from SHOAL_WEB_PORT upwards, and its own instance.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

from shoal.streams.errors import InputError
from shoal.streams.settings import Settings

_LOOK_S: Final = 0.1
_STOP_S: Final = 25.0  # longer than a worker takes at most
_LAST_PORT: Final = 65_535


def run_jobs(arguments: Sequence[str], jobs: int) -> int:
    """Run this many workers with these arguments until a signal comes or one of them ends; returns the exit code."""
    ending: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ending.append(number)

    former = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    workers: list[subprocess.Popen[bytes]] = []
    try:
        workers.extend(_start(arguments, job) for job in range(jobs))
        while not ending and all(worker.poll() is None for worker in workers):
            time.sleep(_LOOK_S)
        codes = [code for worker in workers if (code := worker.poll()) is not None]
    finally:
        _stop(workers)
        for number, handler in former.items():
            signal.signal(number, handler)
    codes += [worker.returncode for worker in workers]
    return next((_exit_code(code) for code in codes if code), 0)


def of_job(settings: Settings, job: int) -> Settings:
    """The settings of one of the jobs. Raises InputError if there is no port for it."""
    port = settings.web_port + job if settings.web_port else 0
    if port > _LAST_PORT:
        raise InputError(f"there is no port {port} for job {job}: lower SHOAL_WEB_PORT or --jobs")
    instance = settings.instance and f"{settings.instance}-{job}"
    return settings.model_copy(update={"web_port": port, "instance": instance})


def end_with_parent() -> None:
    """End in good order when the process at the other end of standard input is gone."""

    def watch() -> None:
        while os.read(0, 1):  # not by `sys.stdin`, whose lock Python wants at its end
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="shoal-parent", daemon=True).start()


def _start(arguments: Sequence[str], job: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "shoal.streams.cli", *arguments, "--job", str(job)]
    # A separate session: Ctrl-C reaches only the parent, which passes it on once.
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _stop(workers: Sequence[subprocess.Popen[Any]]) -> None:
    """End all workers, in good order if possible."""
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    deadline = time.monotonic() + _STOP_S
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _exit_code(code: int) -> int:
    """As a shell reports it: 128 plus the signal if one ended the process."""
    return code if code >= 0 else 128 - code
