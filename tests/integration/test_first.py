"""`shoal policy init` on a real PostgreSQL, and on a topic as Debezium writes it."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.local.ports import free_port
from shoal.streams.cli import main
from shoal.streams.files.mapping.mapping import load_mapping
from shoal.streams.files.policy_yaml import load_policy
from tests.support.histories.debezium import record
from tests.support.root import ROOT

SCHEMA = """
create table patient (patient_id int primary key, name text, born date, sex text, weight numeric(4, 1), disease char(9),
                      ward char(5), letter text);
create table other (number int);
insert into patient select n, 'Person ' || n, date '1950-01-01' + n, case when n % 3 = 0 then null else 'f' end,
    50 + n % 20, (array['flu', 'gout', 'asthma', 'lupus'])[1 + n % 4],
    (array['east', 'north'])[1 + n % 2], repeat('x', 600 + n % 2) from generate_series(1, 60) n;
"""


def test_a_table_of_postgresql_becomes_a_policy_and_a_mapping(
    postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(SCHEMA)
    command = ["policy", "init", "--from", postgres, "--sensitive", "disease", "--out", str(tmp_path / "first")]
    assert main(command) == 2
    assert "name the table with --table; there are public.other, public.patient." in capsys.readouterr().err
    assert main([*command, "--table", "public.patient"]) == 0
    policy = load_policy(tmp_path / "first" / "policy.yaml")
    assert [one.name for one in policy.attributes] == ["born", "sex", "weight", "ward"]
    # PostgreSQL fills char columns with blanks, and a text that is too long is no label.
    assert policy.sensitive.hierarchy.leaves == ("asthma", "flu", "gout", "lupus")
    text = (tmp_path / "first" / "policy.yaml").read_text()
    assert '# "letter" is left out: a label has more than 512 characters' in text
    mapping = load_mapping(tmp_path / "first" / "mapping.yaml", policy)
    assert mapping.people.id_columns == ("patient_id",)
    assert mapping.people.topic == "PREFIX.public.patient"
    assert mapping.attributes[0].convert == "age"
    assert mapping.attributes[1].withholds
    assert (mapping.attributes[1].trim, mapping.attributes[3].trim, mapping.values.trim) == (False, True, True)


def test_a_topic_becomes_a_policy_and_a_mapping(
    kafka: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOAL_KAFKA", kafka)
    topic = f"{table}.public.patient"
    command = ["policy", "init", "--from", topic, "--sensitive", "disease", "--out", str(tmp_path / "first")]
    assert main(command) == 2
    assert "nor a topic in Kafka" in capsys.readouterr().err
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(40):
        row = {
            "id": number,
            "born": 3685 + number,
            "weight": "Ass=",
            "disease": ("flu", "gout", "asthma", "lupus")[number % 4],
        }
        key, value = record("c", {"id": number}, row, schemas=True)
        producer.produce(topic, value, key)
        producer.produce(topic, None, key)
    assert producer.flush(30) == 0
    assert main(command) == 0
    policy = load_policy(tmp_path / "first" / "policy.yaml")
    assert [(one.name, one.kind) for one in policy.attributes] == [("born", "int"), ("weight", "float")]
    mapping = load_mapping(tmp_path / "first" / "mapping.yaml", policy)
    assert (mapping.people.topic, mapping.people.id_columns) == (topic, ("id",))


def test_a_topic_that_cannot_be_looked_at_is_one_sentence(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [
        sys.executable,
        "-m",
        "shoal.streams.cli",
        "policy",
        "init",
        "--from",
        "clinic.patient",
        "--out",
        "first",
    ]
    settings = {"SHOAL_KAFKA": address, "SHOAL_CONNECT_S": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr == f"shoal: Kafka cannot be reached at {address}: start it, or set SHOAL_KAFKA.\n"
