"""Other anonymizers beside the tree, k = 10, on Adult and on a million rows: installed or fetched, never imported.

Each has an environment of its own in the user's cache folder, outside the tree, and runs as a process that is given a
file and a time limit. What cannot be had, or does not end in time, is said in a sentence.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from shoal.core.policy.policy import Attribute
from tests.bench.adult import FOLDER, K, load_adult, ncp_of_rows
from tests.bench.engine import policy_of_crowd, tree_on_adult, tree_on_uniform, uniform
from tests.bench.figures import Figures, say
from tests.bench.mondrian import Points


class Peer(NamedTuple):
    """What to install from PyPI, or which commit of which repository to fetch, and what it can be run on."""

    packages: tuple[str, ...] = ()
    repository: str | None = None
    commit: str | None = None
    tables: tuple[str, ...] = ("adult", "uniform")


PEERS = {
    "qiyuangong": Peer(
        repository="https://github.com/qiyuangong/Mondrian", commit="49d49cfb3348e769b7cb5138deda6ee67bda8749"
    ),
    "anonypy": Peer(packages=("anonypy", "pandas")),  # it does not say that it needs pandas
    "anjana": Peer(packages=("anjana",), tables=("adult",)),  # works on hierarchies, which the uniform rows have not
}
_WITHIN_S = {False: 300.0, True: 40.0}
_INSTALL_WITHIN_S = 300.0


def measure(*, quick: bool = False) -> Figures:
    """Seconds of a core for each peer and how many times as long as the tree that is, or why there are none."""
    adult, many = load_adult(), uniform(100_000 if quick else 1_000_000)
    say("peers: the tree")
    found: Figures = {"adult": {"tree": tree_on_adult()}, "uniform": {"tree": tree_on_uniform(len(many))}}
    with tempfile.TemporaryDirectory() as folder:
        for table, attributes, points in (
            ("adult", adult.policy.attributes, adult.points),
            ("uniform", policy_of_crowd().attributes, many),
        ):
            codes = Path(folder) / f"{table}.csv"
            np.savetxt(codes, points, fmt="%d", delimiter=",")
            for name in (name for name, peer in PEERS.items() if table in peer.tables):
                say(f"peers: {name} on {table}")
                path = FOLDER if table == "adult" and PEERS[name].packages else codes
                one = run_peer(name, path, attributes, points, _WITHIN_S[quick])
                if "seconds" in one:
                    one["of_tree"] = one["seconds"] / found[table]["tree"]["tree_s"]
                found[table][name] = one
    return found


def run_peer(name: str, path: Path, attributes: tuple[Attribute, ...], points: Points, within_s: float) -> Figures:
    """One peer's figures, or `skipped` with a sentence."""
    home = _home(name)
    if isinstance(home, str):
        return {"skipped": home}
    command = [str(home / "bin" / "python"), str(Path(__file__).with_name("peer.py")), name, str(path), str(K)]
    source = home / "source"
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=within_s, text=True, cwd=source if source.exists() else home
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"did not end within {within_s:.0f} s"}
    if done.returncode != 0:
        return {"skipped": f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"}
    found: Figures = json.loads(done.stdout)
    found["version"] = _version(name, home)
    if classes := found.pop("classes", None):
        found |= {"count": max(classes) + 1, "ncp": ncp_of_rows(attributes, points, np.array(classes))}
    return found


def _version(name: str, home: Path) -> str:
    commit = PEERS[name].commit
    if commit:
        return commit[:7]
    asking = [str(home / "bin" / "python"), "-c", f"from importlib.metadata import version; print(version({name!r}))"]
    return subprocess.run(asking, capture_output=True, text=True).stdout.strip()


def _home(name: str) -> Path | str:
    """The environment in which this peer is installed, with its source if it was fetched; or why there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home, peer = cache / "shoal" / "peers" / name, PEERS[name]
    mark = home / ".installed"
    if mark.exists():
        return home
    say(f"peers: getting {name}")
    steps: list[tuple[Sequence[str], str]] = [
        ((sys.executable, "-m", "venv", str(home)), "an environment for it could not be made")
    ]
    if peer.packages:
        pip = (str(home / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
        steps.append(((*pip, *peer.packages), "could not be installed from PyPI"))
    if peer.repository and peer.commit:
        git = ("git", "-C", str(home / "source"))
        refused = "could not be fetched from its repository"
        steps.append((("git", "init", "--quiet", str(home / "source")), refused))
        steps.append(((*git, "fetch", "--quiet", "--depth", "1", peer.repository, peer.commit), refused))
        steps.append(((*git, "checkout", "--quiet", "FETCH_HEAD"), refused))
    for command, refusal in steps:
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                timeout=_INSTALL_WITHIN_S,
                text=True,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return refusal
        if done.returncode != 0:
            return refusal
    mark.touch()
    return home
