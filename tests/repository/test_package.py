"""What `pip install` puts on a machine: one package `shoal`, whole, and nothing beside it."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
_COPIED = ("pyproject.toml", "LICENSE", "README.md", "core", "streams", "shoal")  # as deploy/Dockerfile copies them

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the container's builder gets: a build must need no other file."""
    folder = tmp_path_factory.mktemp("source")
    for name in _COPIED:
        if (_ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(_ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheel(source, tmp_path_factory.mktemp("wheel"))


def make_wheel(source: Path, where: Path) -> Path:
    done = subprocess.run([*_PIP, "wheel", "--no-deps", "-w", where, source], capture_output=True, text=True)
    if done.returncode != 0 and "hatchling" in done.stderr and "SHOAL_REQUIRE_SERVICES" not in os.environ:
        pytest.skip("pip cannot get hatchling, which builds the package")
    assert done.returncode == 0, done.stderr
    (found,) = where.glob("*.whl")
    return found


def files_in(folder: Path) -> set[str]:
    """The files of a folder, through links, as paths from it."""
    found = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {str((Path(place) / name).relative_to(folder)) for name in names}
    return found


def test_a_wheel_holds_the_package_whole_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"shoal"}
    held = {name.removeprefix("shoal/") for name in names if name.startswith("shoal/")}
    assert held == files_in(_ROOT / "shoal")
    for kind in (".lua", ".csv", ".yaml", ".html", ".css", "py.typed"):
        assert any(name.endswith(kind) for name in held), kind


def test_an_installed_wheel_is_imported_as_shoal_and_as_nothing_else(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([*_PIP, "install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel], check=True)
    assert {path.name for path in (tmp_path / "site").iterdir()} - {"bin"} == {"shoal", wheel_info(wheel)}
    script = """
        import importlib.util, pathlib, sys
        # An editable install of the repository, in which these tests may run, is not what is tried here.
        sys.path = [path for path in sys.path if not pathlib.Path(path, "pyproject.toml").exists()]
        import shoal, shoal.core.plan, shoal.streams.cli
        from importlib.metadata import version
        from shoal.streams.demo.clinic import Clinic, write_clinic
        assert shoal.__file__.startswith(sys.argv[1]), shoal.__file__
        assert version("shoal") == shoal.__version__
        assert importlib.util.find_spec("core") is None and importlib.util.find_spec("streams") is None
        write_clinic(pathlib.Path("clinic"), Clinic(people=60, nights=1))
        policy = shoal.load_policy("clinic/policy.yaml")
        assert len(shoal.replay(policy, "clinic/events.jsonl").releases) == 1
    """
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-c", "\n".join(line.strip() for line in script.splitlines()), str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr


_FOLLOW = r"""
import re, subprocess, sys
page, names, python = open(sys.argv[1], encoding="utf-8").read(), {}, 0
for language, block in re.findall(r"^```(sh|python)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
    if language == "python":
        exec(compile(block, "tutorial", "exec"), names)
        python += 1
    elif "make wheel" not in block:
        subprocess.run(["bash", "-ec", block], check=True)
assert python >= 2
import shoal
print(shoal.__file__)
"""


@pytest.mark.timeout(600)
def test_the_analysts_tutorial_is_followed_from_a_wheel_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    got = subprocess.run(
        [*pip, "--constraint", str(_ROOT / "constraints.txt"), f"{wheel}[analysis]"], capture_output=True, text=True
    )
    if got.returncode != 0 and "SHOAL_REQUIRE_SERVICES" not in os.environ:
        pytest.skip("pip cannot get what Shoal needs")
    assert got.returncode == 0, got.stderr
    (tmp_path / "work" / "examples").mkdir(parents=True)
    shutil.copytree(_ROOT / "examples" / "ward", tmp_path / "work" / "examples" / "ward")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SHOAL_", "PYTHON"))}
    environ["PATH"] = f"{place / 'bin'}:{environ['PATH']}"
    done = subprocess.run(
        [place / "bin" / "python", "-c", _FOLLOW, _ROOT / "docs" / "tutorials" / "analyst.md"],
        cwd=tmp_path / "work",
        env=environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(str(place)), "Shoal was imported from somewhere else"


def wheel_info(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2]) + ".dist-info"


def test_a_source_archive_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path) -> None:
    subprocess.run([*_PIP, "install", "--target", tmp_path / "backend", "hatchling"], check=True)
    script = "from hatchling.build import build_sdist; build_sdist('..')"
    copy = shutil.copytree(source, tmp_path / "source", symlinks=True)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "backend")}
    subprocess.run([sys.executable, "-c", script], cwd=copy, env=environ, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = make_wheel(unpacked, tmp_path / "again")
    contents = []
    for path in (wheel, again):
        with zipfile.ZipFile(path) as archive_of:
            contents.append({name: archive_of.read(name) for name in archive_of.namelist() if "RECORD" not in name})
    assert contents[0] == contents[1]


def test_the_container_copies_what_a_build_needs() -> None:
    text = (_ROOT / "deploy" / "Dockerfile").read_text()
    copied = {word for line in text.splitlines() if line.startswith("COPY ") for word in line.split()[1:]}
    assert set(_COPIED) <= copied
    allowed = (_ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in _COPIED} <= set(allowed)
