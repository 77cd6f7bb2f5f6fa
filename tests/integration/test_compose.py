"""What docker-compose.yml runs in containers works when the same commands are run as plain processes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.ports import free_port
from tests.support.root import ROOT
from tests.support.services.services import environment

_SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
_BIN = Path(sys.executable).parent
_KEY = "a key for this test only"


@pytest.fixture
def policy(tmp_path: Path, table: str) -> Path:
    """The folder that compose mounts by default, for a table of the test's own."""
    folder = shutil.copytree(
        ROOT / "streams" / "demo" / "clinic", tmp_path / "policy", ignore=shutil.ignore_patterns("*.py", "__*")
    )
    path = folder / "policy.yaml"
    path.write_text(re.sub(r"^table: .*$", f"table: {table}", path.read_text(), flags=re.MULTILINE))
    return path


@pytest.fixture
def environ(kafka: str, redis_db: str, policy: Path) -> dict[str, str]:
    """The settings of the image and of compose, with this machine's addresses."""
    settings = environment(kafka, redis_db, POLICY=str(policy), KEY=_KEY, WEB_PORT=str(free_port()), LOG_FORMAT="json")
    return settings | {"PATH": f"{_BIN}:{os.environ['PATH']}"}


@pytest.fixture
def worker(environ: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder = tmp_path / "worker"
    folder.mkdir()
    with (tmp_path / "worker.log").open("wb") as log:
        command = ["shoal", *_SERVICES["worker"]["command"]]
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def is_healthy(environ: dict[str, str]) -> bool:
    check = [sys.executable, str(ROOT / "deploy" / "health.py")]
    return subprocess.run(check, env=environ, capture_output=True).returncode == 0


def test_the_worker_and_the_demo_profile_publish_what_replay_publishes(
    worker: subprocess.Popen[bytes], environ: dict[str, str], policy: Path, tmp_path: Path
) -> None:
    # As compose does: the clinic starts once the worker is healthy.
    deadline = time.monotonic() + 60
    while not is_healthy(environ):
        assert worker.poll() is None, (tmp_path / "worker.log").read_text()
        assert time.monotonic() < deadline, "the worker was not healthy in time"
        time.sleep(0.2)

    (script,) = _SERVICES["clinic"]["command"]
    script = script.replace("/tmp/clinic", str(tmp_path / "clinic")).replace("/policy/", f"{policy.parent}/")
    subprocess.run(
        [*_SERVICES["clinic"]["entrypoint"], script], env=environ, cwd=tmp_path, check=True, capture_output=True
    )

    events = tmp_path / "clinic" / "events.jsonl"
    replayed, published = tmp_path / "replayed", tmp_path / "published"
    replay = ["shoal", "replay", str(policy), str(events), "--out", str(replayed), "--seed", _KEY]
    subprocess.run(replay, env=environ, cwd=tmp_path, check=True, capture_output=True)
    expected = contents(replayed)
    assert expected
    while contents(published) != expected and time.monotonic() < deadline + 60:
        time.sleep(0.5)
        read = ["shoal", "releases", "--out", str(published)]
        shutil.rmtree(published, ignore_errors=True)
        subprocess.run(read, env=environ, cwd=tmp_path, check=True, capture_output=True)
    assert contents(published) == expected

    # `docker compose down` sends SIGTERM and waits stop_grace_period.
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    # The container's file system is read-only.
    assert list((tmp_path / "worker").iterdir()) == []


def contents(folder: Path) -> dict[str, bytes]:
    """What is published in a folder of releases, by file."""
    found = [
        path for path in folder.glob("release-*/*") if path.name in ("cells.jsonl", "groups.jsonl", "manifest.json")
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
