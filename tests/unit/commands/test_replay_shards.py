"""`shoal replay` of a sharded table: the same bytes however many processes there are, wherever it is interrupted."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.table import Table, TablePlan, people_needed
from shoal.streams.errors import InputError
from shoal.streams.files.replay import Job, replay
from tests.support.engines.audited import Nobody
from tests.support.histories.mixed import draw_policy
from tests.support.histories.moving import draw_moving

SECRET = b"secret"


def draw_table(seed: int, shards: int = 3, **numbers: Any) -> tuple[Policy, list[dict[str, Any]]]:
    draw = random.Random(seed)
    policy = replace(draw_policy(draw), shards=shards, **numbers)
    return policy, list(draw_moving(draw, policy, people_needed(policy) * 2, 5))


def write_events(path: Path, events: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def run(path: Path, policy: Policy, events: str, name: str, **more: Any) -> Path:
    job = Job(policy, events, path / name / "out", path / name / "audit", secret=SECRET)
    replay(replace(job, **more), Nobody())
    return path / name


def content(path: Path) -> dict[str, bytes]:
    """All files below a folder, but for those whose lines are in any order."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != "ids.jsonl")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def plans(policy: Policy, events: list[dict[str, Any]]) -> Iterator[TablePlan]:
    """What a table in memory makes of events."""
    table = Table.empty(policy, SECRET, KeyedByHandle)
    intake = Intake(policy, {}, held={}, handle_of=table.states[0].keyed.handle)
    externals: list[Any] = []
    for event in events:
        if event["op"] == "release":
            made = table.plan(Window(None, {0: intake.cut()}, externals), table.meta.release + 1)
            yield made
            table.apply(made)
            externals = []
        elif event["op"] == "external":
            read = parse_external(event, policy)
            assert isinstance(read, External)
            externals += read.groups
        else:
            intake.take(event)


@pytest.mark.parametrize("seed", range(4))
def test_replay_publishes_what_a_table_in_memory_plans(tmp_path: Path, seed: int) -> None:
    policy, events = draw_table(seed, full_every=1 + seed % 2 * 2)
    place = run(tmp_path, policy, write_events(tmp_path / "events", events), "one")
    for number, made in enumerate(plans(policy, events), 1):
        folder = place / "out" / f"release-{number:04}"
        assert (folder / "manifest.json").read_bytes() == made.manifest
        for name, records in (("cells", made.cells), ("groups", made.groups), ("gone", made.gone)):
            assert (folder / f"{name}.jsonl").read_bytes() == b"".join([record + b"\n" for record in records])
        lines = (place / "audit" / f"release-{number:04}.members.jsonl").read_text().splitlines()
        assert len(lines) == json.loads(made.manifest)["rows"]
        assert lines == sorted(lines, key=lambda line: str(json.loads(line)["id"]))


def test_any_number_of_processes_publishes_the_same_bytes(tmp_path: Path) -> None:
    policy, events = draw_table(7, shards=5)
    file = write_events(tmp_path / "events", events)
    alone = content(run(tmp_path, policy, file, "alone"))
    assert content(run(tmp_path, policy, file, "two", jobs=2)) == alone
    assert content(run(tmp_path, policy, file, "many", jobs=9)) == alone


def test_a_run_for_each_release_publishes_what_one_run_for_all_does(tmp_path: Path) -> None:
    policy, events = draw_table(8)
    file = write_events(tmp_path / "events", events)
    whole = content(run(tmp_path, policy, file, "whole") / "out")
    ends = [place + 1 for place, event in enumerate(events) if event["op"] == "release"]
    for end in ends:
        part = write_events(tmp_path / "events", events[:end])
        run(tmp_path, policy, part, "parts", state=tmp_path / "state")
    assert content(tmp_path / "parts" / "out") == whole
    files = sorted(path.name for path in (tmp_path / "state.shards").iterdir())
    assert files == [f"{len(ends):06}-{shard:04}" for shard in range(3)]
    for path in (tmp_path / "state", *(tmp_path / "state.shards").iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600


class Crash(BaseException):
    """Ends a run where no handler catches it."""


@pytest.mark.parametrize("step", [f"replay.{step}" for step in range(1, 6)])
def test_a_run_killed_at_any_step_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    policy, events = draw_table(9)
    file = write_events(tmp_path / "events", events)
    whole = content(run(tmp_path, policy, file, "whole"))
    crashes = iter(range(1000))

    def crash_point(name: str) -> None:
        if name == step and next(crashes) % 2 == 0:
            raise Crash

    monkeypatch.setattr("shoal.streams.files.replay.crash_point", crash_point)
    runs = 0
    while True:
        runs += 1
        try:
            run(tmp_path, policy, file, "killed", state=tmp_path / "state")
            break
        except Crash:
            continue
    assert runs > 2
    assert content(tmp_path / "killed") == whole


def test_a_shards_file_of_another_release_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    policy, events = draw_table(10)
    run(tmp_path, policy, write_events(tmp_path / "events", events), "one", state=tmp_path / "state")
    more = write_events(tmp_path / "events", [*events, {"op": "release"}])
    path = next((tmp_path / "state.shards").iterdir())
    right = path.read_bytes()
    for place in (20, len(right) // 2, len(right) - 100):
        path.write_bytes(right[:place] + bytes([right[place] ^ 1]) + right[place + 1 :])
        with pytest.raises(InputError, match="is damaged"):
            run(tmp_path, policy, more, "one", state=tmp_path / "state")
    path.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        run(tmp_path, policy, more, "one", state=tmp_path / "state")


def test_too_few_people_are_all_withheld_and_the_manifest_says_so(tmp_path: Path) -> None:
    policy, events = draw_table(11, shards=16)
    few = [event for event in events if event["op"] == "insert"][: people_needed(policy) - 1]
    file = write_events(tmp_path / "events", [*few, {"op": "release"}])
    out = run(tmp_path, policy, file, "few") / "out" / "release-0001"
    manifest = json.loads((out / "manifest.json").read_bytes())
    assert (manifest["people"], manifest["shards"]) == (0, [])
    assert manifest["withheld"] + manifest["unsampled"] == len({event["id"] for event in few})
    assert (out / "cells.jsonl").read_bytes() == (out / "groups.jsonl").read_bytes() == b""


def test_the_shards_of_a_table_stay_as_they_are(tmp_path: Path) -> None:
    policy, events = draw_table(12)
    file = write_events(tmp_path / "events", events)
    run(tmp_path, policy, file, "one", state=tmp_path / "state")
    with pytest.raises(InputError, match="belongs to another policy"):
        run(tmp_path, replace(policy, shards=4), file, "one", state=tmp_path / "state")


def test_nothing_of_a_shard_stays_behind_without_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    policy, events = draw_table(13)
    run(tmp_path, policy, write_events(tmp_path / "events", events), "one")
    assert list((tmp_path / "tmp").iterdir()) == []
