"""Redis is spoken to in streams/store and nowhere else: every key is in one table, every command in one room."""

import ast
import re
from pathlib import Path

import pytest

from tests.repository.test_layers import assert_noticed
from tests.support.root import ROOT

_STORE = ROOT / "streams" / "store"
_EMBEDDED = ROOT / "streams" / "demo" / "embedded.py"  # starts a Redis server, and waits until it answers
_OUTSIDE = sorted(path for path in (ROOT / "streams").rglob("*.py") if _STORE not in path.parents and path != _EMBEDDED)
# The client, the names of keys and the ways to run a script: public for the room itself and its tests.
_FOR_THE_ROOM = frozenset({"redis", "key", "prefix", "run", "order", "scan", "hashes"})
_KEYS = (_STORE / "keys.py").read_text()


def raw_uses(source: str) -> list[str]:
    """Everything in a module's source by which it speaks to Redis past the store's own methods, as `line: what`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=ast.Name(id="store") | ast.Attribute(attr="store" | "_store"), attr=name):
                if name in _FOR_THE_ROOM:
                    found.append(f"{node.lineno}: store.{name}")
            case ast.Import(names=names) if any(one.name.split(".")[0] == "redis" for one in names):
                found.append(f"{node.lineno}: import redis")
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "redis":
                found.append(f"{node.lineno}: from redis import")
            case _:
                pass
    return found


@pytest.mark.parametrize("module", _OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_outside_the_store_does_not_speak_to_redis(module: Path) -> None:
    assert raw_uses(module.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import redis",
        "from redis.exceptions import RedisError",
        "async def f(store):\n    await store.redis.hget('a', 'b')",
        "class A:\n    async def f(self):\n        await self._store.order('seal')",
        "def f(store):\n    return store.key('meta')",
    ],
)
def test_the_check_finds_a_raw_use(source: str) -> None:
    assert raw_uses(source)


def test_the_check_lets_the_store_be_asked() -> None:
    assert raw_uses("async def f(store, settings):\n    await store.meta()\n    return settings.redis") == []


def test_every_key_that_a_script_names_is_in_the_table() -> None:
    named = {
        name
        for path in (_STORE / "lua").rglob("*.lua")
        for name in re.findall(r"KEYS\[1\] \.\. '([a-z]+)", path.read_text())
    }
    assert {"meta", "ingest", "barrier", "stage", "rejects", "window", "foreign"} <= named
    table = {line.split("|")[1].strip().split(":")[0] for line in _KEYS.splitlines() if line.startswith("| ")}
    assert named <= table


@pytest.mark.parametrize(
    ("module", "bad"),
    [
        ("kafka/release_back.py", "import redis"),
        ("kafka/release_back.py", "import shoal.streams.store.store"),
        ("store/keys.py", "import shoal.streams.kafka.topics"),
        ("deadletter/box.py", "import shoal.streams.intake.ingest"),
        ("files/produce.py", "import shoal.streams.worker.planner"),
        ("cli/releases.py", "import shoal.streams.worker.publish"),
        ("report/series.py", "import shoal.streams.store.store"),
    ],
)
def test_import_linter_would_notice_a_room_that_reaches_too_far(module: str, bad: str, tmp_path: Path) -> None:
    assert_noticed(tmp_path, f"streams/{module}", bad)
