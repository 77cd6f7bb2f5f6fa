"""Makes a file of this folder: a table as an older version of Shoal left it, written by that version itself.

    git archive COMMIT | tar x -C /tmp/older
    python -m tests.golden.older.make /tmp/older NAME

NAME is one of `TABLES`. A Kafka and a Redis are started, and the code in the folder runs as worker and as replay. What
it leaves in Redis, on the topics and in the state file is packed into `NAME.older`, which tests/support/older.py reads.
Make one whenever a format or the engine's version is about to be raised, from the last commit before that.
"""

import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgpack

from tests.integration.mixture import Mixture
from tests.support.older import FOLDER
from tests.support.services.services import native_kafka, native_redis
from tests.support.services.table import POLICY, REDRAWN, Table, await_that, insert

_PROMISED: Final = {"participation": 1, "sampling": 0.9, "overlap": 3}
_LASTING: Final[dict[str, Any]] = {
    "sensitive": {**POLICY["sensitive"], "permanent": ["lupus"]},
    "privacy": {"k": 3, "l": 2, **_PROMISED, "counterfeits": 0.1},
}
_UNNAMED: Final[dict[str, Any]] = {
    "sensitive": {**REDRAWN["sensitive"], "open": REDRAWN["sensitive"]["open"][:1], "permanent": ["lupus"]},
    "privacy": {"k": 3, "l": 2, **_PROMISED},
}
"""Redrawn, as all tables of engine 1.0 were."""
_REDRAWN: Final = {**_UNNAMED, "privacy": {**_UNNAMED["privacy"], "values": "redrawn"}}
_STATE_KEY: Final = "a state key of the tests"

TABLES: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "format-5": (_UNNAMED, _STATE_KEY),
    "format-6": (_LASTING, ""),
    "format-7": (_REDRAWN, ""),
    "format-8": (_LASTING, _STATE_KEY),
    "format-9-ids": (_LASTING, ""),
    "engine-2.1": (_LASTING, _STATE_KEY),
    "engine-2.2": (_LASTING, _STATE_KEY),
}
"""By name, what differs from the tests' usual policy, and the state key."""
_PARTITIONS: Final = 2
_BAD: Final = {"op": "update", "id": "nobody", "qid": {"age": 3}}
_WITHIN_S: Final = 120.0


class _OlderTable(Table):
    """A table whose worker and commands are those of the code in a folder."""

    def __init__(self, code: Path, state_key: str, *args: Any, **changes: Any) -> None:
        super().__init__(*args, **changes)
        self._code, self._settings = code, {"STATE_KEY": state_key} if state_key else {}

    def spawn(self, *words: str) -> "subprocess.Popen[bytes]":
        variables = {**self.environment(**self._settings), "PYTHONPATH": str(self._code)}
        command = [sys.executable, "-m", "shoal.streams.cli", *words]
        return subprocess.Popen(command, cwd=self._code, env=variables)


def make(code: Path, name: str) -> bytes:
    """A table of that name, made by the code in a folder."""
    changes, state_key = TABLES[name]
    with tempfile.TemporaryDirectory() as made, native_kafka() as kafka, native_redis() as redis:
        folder, of = Path(made), f"older-{name.replace('.', '-')}"
        table = _OlderTable(code, state_key, kafka.address, redis.address, folder, of, _PARTITIONS, **changes)
        worker = table.spawn("worker")
        others = json.loads(Mixture(1, 60, changes["sensitive"]).publication())
        *released, opened = _windows()
        await_that(lambda: bool(table.keys), _WITHIN_S)
        table.publish(others)
        for number, window in enumerate(released, 1):
            table.send([*window, _BAD])
            table.request(_release(number))
            table.await_releases(number, _WITHIN_S)
        table.send([*opened, _BAD], partition=None)
        table.await_dead_letters(len(released) + 1, _WITHIN_S)
        worker.terminate()
        assert worker.wait(_WITHIN_S) == 0
        found = {
            "policy": table.policy_path.read_bytes(),
            "state_key": state_key,
            "partitions": _PARTITIONS,
            "redis": _redis(table),
            "topics": {topic.rpartition(".")[2]: _records(table, topic) for topic in table.topics.all},
            "replay": _replay(table, folder, [[others], *released]),
            "snapshot": _snapshot(table, folder / "snapshot"),
        }
    return zlib.compress(msgpack.packb(found), 9)


def _windows() -> list[list[dict[str, Any]]]:
    """Three windows that become releases, and one that stays open: people come, change, go, come back and guard."""
    guard = {"guard": {"node": "gout", "bound": 0.4}}
    first = [insert(number, **(guard if number % 20 == 7 else {})) for number in range(60)]
    second = [insert(number) for number in range(60, 80)]
    second += [{"op": "update", "id": f"p{number}", "sensitive": ["gastritis"]} for number in range(0, 20, 4)]
    second += [{"op": "delete", "id": f"p{number}"} for number in range(1, 30, 5)]
    third = [insert(number) for number in (1, 6)] + [{"op": "update", "id": "p9", "qid": {"age": 90}}]
    third += [{"op": "deregister", "id": "p11"}]
    opened = [insert(number) for number in range(80, 90)] + [{"op": "delete", "id": "p3"}]
    return [first, second, third, opened]


def _release(number: int) -> bytes:
    return b'{"op": "release", "at": "2026-05-01T00:00:%02dZ"}' % number


def _redis(table: Table) -> list[tuple[str, str, Any]]:
    """Every key, without the table's prefix, its type and its content."""
    found = []
    with table.connect() as client:
        for key in table.keys:
            kind = client.type(key).decode()
            read = {"hash": client.hgetall, "set": client.smembers, "string": client.get}.get(kind)
            content: Any = client.lrange(key, 0, -1) if read is None else read(key)
            listed = sorted(content.items()) if kind == "hash" else sorted(content) if kind == "set" else content
            found.append((key.partition(b"}:")[2].decode(), kind, listed))
    return found


def _records(table: Table, topic: str) -> list[list[Any]]:
    """By partition, (key, value, headers) of every record."""
    is_single = topic in (table.topics.releases, table.topics.triggers, table.topics.dead_letter)
    return [
        [(record.key, record.value, list(record.headers.items())) for record in table.read(topic, partition)]
        for partition in range(1 if is_single else _PARTITIONS)
    ]


def _snapshot(table: _OlderTable, path: Path) -> bytes:
    """A snapshot, if the version has them."""
    return path.read_bytes() if table.spawn("snapshot", str(path)).wait(_WITHIN_S) == 0 else b""


def _replay(table: _OlderTable, folder: Path, windows: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The same events as a file, the state that a replay of it leaves, and its folder of releases."""
    lines = b""
    for number, window in enumerate(windows):
        lines += b"".join(json.dumps(event).encode() + b"\n" for event in window)
        lines += _release(number) + b"\n" if number else b""
    (folder / "events.jsonl").write_bytes(lines)
    places = ("--out", str(folder / "out"), "--state", str(folder / "state"), "--audit", str(folder / "audit"))
    command = ("replay", str(table.policy_path), str(folder / "events.jsonl"), *places, "--seed", "a seed of the tests")
    assert table.spawn(*command).wait(_WITHIN_S) == 0
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for name in ("out", "audit")
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }
    return {"events": lines, "state": (folder / "state").read_bytes(), "files": files}


if __name__ == "__main__":
    FOLDER.joinpath(f"{sys.argv[2]}.older").write_bytes(make(Path(sys.argv[1]).resolve(), sys.argv[2]))
