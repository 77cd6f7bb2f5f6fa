"""A real worker process, watched from outside: what Redis says it has committed, what Kafka says it has published."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
STEPS = ("frozen", "read", "planned", "staged", "sealed", "published", "applied")
"""What the worker's log says of a release, in order."""


class WorkerFailed(Exception):
    """The worker ended, or did not get on; the message holds the end of its log."""


@dataclass
class Worker:
    """A table, the worker that serves it, and how to look at both."""

    local: Local
    table: str
    process: subprocess.Popen[bytes]
    store: Any
    log: Path
    environment: dict[str, str]

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
        while self._at(number).keys() < set(STEPS):
            self._pause()

    def steps(self, number: int) -> Figures:
        """Seconds on the clock of the parts of a release, by the worker's own log: each up to what it names."""
        at = self._at(number)
        return {after: at[after] - at[before] for before, after in pairwise(STEPS)}

    def _at(self, number: int) -> dict[str, float]:
        told = (json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines() if line[-1:] == "}")
        return {
            line["event"].removeprefix("release."): datetime.fromisoformat(line["timestamp"]).timestamp()
            for line in told
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


@contextlib.contextmanager
def running_worker(local: Local, table: str, values: str = "lasting", **chosen: str) -> Iterator[Worker]:
    """A worker for a table that has topics already, with nothing of it in Redis; stopped at the end."""
    store = redis.Redis.from_url(local.redis.address)
    store.flushall()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        policy = write_policy(Path(folder), table, values)
        settings = {
            "POLICY": str(policy),
            "KEY": "a secret of the bench",
            "WEB_PORT": "0",
            "LOG_FORMAT": "json",
        } | chosen
        log = Path(folder) / "worker.log"
        surroundings = environment(local.kafka.address, local.redis.address, **settings)
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "-m", "shoal.streams.cli", "worker"],
                env=surroundings,
                stdout=sink,
                stderr=sink,
            )
        try:
            yield Worker(local, table, process, store, log, surroundings)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            store.close()
