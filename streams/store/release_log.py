"""A release on its way into Redis: frozen, gathered, staged beside the current state, sealed, sent, applied.

A release can change millions of fields, and Redis must not be blocked by one large write. So the changes of each shard
are staged under the release's number, key by key, and one small script, the *seal*, makes it the current release. From
then on the staged keys are a redo log: applying them to the current state may be interrupted and repeated, and whoever
comes next finishes it.

The coordinator writes under the token of planning, the owner of a shard under that of the shard. Every script refuses
any other token. Until a release is sealed, what an owner writes names the digest of the vector that it was made for,
and is refused under any other.
"""

import asyncio
import secrets
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal.core.state import Meta
from shoal.streams.errors import LostError
from shoal.streams.faults import crash_point
from shoal.streams.store.keys import (
    BARRIER,
    GONE,
    INGEST,
    OUTBOX,
    STRAYS,
    TRIGGERS,
    external_label,
    shard_label,
    staged_key,
)
from shoal.streams.store.records import CHUNK, Chunk, Counts, RejectNote, pack
from shoal.streams.store.skipped import members_of
from shoal.streams.store.staging import SealedRelease, outbox_fields, read_outbox
from shoal.streams.store.store import Store
from shoal.streams.thread import ahead

_AT_ONCE = 4
_KEYS_AT_ONCE = 32
_ELEMENTS = 4  # of a desk, for one script; each has some thousand people


class DisturbedError(Exception):
    """Redis is not where this planner left it. The planner has to start again from what is there."""


class Barrier(NamedTuple):
    """A frozen release."""

    release: int
    trigger: int
    at: str | None
    ends: Mapping[int, int]
    """Where each partition's window ends, for those partitions where that is decided."""
    external: tuple[int, ...] = ()
    """Where each partition of the external topic ended when the release was frozen."""
    policy: str | None = None
    """The meaning of the policy that takes over with this release, if one does."""


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


