"""Snapshots: how long `shoal snapshot` and `shoal restore` take on a real Kafka and Redis, and what a person costs."""

import resource
import subprocess
import sys
import time
from pathlib import Path

from deploy.local import Local, Unavailable, local_services
from tests.bench.figures import Figures, say
from tests.bench.load import People, send_events
from tests.bench.service import make_topics
from tests.bench.worker import Worker, running_worker


def measure(*, quick: bool = False) -> Figures:
    """Both models, or the reason why nothing."""
    people = 20_000 if quick else 1_000_000
    try:
        with local_services() as local:
            return {"tables": [kept(local, people, values) for values in ("lasting", "redrawn")]}
    except Unavailable as reason:
        return {"skipped": str(reason)}


def kept(local: Local, people: int, values: str) -> Figures:
    """A table of one release: written to a file beside its worker, and brought back into an empty Redis."""
    table = f"bench-kept-{values}-{people}"
    make_topics(local, table)
    say(f"snapshots: sending {people:,} people to a {values} table")
    sent = send_events(local.kafka.address, table, People(seed=people).inserts(people))
    with running_worker(local, table, values) as worker:
        worker.until_committed(sent)
        worker.release(1)
        worker.until_applied(1)
        path = worker.log.with_name("kept")
        say(f"snapshots: {people:,} people to a file and back")
        taken = _run(worker, "snapshot", path)
        worker.process.terminate()
        worker.process.wait()
        worker.store.flushall()
        restored = _run(worker, "restore", path)
        size = path.stat().st_size
    found: Figures = {"people": people, "values": values, "taken": taken, "restored": restored}
    return found | {"bytes": size, "bytes_per_person": size / people}


def _run(worker: Worker, command: str, path: Path) -> Figures:
    begun, core = time.perf_counter(), _core_s()
    subprocess.run(
        [sys.executable, "-m", "shoal.streams.cli", command, str(path)],
        env=worker.environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return {"wall_s": time.perf_counter() - begun, "core_s": _core_s() - core}


def _core_s() -> float:
    """Seconds of a core that processes have used which were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
