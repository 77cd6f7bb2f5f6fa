"""Where a table's state lives in Redis: its keys, its scripts, and the checks before anything is read.

All keys begin with `{shoal:<table>}:`, so a table is one slot of a Redis Cluster. p is a partition of the events
topic, n a release, s a shard.

| key             | type | holds |
|-----------------|------|-------|
| meta            | hash | format, policy, engine, key, seal, partitions, created, counts; and, sealed last: release, |
|                 |      | manifest, state; sent, applied: the last release on the topic, and in the keys below |
| people:p:s      | hash | id → person, in 32 shards for each home partition |
| groups:s        | hash | number → group record; tree: node → node record |
| cliques         | hash | number → clique, which names its owners and is sealed as people are |
| externals       | hash | number → group of another publisher; external: p → offset up to which they are taken |
| ingest          | hash | offset:p, window:p, token:p, floor:p, accepted:n; token:triggers, trigger, fired |
| window:n:p      | list | id, delta, id, delta…, a batch an element: what the window of release n comes to so far |
| rejects:p       | list | marks of rejected records that are not dead letters yet; rejects:triggers likewise |
| barrier         | hash | release, trigger, at, given:p, mark:p: a release that is frozen and not sealed |
| stage:n:…       | hash | what release n will change, key by key, and its outbox; stage:n:keys, stage:n:chunks |
| foreign:n:p     | hash | ids that release n found to be at home in another partition than p |

Whatever must not be half done, or not be done by someone who lost the right to it, is one of the scripts in lua/.
docs/protocol.md tells the whole of it.
"""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from redis.exceptions import NoScriptError, RedisError, ResponseError

from shoal.core.state import Meta
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.store.connection import await_redis, open_redis, without_secret
from shoal.streams.store.encryption import Seal
from shoal.streams.store.records import FORMAT, meta_of, pack

SHARDS = 32
TRIGGERS = "triggers"
_LUA = Path(__file__).parent / "lua"
_SCAN = 2_000
_DURABLE = {"appendonly": "yes", "appendfsync": "always"}


class FencedError(Exception):
    """Somebody else has claimed what this worker was working on."""


class LostError(Exception):
    """Redis does not know this table any more, or is not where this worker left it."""


class Counts(NamedTuple):
    """How many records the state has. Fewer in Redis means that some were lost: evicted, or deleted by hand."""

    people: int = 0
    groups: int = 0
    nodes: int = 0
    cliques: int = 0
    externals: int = 0

    def __str__(self) -> str:
        return " ".join(map(str, self))


class TableMeta(NamedTuple):
    """What Redis says of a table. `sealed` is the engine's own record of the last sealed release."""

    format: int
    policy: str
    engine: str
    key: str
    seal: str
    partitions: int
    created: float
    release: int
    manifest: str | None
    sent: int
    applied: int
    sealed: Meta
    counts: Counts


