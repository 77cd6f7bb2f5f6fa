"""A command with a terminal as its standard error, where it shows bars."""

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.support.root import ROOT


def run_command(words: list[str], folder: Path, settings: Mapping[str, str], errors: int) -> str:
    """Runs a command with this descriptor as its standard error, and returns its standard output."""
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


def run_on_terminal(words: list[str], folder: Path, settings: Mapping[str, str]) -> tuple[str, str]:
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
        out = run_command(words, folder, settings, theirs)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return out, b"".join(seen).decode(errors="replace")
