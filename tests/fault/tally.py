"""What a soak came to: how long requests waited for their release, and the figures that are printed at its end."""

import json
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, TopicPartition

from tests.fault.scene import Scene
from tests.support.services.table import Published

_LATE_S = 10.0


class Waits:
    """How long each request of a scene waits for its release, as a reader of the topic sees it. A context manager."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.longest_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + (_LATE_S if kind is None else 0.0)
        while self._scene.unserved and time.monotonic() < deadline:
            time.sleep(0.1)
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._scene.kafka, "group.id": "nobody", "enable.auto.commit": False,
                "isolation.level": "read_committed", "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        try:
            consumer.assign([TopicPartition(self._scene.topics.releases, 0, 0)])
            while not self._over.is_set():
                message = consumer.poll(0.2)
                if message is None or message.error() is not None:
                    continue
                if dict(message.headers() or ()).get("kind") == b"manifest":
                    self._serve(json.loads(message.value() or b"")["published_at"])
        finally:
            consumer.close()

    def _serve(self, at: str) -> None:
        """A release serves every request up to the one whose time it bears."""
        for asked in [asked for asked in list(self._scene.unserved) if asked <= at]:
            self.longest_s = max(self.longest_s, time.monotonic() - self._scene.unserved.pop(asked))


class Tally:
    """The figures of all tables of a soak."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._figures: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self._longest_s = 0.0

    def add(self, scene: Scene, releases: list[Published], longest_s: float) -> None:
        """A table that the judge has found to be right."""
        counts = scene.mixture.counts
        self._figures.update(
            tables=1, releases=len(releases), requests=scene.asked, events=counts.total(), letters=counts["bad"]
        )
        self._longest_s = max(self._longest_s, longest_s)

    def __str__(self) -> str:
        figures, minutes = self._figures, (time.monotonic() - self._began) / 60
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.made.items()))
        return (
            f"soak: {minutes:.1f} minutes, {figures['tables']} tables, {figures['releases']} releases for "
            f"{figures['requests']} requests, {figures['events']} events, {figures['letters']} dead letters, "
            f"at most {self._longest_s:.1f} s from a request to its release; {self.made.total()} faults ({kinds})"
        )
