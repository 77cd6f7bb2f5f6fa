"""Crash points: they kill where they are told to, and nowhere else."""

import os
import signal
import subprocess
import sys

PROGRAM = """
from shoal.streams.faults import crash_point
for name in ["a.1", "a.2", "a.1", "a.1"]:
    crash_point(name)
    print(name, flush=True)
"""


def run(at: str | None) -> tuple[int, list[str]]:
    environ = {name: value for name, value in os.environ.items() if name != "SHOAL_CRASH_AT"}
    if at is not None:
        environ["SHOAL_CRASH_AT"] = at
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()


def test_without_the_variable_nothing_happens() -> None:
    assert run(None) == (0, ["a.1", "a.2", "a.1", "a.1"])


def test_a_process_dies_at_the_named_point_as_by_kill_9() -> None:
    assert run("a.2") == (-signal.SIGKILL, ["a.1"])


def test_a_count_chooses_the_passage() -> None:
    assert run("a.1:3") == (-signal.SIGKILL, ["a.1", "a.2", "a.1"])


def test_another_name_is_not_a_prefix() -> None:
    assert run("a") == (0, ["a.1", "a.2", "a.1", "a.1"])
