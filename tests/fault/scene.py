"""A table in trouble: its load, its workers, and what must be true of its topics when the trouble is over."""

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.streams.kafka.topics import ensure_topics
from tests.integration.mixture import Mixture, send
from tests.support.services.table import DISEASES, POLICY, REDRAWN, Published, Table, Worker, await_that

_PROMISED = {"participation": 1, "sampling": 0.9, "overlap": 3}
_INCURABLE = ["lupus", "diabetes", "epilepsy", "psoriasis"]
_CURABLE = [disease for disease in POLICY["sensitive"]["values"] if disease not in _INCURABLE]

# Tables on which everything is promised at once: permanent and transient values, guards, other publishers, sampling.
EVERYTHING: dict[str, Any] = {
    "sensitive": {**POLICY["sensitive"], "permanent": ["lupus"]},
    "privacy": {**POLICY["privacy"], **_PROMISED, "batch": 8},
}
"""A lasting table. One permanent value is too few for a signature, so there are cliques."""
EVERYTHING_SIGNED: dict[str, Any] = {
    **EVERYTHING,
    "sensitive": {**POLICY["sensitive"], "values": [*_CURABLE, *_INCURABLE], "permanent": _INCURABLE},
}
"""A lasting table with signatures of permanent values."""
EVERYTHING_REDRAWN: dict[str, Any] = {
    "sensitive": {**REDRAWN["sensitive"], "open": [*DISEASES[:4]], "permanent": ["lupus"]},
    "privacy": {**REDRAWN["privacy"], **_PROMISED},
}
KINDS = {"cliques": EVERYTHING, "signed": EVERYTHING_SIGNED, "redrawn": EVERYTHING_REDRAWN}
# They only cost on failure, and the machine may be busy with something else.
PATIENCE_S = 120.0
_MOST_BESIDE = 12  # what others publish adds up for ever, and releases are to be quick


