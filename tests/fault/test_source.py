"""`shoal source` killed after every step: each change becomes an event once, and each bad row a dead letter once."""

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local import Local
from deploy.local.ports import free_port
from tests.support.histories.debezium import record
from tests.support.judges.metrics import value
from tests.support.services.ask import ask
from tests.support.services.schemas import Registry, framed
from tests.support.services.table import Table, Worker, await_that

STEPS = ("source.2", "source.3", "source.4.open", "source.4", "source.5")


class Clinic:
    """A table whose people come from a captured table."""

    def __init__(self, table: Table, partitions: int = 1) -> None:
        self.table, self.topic = table, f"{table.name}.public.patient"
        self.lsn = 1000
        admin = AdminClient({"bootstrap.servers": table.kafka})
        admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result()
        self.mapping = table.folder / "mapping.yaml"
        self.mapping.write_text(json.dumps(MAPPING(self.topic)))

    def change(self, op: str, number: int, snapshot: str = "false", partition: int = 0, **columns: Any) -> None:
        self.lsn += 0 if op == "r" else 8
        row = None if op == "d" else {"id": number, "years": 30, "sex": "f", "zip": "z1", "code": "gout", **columns}
        key, value = record(op, {"id": number}, row, self.lsn, snapshot=snapshot)
        self.table._send(self.topic, value, key, partition)
        if op == "d":
            self.table._send(self.topic, None, key, partition)
        self.table.flush()

    def present(self) -> set[str]:
        """Whom Shoal knows."""
        present: set[str] = set()
        for event in self.events():
            (present.discard if event["op"] == "delete" else present.add)(event["id"])
        return present

    def run(self, *options: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """Run the source until everything there is has been read, in batches of two records unless told otherwise."""
        given = {"BATCH": "2", **settings}
        return self.table.run(*self.command, "--stop-after", "0", *options, **given)

    def running(self, *options: str, **settings: str) -> AbstractContextManager[Worker]:
        """A source that goes on until it is killed at the end."""
        return self.table.running(*self.command, *options, **settings)

    @property
    def command(self) -> tuple[str, ...]:
        return ("source", str(self.table.policy_path), str(self.mapping))

    def events(self) -> list[dict[str, Any]]:
        """What stands on the events topic, a partition after the other."""
        records = [one for place in range(self.table.partitions) for one in self.read(place)]
        return [msgpack.unpackb(value) for value in records]

    def read(self, partition: int) -> list[bytes]:
        return [one.value or b"" for one in self.table.read(self.table.topics.events, partition)]


AWAY = '{"ready": false, "state": "retrying", "reason": "it begins again after RegistryError"}'
COUNTED = ("records_total", "events_total", "restarts_total", "lag_records", "ready")


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


def test_it_goes_on_by_itself_when_a_service_is_back(native_services: Local, table: str, tmp_path: Path) -> None:
    (tmp_path / "sex.csv").write_text("f,female\nm,male\n")
    clinic = Clinic(Table(native_services.kafka.address, native_services.redis.address, tmp_path, table))
    clinic.change("c", 1)
    with clinic.running() as source:
        source.await_log("source.batch")
        native_services.redis.kill()
        clinic.change("c", 2)
        native_services.redis.restart()
        await_that(lambda: clinic.present() == {"1", "2"}, 60, source._log)
        native_services.kafka.kill()
        native_services.kafka.restart()
        clinic.change("c", 3)
        await_that(lambda: clinic.present() == {"1", "2", "3"}, 90, source._log)
        assert source.stop() == 0
    assert Counter(event["id"] for event in clinic.events()) == {"1": 1, "2": 1, "3": 1}


@pytest.fixture
def clinic(request: pytest.FixtureRequest, kafka: str, redis_db: str, table: str, tmp_path: Path) -> Clinic:
    (tmp_path / "sex.csv").write_text("f,female\nm,male\n")
    return Clinic(Table(kafka, redis_db, tmp_path, table), getattr(request, "param", 1))


@pytest.mark.parametrize("step", STEPS)
def test_whatever_step_it_dies_after_every_change_is_told_once(clinic: Clinic, step: str) -> None:
    for number in range(5):
        clinic.change("c", number)
    clinic.change("u", 1, years=31)
    clinic.change("u", 2, years=999)  # out of the policy's domain
    clinic.change("d", 3)
    assert clinic.run(CRASH_AT=f"{step}:2").returncode == -9
    assert clinic.run().returncode == 0
    told: Counter[Any] = Counter(
        (event["op"], event["id"], event.get("qid", {}).get("age")) for event in clinic.events()
    )
    first: dict[Any, int] = {("upsert", str(number), 30): 1 for number in range(5)}
    assert told == Counter({**first, ("upsert", "1", 31): 1, ("delete", "3", None): 1})
    assert clinic.table.dead_letters() == Counter({(clinic.topic, 0, 6): 1})


def test_a_record_that_cannot_be_read_is_a_dead_letter_without_a_body_and_stops_nothing(clinic: Clinic) -> None:
    for garbage in (b"canary", b"x" * 5000):
        clinic.table._send(clinic.topic, garbage, None, 0)
    clinic.change("c", 1)
    assert clinic.run(MAX_RECORD="4096").returncode == 0
    assert clinic.present() == {"1"}
    letters = clinic.table.read(clinic.table.topics.dead_letter, 0)
    assert [(letter.headers["reason"], letter.value) for letter in letters] == [
        (b"bad-json", None),
        (b"too-large", None),
    ]


def test_avro_without_a_registry_ends_the_source_with_a_sentence_and_loses_nothing(clinic: Clinic) -> None:
    clinic.change("c", 1)
    clinic.table._send(clinic.topic, b"\0\0\0\0\1anything", None, 0)
    clinic.table.flush()
    refused = clinic.run()
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        "a captured topic has records in Avro: set SHOAL_SCHEMA_REGISTRY_URL to the registry with their schemas.\n"
    )
    assert clinic.table.dead_letters().total() == 0


