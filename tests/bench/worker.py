"""A real worker process, watched from outside: what Redis says it has committed, what Kafka says it has published."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.local import Local
from shoal.streams.kafka.topics import Topics
from tests.bench.figures import Figures, core_seconds
from tests.bench.load import PARTITIONS, write_policy
from tests.support.services.services import environment

_WITHIN_S = 900.0
STEPS = ("frozen", "planned", "sealed", "published", "applied")
"""What the worker's log says of a release, in order."""
SHARD_STEPS = ("frozen", "gathered", "planned", "sealed", "announced", "sent", "published", "applied")
"""The same of a table with shards; the coordinator says it, whichever worker that is."""


class WorkerFailed(Exception):
    """The worker ended, or did not get on; the message holds the end of its log."""


@dataclass
class Worker:
    """A table, a worker that serves it, and how to look at both."""

    local: Local
    table: str
    process: subprocess.Popen[bytes]
    store: Any
    log: Path
    environment: dict[str, str]
    stages: tuple[str, ...] = STEPS

    @property
    def pid(self) -> int:
        return self.process.pid

    def committed(self) -> int:
        """How many events are in Redis, by the offsets that stand there."""
        names = [f"offset:{number}" for number in range(PARTITIONS)]
        return sum(int(offset or 0) for offset in self.store.hmget(f"{{shoal:{self.table}}}:ingest", names))

    def until_committed(self, count: int) -> Figures:
        """Wait for this many events; how long they took, from the first that was seen in Redis to the last."""
        while not (first := self.committed()):
            self._pause()
        wall, core = time.perf_counter(), core_seconds(self.pid)
        deadline = time.monotonic() + _WITHIN_S
        while (now := self.committed()) < count:
            self._pause()
            if time.monotonic() > deadline:
                raise WorkerFailed(f"{now} of {count} events after {_WITHIN_S:.0f} s; {self._said()}")
        wall_s, core_s = time.perf_counter() - wall, core_seconds(self.pid) - core
        return {"events": count - first, "wall_s": wall_s, "core_s": core_s}

    def release(self, number: int) -> float:
        """Ask for a release and wait for its manifest as a `read_committed` consumer sees it; the seconds between."""
        topics = Topics(self.table)
        with contextlib.closing(self._consumer(topics.releases)) as consumer:
            begun = time.perf_counter()
            producer = Producer({"bootstrap.servers": self.local.kafka.address, "linger.ms": 0})
            producer.produce(topics.triggers, value=b'{"op":"release"}', partition=0)
            producer.flush()
            deadline = time.monotonic() + _WITHIN_S
            while True:
                for message in consumer.consume(10_000, 0.05):
                    if message.error() is None and ("kind", b"manifest") in (message.headers() or []):
                        return time.perf_counter() - begun
                self._check()
                if time.monotonic() > deadline:
                    raise WorkerFailed(f"no release {number} after {_WITHIN_S:.0f} s; {self._said()}")

    def until_applied(self, number: int) -> None:
        """Wait until a release is not only published but in the table's own keys and in the planner's memory."""
        while not set(self.stages) <= self._at(number).keys():
            self._pause()

    def steps(self, number: int) -> Figures:
        """Seconds on the clock of the parts of a release, by the worker's own log: each up to what it names."""
        at = self._at(number)
        return {after: at[after] - at[before] for before, after in pairwise(self.stages)}

    def told(self) -> Iterator[dict[str, Any]]:
        """The lines of the log of every worker of this table."""
        for log in sorted(self.log.parent.glob("*.log")):
            yield from _lines(log)

    def own_lines(self) -> Iterator[dict[str, Any]]:
        return _lines(self.log)

    def _at(self, number: int) -> dict[str, float]:
        return {
            line["event"].removeprefix("release."): datetime.fromisoformat(line["timestamp"]).timestamp()
            for line in self.told()
            if line.get("release") == number and line["event"].startswith("release.")
        }

    def _consumer(self, topic: str) -> Any:
        settings = {"bootstrap.servers": self.local.kafka.address, "group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 20})
        place = TopicPartition(topic, 0)
        _, high = consumer.get_watermark_offsets(place, timeout=10)
        place.offset = high
        consumer.assign([place])
        return consumer

    def _pause(self) -> None:
        self._check()
        time.sleep(0.01)

    def _check(self) -> None:
        if self.process.poll() is not None:
            raise WorkerFailed(f"the worker ended with code {self.process.returncode}; {self._said()}")

    def _said(self) -> str:
        return "its last words: " + self.log.read_text(encoding="utf-8", errors="replace")[-2_000:]


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line[-1:] == "}")


@contextlib.contextmanager
def running_worker(local: Local, table: str, values: str = "lasting", **chosen: str) -> Iterator[Worker]:
    """A worker for a table that has topics already, with nothing of it in Redis; stopped at the end."""
    with running_workers(local, table, 1, {}, values, **chosen) as (worker,):
        yield worker


@contextlib.contextmanager
def running_workers(
    local: Local, table: str, count: int, scaled: Mapping[str, Any], values: str = "lasting", **chosen: str
) -> Iterator[list[Worker]]:
    """As `running_worker`, several of them; `scaled` is what the policy has beside the rest."""
    store = redis.Redis.from_url(local.redis.address)
    store.flushall()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, contextlib.ExitStack() as stack:
        stack.callback(store.close)
        policy = write_policy(Path(folder), table, values, scaled)
        settings = {
            "POLICY": str(policy),
            "KEY": "a secret of the bench",
            "WEB_PORT": "0",
            "LOG_FORMAT": "json",
        } | chosen
        surroundings = environment(local.kafka.address, local.redis.address, **settings)
        stages = STEPS if scaled.get("scale", {}).get("shards", 1) == 1 else SHARD_STEPS
        workers = []
        for number in range(count):
            log = Path(folder) / f"worker-{number}.log"
            process = stack.enter_context(_worker(log, surroundings))
            workers.append(Worker(local, table, process, store, log, surroundings, stages))
        yield workers


@contextlib.contextmanager
def _worker(log: Path, surroundings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as sink:
        command = [sys.executable, "-m", "shoal.streams.cli", "worker"]
        process = subprocess.Popen(command, env=surroundings, stdout=sink, stderr=sink)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
