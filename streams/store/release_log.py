"""A release on its way into Redis: frozen, staged beside the current state, sealed, marked as sent, applied.

A release can change millions of fields, and Redis must not be blocked by one large write. So the changes are staged
under the release's number, key by key, and one small script, the *seal*, makes it the current release. From then on the
staged keys are a redo log: applying them to the current state may be interrupted and repeated, and the next planner
finishes it.

Every write here is refused unless the planner's token is still the stored one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shoal.core.events.window import Delta
from shoal.core.state import Meta
from shoal.streams.errors import LostError
from shoal.streams.faults import crash_point
from shoal.streams.store.keys import BARRIER, INGEST, OUTBOX, TRIGGERS, staged_key
from shoal.streams.store.records import Chunk, Counts, RejectNote, pack
from shoal.streams.store.staging import SealedRelease, read_outbox
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import read_window
from shoal.streams.thread import ahead

_AT_ONCE = 8
_OUTBOX_SCAN = 50  # its fields are large


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


class ReleaseLog:
    """Everything the planner writes to Redis, under one token."""

    def __init__(self, store: Store, token: str, partitions: int) -> None:
        self._store, self._token, self._partitions = store, token, partitions

    @property
    def token(self) -> str:
        return self._token

    async def check_owner(self) -> None:
        """Raises FencedError if another worker plans by now."""
        await self._store.check_owner(TRIGGERS, self._token)

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
        word = await self._store.order("freeze", self._token, release, trigger, at or "", repr(now_s), policy, *given)
        if word == "stale":
            raise DisturbedError
        return word

    async def skip(self, trigger: int, reject: RejectNote | None = None) -> None:
        """A trigger that makes no release; `reject` if it is to become a dead letter."""
        await self._store.order("skip", self._token, trigger, b"" if reject is None else pack(reject))

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

    async def read_windows(self, release: int) -> dict[int, dict[str, Delta]]:
        """Step 3."""
        return {number: await read_window(self._store, release, number) for number in range(self._partitions)}

    async def stage(self, release: int, chunks: Iterable[Chunk]) -> int:
        """Step 5: everything that the release changes, a thousand fields at a time; returns the number of chunks.

        `chunks` are read in a thread: what comes next is packed while Redis writes.
        """
        if await self._store.order("unstage", self._token, release) == "stale":
            raise DisturbedError
        count = 0

        async def write(number: int, chunk: Chunk) -> None:
            word = await self._store.order("stage", self._token, release, number, chunk.key, *chunk.fields)
            if word != "ok":
                raise DisturbedError

        async for batch in ahead(chunks, _AT_ONCE):
            await asyncio.gather(*(write(count + place, chunk) for place, chunk in enumerate(batch)))
            count += len(batch)
            crash_point("release.5.part")
        return count

    async def seal(
        self, before: str | None, sealed: Meta, chunks: int, counts: Counts, policy: str | None = None
    ) -> None:
        """Step 6: from here on this is the release, whatever happens. `before` is the digest of the manifest before,
        `policy` the meaning of the policy that takes over.
        """
        meta = pack(tuple(sealed))
        what = (sealed.release, before or "", str(sealed.manifest), meta, chunks, str(counts), policy or "")
        if await self._store.order("seal", self._token, *what) != "ok":
            raise DisturbedError

    async def outbox(self, release: int) -> SealedRelease:
        """The sealed release that is not marked as sent. Raises LostError if it is not there."""
        found: dict[bytes, bytes] = {}
        async for chunk in self._store.scan(staged_key(release, OUTBOX), _OUTBOX_SCAN):
            found.update(chunk)
        sealed = read_outbox(release, found.items())
        if sealed is None:
            raise LostError
        return sealed

    async def sent(self, release: int) -> None:
        """Step 8."""
        if await self._store.order("sent", self._token, release) != "ok":
            raise DisturbedError

    async def apply(self, release: int) -> None:
        """Step 9: the redo log into the current state; then the windows of the release are deleted."""
        keys = sorted(await self._store.redis.smembers(self._store.key(staged_key(release, "keys"))))
        for start in range(0, len(keys), _AT_ONCE):
            part = keys[start : start + _AT_ONCE]
            await asyncio.gather(*(self._store.order("apply", self._token, release, key) for key in part))
            crash_point("release.9.part")
        if await self._store.order("finish", self._token, release, self._partitions) != "ok":
            raise DisturbedError
