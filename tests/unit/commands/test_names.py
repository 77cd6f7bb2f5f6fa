"""Ids of `shoal replay`: they stand in the folder of the audit and nowhere else."""

import json
from pathlib import Path

import pytest

from tests.unit.commands.test_replay import CANARY, Desk, desk

__all__ = ["desk"]


def with_canaries(desk: Desk) -> None:
    """Gives everybody an id that can be searched for."""
    lines = [json.loads(line) for line in desk.lines()]
    named = ({**line, "id": CANARY + line["id"]} if "id" in line else line for line in lines)
    desk.events.write_text("".join(json.dumps(line) + "\n" for line in named))


def first_two_releases(desk: Desk) -> Path:
    lines = desk.lines()
    ends = [number for number, line in enumerate(lines, 1) if json.loads(line)["op"] == "release"]
    return desk.write("half.jsonl", lines[: ends[1]])


def test_a_state_file_holds_no_id(desk: Desk) -> None:
    with_canaries(desk)
    assert desk.run("--state", desk.path / "state", "--audit", desk.path / "audit") == 0
    assert CANARY.encode() not in (desk.path / "state").read_bytes()
    assert all(CANARY.encode() not in content for content in desk.tree().values())
    assert CANARY in (desk.path / "audit" / "release-0001.members.jsonl").read_text()


def test_a_second_run_names_the_people_of_the_first(desk: Desk) -> None:
    private = ("--state", desk.path / "state", "--audit", desk.path / "audit")
    half = first_two_releases(desk)
    assert desk.run(*private, events=half) == desk.run(*private) == 0
    assert desk.run("--audit", desk.path / "whole-audit", out="whole") == 0
    assert desk.tree("audit") == desk.tree("whole-audit")


@pytest.mark.parametrize("later", ["audit", "another"])
def test_an_audit_that_begins_in_the_middle_is_refused(desk: Desk, later: str) -> None:
    first = ("--audit", desk.path / "audit") if later == "another" else ()
    half = first_two_releases(desk)
    assert desk.run("--state", desk.path / "state", *first, events=half) == 0
    assert desk.run("--state", desk.path / "state", "--audit", desk.path / later) == 2
    assert "does not name" in desk.error()
    assert desk.run("--state", desk.path / "state", *first) == 0, "nothing was touched"


def test_a_line_that_a_crash_has_cut_is_mended(desk: Desk) -> None:
    private = ("--state", desk.path / "state", "--audit", desk.path / "audit")
    half = first_two_releases(desk)
    assert desk.run(*private, events=half) == 0
    with (desk.path / "audit" / "ids.jsonl").open("a") as file:
        file.write('{"handle": "cu')
    assert desk.run(*private) == 0
    assert desk.run("--audit", desk.path / "whole-audit", out="whole") == 0
    assert desk.tree("audit") == desk.tree("whole-audit")
