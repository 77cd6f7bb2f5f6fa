"""Where every task of a worker waits, written to a file when the worker is sent SIGUSR2: for a wait that does not end.

Only a worker that was forked for a test listens; a thread's stack says nothing about an event loop's tasks.
"""

import asyncio
import contextlib
import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_FRAMES = 40
_OURS = f"{os.sep}shoal{os.sep}"
_ANSWER_S = 5.0


def stacks_of(log: Path) -> Path:
    """Where a worker with this log writes them."""
    return log.with_suffix(".stacks")


def listen(path: Path) -> None:
    """Write the tasks of this process to `path` whenever it is sent SIGUSR2."""

    def write(_number: int, _frame: Any) -> None:
        tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task) and not one.done()]
        texts = ["\n".join(_frames(task.get_coro())) for task in tasks]
        new = path.with_suffix(".new")
        new.write_text("\n\n".join(sorted(text for text in texts if _OURS in text)) + "\n")
        new.replace(path)

    signal.signal(signal.SIGUSR2, write)


def ask(pid: int, path: Path) -> str:
    """The stacks of a worker that listens, as of now; says so if it does not answer."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR2)
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        if path.exists():
            return path.read_text()
        time.sleep(0.05)
    return "its tasks are not known: it is suspended, or its event loop does not run"


def _frames(waiting: Any) -> Iterator[str]:
    """From the coroutine of a task inwards, each line a place."""
    for _ in range(_MOST_FRAMES):
        frame = next((found for name in ("cr", "gi", "ag") if (found := getattr(waiting, f"{name}_frame", None))), None)
        if frame is None:
            return
        yield f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
        within = ("cr_await", "gi_yieldfrom", "ag_await")
        waiting = next((found for name in within if (found := getattr(waiting, name, None)) is not None), None)
