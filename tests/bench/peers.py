"""Other anonymizers on Adult, k = 10, beside the tree: installed from PyPI into an environment of their own.

The environment is kept in the user's cache folder, outside the tree, and none of it is ever imported here: a peer is a
process that is given a file and a time limit. Peers that are only on GitHub are not run; docs/benchmarks.md has figures
taken by hand.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.bench.adult import FOLDER, K, load_adult, ncp_of_rows
from tests.bench.engine import tree_on_adult
from tests.bench.figures import Figures, say

PEERS = {
    "anonypy": ("anonypy", "pandas"),
    "anjana": ("anjana",),
}  # what to install; anonypy does not say it needs pandas
_WITHIN_S = {False: 300.0, True: 40.0}
_INSTALL_WITHIN_S = 300.0


def measure(*, quick: bool = False) -> Figures:
    """Seconds of a core for each peer and how many times as long as the tree that is, or why there are none."""
    say("peers: the tree on Adult")
    tree = tree_on_adult()
    found: Figures = {"tree": {name: tree[name] for name in ("rows", "k", "tree_s", "numpy_s", "ncp", "numpy_ncp")}}
    for name in PEERS:
        say(f"peers: {name}")
        result = run_peer(name, _WITHIN_S[quick])
        if "seconds" in result:
            result["of_tree"] = result["seconds"] / tree["tree_s"]
        found[name] = result
    return found


def run_peer(name: str, within_s: float) -> Figures:
    """One peer's figures, or `skipped` with a sentence."""
    python = _environment(name)
    if isinstance(python, str):
        return {"skipped": python}
    command = [str(python), str(Path(__file__).with_name("peer.py")), name, str(FOLDER), str(K)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=within_s, text=True)
    except subprocess.TimeoutExpired:
        return {"skipped": f"{name} did not end within {within_s:.0f} s"}
    if done.returncode != 0:
        return {"skipped": f"{name} failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"}
    found: Figures = json.loads(done.stdout)
    version = [str(python), "-c", f"from importlib.metadata import version; print(version({name!r}))"]
    found["version"] = subprocess.run(version, capture_output=True, text=True).stdout.strip()
    if classes := found.pop("classes", None):
        adult = load_adult()
        found |= {
            "count": max(classes) + 1,
            "ncp": ncp_of_rows(adult.policy.attributes, adult.points, np.array(classes)),
        }
    return found


def _environment(name: str) -> Path | str:
    """The Python of the environment in which this peer is installed, made if need be, or why there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "shoal" / "peers" / name
    python, mark = folder / "bin" / "python", folder / ".installed"
    if mark.exists():
        return python
    say(f"peers: installing {name}")
    steps = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *PEERS[name]],
    )
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, timeout=_INSTALL_WITHIN_S, text=True)
        except (OSError, subprocess.TimeoutExpired):
            return f"{name} could not be installed within {_INSTALL_WITHIN_S:.0f} s"
        if done.returncode != 0:
            return f"{name} could not be installed from PyPI"
    mark.touch()
    return python
