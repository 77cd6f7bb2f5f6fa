"""From a real PostgreSQL through a real Debezium into Shoal: in the end the table in Shoal is the one in PostgreSQL."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from deploy.local.connect import Connect, debezium, to_avro
from deploy.local.registry import Registry
from deploy.local.service import Unavailable
from shoal.core.events.intake import Intake
from shoal.core.events.window import PRESENT
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.formats import EventReader
from tests.support.missing import skip_or_fail
from tests.support.services.table import Make, Table, Worker, await_that

SCHEMA = """
create table patient (patient_id int primary key, born date not null, sex text, zip text, weight numeric(4, 1),
                      notes text, secret text);
create table condition (number serial primary key,
                        patient_id int references patient on delete cascade on update cascade, code text not null,
                        since date not null default current_date, until date);
"""
MAPPING = """
people: {{topic: {name}.public.patient, id: patient_id}}
attributes:
  age: {{column: born, convert: age}}
  sex: {{column: sex, lookup: sex.csv}}
  zip: {{column: zip, trim: true, missing: withhold}}
  weight: {{column: weight, bin: 5}}
  notes: {{column: notes, lookup: notes.csv}}
sensitive:
  table: {{topic: {name}.public.condition, id: patient_id, column: code, start: since, end: until}}
  lookup: codes.csv
"""
LONG = "x" * 9000  # PostgreSQL keeps it apart, and does not send it with an update of other columns
CODES = {"J45": "asthma", "M10": "gout", "K29": "gastritis", "M32": "lupus"}
TRUTH = """
select p.patient_id, extract(year from age((now() at time zone 'utc')::date, p.born))::int, p.sex, trim(p.zip),
       floor(p.weight / 5) * 5, string_agg(distinct c.code, ',' order by c.code)
from patient p join condition c using (patient_id)
where p.zip is not null and c.since <= (now() at time zone 'utc')::date
  and (c.until is null or c.until > (now() at time zone 'utc')::date)
