"""`shoal upgrade STATE`: a replay that an older version has begun goes on, and the audit holds both to the promises."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgpack
import pytest

from shoal.core import migrations
from shoal.core.migrations import FORMAT, Layout, convert
from shoal.core.state import ENGINE
from tests.support import later_version
from tests.support.root import ROOT
from tests.support.services.left_table import KINDS_OF_TABLE, windows
from tests.support.services.table import insert, write_policy

SEED: Final = ("--seed", "a seed of the tests")
LATER: Final[list[dict[str, Any]]] = [
    {"op": "delete", "id": "p3"}, insert(100), {"op": "update", "id": "p2", "sensitive": ["angina"]}, {"op": "release"},
]  # fmt: skip


class Begun:
    """A replay that this version has begun, in a folder, and commands of a later one, which has another format."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.state = folder, folder / "state"
        self.policy = write_policy(folder, "ward", **KINDS_OF_TABLE[kind][0])
        released, opened = windows()
        self._lines = [event for window in released for event in (*window, {"op": "release"})] + opened
        done = self.run(*self._replayed())
        assert done.returncode == 0, done.stderr

    def _replayed(self) -> list[str]:
        (self.folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in self._lines))
        places = [part for name in ("out", "audit", "state") for part in (f"--{name}", str(self.folder / name))]
        return ["replay", str(self.policy), str(self.folder / "events.jsonl"), *places, *SEED]

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command of this version."""
        command = [sys.executable, "-m", "shoal.streams.cli", *words]
        return subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=120)

    def upgrade(self, **settings: str) -> "subprocess.CompletedProcess[str]":
        words = ("upgrade", str(self.state), "--policy", str(self.policy), "--yes")
        return later_version.run(self.folder, settings, words)

    def go_on(self) -> "subprocess.CompletedProcess[str]":
        """The later version, over all events, which are some more now, to another release."""
        if self._lines[-1] != LATER[-1]:
            self._lines += LATER
        return later_version.run(self.folder, {}, self._replayed())

    def go_back(self) -> "subprocess.CompletedProcess[str]":
        """This version, over all events."""
        return self.run(*self._replayed())

    def audit(self) -> "subprocess.CompletedProcess[str]":
        private = ("--events", str(self.folder / "events.jsonl"), "--audit", str(self.folder / "audit"))
        return self.run("audit", str(self.policy), str(self.folder / "out"), *private)

    def engines(self) -> list[str]:
        paths = sorted((self.folder / "out").glob("release-*/manifest.json"))
        return [json.loads(path.read_text())["engine"] for path in paths]


@pytest.mark.parametrize("kind", KINDS_OF_TABLE)
def test_a_replay_goes_on_and_every_promise_holds_over_the_releases_of_both_engines(tmp_path: Path, kind: str) -> None:
    begun = Begun(tmp_path, kind)
    refused = begun.go_on()
    assert refused.returncode == 2
    assert f"run `shoal upgrade {begun.state}`" in refused.stderr
    done = begun.upgrade()
    assert done.returncode == 0, done.stderr
    gone_on = begun.go_on()
    assert gone_on.returncode == 0, gone_on.stderr
    assert begun.engines() == [ENGINE] * 3 + [later_version.ENGINE]
    audited = begun.audit()
    assert audited.returncode == 0, audited.stdout
    assert "4 releases audited against the events" in audited.stdout
    late = begun.go_back()
    assert late.returncode == 2
    assert "has format 2 of engine 99.0" in late.stderr
    assert "use the version that wrote it" in late.stderr


def test_an_upgrade_keeps_the_file_as_it_was_and_is_finished_by_the_next_one(tmp_path: Path) -> None:
    begun = Begun(tmp_path, "redrawn")
    before = begun.state.read_bytes()
    assert begun.upgrade(SHOAL_CRASH_AT="upgrade.state.1").returncode == -9
    assert begun.state.read_bytes() == before
    assert begun.upgrade().returncode == 0
    assert (tmp_path / "state.format-1").read_bytes() == before
    after = begun.state.read_bytes()
    turned = [(kind, later_version.turned(kind, fields)) for kind, fields in _records(before)]
    assert _records(after) == turned != _records(before)
    assert "needs nothing" in begun.upgrade().stdout
    assert begun.state.read_bytes() == after


def test_another_policy_is_refused_and_the_file_is_not_touched(tmp_path: Path) -> None:
    begun = Begun(tmp_path, "redrawn")
    before = begun.state.read_bytes()
    begun.policy.write_text(begun.policy.read_text().replace('"l": 2', '"l": 3'))
    done = begun.upgrade()
    assert done.returncode == 2
    assert "belongs to another policy" in done.stderr
    assert begun.state.read_bytes() == before


def _records(content: bytes) -> list[tuple[str, Any]]:
    """(kind, stored fields) of every record of a state file."""
    stream = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=0)
    stream.feed(content[content.index(b"\n") + 1 : -32])
    header = next(stream)
    return [(kind, next(stream)[1]) for kind, count in header["counts"].items() for _ in range(count)]


@pytest.mark.parametrize(
    ("layout", "is_known", "is_current"),
    [
        (Layout(FORMAT, ENGINE), True, True),
        (Layout(FORMAT, "0.9"), True, True),
        (Layout(FORMAT - 1, "0.9"), False, False),
        (Layout(FORMAT + 1, ENGINE), False, False),
        (Layout(FORMAT, "99.0"), False, True),
        (Layout(FORMAT, "none"), False, True),
    ],
)
def test_which_tables_can_go_on(layout: Layout, is_known: bool, is_current: bool) -> None:
    assert (layout.is_known, layout.is_current) == (is_known, is_current)


def test_migrations_follow_one_another_and_a_gap_makes_a_format_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[int, migrations.Migration] = {
        2: lambda kind, fields: (*fields, f"{kind} in 3"),
        3: lambda kind, fields: (*fields, f"{kind} in 4"),
    }
    monkeypatch.setattr(migrations, "FORMAT", 4)
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert [Layout(number, ENGINE).is_known for number in range(6)] == [False, False, True, True, True, False]
    assert convert(2, "nodes", (7,)) == (7, "nodes in 3", "nodes in 4")
    assert convert(4, "nodes", (7,)) == (7,)
