"""One partition of the events topic as Redis keeps it: its place, its window's log, and the people at home in it.

An open window is a log, one element a batch: the people whom the batch changed, and their deltas since the window's
start. Later elements replace earlier ones, except for offsets, which add up (`overlay`). The empty element says, to the
commit script only, that the elements after it replace the whole log.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from shoal.core.events.window import Delta, overlay
from shoal.streams.errors import FencedError, LostError
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import (
    BARRIER,
    HASHES,
    INGEST,
    META,
    foreign_key,
    people_keys,
    shard_key,
    window_key,
)
from shoal.streams.store.records import PERSON, pack, person_of, status_of
from shoal.streams.store.store import Store
from shoal.streams.thread import in_thread

REPLACE: Final = b""
WINDOW: Final = b"window"
_ELEMENTS_AT_ONCE: Final = 16
_IS_HELD: Final = 2

# A `Delta` whose arrays are tuples, at every depth: told so, msgspec takes a little more than half of msgpack's time.
_Told = tuple[int, tuple[Any, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None, tuple[Any, ...] | None]
read_changes = msgspec.msgpack.Decoder(dict[str, _Told]).decode


class MovedError(Exception):
    """Redis is not where this partition's memory is; the memory has to be loaded anew."""


class Place(NamedTuple):
    """Where a partition stands: the next record to take, and the release that its open window is for."""

    offset: int
    window: int


class Committed(NamedTuple):
    """What Redis said to a batch that it took."""

    applied: int
    barrier: int | None
    """Where the open window ends, if that is decided."""
    passed: bool
    """Whether the batch reached the barrier, so that the next window is open."""
    waiting: int
    """Rejects that are not dead letters yet."""
    is_held: bool = False
    """Whether the next window is for workers under the policy that takes over."""


class HomesUnknown(NamedTuple):
    """The batch reached the barrier and was not taken: the worker must first learn the homes of release `applied`."""

    applied: int


async def commit_batch(
    store: Store,
    partition: int,
    token: str,
    *,
    window: int,
    before: int,
    after: int,
    accepted: int,
    homes_known: int,
    rejects: Sequence[bytes],
    changes: Sequence[bytes],
    counts: Sequence[int],
) -> Committed | HomesUnknown:
    """Ingest, step 3: one script that takes all of the batch, or nothing. `counts` says how many of the elements are
    for each bucket.

    Raises MovedError, FencedError or LostError when it took nothing, RedisError when nobody knows.
    """
    place = (partition, token, before, window, after, accepted, homes_known)
    answer = await store.run("commit", *place, ",".join(map(str, (len(rejects), *counts))), *rejects, *changes)
    match answer[0]:
        case b"ok":
            _, applied, barrier, passed, waiting = answer
            ends = int(barrier) if barrier else None
            return Committed(int(applied), ends, passed > 0, int(waiting), passed == _IS_HELD)
        case b"homes-unknown":
            return HomesUnknown(int(answer[1]))
        case b"lost":
            raise LostError
        case b"fenced":
            raise FencedError
        case _:
            raise MovedError


def pack_changes(cipher: Cipher, window: int, partition: int, deltas: dict[str, Delta], bucket: int = 0) -> bytes:
    """An element of a window's log. Its encryption is bound to the window, the partition and the bucket."""
    return cipher.encrypt(WINDOW, bound_to(window, partition, bucket), pack(deltas))


