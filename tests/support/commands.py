"""The command line as a process of its own, as a shell in the foreground starts it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.root import ROOT


def start_shoal(*args: str, cwd: Path, **options: Any) -> "subprocess.Popen[Any]":
    """Start `shoal` with these arguments, free of the caller's settings, its output in pipes.

    Ctrl-C reaches it also where the tests run in the background with SIGINT ignored, which children inherit.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    return subprocess.Popen(
        [sys.executable, "-m", "shoal.streams.cli", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**settings, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - async-signal-safe
        **options,
    )
