"""Shards in the service: the same table in one shard on one worker, and in four shards on two workers.

On a real Kafka and Redis, one after the other. The workers are there before the first event, and have divided
partitions and shards between them. Seconds are those from the trigger to the manifest as a `read_committed` consumer
sees it. Ingest is measured on one worker, in turn without shards and with them.
"""

import time
from statistics import median
from typing import Any, Final

from deploy.local import Local, Unavailable, local_services
from tests.bench.figures import Figures, core_seconds, memory_mib, say
from tests.bench.load import PARTITIONS, People, send_events
from tests.bench.service import core_us, make_topics, rate
from tests.bench.worker import Worker, WorkerFailed, running_workers

SHARDS: Final = 4
WORKERS: Final = 2
_ROUNDS: Final = 5
_JOIN_S: Final = 120.0


def measure(*, quick: bool = False) -> Figures:
    """Everything, or the reason why nothing."""
    people, events = (50_000, 100_000) if quick else (1_000_000, 400_000)
    try:
        with local_services() as local:
            one, several = (releases(local, people, *case) for case in ((1, 1), (SHARDS, WORKERS)))
            return {"tables": [one, several], "ratios": _ratios(one, several), "ingest": ingest(local, events)}
    except Unavailable as reason:
        return {"skipped": str(reason)}


def releases(local: Local, people: int, shards: int, count: int) -> Figures:
    """A first release, and some after 1 % changed."""
    table, crowd = f"bench-{people}-{shards}", People(seed=people)
    make_topics(local, table, shards)
    with running_workers(local, table, count, _scaled(shards)) as workers:
        _await_shares(workers, shards)
        say(f"workers: sending {people:,} people to {shards} shards on {count} workers")
        sent = send_events(local.kafka.address, table, crowd.inserts(people))
        workers[0].until_committed(sent)
        say("workers: first release")
        found: Figures = {"people": people, "shards": shards, "workers": count, "first_s": workers[0].release(1)}
        workers[0].until_applied(1)
        found["first_steps"] = workers[0].steps(1)
        seconds, cores, steps = [], [], []
        for number in range(2, 2 + _ROUNDS):
            sent += send_events(local.kafka.address, table, crowd.changes(people // 100))
            workers[0].until_committed(sent)
            say(f"workers: release {number}, 1 % changed")
            before = [core_seconds(worker.pid) for worker in workers]
            seconds.append(workers[0].release(number))
            workers[0].until_applied(number)
            cores.append(sum(core_seconds(worker.pid) for worker in workers) - sum(before))
            steps.append(workers[0].steps(number))
        memory = [memory_mib(worker.pid) for worker in workers]
        return found | {
            "later_s": median(seconds),
            "later_core_s": median(cores),
            "later_each_s": seconds,
            "later_steps": {name: median(one[name] for one in steps) for name in steps[0]},
            "shard_steps": _shard_steps(workers[0]),
            "worker_mib": [one["now_mib"] for one in memory],
            "worker_peak_mib": [one["peak_mib"] for one in memory],
        }


def ingest(local: Local, events: int) -> Figures:
    """Events per second and core seconds of one worker, without shards and with them in turn, from the same events."""
    taken: dict[int, list[Figures]] = {1: [], SHARDS: []}
    for shards in taken:
        make_topics(local, f"bench-windows-{shards}", shards)
        say(f"workers: sending {events:,} events")
        send_events(local.kafka.address, f"bench-windows-{shards}", People().inserts(events))
    for turn in range(3):
        for shards, rounds in taken.items():
            say(f"workers: ingest, round {turn + 1}, {shards} shards")
            with running_workers(local, f"bench-windows-{shards}", 1, _scaled(shards)) as (worker,):
                rounds.append(worker.until_committed(events))
    pairs = list(zip(taken[1], taken[SHARDS], strict=True))
    found: Figures = {"events": events, "of_one": median(rate(many) / rate(one) for one, many in pairs)}
    found["of_one_by_core"] = median(core_us(one) / core_us(many) for one, many in pairs)
    for shards, rounds in taken.items():
        found |= {f"{shards}_per_s": median(map(rate, rounds)), f"{shards}_core_us": median(map(core_us, rounds))}
    return found


def _scaled(shards: int) -> dict[str, Any]:
    return {"scale": {"shards": shards}}


def _ratios(one: Figures, several: Figures) -> Figures:
    found = {name: several[name] / one[name] for name in ("first_s", "later_s")}
    return found | {name: max(several[name]) / max(one[name]) for name in ("worker_mib", "worker_peak_mib")}


def _await_shares(workers: list[Worker], shards: int) -> None:
    """Until every worker has its share of the partitions and of the shards, as its log says."""
    deadline = time.monotonic() + _JOIN_S
    while not _are_shared(workers, shards):
        if time.monotonic() > deadline:
            raise WorkerFailed("the workers did not divide the table between them")
        time.sleep(0.2)


def _are_shared(workers: list[Worker], shards: int) -> bool:
    for worker in workers:
        told = list(worker.own_lines())
        partitions = [line["partitions"] for line in told if line["event"] == "ingest.assigned"]
        owned = [len(line["shards"]) for line in told if line["event"] == "shards.assigned"]
        if partitions[-1:] != [PARTITIONS // len(workers)] or (shards > 1 and owned[-1:] != [shards // len(workers)]):
            return False
    return True


def _shard_steps(worker: Worker) -> Figures:
    """Seconds of the owners' steps, the median over shards and releases but the first."""
    found: dict[str, list[float]] = {}
    for line in worker.told():
        if line["event"].startswith("shard.") and line.get("release", 1) > 1 and "seconds" in line:
            found.setdefault(line["event"].removeprefix("shard."), []).append(line["seconds"])
    return {name: median(seconds) for name, seconds in found.items()}
