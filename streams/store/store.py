"""One table in one Redis: its connection, its scripts, and everything that is asked of single keys.

All Redis commands are given in this room, streams/store; the keys are in keys.py. A change that must be made whole, and
only by the worker that owns what it changes, is one of the scripts in lua/. docs/protocol.md has the whole protocol.
"""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError, ResponseError

from shoal.core.state import ENGINE, Meta
from shoal.streams.errors import FencedError, InputError, LostError, PolicyChangedError
from shoal.streams.prometheus import REDIS_SECONDS
from shoal.streams.store.address import Access
from shoal.streams.store.connection import await_answer, await_redis, open_redis, without_secret
from shoal.streams.store.encryption import Cipher
from shoal.streams.store.keys import (
    BARRIER,
    BEGINNING,
    BESIDE,
    EXTERNAL,
    INGEST,
    META,
    OUTBOX,
    SKIPPED,
    TRIGGERS,
    staged_key,
)
from shoal.streams.store.meta import Identity, TableMeta, read_meta, write_meta
from shoal.streams.store.records import KINDS, Counts

_LUA = Path(__file__).parent / "lua"
_SCAN = 2_000
_HASHES_AT_ONCE = 16
_BEGINNING_S = 60
_DURABLE = {"appendonly": "yes", "appendfsync": "always"}


def _read_scripts() -> dict[str, str]:
    """Every script by its name, behind the pieces (lua/pieces/) that it calls."""
    pieces = {path.stem: path.read_text() for path in sorted((_LUA / "pieces").glob("*.lua"))}
    found = {path.stem: path.read_text() for path in sorted(_LUA.glob("*.lua"))}
    return {
        name: "".join(piece for called, piece in pieces.items() if f"{called}(" in text) + text
        for name, text in found.items()
    }


class Published(NamedTuple):
    """The last sealed release, and the last one that is marked as sent to the topic."""

    release: int
    sent: int


class Waiting(NamedTuple):
    """What the clocks look at: when the last trigger was handled or the table was begun, and events accepted since."""

    last_s: float
    accepted: int


