"""A table under test: its policy, its workers as processes, its topics, and a judge that reads only the topics.

The judge replays the events topic by the offsets in the manifests' headers through core alone, without Redis, ingest or
planner, and says whether every release is what must come out and every rejected record is a dead letter once. It uses
confluent-kafka, the workers use aiokafka: they share no client.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from core.event import Reject
from core.intake import Intake
from core.overlap.external import ExternalGroup, parse_external
from core.plan import Window, plan
from core.state import State
from streams.codec import decode_event
from streams.policyfile import load_policy
from streams.topics import Topics
from tests.nursery import ROOT, Nursery, Process
from tests.services import environment

_NURSERY = Nursery()
KEY = "a secret of the tests"
POLICY: dict[str, Any] = {
    "attributes": {
        "age": {"type": "int", "min": 0, "max": 120},
        "sex": {"type": "category", "values": ["female", "male"]},
        "zip": {"type": "category", "values": [f"z{n}" for n in range(10)]},
    },
    "sensitive": {
        "name": "disease",
        "values": ["flu", "asthma", "gastritis", "angina", "gout", "lupus"],
        # One protected value in six: what is tested is delivery, and releases are to be quick.
        "open": ["flu", "asthma", "gastritis", "angina", "gout"],
    },
    "privacy": {"k": 3, "l": 2},
}


@dataclass(frozen=True)
class Record:
    """A record as it stands on a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


@dataclass(frozen=True)
class Published:
    """A release as it stands on the topic."""

    records: tuple[bytes, ...]
    manifest: bytes
    headers: Mapping[str, bytes]

    @property
    def number(self) -> int:
        return int(json.loads(self.manifest)["release"])


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


