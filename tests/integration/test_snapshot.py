"""Snapshots on real services: what is restored is what was there, and a rebuild needs nothing from before it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shoal.streams.store.records import RejectNote, pack
from tests.fault.scene import KINDS, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.snapshots import (
    changed_policy,
    delete_before,
    key_of,
    restore,
    take,
    with_and_without_shards,
)
from tests.support.services.table import KEY, POLICY, SHARDED, Make, Table, insert, inserts

STATE_KEY = "kept in another place"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "state_key", "shards"),
    [
        ("cliques", STATE_KEY, {}),
        ("signed", "", {}),
        ("redrawn", "", {}),
        ("redrawn", STATE_KEY, {}),
        ("cliques", "", {**SHARDED, "release": {"full_every": 3}}),
        ("signed", STATE_KEY, SHARDED),
    ],
    ids=["cliques, encrypted", "signed", "redrawn", "redrawn, encrypted", "shards", "shards, signed, encrypted"],
)
def test_everything_that_a_table_has_is_restored_and_rebuilt_from_a_snapshot(
    kafka: str,
    redis_db: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    state_key: str,
    shards: dict[str, Any],
) -> None:
    scene = Scene(kafka, redis_db, tmp_path, table, **KINDS[kind], **shards)
    secret = {"STATE_KEY": state_key} if state_key else {}
    try:
        worker = scene.start_planner(**secret)
        scene.settle()
        if shards:
            scene.fill(200)  # for the cuts
        pour = partial(scene.pour, 300)
        for happens in (pour, pour, scene.thin):
            happens()
            scene.ask()
            scene.await_served()
        worker.await_log("release.applied", count=scene.asked)
        bad = scene.mixture.counts["bad"]
        scene.pour(100)
        scene.await_dead_letters(bad + 1)  # a window is open, of which letters were sent
        take(scene, tmp_path / "kept", **secret)
        before = scene.stored(state_key)
        assert worker.stop() == 0
        scene.wipe()
        restore(scene, tmp_path / "kept", **secret)
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
        if shards and state_key:
            monkeypatch.delenv("TMPDIR", raising=False)
            refused = scene.run("rebuild", **secret)
            assert refused.returncode == 2
            assert "set TMPDIR" in refused.stderr, "shards would lie in files that nobody said are safe"
            monkeypatch.setenv("TMPDIR", str(tmp_path))
        rebuilt = scene.run("rebuild", "--snapshot", str(tmp_path / "kept"), **secret)
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "2 releases since the snapshot of release 4, each as it was published" in rebuilt.stdout
        assert scene.stored(state_key) == before
        scene.pour(40)
        scene.start(**secret)
        last = json.loads(scene.finish()[-1].manifest)
        assert not shards or [one["people"] > 0 for one in last["shards"]] == [True] * shards["scale"]["shards"]
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
    take(table, tmp_path / "kept")
    assert worker.stop() == 0
    table.wipe()
    restore(table, tmp_path / "kept")
    with table.connect() as client:
        ingest = {name.decode(): value.decode() for name, value in client.hgetall(key_of(table, "ingest")).items()}
    assert ingest["at"] == "2026-02-03T04:05:06Z"
    assert ingest["trigger"] == "2"
    assert sum(int(ingest[f"offset:{number}"]) for number in range(table.partitions)) == 105
    table.start_planner()
    table.release(b'{"op":"release","at":"2026-02-03T04:05:07Z"}')
    table.judge()
    assert table.dead_letters().total() == 8
    assert json.loads(table.releases()[-1].manifest)["people"] == 101


@with_and_without_shards
def test_once_there_is_a_snapshot_events_before_it_may_be_deleted(kept: tuple[Table, Path]) -> None:
    table, path = kept
    worker = table.start_planner()
    table.send([{"op": "delete", "id": f"p{number}"} for number in range(0, 100, 9)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = table.stored()
    delete_before(table, release=1)
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shards", [{}, SHARDED], ids=["", "shards"])
def test_the_policy_s_snapshots_are_written_beside_the_releases_and_a_rebuild_finds_the_newest(
    make: Make, tmp_path: Path, shards: dict[str, Any]
) -> None:
    table = make(snapshot={"every_releases": 2, "keep": 2, "to": "kept"}, **shards)
    worker = table.start_planner()
    for number in range(6):
        table.send(inserts(20 * number, 20))
        table.release()
        worker.await_log("snapshot.written", count=(number + 1) // 2)
    assert worker.stop() == 0
    before, folder = table.stored(), tmp_path / "kept"
    names = [f"{table.name}-0000000{release}.snapshot" for release in (4, 6)]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / names[1]).write_bytes((folder / names[1]).read_bytes()[:-1])
    table.wipe()
    rebuilt = table.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "snapshot.unusable" in rebuilt.stderr
    assert "2 releases since the snapshot of release 4" in rebuilt.stdout
    assert table.stored() == before
    sound = _inspect(table)["snapshots"][-1]
    assert sum(sound.get("shards", [])) == (sound["people"] if shards else 0)
    assert ("people in 3 shards" in table.run("inspect").stdout) == bool(shards)


def test_a_snapshot_that_cannot_be_written_is_counted_and_tried_again_and_no_release_fails(
    make: Make, tmp_path: Path
) -> None:
    table = make(snapshot={"every_releases": 1, "to": "kept"})
    (tmp_path / "kept").write_text("in the way")
    worker = table.start_planner()
    table.send(inserts(0, 20))
    table.release()
    worker.await_log("snapshot.failed")
    assert "FileExistsError" in worker.log
    (tmp_path / "kept").unlink()
    table.release()
    worker.await_log("snapshot.written")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [f"{table.name}-00000002.snapshot"]
    assert worker.stop() == 0
    assert "Traceback" not in worker.log


def test_nothing_published_nothing_kept_and_no_place_to_keep_it_are_one_sentence_each(
    make: Make, tmp_path: Path
) -> None:
    table = make()
    nowhere = table.run("snapshot")
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (2, 1)
    assert "the policy does not say where snapshots go" in nowhere.stderr
    nothing = table.run("snapshot", str(tmp_path / "kept"))
    assert (nothing.returncode, nothing.stderr.count("\n")) == (2, 1)
    assert "nothing of table" in nothing.stderr
    assert not (tmp_path / "kept").exists()


def test_inspect_says_what_there_is_what_may_go_and_what_a_rebuild_would_do_and_names_nobody(
    make: Make, tmp_path: Path
) -> None:
    table = make(snapshot={"every_releases": 2, "to": "kept"})
    assert _inspect(table)["rebuild"] == "nothing is published, so there is nothing to rebuild"
    worker = table.start_planner()
    table.send(inserts(0, 50))
    table.release()
    worker.await_log("release.applied")
    found = _inspect(table)
    assert found["rebuild"] == (
        "has nothing to do now; if Redis were lost it would begin at the first event and make 1 releases again, of 52 "
        "records"
    )
    assert found["redis"]["records"]["people"] == 50
    assert found["needed"] == {"events": [0] * 4, "external": [0] * 4, "triggers": [0]}
    table.send(inserts(50, 25))
    table.release()
    worker.await_log("snapshot.written")
    table.send(inserts(75, 25))
    table.release()
    worker.await_log("release.applied", count=3)
    assert worker.stop() == 0
    found = _inspect(table)
    (kept,) = found["snapshots"]
    assert (kept["release"], kept["people"], kept["bytes"] > 1000) == (2, 75, True)
    ends = json.loads(table.releases()[1].headers["offsets"])
    assert found["needed"] == {"events": ends, "external": [0] * 4, "triggers": [2]}
    assert "begin at the snapshot of release 2 and make 1 releases again, of 26 records" in found["rebuild"]
    assert found["upgrade"].startswith("nothing to do")
    assert found["shoal"]["key"] == found["redis"]["key"] != KEY
    table.wipe()
    delete_before(table, release=2)
    assert _inspect(table)["rebuild"].startswith("would begin at the snapshot of release 2")
    Path(kept["path"]).write_text("damaged")
    told = table.run("inspect")
    assert told.returncode == 0, told.stderr
    assert "is refused: records of events, triggers are gone that it needs" in told.stdout
    assert f"{kept['path']}: {kept['path']} is not a snapshot of Shoal" in told.stdout
    for canary in ("p17", "asthma", "lupus", KEY):
        assert canary not in told.stdout + json.dumps(found)


def _inspect(table: Table) -> dict[str, Any]:
    told = table.run("inspect", "--json")
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_reject_whose_record_was_deleted_before_its_letter_was_sent_becomes_a_letter_without_body(
    kept: tuple[Table, Path], tmp_path: Path
) -> None:
    table, _ = kept
    letters = table.dead_letters().total()
    with table.connect() as client:
        client.rpush(key_of(table, "rejects:0"), pack(RejectNote(2, "wrong-partition")))
    take(table, tmp_path / "with a reject")
    delete_before(table, release=1)
    table.wipe()
    restore(table, tmp_path / "with a reject")
    table.start_planner()
    assert table.await_dead_letters(letters + 1)[table.topics.events, 0, 2] == 1
    (letter,) = [one for one in table.read(table.topics.dead_letter, 0) if one.headers["reason"] == b"wrong-partition"]
    assert (letter.key, letter.value, letter.headers["offset"]) == (None, None, b"2")


@pytest.mark.timeout(240)
@with_and_without_shards
def test_a_rebuild_begins_with_a_snapshot_from_before_the_policy_changed(kept: tuple[Table, Path]) -> None:
    table, path = kept
    worker = table.start_planner()
    values = [*POLICY["sensitive"]["values"], "rosacea"]
    new = changed_policy(table, sensitive={**POLICY["sensitive"], "values": values}, privacy={"k": 4, "l": 2})
    asked = table.run("policy", "change", str(new))
    assert asked.returncode == 0, asked.stderr
    assert worker.wait(60) == 2
    worker = table.start_planner(POLICY=str(new))
    table.send([insert(number, sensitive=["rosacea"]) for number in range(300, 340)])
    assert len(table.release()) == 3
    worker.await_log("release.applied")
    assert worker.stop() == 0
    delete_before(table, release=1)
    table.wipe()
    told = table.run("restore", str(path), POLICY=str(new))
    assert "made under another policy" in told.stderr
    rebuilt = table.run("rebuild", "--snapshot", str(path), POLICY=str(new))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert "2 releases since the snapshot of release 1" in rebuilt.stdout
    table.start_planner(POLICY=str(new))
    assert len(table.release()) == 4
