"""kill -9 right after every step of a snapshot, a restore and a rebuild: repeated, nothing is lost or there twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene
from tests.support.services.table import SHARDED, await_that

WRITES = ("table.1", "table.part", "table.part:5", "table.2", "table.3")


@pytest.fixture(params=[{}, SHARDED], ids=["", "shards"])
def scene(kafka: str, redis_db: str, table: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """A table of the test's own, on which everything is promised at once, with one shard and with several."""
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING, **request.param)
    yield made
    made.close()


@pytest.fixture
def kept(scene: Scene, tmp_path: Path) -> Path:
    """A snapshot of a table whose worker has stopped with a window open."""
    worker = scene.start()
    scene.settle()
    scene.fill(100)  # with shards there are cuts then
    scene.pour(80)
    scene.ask()
    scene.await_served()
    worker.await_log("release.applied", PATIENCE_S, count=2)
    bad = scene.mixture.counts["bad"]
    scene.pour(80)
    scene.await_dead_letters(bad + 1, PATIENCE_S)
    assert worker.stop() == 0, worker.log
    path = tmp_path / "kept"
    taken = scene.run("snapshot", str(path))
    assert taken.returncode == 0, taken.stderr
    return path


@pytest.mark.timeout(400)
def test_a_snapshot_killed_anywhere_leaves_the_one_before_and_no_trace_in_redis(scene: Scene, kept: Path) -> None:
    before, keys, content = scene.stored(), _lasting_keys(scene), kept.read_bytes()
    points = ("snapshot.1", "snapshot.2", "snapshot.3.part:7", "snapshot.3", "snapshot.4", "snapshot.5.open")
    for point in points:
        assert scene.run("snapshot", str(kept), CRASH_AT=point).returncode == -9, point
        assert kept.read_bytes() == content, point
    assert scene.run("snapshot", str(kept), CRASH_AT="snapshot.5").returncode == -9
    assert kept.read_bytes() != content
    assert (scene.stored(), _lasting_keys(scene)) == (before, keys)
    scene.wipe()
    assert scene.run("restore", str(kept)).returncode == 0
    assert scene.stored() == before
    scene.start()
    scene.finish()


def _lasting_keys(scene: Scene) -> list[bytes]:
    """Without the note that a worker is creating the table, which goes by itself after a minute."""
    return [key for key in scene.keys if not key.endswith(b":beginning")]


@pytest.mark.timeout(400)
def test_a_restore_or_rebuild_killed_anywhere_is_done_by_the_next_one(scene: Scene, kept: Path) -> None:
    before = scene.stored()
    rebuild = ("rebuild", "--snapshot", str(kept))
    for command, points in ((("restore", str(kept)), ("restore.1", "restore.2", *WRITES)), (rebuild, WRITES)):
        for point in points:
            scene.wipe()
            assert scene.run(*command, CRASH_AT=point).returncode == -9, (command, point)
            is_whole = point == "table.3"
            assert (scene.stored() == before) == is_whole, (command, point)
            if not is_whole:
                again = scene.run(*command)
                assert again.returncode == 0, again.stderr
                assert scene.stored() == before, (command, point)
    scene.start()
    scene.finish()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("point", "shards"),
    [(point, {}) for point in ("snapshot.2", "snapshot.3.part:9", "snapshot.5", "snapshot.6")]
    + [(point, SHARDED) for point in ("snapshot.3.part:90", "snapshot.4")],
    ids=lambda param: param if isinstance(param, str) else "shards" * bool(param),
)
def test_a_worker_killed_while_it_writes_a_snapshot_has_published_and_goes_on(
    kafka: str, redis_db: str, table: str, tmp_path: Path, point: str, shards: dict[str, Any]
) -> None:
    wanted = {"every_releases": 1, "keep": 2, "to": "kept"}
    scene = Scene(kafka, redis_db, tmp_path, table, snapshot=wanted, **shards)
    try:
        dying = scene.start(CRASH_AT=point)
        scene.settle()
        assert scene.await_exit(dying) == -9, dying.log
        worker = scene.start()
        for number in range(2, 4):
            scene.pour(60)
            scene.ask()
            scene.await_served()
            await_that((tmp_path / "kept" / f"{table}-0000000{number}.snapshot").exists, PATIENCE_S, worker._log)
        scene.finish()
        worker.await_log("snapshot.written", PATIENCE_S, count=3)
        assert worker.stop() == 0, worker.log
        kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
        assert kept == [f"{table}-0000000{number}.snapshot" for number in (3, 4)]
        before = scene.stored()
        scene.wipe()
        rebuilt = scene.run("rebuild")
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "0 releases since the snapshot of release 4" in rebuilt.stdout
        assert scene.stored() == before
    finally:
        scene.close()


@pytest.mark.timeout(400)
def test_snapshots_taken_while_releases_are_made_are_each_of_one_release(scene: Scene, tmp_path: Path) -> None:
    """A rebuild that begins with one makes every release since again, and with records of two would make others."""
    worker = scene.start()
    scene.settle()
    taken: list[Path] = []
    with scene.load(ask_every=2):
        for number in range(4):
            path = tmp_path / f"kept-{number}"
            done = scene.run("snapshot", str(path))
            assert done.returncode in (0, 3), done.stderr  # 3: a release was under way for a whole minute
            taken += [path] if done.returncode == 0 else []
    scene.finish()
    worker.await_log("release.applied", PATIENCE_S, count=len(scene.releases()))
    assert worker.stop() == 0, worker.log
    before = scene.stored()
    assert taken, "no snapshot could be taken"
    for path in taken:
        scene.wipe()
        rebuilt = scene.run("rebuild", "--snapshot", str(path))
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert "since the snapshot of release" in rebuilt.stdout
        assert scene.stored() == before
