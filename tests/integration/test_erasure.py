"""Somebody erased is searched for in Redis, its append-only file, a snapshot and the logs, by all that was said.

The search is tried on the table before the erasure, too: there it finds what it must not find afterwards.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from shoal.core.randomness import Keyed
from shoal.streams.snapshot.encrypted_file import EncryptedFile
from tests.support.canary import (
    ATTRIBUTES,
    ID,
    OTHER_WEIGHT,
    canary,
    crowd,
    everything_in,
    found_in,
    identifiers,
    names,
)
from tests.support.services.table import KEY, REDRAWN, Make, Table


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


def life(table: Table) -> Iterator[str]:
    """Somebody comes, moves, falls ill, names a guard, leaves, is erased, comes back and is erased again."""
    table.send([*crowd(150), canary()])
    yield "there"
    moved = {"op": "update", "id": ID, "qid": {"weight": OTHER_WEIGHT}, "sensitive": ["asthma", "lupus"]}
    table.send([{**moved, "guard": "lupus"}])
    yield "moved"
    table.send([{"op": "delete", "id": ID}])
    yield "gone"
    table.send([{"op": "erase", "id": ID}])
    yield "erased"
    table.send([canary()])
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
            assert found_in(content, names()) == set(), moment
            known = found_in(content, identifiers())
            if moment.startswith("erased"):
                assert known == set(), moment
            elif moment != "gone":
                assert known, f"the search finds nothing, not even somebody {moment}"
        handle = Keyed(KEY.encode(), table.name).handle(ID)
        assert content.count(handle.encode()) == 1
        kept = append_only_file(client)
        assert handle.encode() in kept, "this is not the append-only file"
        assert found_in(kept, names() | identifiers()) == set()
    copied = snapshot_of(table)
    assert handle.encode() in copied, "this is not the snapshot"
    assert found_in(copied, names() | identifiers()) == set()
    assert worker.stop() == 0
    assert b"release.applied" in logs_of(table)
    assert found_in(logs_of(table), names() | identifiers()) == set()
    table.judge()
