"""What the service benchmark sends: people with four attributes and a Zipf-distributed value, as msgpack events."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgpack
from confluent_kafka import Producer

from shoal.streams.intake.formats import MSGPACK
from shoal.streams.kafka.topics import Topics

PARTITIONS = 8
VALUES = 400
OPEN = 160  # of a redrawn table: the most frequent ones
_WEIGHTS = [1 / (rank + 1) ** 1.1 for rank in range(VALUES)]
_HEADERS = [("content-type", MSGPACK.media_types[0].encode())]


PRIVACY: dict[str, dict[str, Any]] = {
    "lasting": {"k": 5, "l": 2},
    "redrawn": {"values": "redrawn", "k": 5, "l": 2, "strategy": {"name": "adaptive", "releases": 5}},
}


def sensitive_of(values: str, name: str) -> dict[str, Any]:
    """400 values. A redrawn table cannot protect the frequent ones of them, a lasting one protects all."""
    labels = [f"v{rank}" for rank in range(VALUES)]
    return {"name": name, "values": labels, "open": labels[:OPEN] if values == "redrawn" else []}


def write_policy(folder: Path, table: str, values: str, scaled: Mapping[str, Any] | None = None) -> Path:
    """A policy for such people, by the model of their values, with what `scaled` has beside. JSON is YAML."""
    document = {
        "table": table,
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 110},
            "postcode": {"type": "int", "min": 0, "max": 99999},
            "weight": {"type": "float", "min": 0, "max": 200},
            "sex": {"type": "category", "values": ["female", "male"]},
        },
        "sensitive": sensitive_of(values, "disease"),
        "privacy": PRIVACY[values],
        **(scaled or {}),
    }
    path = folder / f"{table}.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


class People:
    """Makes events that are all accepted, the same ones every time."""

    def __init__(self, seed: int = 1) -> None:
        self._random = Random(seed)
        self._present: list[str] = []
        self._born = 0

    def inserts(self, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """New people."""
        values = self._values(count)
        for value in values:
            person = f"person-{self._born:08d}"
            self._born += 1
            self._present.append(person)
            yield person, {"op": "insert", "id": person, "qid": self._qid(), "sensitive": value}

    def changes(self, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """A third each: someone leaves, someone's value changes, someone new arrives."""
        chosen = self._random.sample(range(len(self._present)), 2 * (count // 3))
        gone = sorted(chosen[: count // 3], reverse=True)
        for index, value in zip(chosen[count // 3 :], self._values(count // 3), strict=True):
            person = self._present[index]
            yield person, {"op": "update", "id": person, "sensitive": value}
        for index in gone:
            person, self._present[index] = self._present[index], self._present[-1]
            self._present.pop()
            yield person, {"op": "delete", "id": person}
        yield from self.inserts(count - 2 * (count // 3))

    def _qid(self) -> dict[str, Any]:
        random = self._random.random
        return {
            "age": int(random() * 100),
            "postcode": int(random() * 100_000),
            "weight": int(random() * 1500) / 10 + 40,
            "sex": "female" if random() < 0.5 else "male",
        }

    def _values(self, count: int) -> list[str]:
        return [f"v{rank}" for rank in self._random.choices(range(VALUES), _WEIGHTS, k=count)]


def send_events(kafka: str, table: str, events: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Put events on the table's topic, keyed by person, and wait until Kafka has them; returns how many."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "batch.size": 262_144, "acks": "all"})
    topic, pack, count = Topics(table).events, msgpack.Packer().pack, 0
    for person, event in events:
        while True:
            try:
                producer.produce(topic, key=person, value=pack(event), headers=_HEADERS)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 5_000 == 0:
            producer.poll(0)
    producer.flush()
    return count
