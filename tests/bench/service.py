"""The service on a real Kafka and Redis: events per second beside plain clients, seconds per release, memory.

Ingest is measured from the topic to committed state in Redis, by a real worker; what it is compared with reads the same
topic in the same run, in turn with it, so that all see the same machine.
"""

import asyncio
import json
import subprocess
import sys
from statistics import median

from deploy.local import Local, Unavailable, local_services
from shoal.streams.kafka.topics import Topics, ensure_topics
from tests.bench.figures import Figures, core_seconds, memory_mib, mib, say
from tests.bench.load import PARTITIONS, People, send_events
from tests.bench.worker import Worker, running_worker

_READERS = ("raw", "faust")


def measure(*, quick: bool = False) -> Figures:
    """Everything, or the reason why nothing."""
    try:
        with local_services() as local:
            sizes = (20_000,) if quick else (100_000, 1_000_000)
            return {
                "ingest": ingest(local, *((100_000, 15_000) if quick else (400_000, 60_000))),
                "releases": [releases(local, people, values) for values in ("lasting", "redrawn") for people in sizes],
            }
    except Unavailable as reason:
        return {"skipped": str(reason)}


def ingest(local: Local, events: int, few: int) -> Figures:
    """Events per second, three rounds of each kind; a Faust agent is given fewer events, it would take minutes."""
    table = "bench-ingest"
    make_topics(local, table)
    say(f"service: sending {events:,} events")
    send_events(local.kafka.address, table, People().inserts(events))
    taken: dict[str, list[Figures]] = {"raw": [], "faust": [], "shoal": []}
    for turn in range(3):
        for kind, count in (("raw", events), ("faust", few), ("shoal", events)):
            say(f"service: round {turn + 1}, {kind}")
            taken[kind].append(_ingest(local, table, count) if kind == "shoal" else _read(local, table, kind, count))
    found: Figures = {"events": events, "faust_events": few}
    for kind, rounds in taken.items():
        found[f"{kind}_per_s"] = median(map(rate, rounds))
        found[f"{kind}_core_us"] = median(map(core_us, rounds))
    for kind in _READERS:  # within each round, because the machine may be busier in the next
        pairs = list(zip(taken["shoal"], taken[kind], strict=True))
        found[f"of_{kind}"] = median(rate(ours) / rate(theirs) for ours, theirs in pairs)
        found[f"of_{kind}_by_core"] = median(core_us(theirs) / core_us(ours) for ours, theirs in pairs)
    found["rounds"] = taken
    return found


def releases(local: Local, people: int, values: str, rounds: int = 3) -> Figures:
    """A first release of this many people, and some after 1 % changed: seconds from trigger to committed, memory."""
    table = f"bench-{values}-{people}"
    make_topics(local, table)
    crowd = People(seed=people)
    say(f"service: sending {people:,} people to a {values} table")
    sent = send_events(local.kafka.address, table, crowd.inserts(people))
    with running_worker(local, table, values) as worker:
        empty = _redis_memory(worker)
        taken = worker.until_committed(sent)
        found: Figures = {"people": people, "values": values, "ingest_s": taken["wall_s"]}
        found["window"] = _memory(worker, empty, people)
        say(f"service: first release of {people:,} people")
        core = core_seconds(worker.pid)
        found["first_s"] = worker.release(1)
        worker.until_applied(1)
        found |= {"first_core_s": core_seconds(worker.pid) - core, "first_steps": worker.steps(1)}
        seconds, cores, steps = [], [], []
        for number in range(2, 2 + rounds):
            sent += send_events(local.kafka.address, table, crowd.changes(people // 100))
            worker.until_committed(sent)
            say(f"service: release {number} of {people:,} people, 1 % changed")
            core = core_seconds(worker.pid)
            seconds.append(worker.release(number))
            worker.until_applied(number)
            cores.append(core_seconds(worker.pid) - core)
            steps.append(worker.steps(number))
        found |= {"later_s": median(seconds), "later_core_s": median(cores), "settled": _memory(worker, empty, people)}
        found["later_steps"] = {name: median(one[name] for one in steps) for name in steps[0]}
        return found


def rate(turn: Figures) -> float:
    return float(turn["events"] / turn["wall_s"])


def core_us(turn: Figures) -> float:
    return float(1e6 * turn["core_s"] / turn["events"])


def make_topics(local: Local, table: str, shards: int = 1) -> None:
    """The topics of a table that nobody serves yet."""
    asyncio.run(ensure_topics([local.kafka.address], table, PARTITIONS, shards=shards))


def _ingest(local: Local, table: str, events: int) -> Figures:
    with running_worker(local, table) as worker:
        return worker.until_committed(events)


def _read(local: Local, table: str, kind: str, count: int) -> Figures:
    command = [sys.executable, "-m", "tests.bench.readers", kind, local.kafka.address, Topics(table).events, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=600, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def _redis_memory(worker: Worker) -> int:
    return int(worker.store.info("memory")["used_memory"])


def _memory(worker: Worker, empty: int, people: int) -> Figures:
    """The worker's resident memory, and what the table costs in Redis, without buffers of clients and scripts."""
    used = _redis_memory(worker)
    worker_mib = memory_mib(worker.pid)
    return {
        "worker_mib": worker_mib["now_mib"],
        "worker_peak_mib": worker_mib["peak_mib"],
        "redis_mib": mib(used),
        "redis_rss_mib": mib(worker.store.info("memory")["used_memory_rss"]),
        "bytes_per_person": (used - empty) / people,
    }
