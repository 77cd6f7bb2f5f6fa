"""`shoal source` killed after every step: each change becomes an event once, and each bad row a dead letter once."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.histories.debezium import record
from tests.support.services.table import Table

STEPS = ("source.2", "source.3", "source.4.open", "source.4", "source.5")


class Clinic:
    """A table whose people come from a captured table."""

    def __init__(self, table: Table) -> None:
        self.table, self.topic = table, f"{table.name}.public.patient"
        self.lsn = 0
        admin = AdminClient({"bootstrap.servers": table.kafka})
        admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result()
        self.mapping = table.folder / "mapping.yaml"
        self.mapping.write_text(json.dumps(MAPPING(self.topic)))

    def change(self, op: str, number: int, **columns: Any) -> None:
        self.lsn += 8
        row = None if op == "d" else {"id": number, "years": 30, "sex": "f", "zip": "z1", "code": "gout", **columns}
        key, value = record(op, {"id": number}, row, self.lsn)
        self.table._send(self.topic, value, key, 0)
        if op == "d":
            self.table._send(self.topic, None, key, 0)
        self.table.flush()

    def run(self, *options: str, **settings: str) -> int:
        policy = str(self.table.policy_path)
        done = self.table.run("source", policy, str(self.mapping), "--once", *options, BATCH="2", **settings)
        assert done.returncode in (0, -9), done.stderr
        return done.returncode

    def events(self) -> list[dict[str, Any]]:
        """What stands on the events topic, a partition after the other."""
        records = [one for place in range(self.table.partitions) for one in self.read(place)]
        return [msgpack.unpackb(value) for value in records]

    def read(self, partition: int) -> list[bytes]:
        return [one.value or b"" for one in self.table.read(self.table.topics.events, partition)]


def MAPPING(topic: str) -> Mapping[str, Any]:
    return {
        "people": {"topic": topic, "id": "id"},
        "attributes": {
            "age": {"column": "years"},
            "sex": {"column": "sex", "lookup": "sex.csv"},
            "zip": {"column": "zip"},
        },
        "sensitive": {"column": "code"},
    }


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Clinic:
    (tmp_path / "sex.csv").write_text("f,female\nm,male\n")
    return Clinic(Table(kafka, redis_db, tmp_path, table))


@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_it_dies_after_every_change_is_told_once(clinic: Clinic, step: str) -> None:
    for number in range(5):
        clinic.change("c", number)
    clinic.change("u", 1, years=31)
    clinic.change("u", 2, years=999)  # out of the policy's domain
    clinic.change("d", 3)
    assert clinic.run(CRASH_AT=f"{step}:2") == -9
    assert clinic.run() == 0
    told: Counter[Any] = Counter(
        (event["op"], event["id"], event.get("qid", {}).get("age")) for event in clinic.events()
    )
    first: dict[Any, int] = {("upsert", str(number), 30): 1 for number in range(5)}
    assert told == Counter({**first, ("upsert", "1", 31): 1, ("delete", "3", None): 1})
    assert clinic.table.dead_letters() == Counter({(clinic.topic, 0, 6): 1})
