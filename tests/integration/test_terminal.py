"""Commands on a real table as somebody sees them: a bar on a terminal, none in a pipe, and figures that are right."""

import json
from pathlib import Path
from typing import Any

from tests.support.services.table import Make, Table, insert
from tests.support.terminal import run_command, run_on_terminal

OLD, NEW = "the old key of the tests", "the new key of the tests"


def run(table: Table, title: str, *command: str, **settings: str) -> Any:
    """Run a command on a terminal, where it shows a bar of this title; its figures."""
    out, shown = run_on_terminal([*command, "--json"], table.folder, table.environment(**settings))
    assert title in shown
    assert "\x1b[" in shown  # it is drawn, and removed at the end
    return json.loads(out)


def run_in_pipe(table: Table, *command: str, **settings: str) -> str:
    """What a command says in words when nobody watches."""
    errors = table.folder / "errors"
    with errors.open("wb") as sink:
        said = run_command([*command], table.folder, table.environment(**settings), sink.fileno())
    assert errors.read_text() == ""
    assert "\x1b[" not in said
    return said


def test_snapshot_restore_rekey_and_rebuild_show_bars_and_say_figures(make: Make, tmp_path: Path) -> None:
    table = make()
    worker = table.start_planner(STATE_KEY=OLD)
    table.send([insert(number) for number in range(60)])
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    file = tmp_path / "kept"
    taken = run(table, "taking a snapshot", "snapshot", str(file), STATE_KEY=OLD)
    assert taken.pop("seconds") > 0
    assert taken == {"path": str(file), "release": 1, "people": 60, "published": 60, "bytes": file.stat().st_size}
    again = tmp_path / "again"
    said = run_in_pipe(table, "snapshot", str(again), STATE_KEY=OLD)
    assert said == f"{again}: release 1, 60 people published, records of 60, {again.stat().st_size:,} bytes\n"
    table.wipe()
    assert run(table, "restoring", "restore", str(file), STATE_KEY=OLD) == {"release": 1, "people": 60}
    table.wipe()
    assert run_in_pipe(table, "restore", str(file), STATE_KEY=OLD) == "Redis has release 1 now: 60 people.\n"
    done = run(table, "encrypting", "rekey", STATE_KEY=f"{NEW},{OLD}")
    assert done["table"] == table.name
    assert done["values"] == done["of"] >= 60
    said = run_in_pipe(table, "rekey", STATE_KEY=f"{NEW},{OLD}")
    assert f"Table {table.name}: 0 of {done['of']} values are written anew" in said
    table.wipe()
    rebuilt = run(table, "rebuilding", "rebuild", STATE_KEY=NEW)
    assert rebuilt == {"table": table.name, "release": 1, "made": 1, "snapshot": None}
