"""core is pure: it is decided by what is handed to it, so the same inputs give the same bytes on every machine."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.root import ROOT

_MODULES = sorted((ROOT / "core").rglob("*.py"))

# All that core may import besides itself. A name added here is a statement that it reads no clock, file, network,
# environment or random source. (zoneinfo reads the time zone rules, which are data, not the time.)
_ALLOWED = frozenset(
    {
        "__future__", "abc", "array", "base64", "bisect", "collections", "csv", "dataclasses", "datetime", "decimal",
        "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "hmac", "io", "itertools", "json", "keyword",
        "math", "numbers", "operator", "re", "string", "struct", "types", "typing", "typing_extensions", "unicodedata",
        "zlib", "zoneinfo", "numpy", "pydantic", "pydantic_core", "annotated_types",
    }
)  # fmt: skip
_FORBIDDEN_CALLS = frozenset(
    {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint", "id", "hash"}
)
_FORBIDDEN_METHODS = frozenset({"now", "utcnow", "today", "read_text", "read_bytes", "write_text", "write_bytes"})


def _is_allowed(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in _ALLOWED or f"{module}.".startswith("shoal.core.")


def impurities(source: str) -> list[str]:
    """Everything in a module's source by which the outside could get in, as `line: what`."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [f"{node.lineno}: import {n.name}" for n in names if not _is_allowed(n.name)]
            case ast.ImportFrom(module=str(module), level=0) if not _is_allowed(module):
                found.append(f"{node.lineno}: import {module}")
            case ast.ImportFrom(module="numpy", names=names) if any(n.name == "random" for n in names):
                found.append(f"{node.lineno}: numpy.random")
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
                found.append(f"{node.lineno}: numpy.random")
            case ast.Call(func=ast.Name(id=name)) if name in _FORBIDDEN_CALLS:
                found.append(f"{node.lineno}: {name}()")
            case ast.Call(func=ast.Attribute(attr=name)) if name in _FORBIDDEN_METHODS:
                found.append(f"{node.lineno}: .{name}()")
            case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
                found.append(f"{node.lineno}: async")
            case ast.Global():
                found.append(f"{node.lineno}: global")
            case _:
                pass
    return found


@pytest.mark.parametrize("module", _MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_of_core_takes_nothing_from_outside(module: Path) -> None:
    assert impurities(module.read_text()) == []


def test_there_is_a_core_to_look_at() -> None:
    assert {"plan.py", "policy.py"} <= {module.name for module in _MODULES}


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from random import choice",
        "from shoal.streams import log",
        "from core import plan",  # the package is shoal.core: two modules of one file would be two worlds
        "import asyncio",
        "import logging",
        "import secrets",
        "import numpy as np\nx = np.random.default_rng()",
        "from numpy import random",
        "from datetime import datetime\nx = datetime.now()",
        "def f():\n    import redis",
        "x = open('a')",
        "print(1)",
        "async def f(): ...",
        "x = hash('a')",  # differs from process to process
        "def f():\n    global x\n    x = 1",
    ],
)
def test_the_check_finds_what_is_not_pure(source: str) -> None:
    assert impurities(source)


def test_the_check_lets_honest_code_pass() -> None:
    source = "import hashlib\nimport numpy as np\nfrom shoal.core.policy.policy import Policy\nx = np.zeros(3)"
    assert impurities(source) == []


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--config", "pyproject.toml"]
    environ = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, env=environ)


def test_import_linter_agrees() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def _copy(to: Path) -> Path:
    """A copy of the packages that a test may spoil."""
    for name in ("core", "streams", "shoal"):
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, to / name, ignore=without, symlinks=True)
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def assert_noticed(folder: Path, module: str, bad: str) -> None:
    """Check that import-linter complains about a copy of the packages, in `folder`, with one bad line in a module."""
    with (_copy(folder) / module).open("a") as source:
        source.write(f"\n{bad}\n")
    done = lint_imports(folder)
    assert done.returncode != 0
    assert "BROKEN" in done.stdout


@pytest.mark.parametrize(
    ("module", "bad"),
    [
        ("errors.py", "import shoal.streams.errors"),
        ("errors.py", "import asyncio"),
        ("errors.py", "import redis"),
        ("cells/tree.py", "import shoal.core.groups.pool"),
        ("policy/hierarchy.py", "import shoal.core.randomness"),
        ("overlap/tuning.py", "import shoal.core.cohort.clique"),
        ("audit/finding.py", "import shoal.core.cells.region"),
        ("audit/finding.py", "import shoal.core.policy.document"),
    ],
)
def test_import_linter_would_notice(module: str, bad: str, tmp_path: Path) -> None:
    assert_noticed(tmp_path, f"core/{module}", bad)


def test_import_linter_would_notice_a_room_without_a_place(tmp_path: Path) -> None:
    room = _copy(tmp_path) / "core" / "cellar"
    room.mkdir()
    (room / "__init__.py").write_text('"""A room that no contract names."""\n')
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert "cellar" in done.stdout


def test_the_auditor_is_kept_from_every_room_of_the_engine() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each.get("source_modules") == ["shoal.core.audit"]]
    rooms = {path.stem for path in (ROOT / "core").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    policy = {f"policy.{path.stem}" for path in (ROOT / "core" / "policy").glob("*.py")}
    shared = {"__init__", "audit", "errors", "policy", "policy.__init__", "policy.hierarchy", "policy.policy"}
    assert {name.removeprefix("shoal.core.") for name in contract["forbidden_modules"]} == (rooms | policy) - shared