class Store:
    """One table's keys on one Redis."""

    def __init__(
        self, url: str, table: str, cipher: Cipher, access: Access | None = None, meaning: str = "", shards: int = 1
    ) -> None:
        self.url, self.table, self.cipher, self.shards = url, table, cipher, shards
        self.meaning = meaning  # of the policy that this worker runs under; "" if it neither ingests nor plans
        self.prefix = f"{{shoal:{table}}}:".encode()
        # redis-py types its answers as either of two kinds of text.
        self.redis: Any = open_redis(url, access, self.prefix)
        self._scripts = _read_scripts()
        self._sha: dict[str, str] = {}

    async def connect(self, within_s: float) -> None:
        """Raises ServiceError if Redis does not answer in time, InputError if it does not let this client in, or not
        give a command that Shoal needs.
        """
        await await_redis(self.redis, within_s, self.url, self.table)
        await await_answer(self._try_transaction, within_s, self.url, self.table)
        denied = await await_answer(lambda: self.run("rights"), within_s, self.url, self.table)
        if denied:
            commands = " ".join("+" + name.decode().lower() for name in denied)
            raise InputError(
                f"Redis at {without_secret(self.url)} does not let its user do what it must: grant {commands} on the "
                f"keys ~{self.prefix.decode()}*"
            )

    async def _try_transaction(self) -> None:
        """A rebuild ends with one; no script can try it. Word by word: a pipeline hides which one was refused."""
        async with self.redis.client() as one:
            for word in ("MULTI", "EXEC"):
                await one.execute_command(word)

    async def close(self) -> None:
        await self.redis.aclose()

    def key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    async def run(self, script: str, *args: str | bytes | int) -> Any:
        """Run one of the scripts. After a RedisError nobody knows whether the script had its effect."""
        sha = self._sha.get(script)
        if sha is None:
            sha = self._sha[script] = await self._load(script)
        with REDIS_SECONDS.labels(script).time():
            return await self._call(script, sha, *args)

    async def _call(self, script: str, sha: str, *args: str | bytes | int) -> Any:
        try:
            return await self.redis.execute_command("EVALSHA", sha, 1, self.prefix, *args)
        except NoScriptError:  # Redis was restarted
            sha = self._sha[script] = await self._load(script)
            return await self.redis.execute_command("EVALSHA", sha, 1, self.prefix, *args)

    async def order(self, script: str, *args: str | bytes | int) -> str:
        """Run a script that answers with one word. Raises LostError and FencedError for those two words."""
        word: str = (await self.run(script, *args)).decode()
        if word == "lost":
            raise LostError
        if word == "fenced":
            raise FencedError
        return word

    async def _load(self, script: str) -> str:
        sha = await self.redis.execute_command("SCRIPT LOAD", self._scripts[script])
        return sha.decode() if isinstance(sha, bytes) else str(sha)

    # -- the table as a whole -----------------------------------------------------------------------------------------

    async def meta(self) -> TableMeta | None:
        """What is stored of this table, None if nothing is. Raises InputError if another version of Shoal wrote it."""
        found = await self.meta_fields()
        return read_meta(found, self.table) if found else None

    async def meta_fields(self) -> Mapping[bytes, bytes]:
        """The fields of `meta` as they are, whichever version wrote them; empty if nothing is stored."""
        found: Mapping[bytes, bytes] = await self.redis.hgetall(self.key(META))
        return found

    async def raw_meta(self) -> Mapping[str, str]:
        """The fields of `meta` that are text, whichever version wrote them; empty if nothing is stored."""
        found = await self.meta_fields()
        return {name.decode(): value.decode(errors="replace") for name, value in found.items() if name != b"state"}

    async def begin_once(self) -> bool:
        """Whether this worker is the one that creates the table; for a minute no other worker is told so."""
        return bool(await self.redis.set(self.key(BEGINNING), "1", nx=True, ex=_BEGINNING_S))

    async def create(self, identity: Identity, partitions: int, created: float, sealed: Meta) -> None:
        """Begin a table that Redis knows nothing of; if another worker is quicker, its beginning stands."""
        fields = write_meta(identity, partitions, created, sealed, Counts())
        await self.run("create", partitions, *(part for pair in fields.items() for part in pair))

    async def own(self, label: str) -> str:
        """Take ownership of a source (see keys.py) or, as `triggers`, of planning; returns the token that proves it.

        Tokens are random, not counted: after Redis was set back to an earlier state, two workers must not end up with
        the same one. Raises LostError if Redis knows nothing of the table, PolicyChangedError if it has another policy,
        InputError if values are to be under another key than this worker's, or the table has another engine.
        """
        token = secrets.token_hex(12)
        word = await self.order("own", label, token, self.cipher.fingerprints[0], self.meaning, ENGINE)
        if word == "policy":
            raise PolicyChangedError(self.table)
        if word == "engine":
            raise InputError(
                f"table {self.table} was upgraded to another engine: start this worker with that version of Shoal"
            )
        if word != "ok":
            raise InputError(
                f"table {self.table} is under another key, or soon will be: start this worker with that key first "
                "in SHOAL_STATE_KEY"
            )
        return token

    async def changing(self) -> int | None:
        """The frozen release with which another policy takes over, if there is one."""
        release, policy = await self.redis.hmget(self.key(BARRIER), ["release", "policy"])
        return None if policy is None else int(release)

    async def check_policy(self) -> None:
        """Raises PolicyChangedError if another policy has taken over, and the release with which it did is applied."""
        policy, release, applied = await self.redis.hmget(self.key(META), ["policy", "release", "applied"])
        if policy is not None and policy.decode() != self.meaning and release == applied:
            raise PolicyChangedError(self.table)

    async def write_under_first_key(self, meta: TableMeta) -> None:
        """Note that values may be under this worker's first key from now on. Raises LostError."""
        sealed, first = meta.identity["seal"], self.cipher.fingerprints[0]
        while first not in sealed.split(","):
            if await self.order("reseal", sealed, f"{first},{sealed}", "as-it-was") == "ok":
                return
            found = await self.redis.hget(self.key(META), "seal")  # another worker was quicker
            sealed = found.decode() if found is not None else ""

    async def check_server(self) -> list[str] | None:
        """Refuse a Redis that evicts keys when it is full; returns the names of settings under which it may forget,
        None if it does not say how it is set.

        An evicted ledger would be a forgotten promise. Raises InputError.
        """
        try:
            found = [await self.redis.config_get(name) for name in ("maxmemory-policy", *_DURABLE)]
        except ResponseError:
            return None
        settings = {str(name): str(value) for answer in found for name, value in answer.items()}
        if settings.get("maxmemory-policy", "").startswith("allkeys-"):
            raise InputError(
                f"Redis at {without_secret(self.url)} evicts keys when it is full, and a ledger must not be forgotten: "
                "set its maxmemory-policy to noeviction"
            )
        return [name for name, wanted in _DURABLE.items() if settings.get(name, wanted) != wanted]

    async def server_version(self) -> str | None:
        """`redis 7.0.15`, None if this user may not ask. Raises RedisError if Redis is gone."""
        try:
            found = await self.redis.info("server")
        except ResponseError:
            return None
        name = found.get("server_name", "redis")
        return f"{name} {found.get(f'{name}_version', found.get('redis_version'))}"

    async def is_whole(self, meta: TableMeta) -> bool:
        """Whether as many records are there as were sealed. While a release is being applied nobody can tell."""
        if meta.applied != meta.release:
            return True
        sizes = []
        for kind in KINDS:
            pipeline = self.redis.pipeline(transaction=False)
            for name in kind.keys(meta.partitions):
                pipeline.hlen(self.key(name))
            sizes.append(sum(await pipeline.execute()))
        return meta.counts == Counts(*sizes)

    async def wipe(self, keep: str = "") -> int:
        """Delete everything of this table, `meta` first, so that a worker still running on it notices. Returns the
        number of keys.
        """
        count = int(await self.redis.unlink(self.key(META)))
        doomed: list[bytes] = []
        async for name in self.names():
            if name != keep:
                doomed.append(self.key(name))
            if len(doomed) == _SCAN:
                count += int(await self.redis.unlink(*doomed))
                doomed.clear()
        if doomed:
            count += int(await self.redis.unlink(*doomed))
        return count

    async def names(self) -> AsyncIterator[str]:
        """The names of all keys of this table; one may come twice, or not at all if it is new."""
        pattern = self.prefix.decode().replace("[", r"\[") + "*"
        async for key in self.redis.scan_iter(match=pattern, count=_SCAN):
            yield key.removeprefix(self.prefix).decode()

    def beside(self) -> "Store":
        """A store of the same table whose keys nobody looks at, until they take the place of the others."""
        twin = copy(self)
        twin.prefix = self.prefix + BESIDE.encode()
        return twin

    # -- single questions ---------------------------------------------------------------------------------------------

    async def published(self) -> Published | None:
        """How far the table's releases are; None if Redis knows nothing of the table."""
        release, sent = await self.redis.hmget(self.key(META), ["release", "sent"])
        return None if release is None else Published(int(release), int(sent))

    async def barrier_and_setbacks(self) -> tuple[int | None, tuple[int, bytes]]:
        """The release that is frozen, if there is one, and what changes whenever partitions may have been set back: how
        many records operators have left out, and the mark of a release that was frozen again.
        """
        pipeline = self.redis.pipeline(transaction=False)
        pipeline.hmget(self.key(BARRIER), ["release", "again"])
        pipeline.scard(self.key(SKIPPED))
        (release, again), skips = await pipeline.execute()
        return None if release is None else int(release), (int(skips), again or b"")

    async def sealed_manifest(self, release: int) -> bytes | None:
        """The manifest of a release that is sealed and not marked as sent."""
        found: bytes | None = await self.redis.hget(self.key(staged_key(release, OUTBOX)), "manifest")
        return found

    async def next_trigger(self) -> int:
        """The offset of the first trigger that was not handled yet."""
        return int(await self.redis.hget(self.key(INGEST), "trigger") or 0)

    async def last_at(self) -> str | None:
        """The last time that a release has named."""
        found = await self.redis.hget(self.key(INGEST), "at")
        return None if found is None else str(found.decode())

    async def waiting(self, release: int) -> Waiting:
        """What waits to be part of `release`. Raises LostError if Redis knows nothing of the table."""
        fired, accepted = await self.redis.hmget(self.key(INGEST), ["fired", f"accepted:{release}"])
        created = await self.created()
        return Waiting(float(fired or created), int(accepted or 0))

    async def created(self) -> float:
        """When this state was begun or rebuilt, in seconds. Raises LostError if Redis knows nothing of the table."""
        found = await self.redis.hget(self.key(META), "created")
        if found is None:
            raise LostError
        return float(found)

    async def external_offsets(self) -> tuple[int, ...]:
        """Where reading of each partition of the external topic stopped; empty for a table that has read none yet."""
        found: Mapping[bytes, bytes] = await self.redis.hgetall(self.key(EXTERNAL))
        return tuple(int(found[str(number).encode()]) for number in range(len(found)))

    async def check_owner(self, label: str, token: str) -> None:
        """Raises FencedError if another worker has taken ownership since."""
        stored = await self.redis.hget(self.key(INGEST), f"token:{label}")
        if stored is not None and stored.decode() != token:
            raise FencedError

    # -- whole hashes -------------------------------------------------------------------------------------------------

    async def scan(self, name: str, count: int = _SCAN) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        """The fields of a hash that nobody writes to, some `count` at a time, so that a large one blocks nobody. A
        field may come twice.
        """
        cursor = 0
        while True:
            cursor, found = await self.redis.execute_command("HSCAN", self.key(name), cursor, "COUNT", count)
            yield list(found.items())
            if int(cursor) == 0:
                return

    async def hashes(self, names: Iterable[str]) -> AsyncIterator[dict[bytes, bytes]]:
        """Whole hashes, sixteen in one request."""
        pending = list(names)
        for start in range(0, len(pending), _HASHES_AT_ONCE):
            pipeline = self.redis.pipeline(transaction=False)
            for name in pending[start : start + _HASHES_AT_ONCE]:
                pipeline.hgetall(self.key(name))
            for found in await pipeline.execute():
                yield found


__all__ = ["TRIGGERS", "Published", "Store", "Waiting"]
