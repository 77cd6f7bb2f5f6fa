"""A table that an older version has left goes on: converted, with its ledger, after a loss, and back again."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.core.state import ENGINE
from tests.support.older import NAMES
from tests.support.services.older_table import OlderTable
from tests.support.services.table import insert

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
    kept = table.folder / "kept"
    upgraded = table.run("upgrade", "--to", str(kept), "--yes")
    assert upgraded.returncode == 0, upgraded.stderr
    if name == "format-5":
        assert "Add `values: redrawn`" in upgraded.stderr
        policy = json.loads(table.older.policy)
        table.policy_path.write_text(json.dumps({**policy, "privacy": {**policy["privacy"], "values": "redrawn"}}))
    people = table.stored(table.older.state_key)["people"]
    assert len(people) == 80
    worker = table.start_planner()
    table.send([insert(number) for number in range(90, 110)])
    found = table.release()
    assert [json.loads(release.manifest)["engine"] for release in found][-1] == ENGINE
    table.await_dead_letters(4)
    worker.await_log("release.applied")
    assert worker.stop() == 0
    before = table.stored(table.older.state_key)
    table.wipe()
    rebuilt = table.run("rebuild", "--snapshot", str(kept))
    assert rebuilt.returncode == 0, rebuilt.stderr
    assert table.stored(table.older.state_key) == before
    assert table.dead_letters().total() == 4
