"""Commands by fork: a process that has imported everything once, and from which each `shoal` of a test is forked.

A worker, or a rebuild, as a program of its own spends a second and a half of a core on imports, and the tests start
many hundreds. What is forked here is the same code, in a process of its own with its own environment and output, and
can be killed, paused and waited for like any other. Its hashes of strings are those of every other fork; the judge's
and a replay's, in the process of the tests, are others.

`NURSERY` is the tests' side. The other side, `python -m tests.support.services.nursery`, reads a request a line and
answers with pids, and later with exit codes. It has one thread, forks and waits. It reaps nobody, so no pid becomes
another process's.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.support.root import ROOT
from tests.support.services.stacks import listen, stacks_of

# What commands import late, imported early: modules of shoal.streams, and of the libraries.
_LATE = (
    "worker.app", "worker.rebuild", "worker.upgrade", "worker.doctor", "worker.inspect", "worker.rekey",
    "cli.worker", "snapshot.restore", "source.app", "sink", "sink.sinks", "files.produce",
)  # fmt: skip
_LATE_OF_OTHERS = (
    "faust.app.router", "faust.assignor.leader_assignor", "faust.fixups.django", "faust.tables.manager", "faust.topics",
    "faust.transport.conductor", "faust.transport.drivers.aiokafka", "faust.web.drivers.aiohttp", "faust.worker",
    "psycopg",
)  # fmt: skip


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
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            return self._ended[self.pid]

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Starts when it is first asked for a process, and ends with this one."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._asking = threading.Lock()
        self._begun: list[int] = []
        self._ended: dict[int, int] = {}
        self._server: subprocess.Popen[str] | None = None

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path | None = None
    ) -> Forked:
        """A process, as by `shoal WORDS`; what it says goes to `output`, its standard error perhaps to `errors`."""
        files = {"output": str(output), "errors": str(errors or output)}
        request = {"words": list(words), "environment": dict(environment), **files}
        with self._asking:
            if self._server is None:
                self._server = self._open()
            assert self._server.stdin is not None
            before = len(self._begun)
            print(json.dumps(request), file=self._server.stdin, flush=True)
            with self._news:
                assert self._news.wait_for(lambda: len(self._begun) > before, 120), "the nursery does not answer"
                return Forked(self._begun[-1], self._ended, self._news)

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], within_s: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end, as subprocess.run does. Raises TimeoutExpired when it was killed for its time."""
        with tempfile.TemporaryDirectory() as folder:
            output, errors = Path(folder, "output"), Path(folder, "errors")
            process = self.start(words, environment, output, errors)
            try:
                code = process.wait(within_s)
            except BaseException:
                process.kill()
                process.wait()
                raise
            return subprocess.CompletedProcess(list(words), code, output.read_text(), errors.read_text())

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


NURSERY = Nursery()


def main() -> None:
    """The other side. When its standard input ends, its owner is gone, and so is whatever is still running."""
    for late in (*(f"shoal.streams.{name}" for name in _LATE), *_LATE_OF_OTHERS):
        importlib.import_module(late)
    inspect.getmodule(
        main.__code__
    )  # Faust asks where its agents are defined, and the first answer looks at every module
    gc.collect()
    gc.freeze()  # or a fork that looks for garbage makes a copy of everything
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a byte comes to `awake`
    children: set[int] = set()
    unread = b""
    while True:
        readable, _, _ = select.select([0, awake], [], [])
        if awake in readable:
            os.read(awake, 1 << 16)
        if 0 in readable:
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
        os.close(signal.set_wakeup_fd(-1))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code = _work(**request)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _work(words: list[str], environment: dict[str, str], output: str, errors: str) -> int:
    """In the fork: become a command."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said, complained = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in (output, errors))
    for target, source in ((0, nothing), (1, said), (2, complained)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environment)
    from shoal.streams import faults
    from shoal.streams.cli import main as shoal

    importlib.reload(faults)  # it reads its environment once
    listen(stacks_of(Path(output)))
    return shoal(words)


if __name__ == "__main__":
    main()
