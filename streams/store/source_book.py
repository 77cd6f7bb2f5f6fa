"""The book of `shoal source` in Redis: the rows of people between two changes, and how far the topics were read.

Its keys begin with `{shoal:<table>:source}:`, apart from the table's own: the worker and a rebuild begin a table by
deleting all of its keys.

| key       | type | holds |
|-----------|------|-------|
| meta      | hash | token (of the one source that may write), mapping (its fingerprint), number (of the last batch), |
|           |      | place (after it), staged (a batch that Kafka may have committed) |
| people:s  | hash | hash of an id → the id and the rows of a person, in 32 shards |
| rows:s    | hash | hash of the key of a row of the second table → the key and the id of its person, in 32 shards |
| due:d     | set  | fields of people who change on day d although no row does |
| days      | set  | the days that have such a set |

Fields are keyed hashes, and values are always encrypted, by SHOAL_STATE_KEY or else by SHOAL_KEY: they have ids in
them, for a delete must name whom it is about.

A batch is staged before Kafka is asked to commit it and applied afterwards. So after any crash Kafka's number of the
last committed batch says whether the staged one counts (docs/source.md, "Step by step").
"""

import secrets
from collections.abc import AsyncIterator, Collection, Iterable
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from shoal.streams.errors import LostError
from shoal.streams.store.encryption import field_hash
from shoal.streams.store.keys import HASHES
from shoal.streams.store.records import pack
from shoal.streams.store.store import Store

PEOPLE: Final = "people"
ROWS: Final = "rows"
_KINDS: Final = {PEOPLE: b"source person", ROWS: b"source row"}
_DAYS: Final = "days"
_unpack = msgspec.msgpack.Decoder().decode  # lists stay lists: a column may be an array


class Write(NamedTuple):
    """One change of a key: `put` or `remove` a field, `add` or `take` a member, or `drop` the key."""

    what: str
    key: str
    field: bytes = b""
    value: bytes = b""


class Staged(NamedTuple):
    """A batch: its number, the place after it, and what it changes."""

    number: int
    place: bytes
    writes: list[Write]


class Standing(NamedTuple):
    """How far the book is: the last batch that was applied, and the one that was staged after it."""

    number: int
    place: bytes | None
    staged: Staged | None


class SourceBook:
    """One table's book. Every method raises RedisError; those that write raise FencedError for another owner."""

    def __init__(self, store: Store, secret: bytes) -> None:
        self._store, self._secret = store, secret
        self._token = ""

    @property
    def seal(self) -> str:
        """The fingerprint of the key that values are encrypted with."""
        return self._store.cipher.fingerprints[0]

    def _field(self, identity: str) -> bytes:
        return field_hash(self._secret, identity)

    async def own(self, fingerprint: str) -> str:
        """Refuse the former owner from now on, unless the book was begun with another mapping. Returns the fingerprint
        of the one that it was begun with.
        """
        self._token = secrets.token_hex(12)
        begun: bytes = await self._store.run("source_own", self._token, fingerprint)
        return begun.decode()

    async def is_ours(self) -> bool:
        """Whether nobody has taken the book over since."""
        token = await self._store.redis.hget(self._store.key("meta"), "token")
        return token is not None and token.decode() == self._token

    async def standing(self) -> Standing:
        number, place, staged = await self._store.redis.hmget(self._store.key("meta"), ["number", "place", "staged"])
        return Standing(int(number or 0), place, None if staged is None else _read_staged(staged))

    async def stage(self, batch: Staged) -> None:
        """Step 3."""
        await self._order("source_stage", pack(batch))

    async def apply(self, batch: Staged) -> None:
        """Step 5."""
        flat: list[Any] = [part for write in batch.writes for part in write]
        await self._order("source_apply", batch.number, batch.place, *flat)

    async def clear(self) -> None:
        """Forget everything."""
        await self._store.wipe()

    async def _order(self, script: str, *args: Any) -> None:
        word = await self._store.order(script, self._token, *args)
        if word == "moved":  # Redis was set back while the source ran
            raise LostError

    # -- reading ------------------------------------------------------------------------------------------------------

    async def read(self, kind: str, identities: Collection[str]) -> dict[str, Any]:
        """What is kept under these identities, unpacked; nothing under an identity that is not known."""
        return await self._fetch(kind, map(self._field, identities))

    async def _fetch(self, kind: str, wanted: Iterable[bytes]) -> dict[str, Any]:
        places: dict[str, list[bytes]] = {}
        for field in wanted:
            places.setdefault(_shard(kind, field), []).append(field)
        pipeline = self._store.redis.pipeline(transaction=False)
        for key, fields in places.items():
            pipeline.hmget(self._store.key(key), fields)
        found: dict[str, Any] = {}
        for fields, values in zip(places.values(), await pipeline.execute(), strict=True):
            found |= self._open(kind, zip(fields, values, strict=True))
        return found

    async def pages(self, kind: str) -> AsyncIterator[dict[str, Any]]:
        """Everything of a kind, some thousand at a time. What is written meanwhile may be missing, or come twice."""
        for shard in range(HASHES):
            async for page in self._store.scan(f"{kind}:{shard}"):
                yield self._open(kind, page)

    async def due(self, today: int) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """The people who change by themselves up to a day, by their day."""
        days = sorted(int(day) for day in await self._store.redis.smembers(self._store.key(_DAYS)))
        for day in [day for day in days if day <= today]:
            yield day, await self._fetch(PEOPLE, await self._store.redis.smembers(self._store.key(f"due:{day}")))

    def _open(self, kind: str, page: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Any]:
        cipher = self._store.cipher
        there = ((field, value) for field, value in page if value is not None)
        return dict(_unpack(cipher.decrypt(_KINDS[kind], field, value)) for field, value in there)

    # -- writes -------------------------------------------------------------------------------------------------------

    def put(self, kind: str, identity: str, value: object) -> Write:
        """Keep something under an identity."""
        field = self._field(identity)
        sealed = self._store.cipher.encrypt(_KINDS[kind], field, pack((identity, value)))
        return Write("put", _shard(kind, field), field, sealed)

    def remove(self, kind: str, identity: str) -> Write:
        field = self._field(identity)
        return Write("remove", _shard(kind, field), field)

    def remember(self, identity: str, day: int) -> list[Write]:
        """Look at a person again on a day."""
        return [
            Write("add", f"due:{day}", self._field(identity)),
            Write("add", _DAYS, str(day).encode()),
        ]

    def pass_day(self, day: int) -> list[Write]:
        """Everybody of a day was looked at."""
        return [Write("drop", f"due:{day}"), Write("take", _DAYS, str(day).encode())]


def _shard(kind: str, field: bytes) -> str:
    return f"{kind}:{crc32(field) % HASHES}"


def _read_staged(raw: bytes) -> Staged:
    number, place, writes = _unpack(raw)
    return Staged(number, place, [Write(*write) for write in writes])