class ReleaseLog:
    """Everything that is written to Redis for a release, under one token: the coordinator's or, with a `shard`, its
    owner's.

    Each write raises FencedError if somebody else has taken over, LostError if Redis does not know the table, and
    DisturbedError if the release is not, or not any more, at this step.
    """

    def __init__(self, store: Store, token: str, partitions: int, shard: int | None = None) -> None:
        self._store, self._partitions = store, partitions
        self.token, self._shard = token, shard

    async def check_owner(self) -> None:
        """Raises FencedError if another worker has taken over by now."""
        await self._store.check_owner(TRIGGERS if self._shard is None else shard_label(self._shard), self.token)

    async def freeze(
        self,
        release: int,
        trigger: int,
        at: str | None,
        now_s: float,
        ends: Mapping[str, int] | Mapping[int, int],
        policy: str = "",
    ) -> str:
        """Step 1. `ends` are offsets that the windows must reach at least; those of external partitions, labelled
        `external:p`, are exact. `policy` is the meaning of the policy that takes over. Answers ok, seen or frozen.

        Raises DisturbedError if `release` is not the next.
        """
        given = [part for pair in ends.items() for part in pair]
        word = await self._store.order("freeze", self.token, release, trigger, at or "", repr(now_s), policy, *given)
        if word == "stale":
            raise DisturbedError
        return word

    async def skip(self, trigger: int, reject: RejectNote | None = None) -> None:
        """A trigger that makes no release; `reject` if it is to become a dead letter."""
        await self._store.order("skip", self.token, trigger, b"" if reject is None else pack(reject))

    async def barrier(self) -> Barrier | None:
        """The release that is frozen, if there is one."""
        found: Mapping[bytes, bytes] = await self._store.redis.hgetall(self._store.key(BARRIER))
        if not found:
            return None
        ends = {int(name[5:]): int(value) for name, value in found.items() if name.startswith(b"mark:")}
        given = {name: int(value) for name, value in found.items() if name.startswith(b"given:external:")}
        external = tuple(given[f"given:external:{number}".encode()] for number in range(len(given)))
        at, policy = (found.get(name, b"").decode() or None for name in (b"at", b"policy"))
        return Barrier(int(found[b"release"]), int(found[b"trigger"]), at, ends, external, policy)

    async def has_passed(self, release: int) -> bool:
        """Step 2: whether every partition has passed the barrier of `release`."""
        names = [f"window:{partition}" for partition in range(self._partitions)]
        windows = await self._store.redis.hmget(self._store.key(INGEST), [*names, f"token:{TRIGGERS}"])
        if None in windows:
            raise LostError
        return all(int(window) > release for window in windows[:-1])

    async def tell_vector(self, release: int, vector: str, origin: bytes, policy: str | None = None) -> None:
        """The end of step 2: every partition has passed, and desks may begin. `vector` is the digest of `origin`,
        `policy` the meaning of the policy that takes over.
        """
        await self._as_coordinator("vector", release, vector, self._partitions, origin, policy or "")

    async def retry(self) -> None:
        """Shards that could not be planned are to try again."""
        await self._as_coordinator("retry", self._store.shards)

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
        await self._as_coordinator("seal", *what, policy or "", *told)

    async def outbox(self, release: int) -> SealedRelease:
        """The manifest of a sealed release, and its headers. Raises LostError if they are not there."""
        found = await self._store.redis.hgetall(self._store.key(staged_key(release, OUTBOX)))
        sealed = read_outbox(release, found.items())
        if sealed is None:
            raise LostError
        return sealed

    async def announced(self, release: int, begins: Mapping[int, int]) -> None:
        """Step 6, at its end: owners may send. `begins` is where each partition of the releases topic goes on."""
        await self._as_coordinator("announced", release, *(part for pair in begins.items() for part in pair))

    async def sent(self, release: int) -> None:
        """Step 8, at its end."""
        await self._as_coordinator("sent", release)

    async def finish(self, release: int) -> None:
        """Step 10: every shard is applied. What moved away goes, and then the windows and what was gathered."""
        for shard in range(self._store.shards):
            staged = await self._store.redis.smembers(self._store.key(staged_key(release, "keys", shard)))
            keys = [key.decode().removeprefix(GONE) for key in sorted(staged)]
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                await self._as_coordinator("remove", release, shard, *keys[start : start + _KEYS_AT_ONCE])
                crash_point("release.10.part")
        await self._as_coordinator("finish", release, self._partitions, self._store.shards)

    async def refreeze(self, vector: Vector, now_s: float) -> None:
        """Freeze an announced release again, at its own vector, after Redis was set back behind its seal."""
        members, late = members_of(vector.skipped), members_of(vector.too_late)
        places = [part for pair in zip(vector.begins, vector.ends, strict=True) for part in pair]
        others = [part for number, end in enumerate(vector.external) for part in (external_label(number), end)]
        await self._as_coordinator(
            "refreeze", vector.release, vector.trigger, vector.at or "", repr(now_s), self._store.shards,
            secrets.token_hex(12), self._partitions, len(members), len(late), vector.policy, *places, *members, *late,
            *others,
        )  # fmt: skip

    # -- what the owner of a shard writes -----------------------------------------------------------------------------

    async def tell_cuts(self, release: int, vector: str, cuts: bytes) -> None:
        """Step 3, while there are no cuts: those that were made, or that there are none yet. Shard 0's owner tells."""
        await self._as_owner("cut", release, vector, cuts)

    async def gather(
        self, release: int, vector: str, moves: Mapping[int, Sequence[bytes]], strays: Sequence[bytes]
    ) -> None:
        """Step 3: what this bucket's desk found, by shard; all shards are there, also those without anything."""
        targets: list[tuple[int | str, Sequence[bytes]]] = [*moves.items(), (STRAYS, strays)]

        async def write(target: int | str, elements: Sequence[bytes]) -> None:
            pieces = [elements[start : start + _ELEMENTS] for start in range(0, len(elements), _ELEMENTS)]
            for place, piece in enumerate(pieces or [()]):
                await self._as_owner("gather", release, vector, target, int(place == 0), *piece)
            crash_point("release.3.part")

        await _all(write(*one) for one in targets)
        told = [part for target, elements in targets for part in (target, len(elements))]
        await self._as_owner("gathered", release, vector, *told)

    async def regather(self, release: int, vector: str, bucket: int) -> None:
        """What a desk wrote is not all there: Redis was set back. The desk is to write it again."""
        await self._as_owner("regather", release, vector, bucket)

    async def stage(self, release: int, vector: str, chunks: Iterable[Chunk]) -> int:
        """Step 4: everything that the release changes in this shard; returns in how many pieces.

        `chunks` are read in a thread: what comes next is packed while Redis writes.
        """
        await self._as_owner("unstage", release, vector)
        count = 0

        async def write(number: int, piece: Sequence[Chunk]) -> None:
            args: list[str | int | bytes] = []
            for chunk in piece:
                args += (chunk.key, len(chunk.fields), *chunk.fields)
            await self._as_owner("stage", release, vector, number, *args)
            crash_point("release.4.part")

        async for batch in ahead(_pieces(chunks), _AT_ONCE):
            await _all(write(count + place, piece) for place, piece in enumerate(batch))
            count += len(batch)
        return count

    async def report(self, release: int, vector: str, chunks: int, report: bytes) -> None:
        """Step 4, at its end."""
        await self._as_owner("report", release, vector, chunks, report)

    async def fail(self, release: int, vector: str, why: str) -> None:
        """This shard cannot be gathered or planned. `why` says nothing about people."""
        await self._as_owner("fail", release, vector, why)

    async def note_part(self, release: int, first: int, end: int) -> None:
        """Step 7: the part is committed, from one offset to before the other."""
        await self._as_owner("part", release, first, end)

    async def apply(self, release: int) -> None:
        """Step 9: the redo log of this shard into the current state, but for what the shard takes away."""
        staged = await self._store.redis.smembers(self._store.key(staged_key(release, "keys", self._shard)))
        keys = sorted(key for key in staged if not key.startswith(GONE.encode()))
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            while await self._as_owner("apply", release, *some) == "more":
                crash_point("release.9.part")
            crash_point("release.9.part")
        await self._as_owner("applied", release)

    # -- scripts ------------------------------------------------------------------------------------------------------

    async def _as_coordinator(self, script: str, *args: str | bytes | int) -> None:
        if await self._store.order(script, self.token, *args) != "ok":
            raise DisturbedError

    async def _as_owner(self, script: str, *args: str | bytes | int) -> str:
        assert self._shard is not None
        word = await self._store.order(script, self._shard, self.token, *args)
        if word not in ("ok", "more"):
            raise DisturbedError
        return word


async def _all(writes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait until all writes have ended, then raise the first error: no write goes on after this returns."""
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _pieces(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks for one script each, of some thousand fields and of some keys."""
    piece: list[Chunk] = []
    size = 0
    for chunk in chunks:
        piece.append(chunk)
        size += len(chunk.fields)
        if size >= 2 * CHUNK or len(piece) == _KEYS_AT_ONCE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
