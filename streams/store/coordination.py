"""What the coordinator of a table with shards writes to Redis, beside the freeze: vector, seal, announcement, end.

The coordinator has the planner's token, as in a table with one shard. It sees reports, never people.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal.core.cuts import Cuts
from shoal.core.state import Meta
from shoal.streams.errors import LostError
from shoal.streams.faults import crash_point
from shoal.streams.store.keys import GONE, META, OUTBOX, SHARDS_META, external_label, staged_key
from shoal.streams.store.records import Counts, pack
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.store.skipped import members_of
from shoal.streams.store.staging import SealedRelease, outbox_fields, read_outbox
from shoal.streams.store.store import Store

_KEYS_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class Vector:
    """What a release is made of, as its `sealed` record names it."""

    release: int
    trigger: int
    at: str | None
    begins: Sequence[int]
    """By partition of the events topic, where the window begins."""
    ends: Sequence[int]
    external: Sequence[int]
    skipped: Mapping[str, frozenset[int]]
    """By label, the records that were left out of it."""
    too_late: Mapping[str, frozenset[int]]
    """By label, records of the window that were left out later, and still belong to it."""
    policy: str
    """The meaning of the policy that takes over with the release, "" if none does."""


class Coordination:
    """The coordinator's writes, under its token. They raise what those of `ShardLog` do."""

    def __init__(self, store: Store, token: str, partitions: int) -> None:
        self._store, self._token, self._partitions = store, token, partitions

    async def tell_vector(self, release: int, vector: str, origin: bytes, policy: str | None = None) -> None:
        """The end of step 2: every partition has passed, and desks may begin. `vector` is the digest of `origin`,
        `policy` the meaning of the policy that takes over.
        """
        await self._write("vector", release, vector, self._partitions, origin, policy or "")

    async def retry(self) -> None:
        """Shards that could not be planned are to try again."""
        await self._write("shard_retry", self._store.shards)

    async def seal(
        self,
        before: str | None,
        sealed: Meta,
        vector: str,
        reports: Sequence[bytes],
        lasting: Mapping[str, bytes],
        counts: Counts,
        release: SealedRelease,
        policy: str | None = None,
    ) -> None:
        """Step 5: from here on this is the release, unless Redis is lost before step 6. `lasting` are the fields of
        `shards` from step 10 on, `policy` is the meaning of the policy that takes over.

        Raises DisturbedError, also if a shard's chunks are not all there: its owner stages them again.
        """
        fields = [part for name, value in lasting.items() for part in (name, value)]
        what = (sealed.release, before or "", str(sealed.manifest), pack(tuple(sealed)), vector, str(counts))
        told = (len(reports), *reports, len(lasting), *fields, *outbox_fields(release))
        await self._write("shard_seal", *what, policy or "", *told)

    async def outbox(self, release: int) -> SealedRelease:
        """The manifest of a sealed release, and its headers. Raises LostError if they are not there."""
        found = await self._store.redis.hgetall(self._store.key(staged_key(release, OUTBOX)))
        sealed = read_outbox(release, found.items())
        if sealed is None:
            raise LostError
        return sealed

    async def announced(self, release: int, begins: Mapping[int, int]) -> None:
        """Step 6, at its end: owners may send. `begins` is where each partition of the releases topic goes on."""
        await self._write("announced", release, *(part for pair in begins.items() for part in pair))

    async def sent(self, release: int) -> None:
        """Step 8, at its end."""
        await self._write("sent", release)

    async def finish(self, release: int) -> None:
        """Step 10: every shard is applied. What moved away goes, and then the windows and what was gathered."""
        for shard in range(self._store.shards):
            staged = await self._store.redis.smembers(self._store.key(staged_key(release, "keys", shard)))
            keys = [key.decode().removeprefix(GONE) for key in sorted(staged)]
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                await self._write("shard_remove", release, shard, *keys[start : start + _KEYS_AT_ONCE])
                crash_point("shards.10.part")
        await self._write("shard_finish", release, self._partitions, self._store.shards)

    async def refreeze(self, vector: Vector, now_s: float) -> None:
        """Freeze an announced release again, at its own vector, after Redis was set back behind its seal."""
        members, late = members_of(vector.skipped), members_of(vector.too_late)
        places = [part for pair in zip(vector.begins, vector.ends, strict=True) for part in pair]
        others = [part for number, end in enumerate(vector.external) for part in (external_label(number), end)]
        await self._write(
            "refreeze", vector.release, vector.trigger, vector.at or "", repr(now_s), self._store.shards,
            secrets.token_hex(12), self._partitions, len(members), len(late), vector.policy, *places, *members, *late,
            *others,
        )  # fmt: skip

    async def _write(self, script: str, *args: str | bytes | int) -> None:
        if await self._store.order(script, self._token, *args) != "ok":
            raise DisturbedError


class ShardRecords:
    """What lasts of the shards as a whole: each shard's own record and counts, and the cuts, from `shards`."""

    def __init__(self, fields: Mapping[bytes, bytes]) -> None:
        self._fields = fields

    def state(self, shard: int) -> bytes | None:
        """The engine's own record of a shard at the last sealed release, packed; None before the first."""
        return self._fields.get(f"state:{shard}".encode())

    def counts(self, shard: int) -> Counts:
        found = self._fields.get(f"counts:{shard}".encode())
        return Counts() if found is None else Counts(*map(int, found.split()))

    def digest(self, shard: int) -> bytes | None:
        """Of a shard's records (state_digest.py); None before the first release."""
        return self._fields.get(f"digest:{shard}".encode())

    @property
    def cuts(self) -> bytes | None:
        return self._fields.get(b"cuts")


async def read_shard_records(store: Store) -> ShardRecords:
    """Raises LostError if Redis knows nothing of the table."""
    pipeline = store.redis.pipeline(transaction=True)
    pipeline.exists(store.key(META))
    pipeline.hgetall(store.key(SHARDS_META))
    is_there, found = await pipeline.execute()
    if not is_there:
        raise LostError
    return ShardRecords(found)


def pack_cuts(cuts: Cuts | None) -> bytes | None:
    """The cuts as they are stored; None while there are none."""
    return None if cuts is None else pack(cuts.record())


def write_shard_records(
    states: Sequence[bytes], cuts: bytes | None, *, counts: Sequence[Counts], digests: Sequence[bytes]
) -> dict[str, bytes]:
    """The fields of `shards`."""
    fields = {f"state:{shard}": state for shard, state in enumerate(states)}
    fields |= {f"counts:{shard}": str(one).encode() for shard, one in enumerate(counts)}
    fields |= {f"digest:{shard}": one for shard, one in enumerate(digests)}
    return fields if cuts is None else {**fields, "cuts": cuts}
