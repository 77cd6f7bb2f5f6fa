"""No message stops a table: records that grow, letters that do not fit, requests by the thousand, plans that fail."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from deploy.local.ports import free_port
from tests.support.root import ROOT
from tests.support.services.table import Make, Record, Table, await_that, insert, inserts


def ask(port: int, view: str) -> tuple[int, Any]:
    """Status and answer of a web view, whatever the status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{view}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


def letters_of(table: Table) -> dict[int, Record]:
    """The dead letters of the events topic, by offset."""
    found = table.read(table.topics.dead_letter, 0)
    return {int(letter.headers["offset"]): letter for letter in found if letter.headers["topic"].endswith(b".events")}


def send_compressed(table: Table, codec: str, value: bytes) -> None:
    producer = Producer(
        {"bootstrap.servers": table.kafka, "compression.type": codec, "message.max.bytes": 200_000_000, "linger.ms": 0}
    )
    producer.produce(table.topics.events, value, b"k", 0)
    assert producer.flush(30) == 0


def test_records_that_grow_become_letters_without_a_body(make: Make) -> None:
    """20 MB were read as they came; 900 MB made the worker grow to 5 GB. A long letter stopped its partition."""
    table = make(partitions=1)
    worker = table.start_planner()
    admin = AdminClient({"bootstrap.servers": table.kafka})
    short = ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
    letters = ConfigResource(ResourceType.TOPIC, table.topics.dead_letter, incremental_configs=[short])
    for answer in admin.incremental_alter_configs([letters]).values():
        answer.result(20)
    junk = json.dumps(insert(7, sensitive="flu" * 100_000)).encode()
    send_compressed(table, "gzip", b"\0" * 2_000_000)
    send_compressed(table, "gzip", b"\0" * 90_000_000)
    table.send([junk, b"{", *(insert(number) for number in range(20))], partition=0)
    table.release()
    await_that(lambda: len(letters_of(table)) == 4, 30.0)
    grown, bomb, long, small = (letters_of(table)[offset] for offset in range(4))
    for letter in (grown, bomb, long):
        assert (letter.key, letter.value) == (None, None)
    assert (grown.headers["reason"], grown.headers["size"]) == (b"too-large", b"2000001")
    assert grown.headers["digest"] == sha256(b"\0" * 2_000_000).hexdigest().encode()
    assert (bomb.headers["reason"], bomb.headers["size"]) == (b"too-large", b"67108864+")
    assert long.headers["reason"] == b"unknown-node"
    assert int(long.headers["size"]) == len(junk)
    assert (small.headers["reason"], small.value) == (b"bad-json", b"{")
    assert worker.process.poll() is None
    port = free_port()
    other = table.start(WEB_PORT=str(port))  # one of two workers has no partition now, and must not mind
    await_that(lambda: "partitions=0" in worker.log + other.log, 20.0)
    time.sleep(1)
    assert ask(port, "health")[0] == 200
    assert (worker.process.poll(), other.process.poll()) == (None, None)


