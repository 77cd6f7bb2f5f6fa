"""A table under test: its policy, its workers as processes, and what is sent to it; what comes out is for judge.py."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka import Producer
from redis import Redis

from shoal.core.cells.shard import Shard
from shoal.core.cuts import Cuts
from shoal.core.randomness import Keyed
from shoal.core.state import RECORDS
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.records import unpack
from shoal.streams.store.shard_records import read_shard_records
from shoal.streams.store.shard_table import load_shard
from shoal.streams.store.store import Store
from tests.support.judges.topics import KEY, Judged, Published, Record
from tests.support.root import ROOT
from tests.support.services.nursery import NURSERY, Forked, Process
from tests.support.services.services import environment
from tests.support.services.stacks import ask, stacks_of

_PATIENCE_S = 120.0  # a broker that was killed on a busy machine takes its time
_MATTERS = ("planner", "trigger", "release", "ingest", "deadletter")
__all__ = [
    "DISEASES", "KEY", "POLICY", "REDRAWN", "SHARDED", "Make", "Published", "Record", "Table", "Taken", "Worker",
    "await_that", "handles", "insert", "inserts", "write_policy",
]  # fmt: skip

_ATTRIBUTES: dict[str, Any] = {
    "age": {"type": "int", "min": 0, "max": 120},
    "sex": {"type": "category", "values": ["female", "male"]},
    "zip": {"type": "category", "values": [f"z{n}" for n in range(10)]},
}
DISEASES = ("flu", "asthma", "gastritis", "angina", "gout", "lupus")

POLICY: dict[str, Any] = {
    "attributes": _ATTRIBUTES,
    "sensitive": {
        "name": "disease",
        "values": [*DISEASES, "eczema", "migraine", "sinusitis", "tonsillitis", "bronchitis"],
        "open": ["flu", "asthma"],
    },
    "privacy": {"k": 3, "l": 2},
}
"""A lasting table."""
REDRAWN: dict[str, Any] = {
    # One protected value in six: what is tested is delivery, and releases are to be quick.
    "sensitive": {"name": "disease", "values": [*DISEASES], "open": [*DISEASES[:-1]]},
    "privacy": {"values": "redrawn", "k": 3, "l": 2},
}
"""What makes the same table a redrawn one."""
SHARDED: dict[str, Any] = {"scale": {"shards": 3}}
"""What cuts the same table into shards."""


def write_policy(folder: Path, table: str, **changes: Any) -> Path:
    """POLICY with changes, as a file; JSON is YAML."""
    path = folder / f"{table}.json"
    path.write_text(json.dumps({"table": table, **POLICY, **changes}))
    return path


class Taken:
    """A record as ingest takes it."""

    def __init__(self, offset: int, event: Any) -> None:
        self.offset = offset
        self.key: bytes | None = None
        self.value: bytes | None = event if isinstance(event, bytes) else json.dumps(event).encode()
        self.headers: Sequence[tuple[str, bytes]] = ()


class Worker:
    """A worker process."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process, self._log = process, log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self, within_s: float = 30.0) -> int:
        """Its exit code, -9 after kill -9. Raises TimeoutExpired."""
        return self.process.wait(within_s)

    def stop(self, within_s: float = 20.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait(within_s)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def await_log(self, text: str, within_s: float = 30.0, count: int = 1) -> None:
        """Wait until its log says something, that many times."""
        await_that(lambda: self.log.count(text) >= count or self.process.poll() is not None, within_s, self._log)
        assert self.log.count(text) >= count, (
            f"the worker ended ({self.process.poll()}) before it said {text!r}:\n{self.log}"
        )


class Table(Judged):
    """One table on real services."""

    def __init__(self, kafka: str, redis: str, folder: Path, name: str, partitions: int = 4, **changes: Any) -> None:
        super().__init__(kafka, name, partitions, write_policy(folder, name, **changes))
        self.redis, self.folder = redis, folder
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5})
        self._workers: list[Worker] = []
        self._commands = count()
        self._places = cycle(range(partitions))  # on the external topic

    # -- workers ------------------------------------------------------------------------------------------------------

    def environment(self, **settings: str) -> dict[str, str]:
        chosen = {
            "POLICY": str(self.policy_path), "KEY": KEY, "PARTITIONS": str(self.partitions), "WEB_PORT": "0",
            "SESSION_S": "2", "CONNECT_S": "10", **settings,
        }  # fmt: skip
        return {**environment(self.kafka, self.redis, **chosen), "PYTHONUNBUFFERED": "1"}

    def start(self, *options: str, **settings: str) -> Worker:
        """Start a worker; `CRASH_AT="ingest.3"` makes it kill itself there. With options, as a command of its own."""
        return self._start(options, self.environment(**settings), is_forked=not options)

    def start_under(self, variables: Mapping[str, str], **settings: str) -> Worker:
        """Start a worker with variables that are no settings of Shoal's, as a command of its own."""
        return self._start((), {**self.environment(**settings), **variables}, is_forked=False)

    def _start(self, options: Sequence[str], environment: dict[str, str], *, is_forked: bool) -> Worker:
        log = self.folder / f"{self.name}-worker-{len(self._workers)}.log"
        process: Process
        with log.open("wb") as output:
            if is_forked:
                process = NURSERY.start(("worker", *options), environment, log)
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "shoal.streams.cli", "worker", *options], env=environment, cwd=ROOT,
                    stdout=output, stderr=output,
                )  # fmt: skip
        worker = Worker(process, log)
        self._workers.append(worker)
        return worker

    def start_planner(self, **settings: str) -> Worker:
        """A worker that is ready to make releases."""
        worker = self.start(**settings)
        worker.await_log("planner.ready")
        return worker

    def run(self, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a shoal command to its end."""
        return NURSERY.run(command, self.environment(**settings))

    @contextmanager
    def running(self, *command: str, **settings: str) -> Iterator[Worker]:
        """A shoal command that goes on until it is killed at the end."""
        log = self.folder / f"{self.name}-{command[0]}-{next(self._commands)}.log"
        log.touch()
        process = Worker(NURSERY.start(command, self.environment(**settings), log), log)
        try:
            yield process
        finally:
            process.kill()

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()

    # -- sending ------------------------------------------------------------------------------------------------------

    def send(self, events: Iterable[Mapping[str, Any] | bytes], partition: int | None = None) -> None:
        """Events, each to its person's partition; bytes go as they are, to partition 0 unless another is named."""
        for event in events:
            if isinstance(event, bytes):
                self._send(self.topics.events, event, None, partition or 0)
            else:
                home = self.home(str(event.get("id"))) if partition is None else partition
                self._send(self.topics.events, json.dumps(event).encode(), str(event.get("id")).encode(), home)
        self.flush()

    def publish(self, *events: Mapping[str, Any] | bytes) -> None:
        """What others released, to the external topic, one partition after the other."""
        for event in events:
            value = event if isinstance(event, bytes) else json.dumps(event).encode()
            self._send(self.topics.external, value, None, next(self._places))
        self.flush()

    def home(self, person: str) -> int:
        return crc32(person.encode()) % self.partitions

    def request(self, value: bytes = b'{"op": "release"}') -> None:
        self._send(self.topics.triggers, value, None, 0)
        self.flush()

    def _send(self, topic: str, value: bytes | None, key: bytes | None, partition: int) -> None:
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, partition=partition)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def flush(self) -> None:
        assert self._producer.flush(_PATIENCE_S) == 0, "Kafka did not take the events"

    # -- Redis --------------------------------------------------------------------------------------------------------

    def connect(self) -> "Redis":
        return Redis.from_url(self.redis)

    @property
    def keys(self) -> list[bytes]:
        """Every key of this table in Redis."""
        with self.connect() as client:
            return sorted(client.scan_iter(match=f"{{shoal:{self.name}}}:*", count=1000))

    def wipe(self) -> None:
        """Redis forgets this table."""
        if keys := self.keys:
            with self.connect() as client:
                client.unlink(*keys)

    def stored(self, state_key: str = "") -> dict[str, Any]:
        """What a planner would load, record by record, whether or not it is encrypted; nothing if nothing is there."""
        return asyncio.run(self._stored(state_key))

    async def _stored(self, state_key: str) -> dict[str, Any]:
        policy = load_policy(self.policy_path)
        store = Store(self.redis, self.name, make_cipher(state_key.encode() or None), shards=policy.shards)
        try:
            meta = await store.meta()
            if meta is None:
                return {}
            records = await read_shard_records(store)
            cuts = Cuts.read(policy, unpack(records.cuts)) if records.cuts else None
            states = {}
            for number in range(policy.shards):
                shard = Shard(number, None) if cuts is None else cuts.shard(number)
                where = shard if policy.shards > 1 else None
                states[f"{number} " if policy.shards > 1 else ""] = await load_shard(
                    store, policy, KEY.encode(), where, meta.partitions, records
                )
            return {
                "meta": (meta.sealed, meta.counts, [state.meta for state in states.values()]),
                **{f"{n}{name}": dict(state.records(name)) for n, state in states.items() for name in RECORDS},
                "taken": await store.external_offsets(),
            }
        finally:
            await store.close()

    # -- waiting ------------------------------------------------------------------------------------------------------

    def release(self, value: bytes = b'{"op": "release"}') -> list[Published]:
        """Ask for a release and wait until it is there; returns all there are."""
        number = len(self.releases()) + 1
        self.request(value)
        return self.await_releases(number)

    def await_releases(self, count: int, within_s: float = 40.0) -> list[Published]:
        """Wait for a number of releases to be there."""
        found: list[Published] = []

        def are_there() -> bool:
            nonlocal found
            found = self.releases()
            return len(found) >= count

        self.await_that(are_there, within_s)
        return found

    def await_dead_letters(self, count: int, within_s: float = 30.0) -> Counter[tuple[str, int, int]]:
        self.await_that(lambda: self.dead_letters().total() >= count, within_s)
        return self.dead_letters()

    def await_that(self, condition: Any, within_s: float) -> None:
        """Wait for something on the topics. Raises TimeoutError that says where every worker is."""
        try:
            await_that(condition, within_s, pause_s=0.3)
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *map(_whereabouts, self._workers)])) from None


