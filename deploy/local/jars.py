"""Gets the jars of Kafka, of Kafka Connect, of Debezium and of Apicurio with Maven, once for each version, into a cache
outside the tree. Maven compares every file with the checksum that was published with it.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.local.service import Unavailable

_POM = Path(__file__).with_name("pom.xml")
_CONNECT_POM = Path(__file__).with_name("connect.xml")
_CONVERTER_POM = Path(__file__).with_name("converter.xml")
_WITHIN_S = 600
# A newer plugin for dependencies wants the parents of a file's description, too, and Debezium's are not all published.
_COPY_ONE = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"


def kafka_version() -> str:
    """The version named in pom.xml, the only place that names it."""
    return _version("kafka", _POM)


def jars_folder() -> Path:
    """Where Kafka's jars are, or would be: the name changes with anything in pom.xml."""
    return _folder(f"kafka-{kafka_version()}", _POM)


def kafka_jars() -> Path:
    """The folder with Kafka's jars, filled by Maven if it is not there yet (half a minute). Raises Unavailable."""
    return _get(jars_folder(), f"Kafka {kafka_version()}", lambda target: _copy_jars(_POM, target, "kafka_2.13-*.jar"))


def connect_jars() -> Path:
    """The folder with the jars of Kafka Connect and of Debezium's connector for PostgreSQL. Raises Unavailable."""
    version = _version("debezium", _CONNECT_POM)

    def fill(target: Path) -> None:
        _copy_jars(_CONNECT_POM, target, "connect-runtime-*.jar")
        _copy_plugin(f"io.debezium:debezium-connector-postgres:{version}:tar.gz:plugin", target)

    return _get(_folder(f"connect-{version}", _CONNECT_POM), f"Kafka Connect with Debezium {version}", fill)


def converter_jars() -> Path:
    """The folder with the jars with which Kafka Connect writes Avro. Raises Unavailable."""
    version = _version("apicurio", _CONVERTER_POM)
    folder = _folder(f"converter-{version}", _CONVERTER_POM)
    proof = "apicurio-registry-utils-converter-*.jar"
    return _get(folder, f"Apicurio's converter {version}", lambda target: _copy_jars(_CONVERTER_POM, target, proof))


def registry_folder() -> Path:
    """The folder with Apicurio's registry, 140 MB. Raises Unavailable."""
    version = _version("apicurio", _CONVERTER_POM)
    artifact = f"io.apicurio:apicurio-registry-app:{version}:tar.gz:all"

    def fill(target: Path) -> None:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(_copy_archive(artifact, folder)) as packed:
            packed.extractall(target, filter="data")

    return _get(_folder(f"registry-{version}", _CONVERTER_POM), f"Apicurio's registry {version}", fill)


def _version(name: str, pom: Path) -> str:
    found = re.search(rf"<{name}\.version>([^<]+)<", pom.read_text())
    assert found is not None
    return found[1]


def _folder(name: str, pom: Path) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "shoal" / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"


def _get(folder: Path, what: str, fill: Callable[[Path], None]) -> Path:
    """A folder in the cache. Two runs at once are safe: one waits for the other, and the folder appears under its name
    only when it is whole.
    """
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise Unavailable(
            f"the jars of {what} are not here yet and Maven, which gets them, is not installed (package `maven`)"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            print(f"Getting {what} with Maven into {folder} (once) …", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="partial-") as partial:
                target = Path(partial) / "jars"
                fill(target)
                target.rename(folder)
    return folder


def _copy_jars(pom: Path, target: Path, proof: str) -> None:
    _run_maven("-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={target}")
    if not any(target.glob(proof)):
        raise Unavailable(f"Maven ended well and copied no {proof}")


def _copy_plugin(artifact: str, target: Path) -> None:
    """The jars in an archive of Debezium's, beside the others."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(_copy_archive(artifact, folder)) as packed:
        for member in packed.getmembers():
            name = Path(member.name).name
            if name.endswith(".jar") and not (target / name).exists():
                member.name = name
                packed.extract(member, target, filter="data")


def _copy_archive(artifact: str, folder: str) -> Path:
    """An archive, got into a folder that has nothing else."""
    _run_maven(_COPY_ONE, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}", cwd=folder)
    (archive,) = Path(folder).glob("*.tar.gz")
    return archive


def _run_maven(*command: str, cwd: str | None = None) -> None:
    try:
        done = subprocess.run(
            ["mvn", "-B", "-q", *command], capture_output=True, text=True, timeout=_WITHIN_S, check=False, cwd=cwd
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"Maven did not get the jars within {_WITHIN_S} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line][:3]
        raise Unavailable("Maven could not get the jars: " + (" ".join(said) or f"exit code {done.returncode}"))