def test_a_thousand_requests_make_a_few_releases_in_the_order_of_their_times(make: Make) -> None:
    table = make(release={"min_seconds": 2})
    worker = table.start_planner()
    table.send(inserts(0, 100))
    for number in range(1_000):
        table._send(table.topics.triggers, b'{"op":"release","at":"2026-05-01T10:%02d:00Z"}' % (number // 20), None, 0)
    table.flush()
    await_that(lambda: sum("trigger=999" in line for line in worker.log.splitlines()) > 0, 60.0, worker._log)
    made = table.await_releases(1)
    assert len(made) <= 4
    assert json.loads(made[-1].manifest)["published_at"] == "2026-05-01T10:49:00Z"
    table.request(b'{"op":"release","at":"2026-05-01T10:48:59Z"}')
    table.request(b'{"op":"release","at":"2026-05-01T12:49:00+02:00"}')
    again = table.await_releases(len(made) + 1)
    assert len(again) == len(made) + 1
    (letter,) = (one for one in table.read(table.topics.dead_letter, 0) if one.headers["topic"].endswith(b".triggers"))
    assert (letter.headers["reason"], letter.headers["offset"]) == (b"out-of-order", b"1000")
    table.judge()


# A worker whose engine cannot get over some people and publishers; nothing else about it is changed.
FRAIL = """
import os, sys
from shoal.core.randomness import Keyed
from shoal.streams.worker import remaking, shard_owner
from shoal.streams.cli import main

def handle(name, table):
    return Keyed(os.environ["SHOAL_KEY"].encode(), table).handle(name)

def check(window, table):
    if any(handle("poison", table) in deltas for deltas in window.deltas.values()):
        raise OverflowError("poison")
    if any(group.publisher == "poison" for group in window.externals):
        raise OverflowError("poison")

def frail_part(state, window, policy, *args, plan_part=shard_owner.plan_part):
    check(window, policy.table)
    return plan_part(state, window, policy, *args)

def frail(state, window, policy, *args, plan=remaking.plan):
    check(window, policy.table)
    return plan(state, window, policy, *args)

def unpacked(made, *args, chunks_of=shard_owner.chunks_of, **options):
    yield from chunks_of(made, *args, **options)
    if handle("unpackable", os.environ["TABLE"]) in made.change.people:
        raise OverflowError("unpackable")

shard_owner.chunks_of = unpacked
shard_owner.plan_part = frail_part
remaking.plan = frail
sys.exit(main(sys.argv[1:]))
"""


class Frail:
    """Commands of that engine."""

    def __init__(self, table: Table) -> None:
        self.table, self.port, self.log = table, free_port(), table.folder / "frail.log"
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        with self.log.open("ab") as log:
            environment = {**self.table.environment(WEB_PORT=str(self.port)), "TABLE": self.table.name}
            command = [sys.executable, "-c", FRAIL, "worker"]
            self._workers.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log))

    def end(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()

    def rebuild(self) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", FRAIL, "rebuild"]
        environment = {**self.table.environment(), "TABLE": self.table.name}
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)

    def await_log(self, text: str, count: int = 1) -> None:
        await_that(lambda: self.log.exists() and self.log.read_text().count(text) >= count, 40.0, self.log)


@pytest.fixture
def frail(make: Make) -> Iterator[Frail]:
    found = Frail(make(partitions=2))
    yield found
    found.end()


