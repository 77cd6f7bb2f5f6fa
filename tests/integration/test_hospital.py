"""The tutorial for data engineers is followed as it stands, on a PostgreSQL and a Debezium that `up-cdc` starts."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.local.jars import connect_jars
from deploy.local.ports import free_port
from deploy.local.postgres import programs_folder
from deploy.local.service import Unavailable
from tests.support.missing import skip_or_fail
from tests.support.root import ROOT

PAGE = ROOT / "docs" / "tutorials" / "data-engineer.md"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder like a fresh clone's, as far as the tutorial looks."""
    try:
        connect_jars(), programs_folder()
    except Unavailable as reason:
        skip_or_fail(reason)
    with tempfile.TemporaryDirectory(prefix="shoal-hospital-", ignore_cleanup_errors=True) as name:
        made = Path(name)
        made.chmod(0o755)  # PostgreSQL does not run as root, and must get to its data
        for needed in ("examples", "deploy", ".venv"):
            (made / needed).symlink_to(ROOT / needed)
        local = [sys.executable, "-m", "deploy.local", "--folder", str(made / ".local")]
        (made / "Makefile").write_text(f"up-cdc down:\n\tcd {ROOT} && {' '.join(local)} $@\n")
        yield made
        subprocess.run([*local, "down"], cwd=ROOT, check=False)


def steps() -> str:
    """Every command of the page, in order."""
    return "set -euo pipefail\n" + "".join(
        re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    )


@pytest.mark.timeout(400)  # Kafka, Redis, PostgreSQL and Connect start in it
def test_the_tutorial_leads_from_a_database_to_releases(folder: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    clean["SHOAL_WEB_PORT"] = str(free_port())  # a worker of somebody else may have the usual one
    before_the_end, make_down = steps().split("kill $WORKER")
    # A step that fails ends the script, and must not leave a worker behind.
    script = f"trap 'kill ${{WORKER:-}} 2> /dev/null || true' EXIT\n{before_the_end}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "release 1 of hospital: 300 people" in done.stdout
    manifest = json.loads((folder / "hospital-releases" / "release-0002" / "manifest.json").read_bytes())
    assert 250 < manifest["people"] < 330
    assert manifest["people"] != 300
    assert "rejects=1 " in done.stderr
    assert (folder / "hospital-first" / "mapping.yaml").exists()
    assert "unknown-node (qid.sex)" in done.stdout
    letter = dead_letter(folder)
    assert letter["reason"] == b"unknown-node"
    assert letter["field"] == b"qid.sex"
    assert b"Patient 1" not in letter["body"]  # a column that the mapping does not name
    stopped = subprocess.run(
        ["bash", "-c", make_down], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert "stopped kafka and redis and postgres and connect" in stopped.stderr


def dead_letter(folder: Path) -> dict[str, bytes]:
    """The headers and the body of the last dead letter."""
    env = dict(line.split("=", 1) for line in (folder / ".local" / "env").read_text().splitlines())
    consumer = Consumer({"bootstrap.servers": env["SHOAL_KAFKA"], "group.id": "nobody"})
    try:
        consumer.assign([TopicPartition("shoal.hospital.dead-letter", 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return dict(message.headers() or ()) | {"body": message.value() or b""}
    finally:
        consumer.close()
