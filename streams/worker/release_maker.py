"""Steps 2 to 9 of a release, from frozen to applied, and the state that is kept in memory between releases.

2. wait    until ingest has brought every partition to its barrier
3. read    the windows, which no worker writes to any more
4. plan    in a thread, so that heartbeats and ingest go on
5. stage   the changes of the release and its records, beside the current state
6. seal    one script: from here on this is release n, whatever happens
7. publish one Kafka transaction: the records of cells, those of groups, then the manifest
8. sent    marked in Redis, the sealed records deleted
9. apply   the staged changes to the current state; the windows are deleted
"""

import time
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from shoal.streams.faults import crash_point
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.manifest import Headers
from shoal.streams.settings import Settings
from shoal.streams.store.records import Chunk, Counts
from shoal.streams.store.release_log import Barrier, ReleaseLog
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.staging import SealedRelease, chunks_of, counts_after, foreign_ids
from shoal.streams.store.store import Store
from shoal.streams.store.whole_table import load_state
from shoal.streams.thread import in_thread
from shoal.streams.worker.changing import read_change
from shoal.streams.worker.external import ExternalRead, external_letters, read_external
from shoal.streams.worker.failed_step import FailedStep
from shoal.streams.worker.maker import Maker
from shoal.streams.worker.plan_failure import PlanFailedError
from shoal.streams.worker.publish import Publisher, check_sealed, check_story

_WAIT_S: Final = 0.03
_SAY_S: Final = 10.0


class _Task(NamedTuple):
    """What a release is to be made of."""

    window: Window
    ends: Sequence[int]
    read: ExternalRead
    headers: Headers
    before: Counts
    changed: Policy | None
    """The policy that takes over with it, if one does."""


class _Planned(NamedTuple):
    """A plan and what it writes."""

    plan: Plan
    chunks: Iterator[Chunk]
    counts: Counts
    sealed: SealedRelease