def by_bucket(deltas: dict[str, Delta], buckets: int) -> list[dict[str, Delta]]:
    """The deltas of each bucket, as `bucket_of` has it; written out, for ingest does it for everybody."""
    if buckets == 1:
        return [deltas]
    found: list[dict[str, Delta]] = [{} for _ in range(buckets)]
    for person, delta in deltas.items():
        found[crc32(person.encode()) // HASHES % buckets][person] = delta
    return found


async def read_window(store: Store, window: int, partition: int) -> dict[str, Delta]:
    """The window of a partition, all buckets of it."""
    found = await read_log(store, window, partition)
    for bucket in range(1, store.shards):
        found |= await read_log(store, window, partition, bucket)
    return found


async def read_log(store: Store, window: int, partition: int, bucket: int = 0) -> dict[str, Delta]:
    """The window that a log adds up to, put together in a thread: it may be of a million people."""
    found: dict[str, Delta] = {}
    key, field, at = store.key(window_key(window, partition, bucket)), bound_to(window, partition, bucket), 0

    def add(elements: Sequence[bytes]) -> None:
        for element in elements:
            overlay(found, read_changes(store.cipher.decrypt(WINDOW, field, element)))

    while elements := await store.redis.lrange(key, at, at + _ELEMENTS_AT_ONCE - 1):
        await in_thread(add, elements)
        at += len(elements)
    return found


async def read_place(store: Store, partition: int, token: str) -> Place:
    """Raises FencedError if the token is not the stored one, LostError if there is none."""
    names = [f"token:{partition}", f"offset:{partition}", f"window:{partition}"]
    stored, offset, window = await store.redis.hmget(store.key(INGEST), names)
    if stored is None or offset is None or window is None:
        raise LostError
    if stored.decode() != token:
        raise FencedError
    return Place(int(offset), int(window))


async def read_applied(store: Store) -> int:
    """The last release that is in the people's keys. Raises LostError."""
    applied = await store.redis.hget(store.key(META), "applied")
    if applied is None:
        raise LostError
    return int(applied)


async def read_barrier(store: Store, window: int, partition: int) -> int | None:
    """Where an open window ends, if that is decided."""
    release, barrier = await store.redis.hmget(store.key(BARRIER), ["release", f"mark:{partition}"])
    return int(barrier) if release is not None and int(release) == window and barrier is not None else None


async def read_roster(store: Store, partition: int) -> dict[str, int]:
    """Everybody at home in a partition, and their status."""
    roster: dict[str, int] = {}
    async for person, raw in _people(store, partition):
        roster[person] = status_of(raw)
    return roster


async def read_held(store: Store, partition: int) -> dict[str, tuple[int, ...]]:
    """The permanent values of everybody in a partition who holds some."""
    held: dict[str, tuple[int, ...]] = {}
    async for person, raw in _people(store, partition):
        if values := person_of(raw).held:
            held[person] = values
    return held


async def _people(store: Store, partition: int) -> AsyncIterator[tuple[str, bytes]]:
    """The handle and the packed record of everybody at home in a partition."""
    decrypt = store.cipher.decrypt
    keys: Iterable[str] = people_keys(partition)
    if store.shards > 1:
        keys = [shard_key(shard, key) for shard in range(store.shards) for key in people_keys(partition)]
    async for found in store.hashes(keys):
        for field, value in found.items():
            yield field.decode(), decrypt(PERSON, field, value)


async def read_foreign(store: Store, release: int, partition: int) -> list[str]:
    """The people whom a release found to be at home in another partition than this one."""
    return [field.decode() async for chunk in store.scan(foreign_key(release, partition)) for field, _ in chunk]


def foreign_fields(people: Sequence[str]) -> list[bytes]:
    """Handles as fields of that hash: what `read_foreign` reads."""
    return [part for person in people for part in (person.encode(), b"")]


def bound_to(window: int, partition: int, bucket: int = 0) -> bytes:
    """What stands for a field in the encryption of a window's elements."""
    return window_key(window, partition, bucket).removeprefix("window:").encode()


def first_place(partitions: Mapping[int, int], release: int) -> dict[str, str]:
    """The fields of `ingest` under which every partition goes on at its offset, with the window after `release`."""
    fields: dict[str, str] = {}
    for number, offset in partitions.items():
        fields |= {f"offset:{number}": str(offset), f"window:{number}": str(release + 1)}
    return fields
