"""Other publishers' tables through a real Kafka: taken at the freeze, sealed with the release, and rebuilt."""

import asyncio
import json
import signal
import time
from functools import partial
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from shoal.streams.errors import GuaranteeError
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.store import Store
from shoal.streams.worker.external import external_ends
from tests.support.published import published_lines
from tests.support.services.table import DISEASES, KEY, POLICY, REDRAWN, Make, Table, insert

LASTING: dict[str, Any] = {
    "sensitive": {**POLICY["sensitive"], "values": [*DISEASES]},  # four to protect: one block, or none
    "privacy": {**POLICY["privacy"], "overlap": 3},
}
KINDS: dict[str, dict[str, Any]] = {
    "lasting": LASTING,
    "redrawn": {
        **REDRAWN,
        "privacy": {**REDRAWN["privacy"], "overlap": 3, "strategy": {"name": "adaptive", "releases": 3}},
    },
}


def publication(publisher: str, step: int, **counts: int) -> dict[str, Any]:
    groups = [
        {"region": {"age": {"min": low, "max": low + step - 1}}, "sensitive": {**dict.fromkeys(DISEASES, 1), **counts}}
        for low in range(0, 120, step)
    ]
    return {"op": "external", "publisher": publisher, "groups": groups}


@pytest.fixture(params=KINDS)
def beside(make: Make, request: pytest.FixtureRequest) -> Table:
    return make(**KINDS[request.param])


def test_what_others_publish_is_taken_once_and_what_is_wrong_becomes_a_dead_letter(beside: Table) -> None:
    worker = beside.start_planner()
    beside.publish(publication("north", 40), b"junk", {"op": "external", "publisher": "south"}, publication("east", 20))
    beside.send([insert(number) for number in range(200)])
    beside.request()
    (first,) = beside.await_releases(1)
    assert sum(json.loads(first.headers["external"])) == 4
    assert worker.stop() == 0
    beside.publish(publication("north", 30, flu=2, gout=3), {"op": "delete", "id": "p1"})
    is_lasting = json.loads(first.manifest)["values"] == "lasting"
    if is_lasting:
        beside.send([insert(number) for number in range(200, 220)])
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.await_dead_letters(3)
    before, after = (json.loads(release.manifest) for release in beside.judge())
    if is_lasting:
        assert after["suppressed"] > before["suppressed"]  # no newcomer's signature is safe beside what is new
    else:
        assert after["formed"] > 0  # broken and formed again beside it


@pytest.mark.parametrize("step", ["release.1", "release.4", "release.5", "release.9"])
def test_a_planner_killed_on_the_way_takes_the_same_publications_again(beside: Table, step: str) -> None:
    worker = beside.start(CRASH_AT=step)
    worker.await_log("planner.ready")
    beside.publish(publication("north", 40), b"junk")
    beside.send([insert(number) for number in range(100)])
    beside.request()
    assert worker.wait() == -signal.SIGKILL
    beside.publish(publication("south", 30))
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.await_dead_letters(1)
    beside.judge()


def test_a_rebuild_finds_every_publication_again(beside: Table) -> None:
    worker = beside.start_planner()
    beside.publish(publication("north", 40), b"junk")
    beside.send([insert(number) for number in range(100)])
    beside.request()
    beside.await_releases(1)
    beside.await_dead_letters(1)
    assert worker.stop() == 0
    beside.wipe()
    rebuilt = beside.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    beside.publish(publication("south", 60))
    beside.send([insert(number) for number in range(100, 130)])
    beside.request()
    beside.start()
    beside.await_releases(2)
    beside.judge()


async def test_a_release_is_not_frozen_while_kafka_does_not_know_what_was_read(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = make(**LASTING)
    await asyncio.to_thread(_release_beside_one, beside)
    store = Store(beside.redis, beside.name, make_cipher(None))
    try:
        ask = partial(external_ends, [beside.kafka], store, beside.topics)
        ends = await ask()
        assert sorted(ends.values()) == [0, 0, 0, 1]
        with monkeypatch.context() as broker:
            broker.setattr("shoal.streams.worker.external.partition_counts", _answers({}))
            with pytest.raises(KafkaError):
                await ask()
        with monkeypatch.context() as topic:
            topic.setattr("shoal.streams.worker.external.read_ends", _answers(dict.fromkeys(range(4), 0)))
            with pytest.raises(GuaranteeError, match="ends before what was read"):
                await ask()
    finally:
        await store.close()


def _release_beside_one(table: Table) -> None:
    worker = table.start_planner()
    table.publish(publication("north", 40))
    table.send([insert(number) for number in range(30)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0


def _answers(answer: Any) -> Any:
    async def ask(*_: Any) -> Any:
        return answer

    return ask


def test_what_others_publish_counts_as_the_events_do_and_makes_the_releases_of_a_replay(make: Make) -> None:
    """Topics have no order between them, so the test waits for each release: then the windows are the file's."""
    counted = make(**LASTING, release={"every_events": 50})
    people = [insert(number) for number in range(146)]
    windows: list[list[Any]] = [
        [*people[:48], publication("north", 40), b"junk", publication("south", 30)],
        [*people[48:97], {"op": "external", "publisher": "south"}, publication("east", 60)],
        [publication("west", 20, flu=2), *people[97:]],
    ]
    worker = counted.start()
    for number, (*most, last) in enumerate(windows, start=1):
        worker.await_log("planner.ready")
        _send(counted, *most)
        time.sleep(1.5)  # some rounds of the clock: with one event less no release is due
        assert len(counted.releases()) == number - 1
        assert worker.stop() == 0  # the next planner counts again what is there
        worker = counted.start()
        _send(counted, last)
        counted.await_releases(number)
        assert "cause=events" in worker.log
    counted.await_dead_letters(2)
    counted.judge()
    _assert_a_replay_counts_the_same(counted, [event for window in windows for event in window])


def _send(table: Table, *events: Any) -> None:
    """People's events to their topic, what others publish, or what is neither, to the other."""
    for event in events:
        if isinstance(event, dict) and event["op"] == "insert":
            table.send([event])
        else:
            table.publish(event)


def _assert_a_replay_counts_the_same(table: Table, events: list[Any]) -> None:
    """But for the time: a clock of Kafka's release says when, a file has no clock."""
    file, out = table.folder / "events.jsonl", table.folder / "out"
    lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    file.write_bytes(b"\n".join(lines) + b"\n")
    done = table.run("replay", str(table.policy_path), str(file), "--out", str(out), "--seed", KEY)
    assert done.returncode == 0, done.stderr
    published = table.releases()
    assert len(list(out.glob("release-*"))) == len(published)
    for release in published:
        folder = out / f"release-{release.number:04}"
        assert published_lines(folder) == b"".join(record + b"\n" for record in release.records)
        made, wanted = (json.loads(raw) for raw in ((folder / "manifest.json").read_bytes(), release.manifest))
        for manifest in (made, wanted):
            del manifest["published_at"], manifest["previous"]  # the digest of a manifest that has a time
        assert made == wanted
