"""Snapshots on real services: what is restored is what was there, and a rebuild needs nothing from before it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from shoal.streams.errors import InputError
from shoal.streams.settings import load_settings
from shoal.streams.snapshot.restore import run_restore
from tests.fault.scene import KINDS, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.table import Make, Table, insert, inserts

STATE_KEY = "kept in another place"


@pytest.fixture
def kept(make: Make, tmp_path: Path) -> tuple[Table, Path]:
    """A table of one release with a snapshot of it, and nobody at work on it."""
    table = make()
    worker = table.start_planner()
    table.send(inserts(0, 100))
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    path = tmp_path / "kept"
    assert _snapshot(table, path).startswith(f"{path}: release 1, 100 people, ")
    return table, path


def _snapshot(table: Table, to: Path, **secret: str) -> str:
    taken = table.run("snapshot", str(to), **secret)
    assert taken.returncode == 0, taken.stderr
    return taken.stdout


def _restore(table: Table, path: Path, **secret: str) -> None:
    restored = table.run("restore", str(path), **secret)
    assert restored.returncode == 0, restored.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "state_key"),
    [("cliques", STATE_KEY), ("signed", ""), ("redrawn", ""), ("redrawn", STATE_KEY)],
    ids=["cliques, encrypted", "signed", "redrawn", "redrawn, encrypted"],
)
def test_everything_that_a_table_has_is_restored_and_rebuilt_from_a_snapshot(
    kafka: str, redis_db: str, table: str, tmp_path: Path, kind: str, state_key: str
) -> None:
    scene = Scene(kafka, redis_db, tmp_path, table, **KINDS[kind])
    secret = {"STATE_KEY": state_key} if state_key else {}
    try:
        worker = scene.start_planner(**secret)
        scene.settle()
        pour = partial(scene.pour, 300)
        for happens in (pour, pour, scene.thin):
            happens()
            scene.ask()
            scene.await_served()
        worker.await_log("release.applied", count=scene.asked)
        bad = scene.mixture.counts["bad"]
        scene.pour(100)
        scene.await_dead_letters(bad + 1)  # a window is open, of which letters were sent
        _snapshot(scene, tmp_path / "kept", **secret)
        before = scene.stored(state_key)
        assert worker.stop() == 0
        scene.wipe()
        _restore(scene, tmp_path / "kept", **secret)
        assert scene.stored(state_key) == before
        worker = scene.start_planner(**secret)
        for _ in range(2):
            scene.pour(80)
            scene.ask()
            scene.await_served()
        worker.await_log("release.applied", count=2)
        assert worker.stop() == 0
        before = scene.stored(state_key)
        scene.wipe()
        rebuilt = scene.run("rebuild", "--snapshot", str(tmp_path / "kept"), **secret)
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "2 releases since the snapshot of release 4, each as it was published" in rebuilt.stdout
        assert scene.stored(state_key) == before
        scene.pour(40)
        scene.start(**secret)
        scene.finish()
        assert_a_replay_makes_the_same(scene)
    finally:
        scene.close()


def test_a_snapshot_of_what_is_being_worked_on_has_the_last_release_and_nothing_behind_it(
    make: Make, tmp_path: Path
) -> None:
    table = make()
    worker = table.start_planner()
    table.send([*inserts(0, 100), b"junk"])
    table.request(b'{"op": "nonsense"}')
    table.release(b'{"op":"release","at":"2026-02-03T04:05:06Z"}')
    worker.await_log("release.applied")
    table.send([insert(500), b"more junk"])
    table.request(b'{"op":"release","at":"2026-02-03T00:00:00Z"}')  # earlier than the last: rejected
    table.await_dead_letters(8)
    _snapshot(table, tmp_path / "kept")
    assert worker.stop() == 0
    table.wipe()
    _restore(table, tmp_path / "kept")
    with table.connect() as client:
        ingest = {name.decode(): value.decode() for name, value in client.hgetall(_key(table, "ingest")).items()}
    assert ingest["at"] == "2026-02-03T04:05:06Z"
    assert ingest["trigger"] == "2"
    assert sum(int(ingest[f"offset:{number}"]) for number in range(table.partitions)) == 105
    table.start_planner()
    table.release(b'{"op":"release","at":"2026-02-03T04:05:07Z"}')
    table.judge()
    assert table.dead_letters().total() == 8
    assert json.loads(table.releases()[-1].manifest)["people"] == 101


def test_once_there_is_a_snapshot_events_before_it_may_be_deleted(kept: tuple[Table, Path]) -> None:
    table, path = kept
    worker = table.start_planner()
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 100, 9)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = table.stored()
    _delete_before(table, release=1)
    table.wipe()
    refused = table.run("rebuild")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "begins at offset" in refused.stderr
    assert "name a newer snapshot with --snapshot" in refused.stderr
    rebuilt = table.run("rebuild", "--snapshot", str(path))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "1 releases since the snapshot of release 1" in rebuilt.stdout
    assert table.stored() == before
    table.start_planner()
    table.send([insert(700)])
    last = json.loads(table.release()[-1].manifest)
    assert last["people"] + last["withheld"] == 89


def _delete_before(table: Table, release: int) -> None:
    """Delete every event and trigger that a release has taken."""
    headers = table.releases()[release - 1].headers
    ends = [TopicPartition(table.topics.events, *place) for place in enumerate(json.loads(headers["offsets"]))]
    ends.append(TopicPartition(table.topics.triggers, 0, int(headers["trigger"]) + 1))
    admin = AdminClient({"bootstrap.servers": table.kafka})
    for done in admin.delete_records(ends).values():
        done.result()


def test_a_snapshot_that_is_none_or_of_something_else_is_refused_and_nothing_is_touched(
    kept: tuple[Table, Path], tmp_path: Path, make: Make
) -> None:
    table, path = kept
    content = path.read_bytes()
    damaged, cut, other = tmp_path / "damaged", tmp_path / "cut", tmp_path / "other"
    damaged.write_bytes(content[:-40] + b"\0" + content[-39:])
    cut.write_bytes(content[:-40])
    other.write_bytes(content.replace(b'"format": 1', b'"format": 2', 1))
    before = table.stored()
    full = table.run("restore", str(path))
    assert full.returncode == 2
    assert full.stderr.startswith(f"shoal: Redis has a state of table {table.name}, and a snapshot goes only into")
    assert table.stored() == before
    table.wipe()
    cases: list[tuple[Path, str, dict[str, Any]]] = [
        (damaged, "is damaged", {}),
        (cut, "is cut short", {}),
        (other, "in format 2, and this version of Shoal reads format 1", {}),
        (tmp_path / "nowhere", "cannot be read", {}),
        (table.policy_path, "is not a snapshot of Shoal", {}),
        (path, "written under another key", {"KEY": "another secret of the tests"}),
        (path, "made under another policy", {"POLICY": str(_changed(table, privacy={"k": 4, "l": 2}))}),
        (path, f"is a snapshot of table {table.name}", {"POLICY": str(_changed(table, table="other"))}),
    ]
    for file, said, settings in cases:
        with pytest.raises(InputError, match=said) as refused:
            run_restore(load_settings(table.environment(**settings)), file)
        assert "\n" not in str(refused.value)
    refusal = table.run("rebuild", "--snapshot", str(cut))
    assert refusal.returncode == 2
    assert refusal.stderr == f"shoal: {cut} is cut short: use another snapshot, or a whole copy of this one.\n"
    assert table.keys == []


def _changed(of: Table, **changes: Any) -> Path:
    """The policy of a table with changes."""
    policy = json.loads(of.policy_path.read_text())
    path = of.policy_path.with_name(f"changed-{'-'.join(changes)}.json")
    path.write_text(json.dumps({**policy, **changes}))
    return path


def _key(table: Table, name: str) -> str:
    return f"{{shoal:{table.name}}}:{name}"