def test_it_waits_for_a_registry_that_is_away(clinic: Clinic) -> None:
    columns = [{"name": name, "type": "string"} for name in ("sex", "zip", "code")]
    columns += [{"name": name, "type": "int"} for name in ("id", "years")]
    row = {"type": "record", "name": "Row", "fields": columns}
    place = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
    fields = [{"name": "after", "type": row}, {"name": "source", "type": place}, {"name": "op", "type": "string"}]
    schema = {"type": "record", "name": "Envelope", "fields": fields}
    person = {"id": 1, "years": 30, "sex": "f", "zip": "z1", "code": "gout"}
    record = framed(5, schema, {"after": person, "source": {"lsn": 1}, "op": "c"})
    clinic.table._send(clinic.topic, record, b'{"id": 1}', 0)
    clinic.table._send(clinic.topic, b"not json", None, 0)
    clinic.table.flush()
    port, web = free_port(), free_port()
    options = ("--web-port", str(web))
    with clinic.running(*options, SCHEMA_REGISTRY_URL=f"http://127.0.0.1:{port}") as source:
        source.await_log("error=RegistryError")
        await_that(lambda: ask(web, "ready") == (503, AWAY), 10, source._log)  # for a moment it tries again
        registry = Registry(port)
        registry.put(5, schema)
        with registry.serving():
            await_that(lambda: clinic.present() == {"1"}, 30, source._log)
        assert ask(web, "ready") == (200, '{"ready": true, "state": "ready", "reason": null}')
        assert ask(web, "health") == (200, '{"status": "alive"}')
        page = ask(web, "metrics")[1]
        about = {"table": clinic.table.name}
        counted = {name: value(page, f"shoal_source_{name}", **about) for name in COUNTED}
        assert counted.pop("restarts_total") > 0
        assert counted == {"records_total": 2, "events_total": 1, "lag_records": 0, "ready": 1}
        assert value(page, "shoal_source_rejects_total", reason="bad-json") == 1
    assert clinic.table.dead_letters().total() == 1


