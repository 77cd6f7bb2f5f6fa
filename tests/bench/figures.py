"""Figures and how they are taken: medians, seconds of a core, memory of a process, and the machine they come from."""

import contextlib
import multiprocessing
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

Figures = dict[str, Any]
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Took:
    """What something gave, and its seconds on the wall's clock and on a core. The second is the one to compare."""

    result: Any
    wall_s: float
    core_s: float


def timed(work: Callable[[], Any]) -> Took:
    wall, core = time.perf_counter(), time.process_time()
    result = work()
    return Took(result, time.perf_counter() - wall, time.process_time() - core)


def median_of(work: Callable[[], Any], runs: int) -> Took:
    """The last result and the medians of both clocks. One run before the first is not counted if it is short."""
    warm = timed(work)
    taken = [timed(work) for _ in range(runs)] if warm.wall_s < 1 else [warm, *(timed(work) for _ in range(runs - 1))]
    return Took(taken[-1].result, median(took.wall_s for took in taken), median(took.core_s for took in taken))


def apart(work: Callable[..., Figures], *arguments: object) -> Figures:
    """Run `work` in a process of its own, so that its peak memory is its own; adds `peak_mib`."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_apart, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        found: Figures = receiver.recv()
    except EOFError:
        raise RuntimeError(f"{work.__name__} ended without a result") from None
    finally:
        process.join()
    return found


def _run_apart(sender: Any, work: Callable[..., Figures], arguments: Sequence[object]) -> None:
    found = work(*arguments)
    sender.send({**found, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024})


def core_seconds(pid: int) -> float:
    """The seconds of a core that a process has used, with its threads and all processes under it."""
    return sum(_core_seconds(each) for each in _family(pid))


def memory_mib(pid: int) -> Figures:
    """What a process and those under it hold now, and held at most (each at its own moment)."""
    found = {"VmRSS": 0.0, "VmHWM": 0.0}
    for each in _family(pid):
        for line in Path(f"/proc/{each}/status").read_text(encoding="ascii").splitlines():
            name, _, rest = line.partition(":")
            if name in found:
                found[name] += int(rest.split()[0]) / 1024
    return {"now_mib": found["VmRSS"], "peak_mib": found["VmHWM"]}


def _core_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _family(pid: int) -> list[int]:
    found = [pid]
    for process in found:  # grows while it is read: children of children follow
        for thread in list(Path(f"/proc/{process}/task").iterdir()):
            with contextlib.suppress(OSError):  # a thread may have ended meanwhile
                found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


@contextlib.contextmanager
def watched(look: Callable[[], int], every_s: float) -> Iterator[list[int]]:
    """What `look` finds at the beginning of the block and, while it runs, every so often."""
    seen, over = [look()], threading.Event()

    def go_on() -> None:
        while not over.wait(every_s):
            seen.append(look())

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def mib(size: float) -> float:
    return size / _MIB


def machine() -> Figures:
    """Where and when, and how busy the machine is with other things."""
    cpus = Path("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in cpus.read_text().splitlines() if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def rounded(value: Any) -> Any:
    """Figures short enough to read."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value
