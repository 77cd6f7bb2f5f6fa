"""Gets Kafka's jars with Maven, once for each version, into a cache outside the tree."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.local.service import Unavailable

_POM = Path(__file__).with_name("pom.xml")
_WITHIN_S = 600


def kafka_version() -> str:
    """The version named in pom.xml, the only place that names it."""
    found = re.search(r"<kafka\.version>([^<]+)<", _POM.read_text())
    assert found is not None
    return found[1]


def jars_folder() -> Path:
    """Where the jars are, or would be: the name changes with anything in pom.xml."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(_POM.read_bytes()).hexdigest()[:8]
    return cache / "shoal" / f"kafka-{kafka_version()}-{digest}"


def kafka_jars() -> Path:
    """The folder with Kafka's jars, filled by Maven if it is not there yet (half a minute). Raises Unavailable.

    Two runs at once are safe: one waits for the other, and the folder appears under its name only when it is whole.
    """
    folder = jars_folder()
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise Unavailable(
            "Kafka's jars are not here yet and Maven, which gets them, is not installed (package `maven`)"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _copy_jars(folder)
    return folder


def _copy_jars(folder: Path) -> None:
    print(f"Getting Kafka {kafka_version()} with Maven into {folder} (once) …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="partial-") as partial:
        target = Path(partial) / "jars"
        command = [
            "mvn",
            "-B",
            "-q",
            "-f",
            str(_POM),
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={target}",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven did not get Kafka's jars within {_WITHIN_S} s") from None
        if done.returncode != 0 or not any(target.glob("kafka_2.13-*.jar")):
            said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:3]
            raise Unavailable("Maven could not get Kafka's jars: " + (" ".join(said) or f"exit code {done.returncode}"))
        target.rename(folder)
