"""`produce`, `release` and `releases` against a real Kafka, with a real worker in between."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.files.release_folder import read_releases
from shoal.streams.kafka.topics import Topics, ensure_topics
from tests.support.judges.topics import Judged
from tests.support.panel import make_panel, split_by_year
from tests.support.root import ROOT

SECRET = "secret-of-the-commands-test"
CANARY = "canary-7f3a"


@dataclass
class Desk:
    """A small clinic under a table name of its own, and the commands to run on it."""

    path: Path
    table: str
    kafka: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def events(self) -> Path:
        return self.path / "clinic" / "events.jsonl"

    def shoal(self, *args: object, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "shoal.streams.cli", *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment, cwd=self.path, input=stdin, timeout=120
        )

    @contextmanager
    def worker(self) -> Iterator[None]:
        with (self.path / "worker.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "shoal.streams.cli", "worker"],
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.path,
            )
            try:
                yield
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
            except BaseException:
                process.kill()
                print((self.path / "worker.log").read_text())  # pytest shows it with the failure
                raise


@pytest.fixture
def desk(tmp_path: Path, table: str, kafka: str, redis_db: str) -> Desk:
    write_clinic(tmp_path / "clinic", Clinic(people=150, nights=3))
    policy = tmp_path / "clinic" / "policy.yaml"
    policy.write_text(policy.read_text().replace("table: clinic", f"table: {table}"))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    environment = {
        **inherited,
        "PYTHONPATH": str(ROOT),
        "SHOAL_KAFKA": kafka,
        "SHOAL_REDIS": redis_db,
        "SHOAL_POLICY": str(policy),
        "SHOAL_KEY": SECRET,
        "SHOAL_WEB_PORT": "0",
    }
    return Desk(tmp_path, table, kafka, environment)


@pytest.mark.parametrize("wire", ["msgpack", "json"])
def test_what_is_produced_is_released_and_read_back_as_replay_would_make_it(desk: Desk, wire: str) -> None:
    with desk.worker():
        produced = desk.shoal(
            "produce", "clinic/policy.yaml", "clinic/events.jsonl", "--wait", "--wait-s", 60, "--format", wire
        )
        assert produced.returncode == 0, produced.stderr
        assert "6 events of these had no effect" in produced.stderr
        assert "2 × unknown-id (id) in update, first on line 155" in produced.stderr
        asked = desk.shoal("release", "--wait", "--at", "2024-03-20T03:00:00Z")
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout.startswith(f"release 4 of {desk.table}: ")
    listed = desk.shoal("releases", "--out", "topic")
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["release", "1", "2", "3", "4"]
    with desk.events.open("a") as events:
        events.write('{"op": "release", "at": "2024-03-20T03:00:00Z"}\n')
    replayed = desk.shoal("replay", "clinic/policy.yaml", "clinic/events.jsonl", "--out", "replay")
    assert replayed.returncode == 0
    names = [
        path.relative_to(desk.path / "topic") for path in sorted((desk.path / "topic").rglob("*")) if path.is_file()
    ]
    assert len(names) == 20
    for name in names:
        assert (desk.path / "topic" / name).read_bytes() == (desk.path / "replay" / name).read_bytes()
    again = desk.shoal("releases", "--out", "topic")
    assert again.returncode == 0, "the same bytes may be written again"


def test_what_was_sent_and_had_no_effect_is_reported_and_read_back(desk: Desk) -> None:
    rows = [line for line in desk.events.read_text().splitlines() if '"insert"' in line][:30]
    wrong = [f'{{"op": "erase", "id": "{CANARY}"}}', rows[0], rows[1].replace('"qid": {', f'"qid": {{"{CANARY}": 1, ')]
    (desk.path / "events.jsonl").write_text("\n".join([*rows, '{"op": "release"}', *wrong]) + "\n")
    (desk.path / "erase.jsonl").write_text(wrong[0] + "\n")
    with desk.worker():
        produced = desk.shoal("produce", "clinic/policy.yaml", "events.jsonl", "--wait", "--wait-s", 60)
        assert produced.returncode == 0, produced.stderr
        assert "3 events of these had no effect; `shoal dead-letters` has each one:" in produced.stderr
        for said in ("unknown-id (id) in erase, line 32", "already-present (id) in insert, line 33"):
            assert f"shoal:   1 × {said}" in produced.stderr
        assert "unknown-attribute (qid) in insert, line 34" in produced.stderr
        erased = desk.shoal("produce", "clinic/policy.yaml", "erase.jsonl", "--wait", "--json")
        assert erased.returncode == 2, "nothing that was sent had an effect"
        (letter,) = json.loads(erased.stdout)["dead_letters"]
        assert (letter["reason"], letter["op"], letter["field"], letter["line"]) == ("unknown-id", "erase", "id", 1)
    listed = desk.shoal("dead-letters")
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(rf"\S+Z  shoal\.{desk.table}\.events [0-9]+ [0-9]+  unknown-id \(id\) in erase", lines[-1])
    assert "2 × unknown-id (id) in erase" in listed.stderr
    assert CANARY not in listed.stdout + listed.stderr + produced.stdout + produced.stderr
    some = desk.shoal("dead-letters", "--reason", "already-present", "--json")
    (found,) = [json.loads(line) for line in some.stdout.splitlines()]
    assert (found["op"], found["field"]) == ("insert", "id")
    assert "content" not in found
    whole = desk.shoal("dead-letters", "--reason", "unknown-id", "--show-content")
    assert whole.stdout.count(f'{{"op": "erase", "id": "{CANARY}"}}') == 2
    assert desk.shoal("dead-letters", "--reason", "none").returncode == 2


def test_a_panel_makes_the_releases_of_replay_and_goes_on_where_they_end(desk: Desk) -> None:
    panel = make_panel(desk.path, 60)
    policy = desk.path / "policy.yaml"
    policy.write_text(policy.read_text().replace("table: panel", f"table: {desk.table}"))
    desk.environment["SHOAL_POLICY"] = str(policy)
    files = split_by_year(panel)[::-1]
    produce = ("produce", "policy.yaml", "--map", "map.yaml", "--wait", "--wait-s", 60)
    with desk.worker():
        first = desk.shoal(*produce, *files[:4])
        assert (first.returncode, first.stdout.split(", ")[1]) == (0, "4 releases asked for"), first.stderr
        rest = desk.shoal(*produce, "panel.csv")
        assert (rest.returncode, rest.stdout.split(", ")[1]) == (0, "2 releases asked for"), rest.stderr
        assert "periods up to 2019-01-01T00:00:00Z were released before, and are not sent again." in rest.stderr
        nothing = desk.shoal(*produce, "panel.csv")
        assert nothing.stdout == "0 events sent, 0 releases asked for, 0 lines not sent\n"
    assert desk.shoal("releases", "--out", "topic").returncode == 0
    assert desk.shoal("replay", "policy.yaml", "panel.csv", "--map", "map.yaml", "--out", "replay").returncode == 0
    names = [path.relative_to(desk.path / "topic") for path in (desk.path / "topic").rglob("*") if path.is_file()]
    assert len(names) == 30
    for name in names:
        assert (desk.path / "topic" / name).read_bytes() == (desk.path / "replay" / name).read_bytes()


def test_csv_arrives_as_events_and_bad_lines_do_not(desk: Desk) -> None:
    rows = [json.loads(line) for line in desk.events.read_text().splitlines() if '"insert"' in line][:40]
    lines = [
        f"{row['id']};{row['qid']['age']};{row['qid']['sex']};{row['qid']['zip']};{row['sensitive'][0]}" for row in rows
    ]
    (desk.path / "people.csv").write_text(
        "\n".join(["nr;age;sex;zip;condition", *lines, "p;old;male;90001;asthma"]) + "\n"
    )
    with desk.worker():
        produced = desk.shoal("produce", "clinic/policy.yaml", "people.csv", "--id", "nr", "--delimiter", ";")
        assert produced.returncode == 2
        assert produced.stdout == "40 events sent, 0 releases asked for, 1 line not sent\n"
        assert produced.stderr == "shoal: line 42 was not sent: qid.age is wrong-type.\n"
        assert desk.shoal("release", "--wait").stdout.startswith("release 1 of ")
    assert desk.shoal("releases", "--out", "topic").returncode == 0
    (release,) = read_releases(desk.path / "topic")
    manifest = json.loads(release.manifest)
    assert manifest["people"] + manifest["withheld"] == 40


def test_a_list_of_who_exists_and_what_another_has_published_arrive_as_files(desk: Desk) -> None:
    """The releases are about those who have a record; the list says only who could have one."""
    inserts = [json.loads(line) for line in desk.events.read_text().splitlines() if '"insert"' in line]
    listed = [f"{row['id']},{row['qid']['age']},{row['qid']['sex']},{row['qid']['zip']}" for row in inserts[:60]]
    (desk.path / "voters.csv").write_text("\n".join(["voter,age,sex,zip", *listed]) + "\n")
    theirs = [f"20-60,{row['sensitive'][0]}" for row in inserts[:2]]
    (desk.path / "theirs.csv").write_text("\n".join(["age,condition", *theirs]) + "\n")
    (desk.path / "people.jsonl").write_text("".join(json.dumps(row) + "\n" for row in inserts[:40]))
    policy = "clinic/policy.yaml"
    with desk.worker():
        files = ("voters.csv", "--register", "--id", "voter"), ("--external", "theirs.csv", "--publisher", "north")
        for file, count in zip((*files, ("people.jsonl",)), ("60 events", "1 event", "40 events"), strict=True):
            produced = desk.shoal("produce", policy, *file)
            assert (produced.returncode, produced.stderr) == (0, "")
            assert produced.stdout == f"{count} sent, 0 releases asked for, 0 lines not sent\n"
        assert desk.shoal("release", "--wait").returncode == 0
    topics = Judged(desk.kafka, desk.table, 8, desk.path / policy)
    (release,) = topics.releases()
    manifest = json.loads(release.manifest)
    assert manifest["people"] + manifest["withheld"] == 40
    assert sum(json.loads(release.headers["external"])) == 1
    assert topics.dead_letters().total() == 0


async def test_a_broken_chain_is_noticed_with_exit_code_1(desk: Desk) -> None:
    await ensure_topics([desk.kafka], desk.table, 2)
    empty = desk.shoal("releases")
    assert (empty.returncode, empty.stderr) == (0, "shoal: there are no releases yet.\n")
    producer = AIOKafkaProducer(bootstrap_servers=[desk.kafka])
    await producer.start()
    try:
        forged = json.dumps({"table": desk.table, "release": 1, "format": 1, "previous": None, "content": "00" * 32})
        headers = [("kind", b"manifest")]
        await producer.send_and_wait(Topics(desk.table).releases, forged.encode(), partition=0, headers=headers)
    finally:
        await producer.stop()
    broken = desk.shoal("releases", "--out", "topic")
    assert broken.returncode == 1
    assert (
        broken.stderr == "shoal: the chain of releases is broken: release 1 has other records than its manifest says.\n"
    )
    assert list((desk.path / "topic").iterdir()) == [], "nothing of it is written"


def test_without_a_worker_waiting_ends_with_a_sentence(desk: Desk) -> None:
    waited = desk.shoal("release", "--wait", "--wait-s", "2")
    assert waited.returncode == 3
    assert "is a worker running?" in waited.stderr


def test_a_table_nobody_has_started_is_named(desk: Desk) -> None:
    result = desk.shoal("releases")
    assert result.returncode == 2
    assert f"there is no topic shoal.{desk.table}.releases yet" in result.stderr
