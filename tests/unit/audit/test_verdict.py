"""The first lines of an audit are for somebody who decides: plain words, each promise with whether it is kept."""

import json
import re
from pathlib import Path

import pytest

import shoal
from shoal.streams.cli import main
from shoal.streams.files.verdict import write_verdict
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
_JARGON = re.compile(r"\bS[0-9]\b|\bG[0-9]\b|j/m|\b0 people are there\b|0\.5000|cohort|ledger|m-invariance")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    policy = shoal.load_policy(WARD / "policy.yaml")
    shoal.replay(policy, WARD / "events.jsonl", tmp_path / "out", private=tmp_path / "private", key="s")
    return tmp_path / "out"


def test_the_first_lines_say_what_is_promised_whether_it_is_kept_and_what_is_not_promised(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = ["--audit", str(out.with_name("private")), "--events", str(WARD / "events.jsonl")]
    assert main(["audit", str(WARD / "policy.yaml"), str(out), *private]) == 0
    first, _, details = capsys.readouterr().out.partition("In detail:")
    assert not _JARGON.search(first), first
    assert "G1 " in details
    promised, _, unpromised = first.partition("Not promised:")
    kept = [line for line in promised.splitlines() if line.startswith("  kept ")]
    assert len(kept) >= 6
    assert "At least 3 people share every region" in kept[0]
    assert "with a probability above 50 %" in kept[1]
    assert re.search(r"surer than 50 % about [0-9]+ of [0-9]+ people", unpromised)


def test_what_the_public_cannot_decide_says_what_it_takes_and_what_is_broken_is_loud(out: Path) -> None:
    policy = shoal.load_policy(WARD / "policy.yaml")
    lines = [*write_verdict(shoal.audit(policy, out))]
    assert any(line.startswith("  not decided  Whoever keeps every release") for line in lines)
    assert "  What is not decided takes the private folder and the events: --audit and --events." in lines
    cells = out / "release-0003" / "cells.jsonl"
    first, rest = cells.read_text().split("\n", 1)
    cell = json.loads(first)
    cells.write_text(json.dumps({**cell, "people": 1}) + "\n" + rest)
    broken = [line for line in write_verdict(shoal.audit(policy, out)) if line.startswith("  BROKEN ")]
    assert any("At least 3 people share every region" in line for line in broken)