Make = Callable[..., Table]


def _whereabouts(worker: Worker) -> str:
    """How a worker ended, or its last words on each matter, the end of its log, and what its tasks wait for."""
    name, code = worker._log.name, worker.process.poll()
    if code is not None:
        return f"--- {name}: ended with {code}"
    lines = worker.log.splitlines()
    last = [next((line for line in reversed(lines) if f" {what}." in line), "") for what in _MATTERS]
    stacks = ask(worker.process.pid, stacks_of(worker._log)) if isinstance(worker.process, Forked) else ""
    return "\n".join([f"--- {name}: alive", *filter(None, last), "its log ends:", *lines[-25:], "it waits in:", stacks])


def await_that(condition: Any, within_s: float, *logs: Path, pause_s: float = 0.1) -> None:
    """Wait for a condition, and show these logs when it does not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            tails = "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-25:]) for log in logs)
            raise TimeoutError(f"it did not happen within {within_s:g} s\n{tails}")
        time.sleep(pause_s)


def handles(table: str, *numbers: int) -> set[str]:
    """What the worker calls the people whom `insert` makes of these numbers."""
    return {Keyed(KEY.encode(), table).handle(f"p{number}") for number in numbers}


def insert(number: int, **changes: Any) -> dict[str, Any]:
    """Somebody, always the same for a number."""
    record = {
        "op": "insert",
        "id": f"p{number}",
        "qid": {"age": number * 7 % 121, "sex": ("female", "male")[number % 2], "zip": f"z{number * 3 % 10}"},
        "sensitive": [DISEASES[number * 5 % 6]],
    }
    return {**record, **changes}


def inserts(start: int, count: int) -> list[Any]:
    """Somebody after the other, and before every 25th an event that is rejected."""
    events: list[Any] = [insert(number) for number in range(start, start + count)]
    for place in range(0, count, 25):
        events.insert(place, {"op": "update", "id": f"nobody-{place}", "qid": {"age": 3}})
    return events
