"""`shoal replay`: what it refuses, in one sentence, rather than spoil what is there or publish what is private."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from shoal.streams.files.replay_state import MAGIC
from tests.unit.commands.test_replay import Desk, desk, split_at

__all__ = ["desk"]  # a fixture


def refuse_nested_audit(desk: Desk) -> int:
    return desk.run("--audit", desk.path / "out" / "audit")


def refuse_audit_as_out(desk: Desk) -> int:
    return desk.run("--audit", desk.path / "out")


def refuse_nested_state(desk: Desk) -> int:
    return desk.run("--state", desk.path / "out" / "deep" / "state")


def refuse_state_behind_a_link(desk: Desk) -> int:
    (desk.path / "out").mkdir()
    (desk.path / "elsewhere").symlink_to(desk.path / "out")
    return desk.run("--state", desk.path / "elsewhere" / "state")


def refuse_out_behind_a_link(desk: Desk) -> int:
    (desk.path / "real").mkdir()
    (desk.path / "link").symlink_to(desk.path / "real")
    return desk.run("--audit", desk.path / "real" / "audit", out="link")


def refuse_occupied_out(desk: Desk) -> int:
    (desk.path / "out").mkdir()
    (desk.path / "out" / "something").touch()
    return desk.run()


def refuse_occupied_out_with_missing_state(desk: Desk) -> int:
    assert desk.run() == 0
    return desk.run("--state", desk.path / "state")


def refuse_file_as_out(desk: Desk) -> int:
    (desk.path / "out").touch()
    return desk.run()


def refuse_file_as_audit(desk: Desk) -> int:
    return desk.run("--audit", desk.events)


def refuse_folder_as_state(desk: Desk) -> int:
    return desk.run("--state", desk.path / "clinic")


def refuse_other_seed(desk: Desk) -> int:
    assert desk.run("--state", desk.path / "state") == 0
    return desk.run("--state", desk.path / "state", seed="another")


def refuse_other_policy(desk: Desk) -> int:
    assert desk.run("--state", desk.path / "state") == 0
    desk.policy.write_text(desk.policy.read_text().replace("k: 5", "k: 6"))
    return desk.run("--state", desk.path / "state")


def refuse_other_hierarchy(desk: Desk) -> int:
    assert desk.run("--state", desk.path / "state") == 0
    hierarchy = desk.path / "clinic" / "zip.csv"
    hierarchy.write_text(hierarchy.read_text() + "99999;999**;99***;*\n")
    return desk.run("--state", desk.path / "state")


def refuse_damaged_state(desk: Desk) -> int:
    assert desk.run("--state", desk.path / "state") == 0
    content = bytearray((desk.path / "state").read_bytes())
    content[len(content) // 2] ^= 1
    (desk.path / "state").write_bytes(content)
    return desk.run("--state", desk.path / "state")


def refuse_cut_state(desk: Desk) -> int:
    (desk.path / "state").write_bytes(MAGIC + b"short")
    return desk.run("--state", desk.path / "state")


def refuse_something_else_as_state(desk: Desk) -> int:
    return desk.run("--state", desk.events)


def refuse_empty_seed(desk: Desk) -> int:
    return desk.run(seed="")


def refuse_missing_events(desk: Desk) -> int:
    return desk.run(events=desk.path / "nothing-here.jsonl")


def refuse_folder_as_events(desk: Desk) -> int:
    return desk.run(events=desk.path)


def refuse_missing_policy(desk: Desk) -> int:
    desk.policy.unlink()
    return desk.run()


@pytest.mark.parametrize(
    "attempt",
    [value for name, value in list(globals().items()) if name.startswith("refuse_")],
    ids=lambda attempt: attempt.__name__.removeprefix("refuse_"),
)
def test_wrong_use_is_refused_in_one_sentence_with_exit_code_2(desk: Desk, attempt: Callable[[Desk], int]) -> None:
    assert attempt(desk) == 2
    said = desk.error().splitlines()
    assert said[-1].startswith("shoal: ")
    assert "Traceback" not in "".join(said)


def test_a_refused_run_writes_nothing_at_all(desk: Desk) -> None:
    before = sorted(desk.path.rglob("*"))
    assert desk.run("--state", desk.path / "out" / "state") == 2
    assert desk.run("--state", desk.path / "state", events=desk.path / "missing") == 2
    assert sorted(desk.path.rglob("*")) == before


def test_a_number_is_never_used_for_two_contents(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    state = desk.path / "state"
    growing = desk.write("growing.jsonl", before)
    assert desk.run("--state", state, events=growing) == 0
    saved = state.read_bytes()
    assert desk.run("--state", state, events=desk.write("new.jsonl", after)) == 0
    published = desk.tree()
    state.write_bytes(saved)  # somebody brings back an older state, and other events come
    assert desk.run("--state", state, events=desk.write("other.jsonl", after[5:])) == 1
    assert "never used for two releases" in desk.error()
    assert {name: content for name, content in desk.tree().items() if name in published} == published


def test_a_folder_that_holds_another_series_is_refused(desk: Desk) -> None:
    assert desk.run("--state", desk.path / "state", out="mine") == 0
    assert desk.run(out="theirs", seed="theirs") == 0
    assert desk.run("--state", desk.path / "state", out="theirs") == 1
    assert "never used for two releases" in desk.error()


def test_a_state_may_be_gone_on_with_in_an_empty_folder(desk: Desk) -> None:
    before, after = split_at(desk, 2)
    assert desk.run(out="whole") == 0
    assert desk.run("--state", desk.path / "state", events=desk.write("a.jsonl", before), out="monday") == 0
    assert desk.run("--state", desk.path / "state", events=desk.write("b.jsonl", after), out="tuesday") == 0
    together = {**desk.tree("monday"), **desk.tree("tuesday")}
    whole = desk.tree("whole")
    assert together == whole


def test_two_runs_cannot_use_one_state_at_once(desk: Desk) -> None:
    assert desk.run("--state", desk.path / "state", events=desk.write("none.jsonl", [])) == 0
    script = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-uc", script, str(desk.path / "state")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        assert desk.run("--state", desk.path / "state", out="second") == 2
        assert "in use by another run" in desk.error()
    finally:
        holder.communicate(b"\n")
