"""What the makers of releases share, of a table with one shard and of one with several: where they stand, their checks,
and step 2, the wait for the barrier.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.errors import LostError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.companions import check_companions, state_name
from shoal.streams.kafka.entry import events_id
from shoal.streams.kafka.manifest import Headers, ManifestRecord, Origin, read_origin, write_origin
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.meta import TableMeta, check_identity, identity_of
from shoal.streams.store.release_log import Barrier, DisturbedError, ReleaseLog
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.store import Store
from shoal.streams.worker.publish import Publisher
from shoal.streams.worker.skipping import in_window
from shoal.streams.worker.standing import Standing

WAIT_S: Final = 0.01
SAY_S: Final = 10.0


class Maker:
    """Makes the releases of one table, one at a time. `release` is the last one that is applied."""

    def __init__(self, settings: Settings, policy: Policy, store: Store, partitions: int) -> None:
        self._policy, self._store, self._partitions = policy, store, partitions
        self._settings, self._servers = settings, settings.kafka_servers
        self._topics, self._meaning = Topics(policy.table), meaning_of(policy)
        self._last: ManifestRecord | None = None  # on the releases topic, as the tenure began; with shards, now
        self.release = 0
        self.is_planning = False
        self.standing = Standing()
        self._log = get_log(table=policy.table)

    async def finish_sealed(self, release_log: ReleaseLog, publisher: Publisher) -> None:
        """Publish and apply the release that an earlier planner has sealed, if there is one.

        Raises GuaranteeError if Redis and the releases topic contradict each other.
        """
        raise NotImplementedError

    async def prepare(self) -> None:
        """Load what the next release is planned from, if this worker plans it, and say what the last one was."""
        raise NotImplementedError

    async def make(self, release_log: ReleaseLog, publisher: Publisher, release: int) -> bool:
        """All steps from the second on of a release that is frozen; whether another policy has taken over with it."""
        raise NotImplementedError

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """While a release cannot be planned, the clocks must not ask for another."""
        self.is_planning = True
        try:
            yield
        finally:
            self.is_planning = False

    async def policy_digest(self) -> str:
        """The digest of the policy's files that manifests name so far."""
        return (await self._meta()).sealed.policy

    async def check_identity(self) -> None:
        """Raises InputError if the events topic is another one than this table was begun with."""
        now = identity_of(
            self._settings, self._policy, self._store.cipher, await events_id(self._settings, self._policy.table)
        )
        check_identity(await self._meta(), now, self._partitions, self._policy.table)

    async def window_begins(self, publisher: Publisher) -> list[int]:
        """Where the open window begins in each partition of the events topic: where that of the last release ended."""
        last = await publisher.last() if self.release else None
        if last is None:
            return [0] * self._partitions
        return list(read_origin(last.number, last.headers, self._partitions).offsets)

    async def _headers(self, publisher: Publisher, barrier: Barrier, external: Sequence[int]) -> Headers:
        """What the release is made of. `external` is where the external topic is read to."""
        begin, skipped = await self._store.external_offsets(), await read_skipped(self._store)
        ends = [barrier.ends[partition] for partition in range(self._partitions)]
        begins = await self.window_begins(publisher) if skipped else ends
        left_out = in_window(skipped, begins, ends, begin, external)
        made_by = (barrier.policy or self._meaning, (await self._meta()).identity["key"])
        return write_origin(Origin(ends, barrier.trigger, barrier.at, external, left_out, *made_by))

    async def _await_passage(self, release_log: ReleaseLog, release: int) -> Barrier:
        """Step 2."""
        said = time.monotonic()
        while not await release_log.has_passed(release):
            if time.monotonic() - said > SAY_S:
                said = time.monotonic()
                self._log.info("release.waiting", release=release, step="ingest must reach the barrier")
                await check_companions(self._settings, self._policy.table, state_name(await self._store.created()))
            await asyncio.sleep(WAIT_S)
        crash_point("release.2")
        barrier = await release_log.barrier()
        if barrier is None or barrier.release != release or len(barrier.ends) != self._partitions:
            raise DisturbedError
        return barrier

    async def _meta(self) -> TableMeta:
        meta = await self._store.meta()
        if meta is None:
            raise LostError
        return meta
