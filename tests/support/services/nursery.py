"""Workers by fork: a process that has imported everything once, and from which each worker of a test is forked.

A worker as a command of its own spends a second and a half of a core on imports, and the tests start more than a
hundred. What is forked here is the same code, in a process of its own with its own environment and log, and can be
killed, paused and waited for like any other.

`Nursery` is the tests' side. The other side, `python -m tests.support.services.nursery`, reads a request a line and
answers with pids, and later with exit codes. It has one thread, forks and waits. It reaps nobody, so no pid becomes
another process's.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support.root import ROOT
from tests.support.services.stacks import listen, stacks_of

_LOOK_S = 0.02


class Process(Protocol):
    """What tests need of a process, forked or not."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...
    def send_signal(self, sig: int) -> None: ...


class Forked:
    """A process that was forked in the nursery, with the methods of subprocess.Popen."""

    def __init__(self, pid: int, ended: Mapping[int, int], news: threading.Condition) -> None:
        self.pid, self._ended, self._news = pid, ended, news

    def poll(self) -> int | None:
        with self._news:
            return self._ended.get(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        with self._news:
            if not self._news.wait_for(lambda: self.pid in self._ended, timeout):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            return self._ended[self.pid]

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Starts when it is first asked for a worker, and ends with this process."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._asking = threading.Lock()
        self._begun: list[int] = []
        self._ended: dict[int, int] = {}
        self._server: subprocess.Popen[str] | None = None

    def start(self, options: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        """A worker, as by `shoal worker OPTIONS`; what it says goes to `log`."""
        request = {"options": list(options), "environment": dict(environment), "log": str(log)}
        with self._asking:
            if self._server is None:
                self._server = self._open()
            assert self._server.stdin is not None
            before = len(self._begun)
            print(json.dumps(request), file=self._server.stdin, flush=True)
            with self._news:
                assert self._news.wait_for(lambda: len(self._begun) > before, 120), "the nursery does not answer"
                return Forked(self._begun[-1], self._ended, self._news)

    def _open(self) -> "subprocess.Popen[str]":
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.services.nursery"],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._listen, args=(server,), daemon=True).start()
        return server

    def _listen(self, server: "subprocess.Popen[str]") -> None:
        assert server.stdout is not None
        for line in server.stdout:
            news = json.loads(line)
            with self._news:
                if "code" in news:
                    self._ended[news["pid"]] = news["code"]
                else:
                    self._begun.append(news["pid"])
                self._news.notify_all()


def main() -> None:
    """The other side. When its standard input ends, its owner is gone, and so is whatever is still running."""
    for late in ("shoal.streams.worker.app", "shoal.streams.cli.worker"):
        importlib.import_module(late)  # what a worker imports late, imported early
    children: set[int] = set()
    unread = b""
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_S)
        if readable:
            read = os.read(0, 1 << 16)
            if not read:
                break
            *lines, unread = (unread + read).split(b"\n")
            for line in lines:
                children.add(_fork(json.loads(line)))
        for pid in sorted(children):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                children.remove(pid)
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                print(json.dumps({"pid": pid, "code": code}), flush=True)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _fork(request: Mapping[str, Any]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        print(json.dumps({"pid": pid}), flush=True)
        return pid
    code = 70
    try:
        code = _work(**request)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _work(options: list[str], environment: dict[str, str], log: str) -> int:
    """In the fork: become a worker."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environment)
    from shoal.streams import faults
    from shoal.streams.cli import main as shoal

    importlib.reload(faults)  # it reads its environment once
    listen(stacks_of(Path(log)))
    return shoal(["worker", *options])


if __name__ == "__main__":
    main()
