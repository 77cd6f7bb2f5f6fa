"""`shoal replay`: what goes into the folder, and what a second run adds to it."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.core.published.chain import ReleaseChain
from shoal.streams.cli import main
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.files import event_lines
from shoal.streams.files.rejects import rejects_beside
from shoal.streams.files.release_folder import read_releases
from tests.support.root import ROOT

CANARY = "canary-7f3a"


@dataclass
class Desk:
    """A folder with a small clinic in it, and the command to run."""

    path: Path
    capture: pytest.CaptureFixture[str]

    @property
    def events(self) -> Path:
        return self.path / "clinic" / "events.jsonl"

    @property
    def policy(self) -> Path:
        return self.path / "clinic" / "policy.yaml"

    def lines(self) -> list[str]:
        return self.events.read_text().splitlines(keepends=True)

    def run(self, *args: object, out: str = "out", events: object = None, seed: str | None = "s") -> int:
        command = ["replay", str(self.policy), str(events or self.events), "--out", str(self.path / out)]
        return main([*command, *(("--seed", seed) if seed is not None else ()), *map(str, args)])

    def process(
        self, *args: object, out: str = "out", env: dict[str, str] | None = None, **options: object
    ) -> "Finished":
        command = [sys.executable, "-m", "shoal.streams.cli", "replay", str(self.policy)]
        arguments = [*map(str, args), "--out", str(self.path / out), "--seed", "s"]
        return subprocess.run([*command, *arguments], capture_output=True, env={**os.environ, **(env or {})}, **options)  # type: ignore[call-overload,no-any-return]

    def tree(self, name: str = "out") -> dict[str, bytes]:
        folder = self.path / name
        return {
            str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
        }

    def rejects(self, name: str = "out") -> list[dict[str, object]]:
        return [json.loads(line) for line in rejects_beside(self.path / name).read_text().splitlines()]

    def write(self, name: str, lines: Sequence[str]) -> Path:
        (self.path / name).write_text("".join(lines))
        return self.path / name

    def error(self) -> str:
        return self.capture.readouterr().err


Finished = subprocess.CompletedProcess[bytes]


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_clinic(tmp_path / "clinic", Clinic(people=120, nights=4))
    return Desk(tmp_path, capsys)


# -- what is written ------------------------------------------------------------------------------------------------


def test_every_release_of_a_run_is_there_and_the_chain_is_unbroken(desk: Desk) -> None:
    assert desk.run() == 0
    chain = ReleaseChain("clinic")
    for release in read_releases(desk.path / "out"):
        chain.add(release)
    assert chain.number == 4
    assert sorted(name.name for name in (desk.path / "out" / "release-0001").iterdir()) == [
        "cells.jsonl",
        "groups.jsonl",
        "manifest.json",
        "rows.csv",
        "values.csv",
    ]


def test_the_same_events_and_seed_give_the_same_bytes_and_another_seed_does_not(desk: Desk) -> None:
    assert desk.run(out="one") == desk.run(out="two") == desk.run(out="three", seed="other") == 0
    assert desk.tree("one") == desk.tree("two") != desk.tree("three")


def test_the_environment_variable_and_the_option_are_the_same_secret_and_the_option_wins(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.run(out="option", seed="secret-from-here") == 0
    monkeypatch.setenv("SHOAL_KEY", "secret-from-here")
    assert desk.run(out="variable", seed=None) == 0
    assert desk.run(out="both", seed="another-secret") == 0
    assert desk.tree("option") == desk.tree("variable") != desk.tree("both")


def test_without_a_secret_one_is_drawn_so_two_runs_differ(desk: Desk) -> None:
    assert desk.run(out="one", seed=None) == desk.run(out="two", seed=None) == 0
    assert desk.tree("one") != desk.tree("two")


def test_the_end_of_the_file_makes_no_release_and_says_how_many_events_wait(desk: Desk) -> None:
    events = desk.write("waiting.jsonl", [line for line in desk.lines() if "release" not in line][:50])
    assert desk.run(events=events) == 0
    assert list(read_releases(desk.path / "out")) == []
    assert "50 accepted events from line 1 on" in desk.error()


def test_every_events_makes_a_release_after_so_many_accepted_events_since_the_last(desk: Desk) -> None:
    desk.policy.write_text(desk.policy.read_text() + "release: {every_events: 30}\n")
    inserts = [line for line in desk.lines() if '"insert"' in line][:100]
    asked = '{"op": "release", "at": "2024-03-04T03:00:00Z"}\n'
    bad = '{"op": "delete", "id": "nobody"}\n'
    events = desk.write("many.jsonl", [*inserts[:10], asked, bad, *inserts[10:]])
    assert desk.run(events=events) == 0
    manifests = [json.loads(release.manifest) for release in read_releases(desk.path / "out")]
    assert [manifest["people"] + manifest["withheld"] for manifest in manifests] == [10, 40, 70, 100]
    assert [manifest["published_at"] for manifest in manifests] == ["2024-03-04T03:00:00Z", None, None, None]


def test_rejects_have_the_physical_line_and_never_the_content(desk: Desk) -> None:
    person = {"age": 30, "sex": "female", "zip": "90001"}
    lines = [
        "\n",
        f'{{"op": "update", "id": "{CANARY}", "qid": {{"age": 5}}}}\n',
        "   \r\n",
        f"{CANARY} is not JSON\n",
        json.dumps({"op": "insert", "id": CANARY, "qid": {**person, "zip": CANARY}, "sensitive": "asthma"}) + "\n",
        f'{{"op": "release", "{CANARY}": 1}}\n',
        f'{{"op": "release", "at": "{CANARY}"}}\n',
        json.dumps({"op": "insert", "id": "p1", "qid": person, "sensitive": "asthma"}),
    ]
    assert desk.run(events=desk.write("odd.jsonl", lines)) == 0
    assert desk.rejects() == [
        {"line": 2, "op": "update", "reason": "unknown-id", "field": "id"},
        {"line": 4, "reason": "bad-json"},
        {"line": 5, "op": "insert", "reason": "unknown-node", "field": "qid.zip"},
        {"line": 6, "op": "release", "reason": "unknown-field"},
        {"line": 7, "op": "release", "reason": "bad-time", "field": "at"},
    ]
    output = desk.capture.readouterr()
    assert CANARY not in output.out + output.err
    assert "1 accepted event from" in output.err


def test_rejects_are_written_even_if_there_are_none(desk: Desk) -> None:
    assert desk.run(events=desk.write("none.jsonl", [])) == 0
    assert desk.tree() == {}
    assert desk.rejects() == []


def test_rejects_are_beside_what_is_published_and_not_for_everyone(desk: Desk) -> None:
    assert desk.run() == 0
    assert {name.partition("-")[0] for name in desk.tree()} == {"release"}
    assert stat.S_IMODE(rejects_beside(desk.path / "out").stat().st_mode) == 0o600
    assert desk.run("--rejects", desk.path / "elsewhere", out="other") == 0
    assert (desk.path / "elsewhere").read_bytes() == rejects_beside(desk.path / "out").read_bytes()
    assert not rejects_beside(desk.path / "other").exists()
    assert desk.run("--rejects", desk.path / "inside" / "rejects", out="inside") == 2
    assert "must not be inside --out" in desk.error()


def test_the_audit_has_every_published_row_once_and_no_cohorts(desk: Desk) -> None:
    assert desk.run("--audit", desk.path / "audit") == 0
    for release in read_releases(desk.path / "out"):
        groups = {group["group"]: group for group in map(json.loads, release.groups)}
        name = desk.path / "audit" / f"release-{release.number:04}"
        members = [json.loads(line) for line in name.with_suffix(".members.jsonl").read_text().splitlines()]
        rows = sum(sum(group["cells"].values()) for group in groups.values())
        assert len({(member["id"], member["value"]) for member in members}) == len(members) == rows
        assert all(member["cell"] in groups[member["group"]]["cells"] for member in members)
        assert all(list(member) == ["id", "group", "cell", "value"] for member in members)
        people = Counter(cell for _, cell in {(member["id"], member["cell"]) for member in members})
        assert people == {cell["cell"]: cell["people"] for cell in map(json.loads, release.cells)}
        assert json.loads(name.with_suffix(".cohorts.json").read_text()) == {}


def test_private_files_are_for_their_owner_only(desk: Desk) -> None:
    assert desk.run("--audit", desk.path / "audit", "--state", desk.path / "private" / "state") == 0
    private = [desk.path / "private" / "state", *(desk.path / "audit").iterdir()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in private} == {0o600}


def test_no_note_of_progress_is_written_into_a_pipe(desk: Desk) -> None:
    result = desk.process(desk.events)
    assert result.returncode == 0
    assert result.stdout.startswith(b"4 releases, ")
    assert len(result.stdout.splitlines()) == 1
    assert b"\x1b" not in result.stdout + result.stderr


# -- going on -------------------------------------------------------------------------------------------------------


def split_at(desk: Desk, release: int) -> tuple[list[str], list[str]]:
    """The lines up to and with that release, and the rest."""
    lines = desk.lines()
    ends = [number for number, line in enumerate(lines, start=1) if '"release"' in line]
    return lines[: ends[release - 1]], lines[ends[release - 1] :]


@pytest.mark.parametrize("block", [100, 1 << 20])
def test_a_file_that_has_grown_is_gone_on_with(desk: Desk, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(event_lines, "BLOCK_BYTES", block)
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    assert desk.run(out="whole") == 0
    # The first run also sees the beginning of what comes later; that is in no release, so it is read again.
    growing = desk.write("growing.jsonl", [*before, *after[:7]])
    assert desk.run("--state", state, events=growing) == 0
    desk.write("growing.jsonl", [*before, *after])
    assert desk.run("--state", state, events=growing) == 0
    assert f"goes on after line {len(before)}" in desk.error()
    assert desk.tree() == desk.tree("whole")


def test_a_policy_that_only_reads_differently_is_gone_on_with(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    assert desk.run(out="whole") == 0
    growing = desk.write("growing.jsonl", before)
    assert desk.run("--state", state, events=growing) == 0
    desk.policy.write_text("# a note of the author's\n" + desk.policy.read_text())
    desk.write("growing.jsonl", [*before, *after])
    assert desk.run("--state", state, events=growing) == 0
    assert desk.tree() == desk.tree("whole"), "manifests go on naming the files that the table began with"


def test_a_file_with_only_what_is_new_is_taken_from_its_first_line(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    assert desk.run(out="whole") == 0
    assert desk.run("--state", state, events=desk.write("first.jsonl", before)) == 0
    assert desk.run("--state", state, events=desk.write("second.jsonl", after)) == 0
    assert "taken as new" in desk.error()
    whole, parts = desk.tree("whole"), desk.tree()
    assert desk.rejects("whole") != desk.rejects(), "lines are counted in the file that was given"
    assert parts == whole
    shift = len(before)
    first = len([reject for reject in desk.rejects("whole") if reject["line"] <= shift])  # type: ignore[operator]
    moved = [{**reject, "line": reject["line"] - shift} for reject in desk.rejects("whole")[first:]]  # type: ignore[operator]
    assert desk.rejects()[first:] == moved


@pytest.mark.parametrize("only_new", [False, True], ids=["grown", "only what is new"])
def test_standard_input_can_be_gone_on_with_too(desk: Desk, only_new: bool) -> None:
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    assert desk.run(out="whole") == 0
    second = after if only_new else [*before, *after]
    for given in (before, second):
        result = desk.process("-", "--state", state, input="".join(given).encode())
        assert result.returncode == 0, result.stderr
    whole, parts = desk.tree("whole"), desk.tree()
    assert parts == whole


def test_nothing_new_is_no_release_and_no_reject_twice(desk: Desk) -> None:
    state = desk.path / "state"
    assert desk.run("--state", state) == 0
    before, rejects = desk.tree(), desk.rejects()
    assert rejects
    assert desk.run("--state", state) == 0
    assert desk.tree() == before
    assert desk.rejects() == rejects


def test_a_drawn_secret_is_kept_in_the_state(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    growing = desk.write("growing.jsonl", before)
    state = desk.path / "state"
    assert desk.run("--state", state, events=growing, seed=None) == 0
    saved = state.read_bytes()
    desk.write("growing.jsonl", [*before, *after])
    assert desk.run("--state", state, events=growing, seed=None) == 0
    once = desk.tree()
    state.write_bytes(saved)
    assert desk.run("--state", state, events=growing, seed=None) == 0, "the same releases again, byte for byte"
    assert desk.tree() == once


@pytest.mark.parametrize("step", [f"replay.{number}:{passage}" for number in range(1, 6) for passage in (1, 3)])
def test_a_run_killed_at_any_step_is_finished_by_the_next(desk: Desk, step: str) -> None:
    private = ("--state", desk.path / "state", "--audit", desk.path / "audit")
    assert desk.run("--audit", desk.path / "whole-audit", out="whole") == 0
    killed = desk.process(desk.events, *private, env={"SHOAL_CRASH_AT": step})
    assert killed.returncode == -signal.SIGKILL
    seen = {name: content for name, content in desk.tree().items() if not name.startswith((".", "rejects"))}
    assert seen.items() <= desk.tree("whole").items(), "whatever could be seen is right"
    assert desk.run(*private) == 0
    assert desk.tree() == desk.tree("whole")
    assert desk.tree("audit") == desk.tree("whole-audit")


def test_the_ledger_is_charged_before_a_release_can_be_seen(desk: Desk) -> None:
    killed = desk.process(desk.events, "--state", desk.path / "state", env={"SHOAL_CRASH_AT": "replay.4"})
    assert killed.returncode == -signal.SIGKILL
    assert not (desk.path / "out" / "release-0001").exists()
    nothing = desk.write("nothing.jsonl", [])
    assert desk.run("--state", desk.path / "state", events=nothing) == 0
    assert (desk.path / "out" / "release-0001").exists(), "the state was saved for it, so it is shown"


def test_a_file_that_cannot_be_written_is_one_sentence_and_nothing_is_lost(desk: Desk) -> None:
    private = ("--state", desk.path / "state", "--audit", desk.path / "audit")
    assert desk.run(out="whole") == 0
    (desk.path / "audit").mkdir()
    taken = desk.path / "audit" / "release-0003.members.jsonl"
    taken.mkdir()  # a folder has its name, and is not replaced
    desk.error()
    assert desk.run(*private) == 2
    (said,) = (line for line in desk.error().splitlines() if "--seed" not in line)
    assert "Is a directory" in said
    assert "every release up to 2 is whole" in said
    assert sorted(name for name in desk.tree() if "0003" in name) == [], "nothing of the unfinished release is left"
    taken.rmdir()
    assert desk.run(*private) == 0
    assert desk.tree() == desk.tree("whole")


def test_a_state_that_cannot_be_written_leaves_the_old_one(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    growing = desk.write("growing.jsonl", before)
    assert desk.run("--state", state, events=growing) == 0
    saved, seen = state.read_bytes(), desk.tree()
    desk.write("growing.jsonl", [*before, *after])
    limit = len(saved) // 2  # no file may grow beyond this: half a state fits, a release's files do too
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); import runpy, sys; "
    script += "sys.argv = sys.argv[1:]; runpy.run_module('shoal.streams.cli', run_name='__main__')"
    command = [sys.executable, "-c", script, "shoal", "replay", desk.policy, growing, "--out", desk.path / "out"]
    seed = desk.path / "seed"
    seed.write_text("s")
    result = subprocess.run([*map(str, command), "--seed-file", seed, "--state", str(state)], capture_output=True)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 2, result.stderr  # the note that it goes on, and the error
    assert state.read_bytes() == saved
    assert {name: content for name, content in desk.tree().items() if name in seen} == seen
    assert desk.run("--state", state, events=growing) == 0
    assert desk.run(out="whole") == 0
    assert desk.tree() == desk.tree("whole")