@pytest.mark.parametrize("clinic", [3], indirect=True)
def test_a_sweep_goes_on_where_it_was_killed_also_with_several_partitions(clinic: Clinic) -> None:
    for number in range(9):
        clinic.change("c", number, partition=number % 3)
    assert clinic.run(BATCH="100").returncode == 0
    assert clinic.present() == {str(number) for number in range(9)}
    for number, marker in ((0, "first"), (1, "true"), (5, "last")):
        clinic.change("r", number, marker, partition=number % 3)
    # The batch with the last row of the snapshot is the next one; it dies in the middle of the sweep after it.
    assert clinic.run(BATCH="100", CRASH_AT="source.4:3").returncode == -9
    assert clinic.run(BATCH="100").returncode == 0
    assert clinic.present() == {"0", "1", "5"}
    deleted = Counter(event["id"] for event in clinic.events() if event["op"] == "delete")
    assert set(deleted.values()) == {1}


def test_a_second_source_takes_over_and_the_first_says_so_and_ends(clinic: Clinic) -> None:
    clinic.change("c", 1)
    with clinic.running() as first:
        first.await_log("source.batch")
        assert clinic.run().returncode == 0
        clinic.change("c", 2)
        assert first.wait(60) == 2
        assert "has taken over: run one of them at a time" in first.log
    assert clinic.run().returncode == 0
    assert Counter(event["id"] for event in clinic.events()) == {"1": 1, "2": 1}


def test_a_source_whose_book_is_lost_stops_and_anew_tells_only_what_is_so_now(clinic: Clinic) -> None:
    for number in range(4):
        clinic.change("c", number)
    clinic.change("u", 1, years=31)
    assert clinic.run(BATCH="100").returncode == 0
    told = len(clinic.events())
    with clinic.table.connect() as client:
        client.flushdb()
    clinic.change("u", 1, years=32)
    clinic.change("d", 2)
    lost = clinic.run()
    assert lost.returncode == 1
    assert "Redis has lost the state of the source of table" in lost.stderr
    assert "--anew" in lost.stderr
    assert clinic.run().returncode == 1  # nor does it go on by itself the next time
    assert clinic.run("--anew").returncode == 0
    again = clinic.events()
    assert len(again) == told + 4  # three who are there, once each, and one who is not
    assert sorted(event["qid"]["age"] for event in again if event["id"] == "1") == [31, 32]
    assert clinic.present() == {"0", "1", "3"}
    assert clinic.run().returncode == 0
    assert len(clinic.events()) == told + 4


def test_another_mapping_is_refused_before_anything_is_read(clinic: Clinic) -> None:
    clinic.change("c", 1)
    assert clinic.run().returncode == 0
    other = json.loads(clinic.mapping.read_text())
    other["sensitive"]["column"] = "diagnosis"
    clinic.mapping.write_text(json.dumps(other))
    refused = clinic.run()
    assert refused.returncode == 2
    assert "names other topics or columns" in refused.stderr


def test_the_book_names_nobody_and_is_written_anew_under_another_key(clinic: Clinic) -> None:
    first, second = "the first key of the ring", "the second key of the ring"
    clinic.change("c", 4711, zip="z7")
    assert clinic.run().returncode == 0
    assert clinic.run(STATE_KEY=first).returncode == 0
    assert clinic.run(STATE_KEY=f"{second},{first}").returncode == 0
    clinic.change("u", 4711, zip="z8")
    assert clinic.run(STATE_KEY=second).returncode == 0
    assert [event["qid"]["zip"] for event in clinic.events()] == ["z7", "z8"]
    with clinic.table.connect() as client:
        kept = b"".join(key + client.dump(key) for key in client.scan_iter())
    assert b"people:" in kept
    for secret in (b"4711", b"z8", b"gout"):
        assert secret not in kept
