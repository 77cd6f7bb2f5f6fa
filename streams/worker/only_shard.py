"""The shard of a table with one: the coordinator owns it, and does its steps between looks, in the same process."""

from collections.abc import Sequence
from contextlib import suppress

from shoal.core.policy.policy import Policy
from shoal.streams.errors import FencedError
from shoal.streams.kafka.sealed import Announcements
from shoal.streams.settings import Settings
from shoal.streams.store.course import Course
from shoal.streams.store.keys import shard_label
from shoal.streams.store.store import Store
from shoal.streams.worker.failure_report import StepFailedError
from shoal.streams.worker.shard_owner import ShardOwner
from shoal.streams.worker.together import Together


class OnlyShard:
    """The owner of shard 0 in the coordinator's hands."""

    def __init__(self, settings: Settings, policy: Policy, store: Store, partitions: int) -> None:
        self._settings, self._policy, self._store, self._partitions = settings, policy, store, partitions
        self._owner: ShardOwner | None = None

    async def own(self) -> None:
        """Take ownership. What is remembered is kept if nobody else has owned the shard meanwhile."""
        if self._owner is not None:
            with suppress(FencedError):
                await self._store.check_owner(shard_label(0), self._owner.token)
                return
            await self._owner.close()
        token = await self._store.own(shard_label(0))
        together = Together(Announcements(self._settings.kafka_servers, self._policy.table))
        self._owner = ShardOwner(self._settings, self._policy, self._store, self._partitions, 0, token, together)

    async def do_next(self, course: Course) -> bool:
        """Do its next step; False if there is none."""
        assert self._owner is not None
        try:
            return await self._owner.advance(course)
        except StepFailedError:
            return True  # it was reported

    async def records(self, course: Course, manifest: bytes) -> Sequence[bytes]:
        """All records of the release that this manifest seals."""
        assert self._owner is not None
        return await self._owner.records(course, manifest)

    async def rest(self) -> None:
        """Let go of a search that is under way; what is remembered stays."""
        if self._owner is not None:
            await self._owner.close()
