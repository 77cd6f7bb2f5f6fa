"""Writes the files beside it from constraints.txt: every version with the hashes of its wheels.

`pip install --require-hashes` takes nothing that does not have one of these hashes, whatever index it comes from. They
are hashes of wheels, so that nothing is compiled, and no package's own code runs, while Shoal is installed. Faust is
the exception: on Linux on ARM it has no wheel, and is built from its source, whose hash is known too, without a
compiler (NO_CYTHON=1). Shoal's hot path does not go through Faust, so its compiled parts are not missed.

Which packages a file needs is read from the metadata of what is installed here, for every Python and platform in turn;
their hashes are what pip reports for that Python and platform. It asks the index that pip is set up with, and stops if
anything has no wheel somewhere. A package whose version has not moved keeps the hashes that it has; without the files,
all are asked for anew, which takes some minutes.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
CONSTRAINTS = FOLDER.parents[1] / "constraints.txt"

PYTHONS = ("3.11", "3.12", "3.13")
# glibc 2.28 is that of Debian 10 and RHEL 8.
_GLIBC = ("_2_28", "_2_27", "_2_26", "_2_24", "_2_17", "2014", "_2_12", "2010", "_2_5", "1")
PLATFORMS: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "linux x86_64": (
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"},
        [f"manylinux{glibc}_x86_64" for glibc in _GLIBC],
    ),
    "linux aarch64": (
        {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64", "os_name": "posix"},
        [f"manylinux{glibc}_aarch64" for glibc in _GLIBC],
    ),
    "macos arm64": (
        {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"},
        ["macosx_14_0_arm64"],
    ),
}
# Has no wheel for Linux on ARM.
FROM_SOURCE = "faust-streaming"
# What each file installs, and the files that it adds to.
FILES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "build": (("hatchling", "editables", "setuptools", "setuptools-scm", "wheel"), ()),
    "run": (("shoal",), ()),
    "image": (("shoal[avro,postgres]",), ("run",)),
    "demo": (("shoal[demo]",), ("run",)),
    "dev": (("shoal[dev]",), ("demo", "image", "build")),
}
_NOTE = {
    "build": "What builds Shoal's own wheel and, where it has none, Faust's.",
    "run": "What the service runs with, and no more.",
    "image": "What `shoal source` reads Avro with and `shoal sink` writes to PostgreSQL with, besides.",
    "demo": "The embedded broker and Redis of `shoal demo`, besides.",
    "dev": "What tests and linters need, besides.",
}


def read_pins(text: str) -> dict[str, str]:
    """Versions by name, from lines `name==version`, with or without what follows."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)", text, re.MULTILINE)
    return {str(canonicalize_name(name)): version for name, version in found}


def read_names(name: str) -> set[str]:
    """The packages of one of the files and of those that it adds to."""
    text = (FOLDER / f"{name}.txt").read_text()
    return set(read_pins(text)).union(*(read_names(below) for below in FILES[name][1]))


def read_hashes(pins: Mapping[str, str]) -> dict[str, set[str]]:
    """The hashes in the files that are there, of packages at the pinned version."""
    found: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.txt"):
        for entry in re.findall(r"^[a-z0-9-]+==.*\n(?: +--hash=.*\n)+", path.read_text(), re.MULTILINE):
            ((package, version),) = read_pins(entry).items()
            if pins.get(package) == version:
                found[package] = set(re.findall(r"sha256:([0-9a-f]{64})", entry))
    return found


def closure(wanted: Iterable[str], environment: Mapping[str, str]) -> set[str]:
    """Everything that these requirements need in an environment, by the metadata of what is installed here."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    pending = [Requirement(one) for one in wanted]
    while pending:
        requirement = pending.pop()
        name = str(canonicalize_name(requirement.name))
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            pending += [
                one
                for one in map(Requirement, metadata.requires(name) or ())
                if one.marker is None or one.marker.evaluate({**environment, "extra": extra})
            ]
        found.add(name)
    return found - {"shoal"}


def environments() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(Python, platform, what markers see) of everything that is supported."""
    for python in PYTHONS:
        for platform, (markers, _) in PLATFORMS.items():
            versions = {"python_version": python, "python_full_version": f"{python}.9"}
            yield python, platform, {**versions, **markers, "implementation_name": "cpython"}


def wheel_hashes(names: Iterable[str], pins: Mapping[str, str], python: str, platform: str) -> dict[str, str]:
    """The sha256 of the wheel that pip would take for each package there."""
    options = ["--only-binary", ":all:", "--python-version", python]
    for tag in PLATFORMS[platform][1]:
        options += ["--platform", tag]
    return _hashes([f"{name}=={pins[name]}" for name in sorted(names)], options)


def _hashes(wanted: list[str], options: list[str]) -> dict[str, str]:
    """The sha256 of what pip would take. Nothing is installed. Raises CalledProcessError if something cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--target", folder, "--report", str(report), *options]
        subprocess.run([*command, *wanted], check=True)
        found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return {
        str(canonicalize_name(one["metadata"]["name"])): one["download_info"]["archive_info"]["hashes"]["sha256"]
        for one in found
    }


def write(name: str, packages: Iterable[str], pins: Mapping[str, str], known: Mapping[str, set[str]]) -> None:
    lines = [f"# {_NOTE[name]} Written by `make constraints`."]
    lines += [f"-r {below}.txt" for below in FILES[name][1]]
    for package in sorted(packages):
        marker = _marker(package)
        lines.append(f"{package}=={pins[package]}{marker} \\")
        lines.append(" \\\n".join(f"    --hash=sha256:{one}" for one in sorted(known[package])))
    (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n")


def _marker(package: str) -> str:
    """The marker of a package that is not wanted everywhere, as pyproject.toml has it."""
    for one in map(Requirement, metadata.requires("shoal") or ()):
        if canonicalize_name(one.name) == package and one.marker is not None and "sys_platform" in str(one.marker):
            return "; " + re.sub(r"\s+and extra == \S+$", "", str(one.marker))
    return ""


def main() -> None:
    pins = read_pins(CONSTRAINTS.read_text())
    needs: dict[str, set[str]] = {name: set() for name in FILES}
    kept = read_hashes(pins)
    known: dict[str, set[str]] = {package: set(hashes) for package, hashes in kept.items()}
    for python, platform, environment in environments():
        here: set[str] = set()
        for name, (wanted, _) in FILES.items():
            needed = closure(wanted, environment)
            needs[name] |= needed
            here |= needed
        if platform == "linux aarch64":
            here.discard(FROM_SOURCE)
        asked = here - kept.keys()
        if asked:
            for package, found in wheel_hashes(asked, pins, python, platform).items():
                known.setdefault(package, set()).add(found)
        print(f"Python {python} on {platform}: {len(here)} packages, {len(asked)} of them asked for", flush=True)
    if FROM_SOURCE not in kept:
        source = _hashes([f"{FROM_SOURCE}=={pins[FROM_SOURCE]}"], ["--no-binary", FROM_SOURCE])
        known[FROM_SOURCE] |= set(source.values())
    written: dict[str, set[str]] = {}
    for name, (_, below) in FILES.items():
        written[name] = needs[name].union(*(written[one] for one in below))
        write(name, needs[name].difference(*(written[one] for one in below)), pins, known)


if __name__ == "__main__":
    main()
