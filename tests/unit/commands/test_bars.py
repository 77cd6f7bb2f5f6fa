"""Progress bars: on a terminal, on standard error, and nowhere else."""

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import shoal
from tests.support.root import ROOT

WARD = ROOT / "examples" / "ward"
COMMANDS = {
    "replaying": ["replay", str(WARD / "policy.yaml"), str(WARD / "events.jsonl"), "--out", "again"],
    "auditing": ["audit", str(WARD / "policy.yaml"), "out"],
    "exporting": ["export", "out", "--to", "csv", "--out", "tables"],
    "reading": ["report", str(WARD / "policy.yaml"), "out"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shoal.replay(shoal.load_policy(WARD / "policy.yaml"), WARD / "events.jsonl", tmp_path / "out", key="s")
    return tmp_path


def run(words: list[str], folder: Path, errors: int) -> str:
    """Runs a command with this descriptor as its standard error, and returns its standard output."""
    settings = {name: text for name, text in os.environ.items() if not name.startswith("SHOAL_")}
    done = subprocess.run(
        [sys.executable, "-m", "shoal.streams.cli", *words],
        cwd=folder,
        env={**settings, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        check=True,
    )
    return done.stdout


def on_a_terminal(words: list[str], folder: Path) -> tuple[str, str]:
    """What a command writes to standard output, and to a terminal as its standard error."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        try:
            while part := os.read(ours, 4096):
                seen.append(part)
        except OSError:  # Linux: the other end is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        out = run(words, folder, theirs)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return out, b"".join(seen).decode(errors="replace")


@pytest.mark.parametrize("title", COMMANDS)
def test_a_long_command_shows_a_bar_on_a_terminal_and_none_in_a_pipe(title: str, folder: Path) -> None:
    out, shown = on_a_terminal(COMMANDS[title], folder)
    assert title in shown
    assert "\x1b[" in shown  # the bar is drawn, and removed at the end
    assert title not in out
    assert "\x1b[" not in out
    for name in ("again", "tables", "report"):
        if (folder / name).exists():
            (folder / name).rename(folder / f"{name}-before")
    with (folder / "errors").open("w+") as errors:
        run(COMMANDS[title], folder, errors.fileno())
    assert title not in (folder / "errors").read_text()