def test_a_record_that_cannot_be_planned_is_left_out_and_a_rebuild_does_the_same(frail: Frail) -> None:
    table = frail.table
    frail.start()
    frail.await_log("planner.ready")
    table.send([insert(number) for number in range(40)])
    table.release()
    poison = insert(50, id="poison")
    table.send([insert(number) for number in range(40, 50)], partition=1)
    table.send([{"op": "update", "id": "nobody"}, poison], partition=1)
    table.send([insert(52, id="unpackable")], partition=0)
    for publisher in ("harmless", "poison", "harmless too"):
        table.publish({"op": "external", "publisher": publisher, "groups": [{"region": {}, "sensitive": {"lupus": 1}}]})
    table.request()
    frail.await_log("release.failed")
    table.send([{"op": "update", "id": "poison", "qid": {"age": 4}}, insert(51)], partition=1)
    code, found = ask(frail.port, "ready")
    assert (code, found["ready"], found["planner"]) == (503, False, "stuck")
    assert found["reason"].startswith("release 2 cannot be planned (OverflowError")
    assert "shoal skip" in found["reason"]
    assert ask(frail.port, "health")[0] == 200
    number, place = next(
        (number, place)
        for number in range(2)
        if (place := _place_of(table, table.topics.external, number, b'"poison"')) is not None
    )
    frail.await_log(f"leave out the record that stops it: `shoal skip external {number} {place}`")
    assert table.run("skip", "external", str(number), str(place)).returncode == 0
    left_out = {f"external:{number}": [place]}
    places = [
        _place_of(table, table.topics.events, number, name) for number, name in enumerate((b"unpackable", b"poison"))
    ]
    for number, place in enumerate(places):
        frail.await_log(f"leave out the record that stops it: `shoal skip events {number} {place}`")
        await_that(lambda place=place: str(place) in (ask(frail.port, "ready")[1]["reason"] or ""), 40.0, frail.log)
        skip = table.run("skip", table.topics.events, str(number), str(place))
        assert skip.returncode == 0, skip.stderr
    assert table.run("skip", "events", "0", "0").returncode == 0  # too late, in a release already
    published = table.await_releases(2)
    table.release()
    published = table.releases()
    assert json.loads(published[1].headers["skipped"]) == {
        "0": places[:1],
        "1": places[1:],
        **left_out,
    }
    assert "skipped" not in published[2].headers
    await_that(lambda: ask(frail.port, "ready")[1]["planner"] == "waiting", 30.0, frail.log)  # release 3 is applied
    assert "poison" not in frail.log.read_text()
    assert "unpackable" not in frail.log.read_text()
    await_that(lambda: table.dead_letters().total() == 6, 30.0, frail.log)
    reasons = {
        (letter.headers["topic"].rpartition(b".")[2], letter.headers["reason"])
        for letter in table.read(table.topics.dead_letter, 0)
    }
    assert reasons == {
        (b"events", b"skipped"),
        (b"events", b"unknown-id"),
        (b"external", b"skipped"),
        (b"triggers", b"too-late"),
    }
    before = table.stored()
    frail.end()
    table.wipe()
    rebuilt = frail.rebuild()
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored() == before
    frail.start()
    frail.await_log("planner.ready", 2)
    assert table.release()[:3] == published
    time.sleep(1)
    assert table.dead_letters().total() == 6


def _place_of(table: Table, topic: str, partition: int, name: bytes) -> int | None:
    return next((r.offset for r in table.read(topic, partition) if name in (r.value or b"")), None)


def test_junk_on_the_releases_topic_is_one_sentence(make: Make) -> None:
    table = make()
    worker = table.start_planner()
    table.send([insert(number) for number in range(20)])
    table.release()
    assert worker.stop() == 0
    table._send(table.topics.releases, b"junk", None, 0)
    table.flush()
    read = table.run("releases")
    assert read.returncode == 1
    assert "that no worker of Shoal has written" in read.stderr.splitlines()[-1]
    producer = Producer({"bootstrap.servers": table.kafka})
    for value in (b'{"release":', b'{"release":"x"}', b"[]"):
        producer.produce(table.topics.releases, value, b"k", 0, headers={"kind": b"manifest"})
        assert producer.flush(20) == 0
    refused = table.start()
    assert refused.wait() == 1
    assert "that no worker of Shoal has written" in refused.log.splitlines()[-1]
    assert "Traceback" not in refused.log + read.stderr


@pytest.mark.parametrize("runs", [True, False])
def test_an_events_topic_that_was_made_again_is_one_sentence(make: Make, runs: bool) -> None:
    table = make(partitions=2)
    worker = table.start_planner()
    table.send(inserts(0, 60))
    table.release()
    if not runs:
        assert worker.stop() == 0
    admin = AdminClient({"bootstrap.servers": table.kafka})
    for answer in admin.delete_topics([table.topics.events]).values():
        answer.result(20)
    time.sleep(1)
    for answer in admin.create_topics([NewTopic(table.topics.events, 2, 1)]).values():
        answer.result(20)
    ended = worker if runs else table.start()
    said = "created anew" if runs else "begun under another events topic"
    assert ended.wait(60) == (1 if runs else 2)
    assert said in ended.log.strip().splitlines()[-1]
    assert "Traceback" not in ended.log
