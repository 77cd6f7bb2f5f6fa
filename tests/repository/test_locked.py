"""What Shoal is installed with: known files only, the same versions everywhere, and nothing missing."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.locked.__main__ import (
    CONSTRAINTS,
    FILES,
    FOLDER,
    FROM_SOURCE,
    PLATFORMS,
    PYTHONS,
    closure,
    environments,
    read_names,
    read_pins,
)

_TEXTS = {name: (FOLDER / f"{name}.txt").read_text() for name in FILES}


def entries(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package of a file. Every line that is no comment must be a part of one."""
    found = {}
    text = re.sub(r"^(#|-r ).*\n", "", _TEXTS[name], flags=re.MULTILINE).replace(" \\\n", " ")
    for line in text.splitlines():
        head, *hashes = line.split(" --hash=sha256:")
        package, version = head.split(";")[0].strip().split("==")
        found[package] = (version, [one.strip() for one in hashes])
    return found


def test_every_version_is_the_pinned_one_and_has_hashes() -> None:
    pins = read_pins(CONSTRAINTS.read_text())
    for name in FILES:
        for package, (version, hashes) in entries(name).items():
            assert pins[package] == version, f"{package} in {name}.txt; run `make constraints`"
            assert hashes, package
            assert all(re.fullmatch("[0-9a-f]{64}", one) for one in hashes), package


@pytest.mark.parametrize("name", FILES)
def test_nothing_that_is_needed_on_any_python_or_platform_is_missing(name: str) -> None:
    locked = read_names(name)
    for python, platform, environment in environments():
        missing = closure(FILES[name][0], environment) - locked
        assert not missing, f"on Python {python} and {platform} {name}.txt lacks {missing}; run `make constraints`"


def test_the_service_runs_with_no_more_than_it_needs() -> None:
    needed = set().union(*(closure(("shoal",), environment) for _, _, environment in environments()))
    assert read_names("run") == needed


def test_a_package_that_is_compiled_has_a_wheel_for_every_python_and_platform() -> None:
    """A pure one has one hash. Faust has its source besides, for it has no wheel on Linux on ARM."""
    counts = {package: len(hashes) for package, (_, hashes) in entries("run").items()}
    targets = len(PYTHONS) * len(PLATFORMS)
    for package in ("aiohttp", "hiredis", "numpy"):
        assert counts[package] == targets, package
    assert counts[FROM_SOURCE] == targets - len(PYTHONS) + 1
    assert counts["redis"] == 1


def test_pip_refuses_a_file_that_is_not_the_known_one(tmp_path: Path) -> None:
    """The known-bad twin, without a network: a wheel of the right name and version, and another content."""
    version, hashes = entries("build")["wheel"]
    with zipfile.ZipFile(tmp_path / f"wheel-{version}-py3-none-any.whl", "w") as archive:
        info = f"wheel-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: wheel\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (tmp_path / "locked.txt").write_text(f"wheel=={version} --hash=sha256:{hashes[0]}\n")
    (tmp_path / "open.txt").write_text(f"wheel=={version}\n")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", ".", "--no-deps", "--target", "there"]
    taken = subprocess.run([*pip, "-r", "open.txt"], cwd=tmp_path, capture_output=True, text=True)
    assert taken.returncode == 0, taken.stderr
    refused = subprocess.run(
        [*pip, "--require-hashes", "-r", "locked.txt"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr
