"""A table that an older version has left goes on: converted, with its ledger, after a loss, and back again."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.core.migrations import FORMAT
from shoal.core.state import ENGINE
from tests.support import later_version
from tests.support.services.left_table import KINDS_OF_TABLE, LeftTable
from tests.support.services.table import SHARDED, Make, Table, insert

Leave = Callable[[str], LeftTable]


@pytest.fixture
def leave(kafka: str, redis_db: str, tmp_path: Path, table: str) -> Iterator[Leave]:
    """Leaves a table as this version's worker left it; the commands of a later version go on with it."""
    made: list[LeftTable] = []

    def _leave(kind: str) -> LeftTable:
        made.append(LeftTable(kafka, redis_db, tmp_path, table, kind))
        return made[-1]

    yield _leave
    for one in made:
        one.close()


def converted(records: dict[str, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    """What the migration makes of the records of a table."""
    return {
        kind: {identity: later_version.turned(kind, fields) for identity, fields in found.items()}
        for kind, found in records.items()
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS_OF_TABLE)
def test_a_table_in_an_older_format_is_converted_goes_on_and_is_rebuilt_from_the_snapshot(
    leave: Leave, kind: str
) -> None:
    table = leave(kind)
    before = table.records()
    refused = table.start_under(later_version.variables(table.folder, is_next_format=True))
    assert refused.wait() == 2
    assert f"has format {FORMAT} of engine {ENGINE}, and this version of Shoal has format 2" in refused.log
    assert "stop its workers and run `shoal upgrade`" in refused.log
    looked = table.later("inspect")
    assert looked.returncode == 0, looked.stderr
    assert "would keep a copy, convert format 1" in looked.stdout
    assert "is refused: release 1 was made by engine" in looked.stdout
    upgraded = table.upgrade()
    assert upgraded.returncode == 0, upgraded.stderr
    assert sorted(path.suffix for path in table.kept.iterdir()) == [".copy", ".snapshot"]
    assert converted(before) == table.records() != before
    assert (table.meta()["format"], table.meta()["engine"]) == ("2", later_version.ENGINE)
    late = table.start()
    assert late.wait() == 2
    assert "run the version that wrote it" in late.log
    worker = table.start_later()
    table.send([insert(number) for number in range(90, 110)])
    found = table.release()
    assert json.loads(found[-1].manifest)["engine"] == later_version.ENGINE
    assert json.loads(found[-1].manifest)["people"] > 80, "the window that was open is part of it"
    worker.await_log("release.applied")
    assert worker.stop() == 0
    exported = table.run("export", "--to", "csv", "--out", str(table.folder / "tables"))
    assert exported.returncode == 0, exported.stderr
    assert "4 releases as csv" in exported.stdout
    after = table.records()
    table.wipe()
    unproved = table.later("rebuild")
    assert unproved.returncode == 2
    assert "begin with the snapshot that `shoal upgrade` has taken" in unproved.stderr
    rebuilt = table.later("rebuild", "--snapshot", str(table.kept))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.records() == after
    assert table.dead_letters().total() == 4, "none is lost, and none is sent twice"


def test_a_snapshot_in_an_older_format_is_converted_as_it_is_read(leave: Leave) -> None:
    table = leave("lasting, encrypted")
    snapshot, before = table.folder / "older", table.records()
    assert table.run("snapshot", str(snapshot)).returncode == 0
    table.wipe()
    restored = table.later("restore", str(snapshot))
    assert restored.returncode == 0, restored.stderr
    assert table.records() == converted(before)
    table.wipe()
    assert table.later("snapshot", str(snapshot)).returncode == 2, "there is nothing to take one of"
    restored = table.later("restore", str(snapshot))
    assert table.later("snapshot", str(table.folder / "newer")).returncode == 0
    table.wipe()
    refused = table.run("restore", str(table.folder / "newer"))
    assert refused.returncode == 2
    assert f"has records in format 2 of engine {later_version.ENGINE}" in refused.stderr


def test_an_upgrade_is_asked_for_done_once_and_taken_back_byte_for_byte(leave: Leave) -> None:
    table = leave("lasting, encrypted")
    before, to = table.dump(), ("--to", str(table.kept))
    asked = table.later("upgrade", *to)
    assert asked.returncode != 0, "nobody said yes"
    assert f"has format {FORMAT} of engine {ENGINE}; a copy of it goes to" in asked.stderr
    assert table.dump() == before
    assert table.upgrade().returncode == 0
    after = table.dump()
    again = table.upgrade()
    assert (again.returncode, again.stdout) == (
        0,
        f"Table {table.name} is up to date: format 2 of engine {later_version.ENGINE}.\n",
    )
    assert table.dump() == after
    (copy,) = table.kept.glob("*.copy")
    assert b"gastritis" not in copy.read_bytes(), "it is encrypted"
    assert "shoal upgrade --back" in table.run("restore", str(copy)).stderr, "it is no snapshot"
    back = table.run("upgrade", "--back", str(copy), "--yes")
    assert back.returncode == 0, back.stderr
    assert table.dump() == before
    assert table.upgrade().returncode == 0
    assert table.dump().keys() == after.keys()


def test_what_cannot_be_upgraded_is_refused_in_one_sentence_and_nothing_is_touched(leave: Leave) -> None:
    table = leave("lasting, encrypted")
    before, to = table.dump(), ("--to", str(table.kept))
    text = table.policy_path.read_text()
    table.policy_path.write_text(text.replace('"l": 2', '"l": 3'))
    _assert_refused(table, "was begun under another policy: give the one that it has", *to)
    table.policy_path.write_text(text)
    _assert_refused(table, "name a folder")
    _assert_refused(table, "another SHOAL_KEY", *to, KEY="another secret of the tests")
    _assert_refused(table, "another SHOAL_STATE_KEY", *to, STATE_KEY="another state key of the tests")
    with table.connect() as client:
        meta = f"{{shoal:{table.name}}}:meta"
        for field, value, sentence in (
            ("engine", "100.0", "run the version that wrote it"),
            ("format", "0", "run the version that wrote it"),
            ("format", "3", "run the version that wrote it"),
            ("applied", "2", f"release 3 of table {table.name} is under way"),
        ):
            stored = client.hget(meta, field)
            client.hset(meta, field, value)
            _assert_refused(table, sentence, *to)
            client.hset(meta, field, stored)
    assert table.dump() == before


def _assert_refused(table: LeftTable, sentence: str, *options: str, **settings: str) -> None:
    done = table.later("upgrade", *options, "--yes", **settings)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_running_worker_keeps_an_upgrade_from_beginning(make: Make) -> None:
    table = make()
    table.start_planner()
    with table.connect() as client:
        client.hset(f"{{shoal:{table.name}}}:meta", "engine", "0.9")
    done = table.run("upgrade", "--to", str(table.folder), "--yes")
    assert done.returncode == 2
    assert "are running (on 127.0.0.1): stop them" in done.stderr


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
    newer = table.start_under(later_version.variables(table.folder, is_next_format=False))
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
@pytest.mark.parametrize("point", ["release.4:2", "release.5", "release.6"])
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
    if point != "release.4:2":
        assert upgraded.returncode == 2
        assert "release 2 of table" in upgraded.stderr
        assert "is under way: start the workers of the version that began it" in upgraded.stderr
        worker = table.start_planner()
        table.await_releases(2)
        worker.await_log("release.applied")
        assert worker.stop() == 0
        upgraded = _under_another_engine(table, *options)
    assert upgraded.returncode == 0, upgraded.stderr
    newer = table.start_under(later_version.variables(table.folder, is_next_format=False))
    found = table.await_releases(2)
    engines = [json.loads(release.manifest)["engine"] for release in found]
    assert engines == [ENGINE, later_version.ENGINE if point == "release.4:2" else ENGINE]
    table.release()
    newer.await_log("release.applied")
    assert newer.stop() == 0


def _under_another_engine(table: Table, *command: str) -> "subprocess.CompletedProcess[str]":
    return later_version.run(table.folder, table.environment(), command, is_next_format=False)
