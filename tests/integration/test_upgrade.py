"""A table that an older version has left goes on: converted, with its ledger, after a loss, and back again."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.core.randomness import Keyed
from shoal.core.state import ENGINE
from tests.support import another_engine
from tests.support.older import NAMES
from tests.support.root import ROOT
from tests.support.services.older_table import OlderTable
from tests.support.services.table import KEY, SHARDED, Make, Table, insert

Leave = Callable[[str], OlderTable]


@pytest.fixture
def leave(kafka: str, redis_db: str, tmp_path: Path) -> Iterator[Leave]:
    """Leaves a table as an older version left it."""
    made: list[OlderTable] = []

    def _leave(name: str) -> OlderTable:
        made.append(OlderTable(kafka, redis_db, tmp_path, name))
        return made[-1]

    yield _leave
    for one in made:
        one.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_every_older_version_goes_on_and_is_rebuilt_from_the_snapshot(leave: Leave, name: str) -> None:
    table = leave(name)
    kept, refused = table.folder / "kept", table.start()
    assert refused.wait() == 2
    if name != "format-5":  # whose policy is not one any more
        assert "stop its workers and run `shoal upgrade`" in refused.log
    looked = table.run("inspect")
    assert looked.returncode == 0, looked.stderr
    assert f"would {'keep a copy' if name.startswith('format') else 'take a snapshot'}" in looked.stdout
    assert "is refused: release 1 was made by engine" in looked.stdout
    upgraded = table.run("upgrade", "--to", str(kept), "--yes")
    assert upgraded.returncode == 0, upgraded.stderr
    assert ("Add `values: redrawn`" in upgraded.stderr) == (name == "format-5")
    assert any(path.suffix == ".copy" for path in kept.iterdir()) == name.startswith("format")
    table.say_values()
    people = table.stored(table.older.state_key)["people"]
    assert people.keys() == {Keyed(KEY.encode(), table.name).handle(f"p{number}") for number in range(80)}
    worker = table.start_planner()
    table.send([insert(number) for number in range(90, 110)])
    found = table.release()
    assert json.loads(found[-1].manifest)["engine"] == ENGINE
    assert json.loads(found[-1].manifest)["people"] > 80, "the window that was open is part of it"
    worker.await_log("release.applied")
    assert worker.stop() == 0
    read = [table.run("releases", "--out", str(table.folder / "read")) for _ in range(2)]
    assert [one.returncode for one in read] == [0, 0], read[0].stderr
    written = sorted(path.name for path in (table.folder / "read").iterdir())
    assert written == [f"release-000{number}" for number in range(1, 5)]
    exported = table.run("export", "--to", "csv", "--out", str(table.folder / "tables"))
    assert exported.returncode == 0, exported.stderr
    assert "4 releases as csv" in exported.stdout
    before = table.stored(table.older.state_key)
    table.wipe()
    unproved = table.run("rebuild")
    assert unproved.returncode == 2
    assert "begin with the snapshot that `shoal upgrade` has taken" in unproved.stderr
    rebuilt = table.run("rebuild", "--snapshot", str(kept))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored(table.older.state_key) == before
    assert table.dead_letters().total() == 4, "none is lost, and none is sent twice"


def test_a_table_of_which_nothing_is_published_begins_anew_with_its_topics(leave: Leave) -> None:
    table = leave("format-8")
    table.forget_releases()
    upgraded = table.run("upgrade", "--to", str(table.folder / "kept"), "--yes")
    assert upgraded.returncode == 0, upgraded.stderr
    assert [path.suffix for path in (table.folder / "kept").iterdir()] == [".copy"], "there is no release to keep"
    worker = table.start_planner()
    assert json.loads(table.await_releases(1)[0].manifest)["engine"] == ENGINE
    worker.await_log("release.applied")
    assert worker.stop() == 0
    assert len(table.stored(table.older.state_key)["people"]) == 90
    assert table.dead_letters().total() == 4


def test_an_upgrade_is_asked_for_done_once_and_taken_back_byte_for_byte(leave: Leave) -> None:
    table = leave("format-8")
    before, to = table.dump(), ("--to", str(table.folder / "kept"))
    asked = table.run("upgrade", *to)
    assert asked.returncode != 0, "nobody said yes"
    assert "has format 8 of engine 2.0; a copy of it goes to" in asked.stderr
    assert table.dump() == before
    assert table.run("upgrade", *to, "--yes").returncode == 0
    after = table.dump()
    again = table.run("upgrade", *to, "--yes")
    assert (again.returncode, again.stdout) == (
        0,
        f"Table {table.name} is up to date: format 9 of engine {ENGINE}.\n",
    )
    assert table.dump() == after
    (copy,) = (table.folder / "kept").glob("*.copy")
    assert b"p11" not in copy.read_bytes(), "it is encrypted"
    assert "shoal upgrade --back" in table.run("restore", str(copy)).stderr, "it is no snapshot"
    back = table.run("upgrade", "--back", str(copy), "--yes")
    assert back.returncode == 0, back.stderr
    assert table.dump() == before
    assert table.run("upgrade", *to, "--yes").returncode == 0
    assert table.dump().keys() == after.keys()


def test_what_cannot_be_upgraded_is_refused_in_one_sentence_and_nothing_is_touched(leave: Leave) -> None:
    table = leave("format-5")
    before, to = table.dump(), ("--to", str(table.folder / "kept"))
    table.say_values("lasting")
    _assert_refused(
        table, "is redrawn, as everything of engine 1.0 is, and cannot become lasting: its values were shown", *to
    )
    table.say_values()
    _assert_refused(table, "engine 1.0 knows a policy by the bytes of its files", *to)
    table.policy_path.write_bytes(table.older.policy)
    _assert_refused(table, "name a folder")
    _assert_refused(table, "another SHOAL_KEY", *to, KEY="another secret of the tests")
    _assert_refused(table, "another SHOAL_STATE_KEY", *to, STATE_KEY="another state key of the tests")
    with table.connect() as client:
        meta = f"{{shoal:{table.name}}}:meta"
        for field, value, sentence in (
            ("engine", "99.0", "run the version that wrote it"),
            ("format", "4", "run the version that wrote it"),
            ("applied", "2", "release 3 of table older-format-5 is under way"),
        ):
            stored = client.hget(meta, field)
            client.hset(meta, field, value)
            _assert_refused(table, sentence, *to)
            client.hset(meta, field, stored)
    assert table.dump() == before


def _assert_refused(table: Table, sentence: str, *options: str, **settings: str) -> None:
    done = table.run("upgrade", *options, "--yes", **settings)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_redrawn_table_stays_one_and_the_worker_says_why(leave: Leave) -> None:
    table = leave("format-7")
    assert table.run("upgrade", "--to", str(table.folder), "--yes").returncode == 0
    table.say_values("lasting")
    worker = table.start()
    assert worker.wait() == 2
    assert "was begun under values: redrawn, and this policy says lasting: what was shown under one model" in worker.log


def test_a_snapshot_of_an_older_engine_is_restored_and_gone_on_with(leave: Leave) -> None:
    table = leave("engine-2.1")
    before, snapshot = table.content(), table.folder / "snapshot"
    snapshot.write_bytes(table.older.snapshot)
    table.wipe()
    restored = table.run("restore", str(snapshot))
    assert restored.returncode == 0, restored.stderr
    assert table.content() == before
    table.move_to_this_broker()
    worker = table.start_planner()
    assert json.loads(table.release()[-1].manifest)["engine"] == ENGINE
    worker.await_log("release.applied")
    assert worker.stop() == 0
    assert table.dead_letters().total() == 4


def test_a_running_worker_keeps_an_upgrade_from_beginning(make: Make) -> None:
    table = make()
    table.start_planner()
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "engine", "2.1")
    _assert_refused(table, "are running (on 127.0.0.1): stop them", "--to", str(table.folder))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["one shard", "shards"])
def test_the_engine_goes_up_under_a_table_and_a_snapshot_of_either_engine_is_a_beginning(make: Make, kind: str) -> None:
    """The ordinary case: the same format, other bytes."""
    table = make(**({**SHARDED, "release": {"full_every": 5}} if kind == "shards" else {}))
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert table.run("snapshot", str(table.folder / "earlier")).returncode == 0
    table.send([insert(number) for number in range(60, 70)])
    table.release()
    worker.await_log("release.applied", count=2)
    assert worker.stop() == 0
    before = table.stored()
    upgraded = _under_another_engine(table, "upgrade", "--to", str(table.folder / "kept"), "--yes")
    assert upgraded.returncode == 0, upgraded.stderr
    assert table.stored() == before, "nothing but the engine is another"
    late = table.start()
    assert late.wait() == 2
    assert "of engine 99.0, and this version of Shoal has" in late.log
    newer = table.start_under(another_engine.variables(table.folder))
    newer.await_log("planner.ready")
    table.send([insert(number) for number in range(70, 90)])
    table.release()
    newer.await_log("release.applied")
    assert newer.stop() == 0
    told = [json.loads(release.manifest).get("shards", ()) for release in table.releases()]
    assert all(part["full"] for part in told[-1]), "another engine may write other bytes"
    assert kind == "one shard" or not all(part["full"] for part in told[-2])
    after = table.stored()
    for snapshot, code in (("earlier", 2), ("kept", 0)):
        table.wipe()
        rebuilt = _under_another_engine(table, "rebuild", "--snapshot", str(table.folder / snapshot))
        assert rebuilt.returncode == code, rebuilt.stderr
    assert table.stored() == after


@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["shards.4:2", "shards.5", "shards.6"])
def test_no_release_of_shards_is_made_by_two_engines(make: Make, point: str) -> None:
    """What some shards have reported is planned again; a release that is sealed is finished by the engine before."""
    table = make(**SHARDED)
    worker = table.start_planner()
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    dying = table.start_planner(CRASH_AT=point)
    table.send([insert(number) for number in range(60, 90)])
    table.request()
    assert dying.wait(60) == -9
    options = ("upgrade", "--to", str(table.folder / "kept"), "--yes", "--without-snapshot")
    upgraded = _under_another_engine(table, *options)
    if point != "shards.4:2":
        assert upgraded.returncode == 2
        assert "release 2 of table" in upgraded.stderr
        assert "is under way: start the workers of the version that began it" in upgraded.stderr
        worker = table.start_planner()
        table.await_releases(2)
        worker.await_log("release.applied")
        assert worker.stop() == 0
        upgraded = _under_another_engine(table, *options)
    assert upgraded.returncode == 0, upgraded.stderr
    newer = table.start_under(another_engine.variables(table.folder))
    found = table.await_releases(2)
    engines = [json.loads(release.manifest)["engine"] for release in found]
    assert engines == [ENGINE, another_engine.ENGINE if point == "shards.4:2" else ENGINE]
    table.release()
    newer.await_log("release.applied")
    assert newer.stop() == 0


def _under_another_engine(table: Table, *command: str) -> "subprocess.CompletedProcess[str]":
    environment = {**table.environment(), **another_engine.variables(table.folder)}
    words = [sys.executable, "-m", "shoal.streams.cli", *command]
    return subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
