"""The page that a worker serves: what it costs ingest when people look at it, and how soon they get an answer.

One worker of a table that has a release takes the same number of events in turn with nobody and with visitors at the
page. A visitor does what a browser does: it loads the page, its style and its script, and then asks for `/now` every
three seconds; one of them looks into the release, too. The events are sent while the worker is stopped, so that the
sender takes nothing from it.
"""

import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final

from deploy.local import Local, Unavailable, local_services
from deploy.local.ports import free_port
from shoal.streams.report.page import SCRIPT, STYLE
from tests.bench.figures import Figures, say
from tests.bench.load import People, send_events
from tests.bench.service import core_us, make_topics, rate
from tests.bench.worker import Worker, running_worker

_VISITORS: Final = 10
_REFRESH_S: Final = 3.0  # as the page's script does
_LOAD: Final = ("/", f"/{STYLE}", f"/{SCRIPT}")


def measure(*, quick: bool = False) -> Figures:
    """Three rounds of each, or the reason why nothing."""
    events, people = (50_000, 5_000) if quick else (400_000, 50_000)
    try:
        with local_services() as local:
            return _compare(local, events, people)
    except Unavailable as reason:
        return {"skipped": str(reason)}


def _compare(local: Local, events: int, people: int) -> Figures:
    table, port, crowd = "bench-page", free_port(), People()
    make_topics(local, table)
    sent = send_events(local.kafka.address, table, crowd.inserts(people))
    alone: list[Figures] = []
    visited: list[Figures] = []
    answers: list[float] = []
    with running_worker(local, table, WEB_PORT=str(port), SESSION_S="120") as worker:
        worker.until_committed(sent)
        worker.release(1)
        worker.until_applied(1)
        for turn in range(3):
            say(f"page: round {turn + 1}")
            sent += _send_to_stopped(local, worker, crowd, events)
            alone.append(worker.until_committed(sent))
            sent += _send_to_stopped(local, worker, crowd, events)
            with visitors(f"http://127.0.0.1:{port}", answers):
                visited.append(worker.until_committed(sent))
    return {
        "events": events,
        "visitors": _VISITORS,
        "alone_per_s": median(map(rate, alone)),
        "visited_per_s": median(map(rate, visited)),
        "alone_core_us": median(map(core_us, alone)),
        "visited_core_us": median(map(core_us, visited)),
        "of_alone": median(rate(with_them) / rate(without) for with_them, without in zip(visited, alone, strict=True)),
        "answers": len(answers),
        "answer_ms": 1000 * median(answers),
        "slowest_ms": 1000 * max(answers),
    }


def _send_to_stopped(local: Local, worker: Worker, crowd: People, events: int) -> int:
    """Send events while the worker stands still, and let it go on."""
    worker.process.send_signal(signal.SIGSTOP)
    try:
        return send_events(local.kafka.address, worker.table, crowd.inserts(events))
    finally:
        worker.process.send_signal(signal.SIGCONT)


@contextmanager
def visitors(address: str, answers: list[float]) -> Iterator[None]:
    """People at the page until the block ends; `answers` gets the seconds that each of their requests took."""
    gone = threading.Event()

    def visit(number: int) -> None:
        asked = [*_LOAD, "/releases/1.json"] if number == 0 else [*_LOAD]
        while not gone.is_set():
            answers.extend(_ask(address + path) for path in asked)
            asked = ["/now"]
            gone.wait(_REFRESH_S)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(_VISITORS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        gone.set()
        for thread in threads:
            thread.join()


def _ask(address: str) -> float:
    begun = time.perf_counter()
    with urllib.request.urlopen(address, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - begun