class ReleaseMaker(Maker):
    """Makes the releases of a table with one shard."""

    def __init__(self, settings: Settings, policy: Policy, store: Store, partitions: int) -> None:
        super().__init__(settings, policy, store, partitions)
        self._state: State | None = None

    async def finish_sealed(self, release_log: ReleaseLog, publisher: Publisher) -> None:
        meta = await self._meta()
        last = await publisher.last()
        check_story(self._policy.table, meta, last)
        if meta.sent < meta.release:
            if last is None or last.number < meta.release:
                sealed = await release_log.outbox(meta.release)
                check_sealed(self._policy.table, sealed, last)
                await publisher.publish(sealed)
                self._log.info("release.published", release=meta.release, records=len(sealed.records) + 1)
            await release_log.sent(meta.release)
        if meta.applied < meta.release:
            await release_log.apply(meta.release)
            self._log.info("release.applied", release=meta.release)
        self.release = meta.release
        self._last = await publisher.last() if meta.sent < meta.release else last

    async def prepare(self) -> None:
        """Redis knows when the last release was asked for."""
        state = await self.load()
        waiting = await self._store.waiting(self.release + 1)
        manifest = None if self._last is None else self._last.value
        self.standing.published(manifest, waiting.last_s, len(state.people), self._policy)

    async def load(self) -> State:
        """The state in memory if it is the stored one, else the stored one."""
        meta = await self._meta()
        if self._state is None or self._state.meta != meta.sealed:
            began = time.monotonic()
            self._state = None
            self._state = await load_state(self._store, self._policy, self._settings.key_bytes, meta)
            seconds = round(time.monotonic() - began, 3)
            self._log.info("planner.loaded", release=meta.release, people=len(self._state.people), seconds=seconds)
        return self._state

    async def make(self, release_log: ReleaseLog, publisher: Publisher, release: int) -> bool:
        """Steps 2 to 9."""
        state = await self.load()
        self.is_planning = True
        try:
            self.standing.enter("wait")
            barrier = await self._await_passage(release_log, release)
            self.standing.enter("read")
            task = await self._read(release_log, publisher, release, barrier)
            self.standing.enter("plan")
            began = time.monotonic()
            failed = partial(PlanFailedError, release, task.ends, self._step(state, task, release))
            try:
                planned = await in_thread(self._plan, state, task, release)
            except Exception as error:
                raise failed(error) from error
            made, sealed = planned.plan, planned.sealed
            seconds = round(time.monotonic() - began, 3)
            self._log.info("release.planned", release=release, seconds=seconds, misrouted=len(made.misrouted))
            crash_point("release.4")
            self.standing.enter("stage")
            count = await release_log.stage(release, _guarded(planned.chunks, failed))
            crash_point("release.5")
            self._log.info("release.staged", release=release, chunks=count)
            self.standing.enter("seal")
            await release_log.seal(state.meta.manifest, made.change.meta, count, planned.counts, barrier.policy)
            crash_point("release.6")
            self._state = None  # until it agrees with Redis again
            self._log.info("release.sealed", release=release)
            self.standing.enter("publish")
            await publisher.publish(sealed)
            crash_point("release.7")
            self._log.info("release.published", release=release, records=len(sealed.records) + 1)
            published_at = time.time()
            self.standing.enter("sent")
            await release_log.sent(release)
            crash_point("release.8")
            self.standing.enter("apply")
            await release_log.apply(release)
            crash_point("release.9")
            if task.read.rejects:
                await external_letters(self._servers, self._store, self._topics)
            await in_thread(state.apply, made.change)
            self._state, self.release = state, release
            self.standing.finish()
            self.standing.published(sealed.manifest, published_at, len(state.people), self._policy)
            self._log.info("release.applied", release=release, seconds=round(time.monotonic() - began, 3))
            return task.changed is not None
        finally:
            self.is_planning = False
            self.standing.leave()

    async def _read(self, release_log: ReleaseLog, publisher: Publisher, release: int, barrier: Barrier) -> _Task:
        """Step 3."""
        windows = await release_log.read_windows(release)
        crash_point("release.3")
        self._log.info("release.read", release=release, people=sum(map(len, windows.values())))
        begin = await self._store.external_offsets()
        skipped = await read_skipped(self._store)
        read = await read_external(self._servers, self._topics, self._policy, begin, barrier.external, skipped)
        headers = await self._headers(publisher, barrier, read.ends)
        ends = [barrier.ends[partition] for partition in range(self._partitions)]
        window, changed = Window(barrier.at, windows, read.groups), await self._changed(barrier)
        return _Task(window, ends, read, headers, (await self._meta()).counts, changed)

    def _plan(self, state: State, task: _Task, release: int) -> _Planned:
        """Step 4. Step 5 packs while it writes."""
        headers = task.headers
        made = plan(state, task.window, self._policy, release, task.changed)
        chunks = chunks_of(
            made,
            self._store.cipher,
            foreign=foreign_ids(made, state, task.window.deltas),
            headers=headers,
            external_ends=task.read.ends,
            rejects=task.read.rejects,
        )
        sealed = SealedRelease(
            number=release, records=made.release.records, manifest=made.release.manifest, headers=headers
        )
        return _Planned(made, chunks, counts_after(made, state, task.before), sealed)

    def _step(self, state: State, task: _Task, release: int) -> FailedStep:
        """Plan and pack again, for nothing but what it raises."""
        window = task.window

        def again(people: Set[str], groups: int) -> None:
            deltas = {n: {one: here[one] for one in here if one in people} for n, here in window.deltas.items()}
            some = Window(window.at, deltas, window.externals[:groups])
            for _ in self._plan(state, task._replace(window=some), release).chunks:
                pass

        people = list(dict.fromkeys(person for here in window.deltas.values() for person in here))
        return FailedStep(people, task.read.places, again)

    async def _changed(self, barrier: Barrier) -> Policy | None:
        """The policy that takes over with a release, if one does: its trigger has it."""
        if barrier.policy is None:
            return None
        return await read_change(self._servers, self._topics, EventReader(self._policy), barrier.trigger)


def _guarded(chunks: Iterator[Chunk], failed: Callable[[Exception], PlanFailedError]) -> Iterator[Chunk]:
    """Packing is a part of planning that is put off to step 5: what it raises is a plan that failed, too."""
    try:
        yield from chunks
    except Exception as error:
        raise failed(error) from error
