"""Asks for packages of Debian's that are missing, and installs them only where that was allowed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

ALLOWED: Final = ("INSTALL_PACKAGES", "SHOAL_REQUIRE_SERVICES")
"""Variables with which somebody has agreed beforehand: a person, or CI, whose machine is thrown away."""


def install_package(name: str) -> None:
    """Install a package if this user can and agrees; whether that worked is for the caller to see."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None or not _agrees(name):
        return
    print(f"Installing the package {name} …", file=sys.stderr, flush=True)
    # RUNLEVEL=1 keeps a package from starting a server of its own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", name]
    for command in (install, ["apt-get", "update", "-qq"], install):
        done = subprocess.run(command, env=quiet, capture_output=True, check=False)
        if done.returncode == 0 and command is install:
            return


def how_to_get(name: str) -> str:
    """What somebody does about a missing package."""
    return f"on Debian or Ubuntu: `apt-get install {name}`, or INSTALL_PACKAGES=yes before the same command, as root"


def missing(programs: Mapping[str, str]) -> list[str]:
    """The packages of programs that are not on PATH; `programs` has the package of each."""
    return [package for program, package in programs.items() if shutil.which(program) is None]


def _agrees(name: str) -> bool:
    if any(os.environ.get(variable) for variable in ALLOWED):
        return True
    if not sys.stdin.isatty():
        return False
    question = f"The package {name} is not installed. Install it on this machine? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
