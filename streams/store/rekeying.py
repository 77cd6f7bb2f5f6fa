"""Bringing everything that Redis holds of a table under one key, while workers go on under that key.

1. *Announce*: one script notes that values may be under the new key, that from now on only it writes, and takes away
   every ownership. A worker that has the new key first takes its part again; any other is refused (lua/own.lua). So
   from here on nothing is written under another key.
2. *Rewrite*: every value that is not under the new key is decrypted and encrypted again. A script writes it back if it
   still is what was read; if not, a worker has written it meanwhile, under the new key. A release that is being applied
   moves values from key to key, and one of them may pass by a reader unseen. So this is repeated until a second or
   later pass finds nothing.
3. *Finish*: one script notes that all values are under the new key, and that is all that a worker needs.

Interrupted anywhere, it is run again and goes on: every value is under a key of the ring at any time. A table that is
not encrypted is encrypted the same way; until that is finished no worker may run, because one that reads values both
encrypted and not could be given any.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from shoal.streams.errors import InputError, LostError
from shoal.streams.faults import crash_point
from shoal.streams.store.encryption import KeyRing, is_encrypted
from shoal.streams.store.keys import INGEST, META
from shoal.streams.store.meta import PLAIN, check_keys
from shoal.streams.store.moves import MOVES
from shoal.streams.store.records import KINDS
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import WINDOW
from shoal.streams.thread import in_thread

_AT_ONCE: Final = 500  # values of one script
_ELEMENTS_AT_ONCE: Final = 8  # of a list; each may be some hundred kilobytes
_KIND_OF: Final[Mapping[str, bytes]] = {
    kind.keys(1)[0].split(":")[0]: kind.encrypted for kind in KINDS if kind.encrypted is not None
}
_LISTS: Final[Mapping[str, bytes]] = {"window": WINDOW, "moves": MOVES}
_Pair = tuple[bytes, bytes]  # a field, or the index of an element, and a value


class Rewritten(NamedTuple):
    """How many values were brought under the first key, of how many there are."""

    values: int
    of: int


async def rekey_table(store: Store, ring: KeyRing) -> Rewritten:
    """All three steps. Raises InputError if a key is missing or another rekey runs, LostError if there is no table."""
    found: Mapping[bytes, bytes] = await store.redis.hgetall(store.key(META))
    if not found:
        raise LostError
    sealed = found[b"seal"].decode()
    was_plain = sealed == "" or PLAIN in sealed.split(",")
    keys = [one for one in sealed.split(",") if one not in ("", PLAIN)]
    check_keys(",".join(keys) or ring.fingerprints[0], ",".join(ring.fingerprints), store.table)
    first = ring.fingerprints[0]
    both = ",".join(dict.fromkeys([first, *keys, *([PLAIN] if was_plain else [])]))
    await _reseal(store, sealed, both, first, await _owned(store))  # 1
    crash_point("rekey.1")
    work, turn, values = _Work(store, ring, reads_plain=was_plain), 0, 0
    while True:  # 2
        turn, done = turn + 1, await work.rewrite_all()
        values += done.values
        if turn > 1 and not done.values:
            break
    crash_point("rekey.2")
    await _reseal(store, both, first, "", ())  # 3
    crash_point("rekey.3")
    return Rewritten(values, done.of)


async def _reseal(store: Store, before: str, after: str, rekey: str, labels: Sequence[str]) -> None:
    if await store.order("reseal", before, after, rekey, *labels) != "ok":
        raise InputError(
            f"another `shoal rekey`, or a worker with another key, works on table {store.table}: try again"
        )


async def _owned(store: Store) -> list[str]:
    """The labels of everything that some worker owns."""
    names: Mapping[bytes, bytes] = await store.redis.hgetall(store.key(INGEST))
    return [name.decode().removeprefix("token:") for name in names if name.startswith(b"token:")]


class _Work:
    """One table's values under their keys."""

    def __init__(self, store: Store, ring: KeyRing, *, reads_plain: bool) -> None:
        self._store, self._ring, self._reads_plain = store, ring, reads_plain

    async def rewrite_all(self) -> Rewritten:
        """One pass: how many values were not under the first key, and how many there are."""
        values = count = 0
        async for name in self._store.names():
            kind, shape = bound_kind(name)
            if kind is None:
                continue
            async for pairs in self._elements(name) if shape == "list" else self._store.scan(name):
                field = _field_of(name) if shape == "list" else None
                changes = await in_thread(self._again, kind, field, pairs)
                for part in _parts(changes):
                    await self._store.run("rewrite", name, shape, *part)
                    crash_point("rekey.2.part")
                values, count = values + len(changes), count + len(pairs)
        return Rewritten(values, count)

    def _again(self, kind: bytes, field: bytes | None, pairs: Sequence[_Pair]) -> list[tuple[bytes, bytes, bytes]]:
        """(place, value before, value after) of those that are not under the first key."""
        ring = self._ring
        found = []
        for place, value in pairs:
            if ring.is_current(value):
                continue
            bound = place if field is None else field
            is_plain = self._reads_plain and not is_encrypted(value)
            content = value if is_plain else ring.decrypt(kind, bound, value)
            found.append((place, value, ring.encrypt(kind, bound, content)))
        return found

    async def _elements(self, name: str) -> AsyncIterator[list[_Pair]]:
        """The elements of a list, by their indexes."""
        at = 0
        while found := await self._store.redis.lrange(self._store.key(name), at, at + _ELEMENTS_AT_ONCE - 1):
            yield [(str(at + place).encode(), value) for place, value in enumerate(found)]
            at += len(found)


def bound_kind(name: str) -> tuple[bytes | None, str]:
    """What the encryption of a key's values is bound to, None if they are not encrypted; and the key's shape."""
    parts = name.split(":")
    if parts[0] == "stage":
        parts = parts[2:]
    while parts[0] == "shard":  # staged by the owner of a shard, and a key of that shard
        parts = parts[2:]
    if parts[0] in _LISTS:
        return _LISTS[parts[0]], "list"
    return _KIND_OF.get(parts[0]), "hash"


def _field_of(name: str) -> bytes:
    """What stands for a field in the encryption of a list's elements."""
    return name.removeprefix("window:").encode()


def _parts(changes: Sequence[tuple[bytes, bytes, bytes]]) -> Iterator[list[bytes]]:
    for start in range(0, len(changes), _AT_ONCE):
        yield [part for change in changes[start : start + _AT_ONCE] for part in change]