class Store:
    """One table's keys on one Redis."""

    def __init__(self, url: str, table: str, seal: Seal) -> None:
        self.url, self.table, self.seal = url, table, seal
        self.prefix = f"{{shoal:{table}}}:".encode()
        self.redis: Any = open_redis(url)  # redis-py types its answers as either of two kinds of text
        self._scripts = {path.stem: path.read_text() for path in sorted(_LUA.glob("*.lua"))}
        self._sha: dict[str, str] = {}

    async def connect(self, within_s: float) -> None:
        """Raises ServiceError if Redis does not answer in time."""
        await await_redis(self.redis, within_s, self.url)

    async def close(self) -> None:
        await self.redis.aclose()

    def key(self, name: str) -> bytes:
        return self.prefix + name.encode()

    async def run(self, script: str, *args: str | bytes | int) -> Any:
        """Run one of the scripts. Raises RedisError; the script has then had its effect or not, nobody knows."""
        sha = self._sha.get(script)
        if sha is None:
            sha = self._sha[script] = await self._load(script)
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

    # -- meta ---------------------------------------------------------------------------------------------------------

    async def meta(self) -> TableMeta | None:
        """What is stored of this table, None if nothing is. Raises InputError if another version of Shoal wrote it."""
        found: Mapping[bytes, bytes] = await self.redis.hgetall(self.key("meta"))
        if not found:
            return None
        text = {name.decode(): value for name, value in found.items()}
        if text.get("format") != str(FORMAT).encode():
            written = text.get("format", b"none").decode(errors="replace")
            raise InputError(
                f"the state of table {self.table} in Redis has format {written}, and this version of Shoal reads "
                f"format {FORMAT}: run the version that wrote it, or rebuild"
            )
        return TableMeta(
            FORMAT,
            text["policy"].decode(),
            text["engine"].decode(),
            text["key"].decode(),
            text["seal"].decode(),
            int(text["partitions"]),
            float(text["created"]),
            int(text["release"]),
            text["manifest"].decode() or None,
            int(text["sent"]),
            int(text["applied"]),
            meta_of(text["state"]),
            Counts(*map(int, text["counts"].split())),
        )

    async def create(self, identity: Mapping[str, str], partitions: int, created: float, sealed: Meta) -> None:
        """Begin a table that Redis knows nothing of; if another worker is quicker, its beginning stands."""
        fields = meta_fields(identity, partitions, created, sealed, Counts())
        await self.run("create", partitions, *(part for pair in fields.items() for part in pair))

    async def claim(self, label: str) -> str:
        """Take over a partition (its number) or the planner's part (`triggers`); returns the token that proves it.

        Tokens are random, not counted: after Redis was set back to an earlier state, two workers must not end up with
        the same one. Raises LostError if Redis knows nothing of the table.
        """
        token = secrets.token_hex(12)
        await self.order("claim", label, token)
        return token

    async def check_server(self) -> list[str]:
        """Refuse a Redis that throws keys away when it is full; returns settings under which it may forget.

        A person's evicted ledger would be a promise forgotten. Raises InputError. A server that does not say how it is
        set is believed.
        """
        try:
            found = [await self.redis.config_get(name) for name in ("maxmemory-policy", *_DURABLE)]
        except ResponseError:
            return []
        settings = {str(name): str(value) for answer in found for name, value in answer.items()}
        if settings.get("maxmemory-policy", "").startswith("allkeys-"):
            raise InputError(
                f"Redis at {without_secret(self.url)} evicts keys when it is full, and a ledger must not be forgotten: "
                "set its maxmemory-policy to noeviction"
            )
        return [name for name, wanted in _DURABLE.items() if settings.get(name, wanted) != wanted]

    # -- reading ------------------------------------------------------------------------------------------------------

    async def is_whole(self, meta: TableMeta) -> bool:
        """Whether as many records are there as were sealed. While a release is being applied nobody can tell."""
        if meta.applied != meta.release:
            return True
        people = [key for partition in range(meta.partitions) for key in people_keys(partition)]
        groups = [f"groups:{shard}" for shard in range(SHARDS)]
        pipeline = self.redis.pipeline(transaction=False)
        for name in (*people, *groups, "tree", "cliques", "externals"):
            pipeline.hlen(self.key(name))
        found = await pipeline.execute()
        return meta.counts == Counts(sum(found[: len(people)]), sum(found[len(people) : -3]), *found[-3:])

    async def scan(self, name: str) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        """The fields of a hash nobody is writing to, some thousand at a time, so that a large one blocks nobody."""
        cursor = 0
        while True:
            cursor, found = await self.redis.execute_command("HSCAN", self.key(name), cursor, "COUNT", _SCAN)
            yield list(found.items())
            if int(cursor) == 0:
                return

    async def hashes(self, names: Iterable[str]) -> AsyncIterator[dict[bytes, bytes]]:
        """Whole hashes, read sixteen at a time."""
        pending = list(names)
        for start in range(0, len(pending), 16):
            pipeline = self.redis.pipeline(transaction=False)
            for name in pending[start : start + 16]:
                pipeline.hgetall(self.key(name))
            for found in await pipeline.execute():
                yield found

    async def wipe(self, keep: str = "") -> int:
        """Delete everything of this table, `meta` first, so that whoever still works on it notices. Returns the
        number of keys.
        """
        count = int(await self.redis.unlink(self.key("meta")))
        pattern = self.prefix.decode().replace("[", r"\[") + "*"
        doomed: list[bytes] = []
        async for key in self.redis.scan_iter(match=pattern, count=_SCAN):
            if key != self.key(keep):
                doomed.append(key)
            if len(doomed) == _SCAN:
                count += int(await self.redis.unlink(*doomed))
                doomed.clear()
        if doomed:
            count += int(await self.redis.unlink(*doomed))
        return count


def shard_of(field: bytes) -> int:
    return crc32(field) % SHARDS


def people_keys(partition: int) -> list[str]:
    return [f"people:{partition}:{shard}" for shard in range(SHARDS)]


def meta_fields(
    identity: Mapping[str, str], partitions: int, created: float, sealed: Meta, counts: Counts
) -> dict[str, str | bytes]:
    """`meta` as it is written; `identity` is what must not change under a table: policy, engine, key, seal."""
    release = str(sealed.release)
    return {
        "format": str(FORMAT),
        **identity,
        "partitions": str(partitions),
        "created": repr(created),
        "release": release,
        "manifest": sealed.manifest or "",
        "sent": release,
        "applied": release,
        "state": pack(tuple(sealed)),
        "counts": str(counts),
    }


def check_identity(meta: TableMeta, identity: Mapping[str, str], partitions: int, table: str) -> None:
    """Refuse a table that was begun under another policy, secret, engine or number of partitions. Raises InputError.

    A GuaranteeError would be as true: each of them would break a promise. But it is the operator's input that is wrong.
    """
    said = {
        "policy": "another policy (its file or a hierarchy file has changed)",
        "key": "another SHOAL_KEY",
        "seal": "another SHOAL_STATE_KEY, or none",
        "engine": f"engine {meta.engine}, and this is engine {identity['engine']}",
    }
    for name, reason in said.items():
        if getattr(meta, name) != identity[name]:
            raise InputError(
                f"table {table} was begun under {reason}: publish it under a new table name, or set it back"
            )
    if meta.partitions != partitions:
        raise InputError(
            f"table {table} was begun with {meta.partitions} partitions of its events topic, which has {partitions} "
            "now: a person's events would arrive in another partition"
        )


__all__ = [
    "SHARDS", "TRIGGERS", "Counts", "FencedError", "GuaranteeError", "LostError", "RedisError", "Store", "TableMeta",
    "check_identity", "meta_fields", "people_keys", "shard_of",
]  # fmt: skip