class Scene(Table):
    """One table with a load of mixed events, small enough that a whole drama takes seconds."""

    def __init__(
        self, kafka: str, redis_url: str, folder: Path, name: str, *, seed: int = 7, partitions: int = 3,
        worker_settings: Mapping[str, str] | None = None, **changes: Any,
    ) -> None:  # fmt: skip
        super().__init__(kafka, redis_url, folder, name, partitions, **changes)
        sensitive = changes.get("sensitive", POLICY["sensitive"])
        self.mixture = Mixture(seed, 300, sensitive, bad_share=0.06)
        self._worker_settings = worker_settings or {}
        self._pours = 0
        self._has_others = "overlap" in changes.get("privacy", {})
        self.asked = 0
        self.unserved: dict[str, float] = {}  # requests by their time, and when they were made; for whoever watches
        self._settled: list[str] = []
        self._lock = threading.Lock()
        shards = changes.get("scale", {}).get("shards", 1)
        asyncio.run(ensure_topics(kafka.split(","), name, partitions, shards=shards, within_s=30))

    def environment(self, **settings: str) -> dict[str, str]:
        """That of a worker that takes small batches, so that a little load is many steps."""
        return super().environment(**{"BATCH": "40", **self._worker_settings, **settings})

    def start_ready(self, **settings: str) -> Worker:
        """A worker that has begun to work; how much of the table is its own is not said."""
        worker = self.start(**settings)
        worker.await_log("ingest.loaded", PATIENCE_S)
        return worker

    def pour(self, count: int = 100) -> None:
        """The next events of the mixture."""
        with self._lock:
            strays = [self.mixture.stray(self.partitions, self.home, person) for person in self._settled[:1]]
            self._settled = self._settled[1:] + self._settled[:1]
            send(self, [*self.mixture.take(count), *strays])
            if self._has_others:
                self._publish_beside()
                self._pours += 1

    def _publish_beside(self) -> None:
        """With every other pour another publisher's table, a dozen at most, and with every fifth one that is none."""
        if self._pours % 2 == 0 and self.mixture.counts["publications"] < _MOST_BESIDE:
            self.publish(self.mixture.publication())
        if self._pours % 5 == 0:
            self.publish(b'{"op": "external", "publisher": "north"}')
            self.mixture.counts["bad"] += 1

    def fill(self, count: int) -> None:
        """So many people arrive at once."""
        with self._lock:
            send(self, self.mixture.come(count))

    def thin(self) -> None:
        """Two of three people leave at once, so that cells fall under k people and are closed."""
        with self._lock:
            send(self, self.mixture.leave(len(self.mixture.present) * 2 // 3))

    def settle(self) -> None:
        """Make a first release; from then on every pour also brings an event to a partition that is not its person's.

        Whose home a partition is must have been published by then, or who is astray is a question of luck.
        """
        self.pour()
        self.ask()
        self.await_served()
        self._settled = list(self.mixture.present)

    def ask(self) -> None:
        """Ask for a release of everything sent so far."""
        with self._lock:
            self.asked += 1
            self.unserved[_time(self.asked).decode()] = time.monotonic()
            self.request(b'{"op": "release", "at": "%s"}' % _time(self.asked))

    def await_served(self, within_s: float = PATIENCE_S) -> None:
        """Wait for the release that the last request made. Requests that waited together have one between them."""
        wanted = _time(self.asked).decode()

        def is_there() -> bool:
            found = self.releases()
            return bool(found) and json.loads(found[-1].manifest)["published_at"] == wanted

        self.await_that(is_there, within_s)

    @contextmanager
    def load(self, *, ask_every: int = 4, pause_s: float = 0.05) -> Iterator[None]:
        """Events, and now and then a request for a release, for as long as the block runs."""
        over, failures = threading.Event(), []

        def pour() -> None:
            rounds = 0
            try:
                while not over.is_set():
                    rounds += 1
                    self.pour(30)
                    if rounds % ask_every == 0:
                        self.ask()
                    over.wait(pause_s)
            except BaseException as error:  # noqa: BLE001 - it is raised where the block ends
                failures.append(error)

        thread = threading.Thread(target=pour, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(PATIENCE_S)
        for error in failures:
            raise error

    @contextmanager
    def at_work(self, **settings: str) -> Iterator[Worker]:
        """One worker under load. What happens in the block costs it time: in the end it is there, all work done."""
        worker = self.start_ready(**settings)
        with self.load():
            yield worker
        self.finish()
        assert worker.stop() == 0, worker.log

    def finish(self) -> list[Published]:
        """Ask for a last release, wait until everything is done, and hear the judge."""
        self.ask()
        self.await_served()
        return self.verdict()

    def verdict(self) -> list[Published]:
        """Wait for the last dead letter, and examine the topics."""
        self.await_dead_letters(self.mixture.counts["bad"], PATIENCE_S)
        return self.examine()

    def examine(self) -> list[Published]:
        """Every event counts once or is a dead letter once, no request made two releases, and no byte is wrong.

        Raises AssertionError. What is bad, and who is present, is known by the mixture, which never asked Shoal.
        """
        found = self.judge()
        times = [json.loads(release.manifest)["published_at"] for release in found]
        assert times == sorted(set(times)), "a request made more than one release"
        assert times[-1] == _time(self.asked).decode(), "the last request made no release"
        sources = [(t, n) for t in (self.topics.events, self.topics.external) for n in range(self.partitions)]
        letters, *read = self.read_all((self.topics.dead_letter, 0), *sources)
        assert len(letters) == self.mixture.counts["bad"], "good events are dead letters, or bad ones are not"
        originals = {
            (topic, record.partition, record.offset): record
            for (topic, _), records in zip(sources, read, strict=True)
            for record in records
        }
        for letter in letters:
            topic, partition, offset = (letter.headers[name].decode() for name in ("topic", "partition", "offset"))
            original = originals[topic, int(partition), int(offset)]
            assert (letter.key, letter.value) == (original.key, original.value), "a dead letter is not the original"
            assert letter.headers.items() >= original.headers.items()
            assert letter.headers["ce_id"].decode() == f"{topic}/{partition}/{offset}"
        assert [release.headers["ce_id"].decode() for release in found] == [
            f"{self.name}/{number}" for number in range(1, len(found) + 1)
        ]
        last = json.loads(found[-1].manifest)
        there = last["people"] + last["withheld"] + last["unsampled"]
        assert there == len(self.mixture.present), "the last release is not about those there"
        return found

    def await_exit(self, worker: Worker) -> int:
        """The exit code of a worker that must end by itself."""
        await_that(lambda: worker.process.poll() is not None, PATIENCE_S, worker._log)
        return worker.wait()

    def close(self) -> None:
        super().close()
        self.wipe()


def signal_all(worker: Worker, number: signal.Signals) -> None:
    """Send a signal to a worker and every process it has started: asleep means that no part of it is awake."""
    family = [worker.process.pid]
    for pid in family:
        with contextlib.suppress(OSError):
            family += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def said(worker: Worker) -> str:
    """The sentence with which a worker ended: what it wrote after its log."""
    lines = [line for line in worker.log.splitlines() if line.strip()]
    assert not any("Traceback" in line for line in lines), worker.log
    return lines[-1] if lines else ""


def _time(number: int) -> bytes:
    """The time that a request names, a second later than the one before."""
    return b"2026-05-01T%02d:%02d:%02dZ" % (number // 3600, number // 60 % 60, number % 60)
