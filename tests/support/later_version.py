"""A later version of Shoal: this one under another engine's name and, where it stores otherwise, with a next format.

In that format the fields of every record but a person's stand in reverse, and a migration turns those of today's
around. Nothing but the tests registers it. Without it no record could be read: a tree's nodes would have their cuts
where their children are.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from shoal.core import state
from tests.support.root import ROOT

ENGINE: Final = "99.0"
FORMAT: Final = 2
AS_THEY_WERE: Final = ("people",)


def variables(folder: Path, *, is_next_format: bool) -> dict[str, str]:
    """What a process has to find in its environment to be that version; Python reads the file when it starts."""
    called = f"become(is_next_format={is_next_format})"
    (folder / "sitecustomize.py").write_text(f"from tests.support import later_version\n\nlater_version.{called}\n")
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def run(
    folder: Path, environment: dict[str, str], words: Sequence[str], *, is_next_format: bool = True
) -> "subprocess.CompletedProcess[str]":
    """A command of that version."""
    command = [sys.executable, "-m", "shoal.streams.cli", *words]
    env = {**environment, **variables(folder, is_next_format=is_next_format)}
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120)


def become(*, is_next_format: bool) -> None:
    """Make this process that version, before anything else has read its own."""
    state.ENGINE = ENGINE
    if not is_next_format:
        return
    from shoal.core import migrations  # reads the engine as it is imported

    migrations.FORMAT = FORMAT  # type: ignore[misc]
    migrations.MIGRATIONS = {FORMAT - 1: turned}  # type: ignore[misc]
    readers: Any = state.READERS
    writers: Any = state.WRITERS
    for kind in readers.keys() - set(AS_THEY_WERE):
        readers[kind] = _reading(readers[kind])
        writers[kind] = _writing(writers[kind])


def turned(kind: str, fields: Sequence[Any]) -> Sequence[Any]:
    """The migration."""
    return fields if kind in AS_THEY_WERE else fields[::-1]


def _reading(read: Any) -> Any:
    return lambda fields: read(fields[::-1])


def _writing(write: Any) -> Any:
    return lambda record: write(record)[::-1]
