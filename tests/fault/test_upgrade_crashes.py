"""kill -9 right after every step of an upgrade: the table is the older version's or this one's, and it is whole."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services.older_table import OlderTable
from tests.support.services.table import insert

BEFORE = (
    "upgrade.1", "upgrade.2.part:3", "upgrade.2", "upgrade.3", "table.1", "table.part:2", "table.2", "table.3",
    "upgrade.4",
)  # fmt: skip
AFTER = ("upgrade.5", "snapshot.1", "snapshot.3.part:5", "snapshot.5.open", "snapshot.5", "upgrade.6")


@pytest.fixture(params=["format-5", "format-8"])
def table(request: pytest.FixtureRequest, kafka: str, redis_db: str, tmp_path: Path) -> Iterator[OlderTable]:
    found = OlderTable(kafka, redis_db, tmp_path, request.param)
    yield found
    found.close()


@pytest.mark.timeout(600)
def test_an_upgrade_killed_anywhere_is_done_by_the_next_one(table: OlderTable) -> None:
    older = table.dump()
    upgraded = _whole(table)
    for point in (*BEFORE, *AFTER):
        _begin_again(table)
        assert _upgrade(table, CRASH_AT=point) == -9, point
        found = {key: content for key, content in table.dump().items() if b"}:beside:" not in key}
        assert (found == older) == (point in BEFORE), point
        assert _upgrade(table) == 0, point
        assert table.content() == upgraded, point
        assert sorted(path.suffix for path in (table.folder / "kept").iterdir()) == [".copy", ".snapshot"], point
    _assert_it_goes_on(table)


@pytest.mark.timeout(600)
def test_going_back_killed_anywhere_is_done_by_the_next_one(table: OlderTable) -> None:
    older = table.dump()
    upgraded = _whole(table)
    (copy,) = (table.folder / "kept").glob("*.copy")
    for point in ("upgrade.back.part", "upgrade.back.part:9"):
        assert table.run("upgrade", "--back", str(copy), "--yes", CRASH_AT=point).returncode == -9
        assert table.content() == upgraded, point
    assert table.run("upgrade", "--back", str(copy), "--yes").returncode == 0
    assert table.dump() == older


def _begin_again(table: OlderTable) -> None:
    table.put_back()
    for path in (table.folder / "kept").glob("*"):
        path.unlink()


def _upgrade(table: OlderTable, **settings: str) -> int:
    return table.run("upgrade", "--to", str(table.folder / "kept"), "--yes", **settings).returncode


def _whole(table: OlderTable) -> dict[str, object]:
    """What an upgrade that nobody disturbs leaves."""
    assert _upgrade(table) == 0
    return table.content()


def _assert_it_goes_on(table: OlderTable) -> None:
    table.say_values()
    worker = table.start_planner()
    table.send([insert(number) for number in range(90, 110)])
    assert table.release()[-1].number == 4
    worker.await_log("release.applied")
    assert worker.stop() == 0
    assert table.dead_letters().total() == 4


@pytest.mark.timeout(600)
def test_an_upgrade_of_the_engine_alone_killed_anywhere_is_done_by_the_next_one(
    kafka: str, redis_db: str, tmp_path: Path
) -> None:
    table = OlderTable(kafka, redis_db, tmp_path, "engine-2.1")
    try:
        older, content = table.dump(), table.content()
        for point in ("upgrade.1", "snapshot.3.part:5", "snapshot.5", "upgrade.6"):
            _begin_again(table)
            assert _upgrade(table, CRASH_AT=point) == -9, point
            assert (table.dump() == older) == (point != "upgrade.6"), point
            assert _upgrade(table) == 0, point
            assert table.content() == content, point
        assert [path.suffix for path in (table.folder / "kept").iterdir()] == [".snapshot"]
        _assert_it_goes_on(table)
    finally:
        table.close()