group by p.patient_id order by p.patient_id
"""


class Hospital:
    """A database, the connector that follows it, and the table that its people come to."""

    def __init__(self, table: Table, database: psycopg.Connection[Any], connect: Connect) -> None:
        self.table, self.database, self.connect = table, database, connect
        (table.folder / "sex.csv").write_text("f,female\nm,male\n")
        (table.folder / "notes.csv").write_text(f"{LONG},long\nshort,short\n")
        (table.folder / "codes.csv").write_text("".join(f"{code},{label}\n" for code, label in CODES.items()))
        self.mapping = table.folder / "mapping.yaml"
        self.mapping.write_text(MAPPING.format(name=connect.connector["name"]))

    def source(self, **settings: str) -> AbstractContextManager[Worker]:
        """A source as a process, killed at the end."""
        command = ("source", str(self.table.policy_path), str(self.mapping))
        return self.table.running(*command, STATE_KEY="a key of sixteen characters", **settings)

    def truth(self) -> dict[str, Any]:
        """What PostgreSQL has, as Shoal should have it."""
        found = {}
        for number, age, sex, zip_code, weight, codes in self.database.execute(TRUTH):
            values = {CODES[code] for code in codes.split(",")}
            found[str(number)] = (age, {"f": "female", "m": "male"}[sex], zip_code, float(weight), values)
        return found

    def told(self) -> dict[str, Any]:
        """What the events topic says, folded by core alone. No event may be rejected."""
        policy = load_policy(self.table.policy_path)
        read, intake = EventReader(policy).read, Intake(policy, {})
        for partition in range(self.table.partitions):
            for record in self.table.read(self.table.topics.events, partition):
                event = read(record.value, list(record.headers.items()))
                assert intake.take(event) is None, record.headers
        sexes, zips = (policy.attributes[at].hierarchy for at in (1, 2))
        found = {}
        for person, (_, qid, values, _, _) in intake.window.items():
            if intake.roster[person] == PRESENT:
                assert qid is not None
                assert values is not None
                assert sexes is not None
                assert zips is not None
                labels = {policy.sensitive.hierarchy.leaves[value] for value in values}
                found[person] = (qid[0], sexes.leaves[qid[1]], zips.leaves[qid[2]], qid[3], labels)
        return found

    def await_agreement(self, *logs: Worker) -> None:
        """Wait until Shoal was told of everything."""
        try:
            await_that(lambda: self.told() == self.truth(), 60, *(one._log for one in logs), pause_s=0.3)
        except TimeoutError:
            told, truth = self.told(), self.truth()
            differing = {key: (told.get(key), truth.get(key)) for key in told.keys() | truth.keys()}
            assert {key: pair for key, pair in differing.items() if pair[0] != pair[1]} == {}
            raise

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement)


@pytest.fixture
def hospital(make: Make, postgres: str, tmp_path: Path) -> Iterator[Hospital]:
    table = make(
        attributes={
            "age": {"type": "int", "min": 0, "max": 120},
            "sex": {"type": "category", "values": ["female", "male"]},
            "zip": {"type": "category", "values": [f"z{n}" for n in range(10)]},
            "weight": {"type": "float", "min": 0, "max": 300},
            "notes": {"type": "category", "values": ["long", "short"]},
        }
    )
    settings = debezium(table.name, postgres, "public.patient,public.condition")
    connect = Connect(tmp_path / "connect", table.kafka, settings)
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(SCHEMA)
        try:
            yield Hospital(table, database, connect)
        finally:
            connect.stop()
            database.execute("select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def fill(hospital: Hospital) -> None:
    """Sixty people, of whom fifty have a condition."""
    hospital.run(
        f"""insert into patient select n, date '1950-01-01' + n * 200, case when n % 2 = 0 then 'f' else 'm' end,
            'z' || n % 10 || ' ', 50 + n * 0.7, case when n % 3 = 0 then '{LONG}' else 'short' end, 'secret'
            from generate_series(1, 60) n""",
        "insert into condition (patient_id, code) select n, 'J45' from generate_series(1, 50) n",
        "insert into condition (patient_id, code) select n, 'M10' from generate_series(20, 40) n",
        "insert into condition (patient_id, code, until) values (7, 'M32', current_date - 1)",
        "insert into condition (patient_id, code, until) values (8, 'M32', current_date + 9)",
    )


def test_in_the_end_the_table_in_shoal_is_the_one_in_postgresql(hospital: Hospital) -> None:
    fill(hospital)
    table, connect = hospital.table, hospital.connect
    connect.start()
    with hospital.source() as first:
        hospital.await_agreement(first)
        hospital.run(
            "insert into patient values (101, '1990-05-05', 'f', 'z3', 71.5, 'short', 'secret')",
            "insert into condition (patient_id, code) values (101, 'K29'), (51, 'K29')",
            "update patient set zip = 'z9', weight = 99 where patient_id % 7 = 0",  # the long notes do not come along
            "update patient set zip = null where patient_id = 11",
            "delete from patient where patient_id = 12",
            "delete from condition where patient_id = 13",
            "update condition set code = 'M32' where patient_id = 14",
            "update patient set patient_id = 215 where patient_id = 15",
            "update condition set patient_id = 16 where patient_id = 17",
            "delete from patient where patient_id = 18",
            "insert into patient values (18, '1991-05-05', 'm', 'z4', 60, 'short', 'secret')",
            "insert into condition (patient_id, code) values (18, 'M10')",
        )
        hospital.await_agreement(first)
        first.kill()
    connect.kill()
    hospital.run("update patient set zip = 'z1' where patient_id < 20", "delete from patient where patient_id = 21")
    with hospital.source(CRASH_AT="source.4") as second:
        connect.start()
        assert second.wait(60) == -9
    with hospital.source() as third:
        hospital.await_agreement(third)
        # A snapshot without the changes before it: the connector starts anew, and people have gone meanwhile.
        connect.stop()
        connect.forget_offsets()
        hospital.run(
            f"select pg_drop_replication_slot('{connect.connector['slot.name']}')",
            "delete from patient where patient_id between 22 and 25",
            "delete from condition where patient_id = 26",
            "update patient set weight = 120 where patient_id = 27",
        )
        connect.start()
        hospital.await_agreement(third)
        hospital.run("update patient set sex = 'x' where patient_id = 28")  # a code that nobody knows
        assert table.await_dead_letters(1).total() == 1
        hospital.run("update patient set sex = 'f' where patient_id = 28")
        hospital.await_agreement(third)
        hospital.run("truncate condition", "insert into condition (patient_id, code) values (30, 'M10')")
        hospital.await_agreement(third)
        assert third.stop() == 0
    table.start_planner()
    (release,) = table.release()
    assert b'"withheld":1,' in release.manifest  # one person is left, and needs company


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    service = Registry(tmp_path / "registry")
    try:
        service.start()
    except Unavailable as reason:
        skip_or_fail(reason)
    yield service
    service.stop()


@pytest.mark.timeout(400)  # the registry may have to be downloaded
def test_avro_with_a_registry_comes_to_the_same_table(hospital: Hospital, registry: Registry) -> None:
    fill(hospital)
    table, connect = hospital.table, hospital.connect
    connect.converter = to_avro(registry)
    connect.start()
    with hospital.source(SCHEMA_REGISTRY_URL=registry.confluent) as first:
        hospital.await_agreement(first)
        hospital.run(
            "update patient set zip = 'z9', weight = 99 where patient_id % 7 = 0",
            "delete from patient where patient_id = 12",
            "update patient set patient_id = 215 where patient_id = 15",
            "alter table patient add column later text",  # another schema of the same topic
            "update patient set weight = 61.5, later = 'secret' where patient_id = 20",
        )
        hospital.await_agreement(first)
        stranger = Producer({"bootstrap.servers": table.kafka})
        stranger.produce(f"{table.name}.public.patient", b"\0\0\0\3\xe7anything")
        stranger.flush()
        hospital.run("update patient set sex = 'x' where patient_id = 28")
        assert table.await_dead_letters(2).total() == 2
        letters = table.read(table.topics.dead_letter, 0)
        assert [letter.headers["reason"] for letter in letters] == [b"unknown-schema", b"unknown-node"]
        body = letters[1].value or b""
        assert b'"sex": "x"' in body  # in JSON, and without what nobody reads
        assert b"secret" not in body
        assert first.stop() == 0
    look = ("policy", "init", "--from", f"{table.name}.public.patient", "--sensitive", "zip")
    done = table.run(*look, "--out", str(table.folder / "first"), SCHEMA_REGISTRY_URL=registry.confluent)
    assert done.returncode == 0, done.stderr
    assert 'column: "born", convert: age' in (table.folder / "first" / "mapping.yaml").read_text()
    connect.stop()
    connect.converter = to_avro(registry, own_ids=True)
    connect.start()
    with hospital.source(SCHEMA_REGISTRY_URL=registry.address) as second:
        hospital.run("update patient set sex = 'f' where patient_id = 28", "truncate condition")
        hospital.run("insert into condition (patient_id, code) values (30, 'M10')")
        hospital.await_agreement(second)
