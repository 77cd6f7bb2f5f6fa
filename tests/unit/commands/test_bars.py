"""Progress bars: on a terminal, on standard error, and nowhere else."""

import os
from pathlib import Path

import pytest

import shoal
from tests.support.root import ROOT
from tests.support.terminal import run_command, run_on_terminal

WARD = ROOT / "examples" / "ward"
COMMANDS = {
    "replaying": ["replay", str(WARD / "policy.yaml"), str(WARD / "events.jsonl"), "--out", "again"],
    "auditing": ["audit", str(WARD / "policy.yaml"), "out"],
    "exporting": ["export", "out", "--to", "csv", "--out", "tables"],
    "reading the sample": ["policy", "check", str(WARD / "policy.yaml"), "--sample", str(WARD / "events.jsonl")],
    "reading releases": ["report", str(WARD / "policy.yaml"), "out"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shoal.replay(shoal.load_policy(WARD / "policy.yaml"), WARD / "events.jsonl", tmp_path / "out", key="s")
    return tmp_path


@pytest.mark.parametrize("title", COMMANDS)
def test_a_long_command_shows_a_bar_on_a_terminal_and_none_in_a_pipe(title: str, folder: Path) -> None:
    settings = {name: text for name, text in os.environ.items() if not name.startswith("SHOAL_")}
    out, shown = run_on_terminal(COMMANDS[title], folder, settings)
    assert title in shown
    assert "\x1b[" in shown  # the bar is drawn, and removed at the end
    assert title not in out
    assert "\x1b[" not in out
    for name in ("again", "tables", "report"):
        if (folder / name).exists():
            (folder / name).rename(folder / f"{name}-before")
    with (folder / "errors").open("w+") as errors:
        run_command(COMMANDS[title], folder, settings, errors.fileno())
    assert title not in (folder / "errors").read_text()
