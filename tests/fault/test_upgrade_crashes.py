"""kill -9 right after every step of an upgrade: the table is the older version's or the later one's, and whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import later_version
from tests.support.services.left_table import KINDS_OF_TABLE, LeftTable
from tests.support.services.table import insert

BEFORE = (
    "upgrade.1", "upgrade.2.part:3", "upgrade.2", "upgrade.3", "table.1", "table.part:2", "table.2", "table.3",
    "upgrade.4",
)  # fmt: skip
AFTER = ("upgrade.5", "snapshot.1", "snapshot.3.part:5", "snapshot.5.open", "snapshot.5", "upgrade.6")


@pytest.fixture(params=KINDS_OF_TABLE)
def left(request: pytest.FixtureRequest, kafka: str, redis_db: str, tmp_path: Path, table: str) -> Iterator[LeftTable]:
    found = LeftTable(kafka, redis_db, tmp_path, table, request.param)
    yield found
    found.close()


@pytest.mark.timeout(600)
def test_an_upgrade_killed_anywhere_is_done_by_the_next_one(left: LeftTable) -> None:
    older = left.dump()
    assert left.upgrade().returncode == 0
    upgraded = left.records()
    for point in (*BEFORE, *AFTER):
        _begin_again(left)
        assert left.upgrade(CRASH_AT=point).returncode == -9, point
        assert (left.dump() == older) == (point in BEFORE), point
        assert left.upgrade().returncode == 0, point
        assert (left.records(), left.meta()["format"]) == (upgraded, "2"), point
        assert sorted(path.suffix for path in left.kept.iterdir()) == [".copy", ".snapshot"], point
    _assert_it_goes_on(left)


@pytest.mark.timeout(600)
def test_going_back_killed_anywhere_is_done_by_the_next_one(left: LeftTable) -> None:
    older = left.dump()
    assert left.upgrade().returncode == 0
    upgraded = left.records()
    (copy,) = left.kept.glob("*.copy")
    for point in ("upgrade.back.part", "upgrade.back.part:9"):
        assert left.run("upgrade", "--back", str(copy), "--yes", CRASH_AT=point).returncode == -9
        assert left.records() == upgraded, point
    assert left.run("upgrade", "--back", str(copy), "--yes").returncode == 0
    assert left.dump() == older


def _begin_again(left: LeftTable) -> None:
    left.put_back()
    for path in left.kept.glob("*"):
        path.unlink()


def _assert_it_goes_on(left: LeftTable) -> None:
    worker = left.start_later()
    left.send([insert(number) for number in range(90, 110)])
    assert left.release()[-1].number == 4
    worker.await_log("release.applied")
    assert worker.stop() == 0
    assert left.dead_letters().total() == 4


@pytest.mark.timeout(600)
def test_an_upgrade_of_the_engine_alone_killed_anywhere_is_done_by_the_next_one(
    kafka: str, redis_db: str, tmp_path: Path, table: str
) -> None:
    left = LeftTable(kafka, redis_db, tmp_path, table, "lasting, encrypted")
    words = ("upgrade", "--to", str(left.kept), "--yes")
    try:
        older, records = left.dump(), left.records()
        for point in ("upgrade.1", "snapshot.3.part:5", "snapshot.5", "upgrade.6"):
            _begin_again(left)
            killed = later_version.run(tmp_path, left.environment(CRASH_AT=point), words, is_next_format=False)
            assert killed.returncode == -9, point
            assert (left.dump() == older) == (point != "upgrade.6"), point
            done = later_version.run(tmp_path, left.environment(), words, is_next_format=False)
            assert done.returncode == 0, point
            assert (left.records(), left.meta()["engine"]) == (records, later_version.ENGINE), point
        assert [path.suffix for path in left.kept.iterdir()] == [".snapshot"]
    finally:
        left.close()
