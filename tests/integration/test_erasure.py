"""Somebody erased is searched for in Redis, its append-only file, a snapshot and the logs, by all that was said.

The search is tried on the table before the erasure, too: there it finds what it must not find afterwards.
"""

import base64
import hashlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from shoal.core.randomness import Keyed
from shoal.streams.snapshot.encrypted_file import EncryptedFile
from tests.support.services.table import KEY, POLICY, REDRAWN, Make, Table, insert

ID = "canary-4711-ümlaut"
WEIGHT, OTHER_WEIGHT = 61.73291845, 83.91827364
PERSON: dict[str, Any] = {"op": "insert", "id": ID, "sensitive": ["lupus"]}
ATTRIBUTES = {**POLICY["attributes"], "weight": {"type": "float", "min": 0, "max": 300}}
HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b", "blake2s")


def weighed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "qid": {**event["qid"], "weight": 70.5}} for event in events]


def canaries() -> dict[str, bytes]:
    """The id as it is and under plain hashes, whole and cut short, and the quasi-identifiers as msgpack has them."""
    found = {"id": ID.encode(), "escaped id": ID.encode("unicode_escape"), "part of the id": b"canary-4711"}
    for name in HASHES:
        for text in (ID, f"{ID}\n"):
            digest = hashlib.new(name, text.encode()).digest()
            found |= {f"{name} {len(text)}": digest[:8], f"{name} {len(text)} in hex": digest.hex()[:12].encode()}
            found[f"{name} {len(text)} in base64"] = base64.b64encode(digest)[:12]
    for size in (7, 8, 12, 15, 16, 20, 32):
        found[f"blake2b of {size}"] = hashlib.blake2b(ID.encode(), digest_size=size).digest()[:7]
    return found


def identifiers() -> dict[str, bytes]:
    return {str(weight): struct.pack(">d", weight) for weight in (WEIGHT, OTHER_WEIGHT)}


def everything_in(client: "Redis", table: Table) -> bytes:
    """Every name, field and value of the table."""
    found: list[bytes] = []
    read: dict[bytes, Any] = {
        b"hash": lambda key: [part for pair in client.hgetall(key).items() for part in pair],
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"string": lambda key: [client.get(key)],
    }
    for key in table.keys:
        kind: Any = client.type(key)
        found += [key, *read[kind](key)]
    return b"\0".join(found)


def append_only_file(client: "Redis") -> bytes:
    """The append-only file after it was rewritten, and written without compression."""
    client.config_set("aof-use-rdb-preamble", "no")
    client.bgrewriteaof()
    while any(client.info("persistence")[name] for name in ("aof_rewrite_in_progress", "aof_rewrite_scheduled")):
        time.sleep(0.1)
    folder = Path(*(str(client.config_get(name)[name]) for name in ("dir", "appenddirname")))
    if not folder.is_dir():
        pytest.skip("the append-only file of this Redis cannot be read from here")
    return b"".join(path.read_bytes() for path in folder.iterdir())


def snapshot_of(table: Table) -> bytes:
    """Everything in a snapshot, decrypted and unpacked."""
    path = table.folder / "snapshot"
    assert table.run("snapshot", str(path)).returncode == 0
    return b"".join(EncryptedFile(path).parts([KEY.encode()]))


def logs_of(table: Table) -> bytes:
    return b"".join(path.read_bytes() for path in table.folder.glob("*.log"))


def found_in(content: bytes, wanted: dict[str, bytes]) -> set[str]:
    return {name for name, canary in wanted.items() if canary in content}


def life(table: Table) -> Iterator[str]:
    """Somebody comes, moves, falls ill, names a guard, leaves, is erased, comes back and is erased again."""
    table.send(weighed([insert(number) for number in range(150)]))
    table.send([{**PERSON, "qid": {**insert(7)["qid"], "weight": WEIGHT}}])
    yield "there"
    moved = {"op": "update", "id": ID, "qid": {"weight": OTHER_WEIGHT}, "sensitive": ["asthma", "lupus"]}
    table.send([{**moved, "guard": "lupus"}])
    yield "moved"
    table.send([{"op": "delete", "id": ID}])
    yield "gone"
    table.send([{"op": "erase", "id": ID}])
    yield "erased"
    table.send([{**PERSON, "qid": {**insert(7)["qid"], "weight": WEIGHT}}])
    yield "back"
    table.send([{"op": "erase", "id": ID}])
    yield "erased again"


@pytest.mark.parametrize("kind", ["lasting", "redrawn"])
def test_of_somebody_erased_nothing_is_found_but_a_keyed_hash(make: Make, kind: str) -> None:
    table = make(attributes=ATTRIBUTES, **(REDRAWN if kind == "redrawn" else {}))
    worker = table.start_planner(LOG_LEVEL="debug")
    with table.connect() as client:
        for moment in life(table):
            table.release()
            worker.await_log("release.applied", count=len(table.releases()))
            content = everything_in(client, table)
            assert found_in(content, canaries()) == set(), moment
            known = found_in(content, identifiers())
            if moment.startswith("erased"):
                assert known == set(), moment
            elif moment != "gone":
                assert known, f"the search finds nothing, not even somebody {moment}"
        handle = Keyed(KEY.encode(), table.name).handle(ID)
        assert content.count(handle.encode()) == 1
        kept = append_only_file(client)
        assert handle.encode() in kept, "this is not the append-only file"
        assert found_in(kept, canaries() | identifiers()) == set()
    copied = snapshot_of(table)
    assert handle.encode() in copied, "this is not the snapshot"
    assert found_in(copied, canaries() | identifiers()) == set()
    assert worker.stop() == 0
    assert b"release.applied" in logs_of(table)
    assert found_in(logs_of(table), canaries()) == set()
    table.judge()
