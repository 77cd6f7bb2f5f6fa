"""A table that this version's worker has left, for a later version to go on with (tests/support/later_version.py)."""

import asyncio
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.meta import parse_meta
from shoal.streams.store.records import KINDS, open_hash, unpack
from shoal.streams.store.shard_table import read_hashes
from shoal.streams.store.store import Store
from tests.support import later_version
from tests.support.services.table import POLICY, REDRAWN, Table, insert

_PROMISED: Final = {"participation": 1, "sampling": 0.9, "overlap": 3}
_STATE_KEY: Final = "a state key of the tests"
_BAD: Final = {"op": "update", "id": "nobody", "qid": {"age": 3}}
_OTHERS: Final = {
    "op": "external",
    "publisher": "hospital",
    "groups": [{"region": {"age": {"min": 0, "max": 60}}, "sensitive": {"lupus": 1, "gout": 1, "angina": 1}}],
}
_NOT_ITS_OWN: Final = (b"beside:", b"beginning")  # who begins it, and what an upgrade writes beside it
KINDS_OF_TABLE: Final[Mapping[str, tuple[dict[str, Any], str]]] = {
    "lasting, encrypted": (
        {
            "sensitive": {**POLICY["sensitive"], "permanent": ["lupus"]},
            "privacy": {"k": 3, "l": 2, **_PROMISED},
        },
        _STATE_KEY,
    ),
    "redrawn": (
        {
            "sensitive": {**REDRAWN["sensitive"], "open": REDRAWN["sensitive"]["open"][:1], "permanent": ["lupus"]},
            "privacy": {"values": "redrawn", "k": 3, "l": 2, **_PROMISED},
        },
        "",
    ),
}
"""By name, what differs from the tests' usual policy, and the state key."""


class LeftTable(Table):
    """Three releases were made of it, one of its windows is open, and its worker has stopped."""

    PEOPLE = 80

    def __init__(self, kafka: str, redis: str, folder: Path, name: str, kind: str) -> None:
        changes, self.state_key = KINDS_OF_TABLE[kind]
        super().__init__(kafka, redis, folder, name, 2, **changes)
        self.kept = folder / "kept"
        self._leave()
        self._as_it_was = self._dumped()

    def environment(self, **settings: str) -> dict[str, str]:
        return super().environment(**{**({"STATE_KEY": self.state_key} if self.state_key else {}), **settings})

    def _leave(self) -> None:
        worker = self.start_planner()
        self.publish(_OTHERS)
        released, opened = windows()
        for number, window in enumerate(released, 1):
            self.send([*window, _BAD])
            self.release(b'{"op": "release", "at": "2026-05-01T00:00:%02dZ"}' % number)
        self.send([*opened, _BAD], partition=None)
        self.await_dead_letters(len(released) + 1)
        worker.await_log("release.applied", count=len(released))
        assert worker.stop() == 0

    def later(self, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """A command of the later version, which has another format."""
        return later_version.run(self.folder, self.environment(**settings), words)

    def upgrade(self, *options: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        return self.later("upgrade", "--to", str(self.kept), "--yes", *options, **settings)

    def start_later(self) -> Any:
        """A worker of the later version that is ready to make releases."""
        worker = self.start_under(later_version.variables(self.folder, is_next_format=True))
        worker.await_log("planner.ready")
        return worker

    def put_back(self) -> None:
        """Redis as it was when the worker stopped."""
        self.wipe()
        with self.connect() as client:
            for key, content in self._as_it_was.items():
                client.restore(key, 0, content)

    def _dumped(self) -> dict[bytes, bytes]:
        with self.connect() as client:
            return {key: client.dump(key) for key in self.keys}

    def records(self) -> dict[str, dict[Any, Any]]:
        """The fields of every record of the state as they are stored, decrypted, whatever the format."""
        return asyncio.run(self._records())

    async def _records(self) -> dict[str, dict[Any, Any]]:
        store = Store(self.redis, self.name, make_cipher(self.state_key.encode() or None))
        try:
            meta = parse_meta(await store.meta_fields())
            return {
                kind.name: {
                    identity: unpack(packed)
                    async for found in read_hashes(store, kind, meta.partitions)
                    for identity, packed in open_hash(kind, found, store.cipher)
                }
                for kind in KINDS
            }
        finally:
            await store.close()

    def meta(self) -> dict[str, str]:
        """What Redis says of the table as a whole."""
        with self.connect() as client:
            found = client.hgetall(f"{{shoal:{self.name}}}:meta")
        return {name.decode(): value.decode(errors="replace") for name, value in found.items()}

    def dump(self) -> dict[bytes, Any]:
        """Everything that Redis holds of it, byte for byte, but for who owns it."""
        found: dict[bytes, Any] = {}
        with self.connect() as client:
            for key in (key for key in self.keys if not key.partition(b"}:")[2].startswith(_NOT_ITS_OWN)):
                kind = client.type(key)
                if kind == b"hash":
                    fields = client.hgetall(key)
                    found[key] = {name: fields[name] for name in fields if not name.startswith(b"token:")}
                else:
                    found[key] = client.lrange(key, 0, -1) if kind == b"list" else kind
        return found


def windows() -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Three windows that become releases, and one that stays open: people come, change, go, come back and guard."""
    guard = {"guard": {"node": "gout", "bound": 0.4}}
    first = [insert(number, **(guard if number % 20 == 7 else {})) for number in range(60)]
    second = [insert(number) for number in range(60, 80)]
    second += [{"op": "update", "id": f"p{number}", "sensitive": ["gastritis"]} for number in range(0, 20, 4)]
    second += [{"op": "delete", "id": f"p{number}"} for number in range(1, 30, 5)]
    third = [insert(number) for number in (1, 6)] + [{"op": "update", "id": "p9", "qid": {"age": 90}}]
    third += [{"op": "deregister", "id": "p11"}]
    opened = [insert(number) for number in range(80, 90)] + [{"op": "delete", "id": "p3"}]
    return [first, second, third], opened
