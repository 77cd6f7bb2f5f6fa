"""Installs a package of Debian's, for root."""

import os
import shutil
import subprocess
import sys


def install_package(name: str) -> None:
    """Install a package if this user can; whether that worked is for the caller to see."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(f"Installing the package {name} …", file=sys.stderr, flush=True)
    # RUNLEVEL=1 keeps a package from starting a server of its own.
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", name]
    for command in (install, ["apt-get", "update", "-qq"], install):
        done = subprocess.run(command, env=quiet, capture_output=True, check=False)
        if done.returncode == 0 and command is install:
            return