class Table:
    """One table on real services."""

    def __init__(self, kafka: str, redis: str, folder: Path, name: str, partitions: int = 4, **changes: Any) -> None:
        self.kafka, self.redis, self.folder, self.name = kafka, redis, folder, name
        self.partitions = partitions
        self.topics = Topics(name)
        self.policy_path = folder / f"{name}.json"  # JSON is YAML
        self.policy_path.write_text(json.dumps({"table": name, **POLICY, **changes}))
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5})
        self._workers: list[Worker] = []

    # -- workers ------------------------------------------------------------------------------------------------------

    def environment(self, **settings: str) -> dict[str, str]:
        chosen = {
            "POLICY": str(self.policy_path), "KEY": KEY, "PARTITIONS": str(self.partitions), "WEB_PORT": "0",
            "SESSION_S": "2", "CONNECT_S": "10", **settings,
        }  # fmt: skip
        return {**environment(self.kafka, self.redis, **chosen), "PYTHONUNBUFFERED": "1"}

    def start(self, *options: str, **settings: str) -> Worker:
        """Start a worker; `CRASH_AT="ingest.3"` makes it kill itself there. With options, as a command of its own."""
        log = self.folder / f"{self.name}-worker-{len(self._workers)}.log"
        environment = self.environment(**settings)
        process: Process
        with log.open("wb") as output:
            if options:
                process = subprocess.Popen(
                    [sys.executable, "-m", "streams.app", *options], env=environment, cwd=ROOT,
                    stdout=output, stderr=output,
                )  # fmt: skip
            else:
                process = _NURSERY.start(options, environment, log)
        worker = Worker(process, log)
        self._workers.append(worker)
        return worker

    def run(self, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run a shoal command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "streams.cli", *command], env=self.environment(**settings), cwd=ROOT,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

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
        for place, event in enumerate(events):
            value = event if isinstance(event, bytes) else json.dumps(event).encode()
            self._send(self.topics.external, value, None, place % self.partitions)
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
        assert self._producer.flush(30) == 0

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, topic: str, partition: int) -> list[Record]:
        """All committed records of a partition."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.kafka, "group.id": "nobody", "enable.auto.commit": False,
                "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,  # the end of a partition is told by an empty answer, which brokers hold back
            }
        )  # fmt: skip
        found: list[Record] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                for message in consumer.consume(10_000, 0.05):
                    error = message.error()
                    if error is not None:
                        if error.code() == KafkaError._PARTITION_EOF:
                            return found
                        continue
                    headers = dict(message.headers() or ())
                    found.append(Record(partition, message.offset(), message.key(), message.value(), headers))
        finally:
            consumer.close()
        raise TimeoutError(f"topic {topic} could not be read to its end")

    def releases(self) -> list[Published]:
        found: list[Published] = []
        records: list[bytes] = []
        for record in self.read(self.topics.releases, 0):
            assert record.value is not None
            if record.headers.get("kind") == b"manifest":
                found.append(Published(tuple(records), record.value, record.headers))
                records = []
            else:
                records.append(record.value)
        assert not records, "group records without a manifest"
        return found

    def await_releases(self, count: int, within_s: float = 40.0) -> list[Published]:
        """Wait for a number of releases to be there."""
        found: list[Published] = []

        def are_there() -> bool:
            nonlocal found
            found = self.releases()
            return len(found) >= count

        await_that(are_there, within_s, *(worker._log for worker in self._workers), pause_s=0.3)
        return found

    def dead_letters(self) -> Counter[tuple[str, int, int]]:
        """How often each (topic, partition, offset) is a dead letter."""
        return Counter(
            (letter.headers["topic"].decode(), int(letter.headers["partition"]), int(letter.headers["offset"]))
            for letter in self.read(self.topics.dead_letter, 0)
        )

    def await_dead_letters(self, count: int, within_s: float = 30.0) -> Counter[tuple[str, int, int]]:
        await_that(lambda: self.dead_letters().total() >= count, within_s, pause_s=0.3)
        return self.dead_letters()

    # -- judging ------------------------------------------------------------------------------------------------------

    def judge(self, *, complete: bool = True) -> list[Published]:
        """Raise AssertionError unless the topics tell what must have happened.

        `complete`: everything is over, so no event is after the last release and no dead letter is still to come.
        Otherwise more may be on its way, and what is there must be right as far as it goes.
        """
        policy = load_policy(self.policy_path)
        state = State.empty(policy, KEY.encode())
        found = self.releases()  # first: whatever they were made of is on the topic by now
        events = [self.read(self.topics.events, partition) for partition in range(self.partitions)]
        others = [self.read(self.topics.external, partition) for partition in range(self.partitions)]
        intakes = [Intake(policy, {}) for _ in range(self.partitions)]
        places, rejected, previous = [0] * self.partitions, set(), None
        for number, release in enumerate(found, start=1):
            assert release.number == number, "release numbers have a gap or come twice"
            manifest = json.loads(release.manifest)
            assert manifest["previous"] == previous, "the chain of manifests is broken"
            previous = sha256(release.manifest).hexdigest()
            for partition, end in enumerate(json.loads(release.headers["offsets"])):
                records = events[partition]
                while places[partition] < len(records) and records[places[partition]].offset < end:
                    record = records[places[partition]]
                    if _is_refused(intakes[partition], record):
                        rejected.add((self.topics.events, partition, record.offset))
                    places[partition] += 1
            at = release.headers.get("at")
            groups: list[ExternalGroup] = []
            for partition, end in enumerate(json.loads(release.headers["external"])):
                while others[partition] and others[partition][0].offset < end:
                    record = others[partition].pop(0)
                    event = decode_event(record.value, None)
                    read = event if isinstance(event, Reject) else parse_external(event, policy)
                    if isinstance(read, Reject):
                        rejected.add((self.topics.external, partition, record.offset))
                    else:
                        groups += read.groups
            deltas = {p: dict(i.window) for p, i in enumerate(intakes)}
            window = Window(at.decode() if at else None, deltas, groups)
            made = plan(state, window, policy, number)
            assert made.release.manifest == release.manifest, f"release {number} is not what its events come to"
            assert made.release.records == release.records, f"the records of release {number} are not its content"
            rejected.update((self.topics.events, partition, offset) for partition, offset in made.misrouted)
            for partition, intake in enumerate(intakes):
                for person in list(intake.window):
                    row = state.people.row(person)
                    home = int(state.people.home[row]) if row is not None else made.change.people[person].home
                    if home != partition:
                        intake.forget(person)
                intake.cut()
            state.apply(made.change)
        sources = (self.topics.events, self.topics.external)
        letters = Counter({place: n for place, n in self.dead_letters().items() if place[0] in sources})
        assert all(count == 1 for count in letters.values()), "a dead letter was sent twice"
        if complete:
            assert rejected <= letters.keys(), "a rejected record is not a dead letter"
            assert places == [len(records) for records in events], "events are missing from the releases"
            assert not any(others), "what others published is missing from the releases"
        headers = found[-1].headers if found else {"offsets": b"[]", "external": b"[]"}
        ends = {
            (topic, partition): end
            for topic, header in ((self.topics.events, "offsets"), (self.topics.external, "external"))
            for partition, end in enumerate(json.loads(headers[header]))
        }
        judged = {place for place in letters if complete or place[2] < ends.get(place[:2], 0)}
        assert judged <= rejected, "something is a dead letter that was not rejected"
        return found


def _is_refused(intake: Intake, record: Record) -> bool:
    kind = record.headers.get("content-type")
    event = decode_event(record.value, kind.decode() if kind else None)
    return isinstance(event, Reject) or intake.take(event, record.offset) is not None


def await_that(condition: Any, within_s: float, *logs: Path, pause_s: float = 0.1) -> None:
    """Wait for a condition, and show these logs when it does not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            tails = "\n".join(f"--- {log.name}\n" + "\n".join(log.read_text().splitlines()[-25:]) for log in logs)
            raise TimeoutError(f"it did not happen within {within_s:g} s\n{tails}")
        time.sleep(pause_s)


def insert(number: int, **changes: Any) -> dict[str, Any]:
    """Somebody, always the same for a number."""
    diseases = ["flu", "asthma", "gastritis", "angina", "gout", "lupus"]
    record = {
        "op": "insert",
        "id": f"p{number}",
        "qid": {"age": number * 7 % 121, "sex": ("female", "male")[number % 2], "zip": f"z{number * 3 % 10}"},
        "sensitive": [diseases[number * 5 % 6]],
    }
    return {**record, **changes}
