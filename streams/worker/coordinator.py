"""The coordinator: the planner of a table with shards. It handles vectors and reports, never people.

2. pass     until ingest has brought every partition to its barrier; then the vector is told
3. gather   wait for the desks            \\
4. plan     wait for every shard's report / what owners do (shard_owner.py)
5. seal     one script: from here on this is release n, unless Redis is lost before step 6
6. announce the `sealed` record, in a transaction: from here on it is this release, whatever happens
7. parts    wait for every shard's part
8. manifest on the releases topic, with where the parts are as a header
9. apply    wait for every shard
10. finish  what moved away goes, then windows and moves

docs/protocol.md, "With shards", has what happens if a process dies after each step.
"""

import asyncio
import time
from collections.abc import Callable
from hashlib import sha256

from shoal.core.conclude import conclude
from shoal.core.cuts import Cuts
from shoal.core.randomness import Keyed
from shoal.streams.errors import GuaranteeError
from shoal.streams.faults import crash_point
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.manifest import (
    Headers,
    ManifestRecord,
    read_origin,
    read_parts,
    read_states,
    write_parts,
    write_states,
)
from shoal.streams.store.coordination import Coordination, Vector, pack_cuts, read_shard_records, write_shard_records
from shoal.streams.store.course import Course, read_course, waited_for
from shoal.streams.store.meta import TableMeta
from shoal.streams.store.records import Counts, unpack
from shoal.streams.store.release_log import Barrier, DisturbedError, ReleaseLog
from shoal.streams.store.shard_report import ShardReport
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.staging import SealedRelease
from shoal.streams.store.state_digest import proofs_of
from shoal.streams.worker.changing import read_change
from shoal.streams.worker.external import external_letters
from shoal.streams.worker.maker import SAY_S, WAIT_S, Maker
from shoal.streams.worker.plan_failure import ShardsFailedError
from shoal.streams.worker.publish import Publisher, check_sealed, check_story
from shoal.streams.worker.skipping import in_window
from shoal.streams.worker.vector import pack_vector


class Coordinator(Maker):
    """Makes the releases of a table with several shards."""

    _announced: ManifestRecord | None = None  # a release that is announced and that Redis does not know of

    async def prepare(self) -> None:
        records = await read_shard_records(self._store)
        people = sum(records.counts(shard).people for shard in range(self._store.shards))
        waiting = await self._store.waiting(self.release + 1)
        self.standing.published(None if self._last is None else self._last.value, waiting.last_s, people, self._policy)

    async def finish_sealed(self, release_log: ReleaseLog, publisher: Publisher) -> None:
        """Go on with a sealed release. Freeze an announced one again if Redis was set back behind it.

        Raises GuaranteeError if Redis and the releases topic contradict each other.
        """
        meta, coordination = await self._meta(), self._coordination(release_log)
        last, announced = await publisher.last(), await publisher.last_announced()
        check_story(self._policy.table, meta, last)
        self._announced = check_announced(self._policy.table, meta, last, announced)
        if meta.applied < meta.release:
            await self._complete(coordination, publisher, meta, last, announced)
        elif self._announced is not None:
            await self._freeze_again(release_log, coordination, self._announced, last)
        self.release = meta.release
        self._last = await publisher.last()

    async def make(self, release_log: ReleaseLog, publisher: Publisher, release: int) -> bool:
        """Steps 2 to 10."""
        coordination, began = self._coordination(release_log), time.monotonic()
        self.is_planning = True
        try:
            self.standing.enter("wait")
            barrier = await self._await_passage(release_log, release)
            before = await self._meta()
            headers = await self._headers(publisher, barrier, barrier.external)
            vector = pack_vector(release, before.sealed.manifest, headers)
            await coordination.tell_vector(release, vector.digest, vector.packed, barrier.policy)
            crash_point("shards.2")
            course = await self._await_reports(coordination, release, vector.digest)
            self._log.info("release.planned", release=release, seconds=round(time.monotonic() - began, 3))
            self.standing.enter("seal")
            sealed = await self._seal(coordination, course, before, barrier, headers)
            self._log.info("release.sealed", release=release)
            await self._publish(coordination, publisher, sealed, self._last, self._announced)
            published_at = time.time()
            await self._apply(coordination, release)
            self._announced, self.release = None, release
            await external_letters(self._servers, self._store, self._topics)
            records = await read_shard_records(self._store)
            people = sum(records.counts(shard).people for shard in range(self._store.shards))
            self.standing.finish()
            self.standing.published(sealed.manifest, published_at, people, self._policy)
            self._log.info("release.applied", release=release, seconds=round(time.monotonic() - began, 3))
            return barrier.policy is not None
        finally:
            self.is_planning = False
            self.standing.leave()

    def _coordination(self, release_log: ReleaseLog) -> Coordination:
        return Coordination(self._store, release_log.token, self._partitions)

    # -- steps 3 to 5 -------------------------------------------------------------------------------------------------

    async def _await_reports(self, coordination: Coordination, release: int, vector: str) -> Course:
        """Steps 3 and 4, which are the owners'. Raises ShardsFailedError if a shard cannot be planned."""
        await coordination.retry()
        shards = self._store.shards
        for step, is_done in (
            ("gather", lambda course: len(course.gathered) == shards),
            ("plan", lambda course: len(course.reports) == shards),
        ):
            self.standing.enter(step)
            course = await self._await(release, vector, is_done)
            if step == "gather":
                self._log.info("release.gathered", release=release)
        return course

    async def _seal(
        self, coordination: Coordination, course: Course, before: TableMeta, barrier: Barrier, headers: Headers
    ) -> SealedRelease:
        """Step 5."""
        raw = [course.reports[shard] for shard in range(self._store.shards)]
        reports = [ShardReport.unpack(packed) for packed in raw]
        number, changed = course.number, None
        if barrier.policy is not None:
            changed = await read_change(self._servers, self._topics, EventReader(self._policy), barrier.trigger)
        made = conclude(
            self._policy,
            changed,
            before.sealed,
            barrier.at,
            [report.summary for report in reports],
            Cuts.read(self._policy, unpack(course.cuts)) if course.cuts else None,
        )
        manifest, cuts = made.manifest, pack_cuts(made.cuts)
        states = [report.state for report in reports]
        digests = [report.digest for report in reports]
        keyed = Keyed(self._settings.key_bytes, self._policy.table)
        proofs = proofs_of(keyed, number, digests, states, cuts)
        if self._announced is not None and (
            self._announced.value != manifest or read_states(self._announced.headers) != proofs
        ):
            raise GuaranteeError(
                f"release {number} of table {self._policy.table} does not come out as it was announced: nothing is "
                "published until `shoal rebuild` has brought the state back"
            )
        counts = Counts(*map(sum, zip(*(report.counts for report in reports), strict=True)))
        lasting = write_shard_records(states, cuts, counts=[one.counts for one in reports], digests=digests)
        sealed = SealedRelease(number=number, records=(), manifest=manifest, headers=(*headers, write_states(proofs)))
        assert course.vector is not None
        previous, vector = before.sealed.manifest, course.vector
        await coordination.seal(previous, made.meta, vector, raw, lasting, counts, sealed, barrier.policy)
        crash_point("shards.5")
        return sealed

    # -- steps 6 to 10 ------------------------------------------------------------------------------------------------

    async def _complete(
        self,
        coordination: Coordination,
        publisher: Publisher,
        meta: TableMeta,
        last: ManifestRecord | None,
        announced: ManifestRecord | None,
    ) -> None:
        """Everything that is left of a release that an earlier coordinator has sealed."""
        release = meta.release
        try:
            if meta.sent < release:
                if last is not None and last.number == release:
                    await coordination.sent(release)
                else:
                    sealed = await coordination.outbox(release)
                    check_sealed(self._policy.table, sealed, last)
                    await self._publish(coordination, publisher, sealed, last, announced)
            await self._apply(coordination, release)
            self._log.info("release.applied", release=release)
        finally:
            self.standing.leave()

    async def _publish(
        self,
        coordination: Coordination,
        publisher: Publisher,
        sealed: SealedRelease,
        last: ManifestRecord | None,
        announced: ManifestRecord | None,
    ) -> None:
        """Steps 6 to 8. `last` is the last release on the topic, `announced` the last that was announced."""
        release, shards = sealed.number, self._store.shards
        self.standing.enter("announce")
        if announced is None or announced.number < release:
            await publisher.announce(sealed)
            self._log.info("release.announced", release=release)
        crash_point("shards.6")
        before = [(0, 0)] * shards if last is None else read_parts(last.number, last.headers, shards)
        await coordination.announced(release, {shard: end for shard, (_, end) in enumerate(before)})
        self.standing.enter("parts")
        course = await self._await(release, None, lambda course: len(course.parts) == shards)
        self._log.info("release.sent", release=release)
        self.standing.enter("manifest")
        parts = write_parts([course.parts[shard] for shard in range(shards)])
        whole = SealedRelease(number=release, records=(), manifest=sealed.manifest, headers=(*sealed.headers, parts))
        self._last = await publisher.publish(whole, crash="shards.8.open")
        crash_point("shards.8")
        self._log.info("release.published", release=release)
        await coordination.sent(release)

    async def _apply(self, coordination: Coordination, release: int) -> None:
        """Steps 9 and 10."""
        self.standing.enter("apply")
        await self._await(release, None, lambda course: len(course.applied) == self._store.shards)
        self.standing.enter("finish")
        await coordination.finish(release)
        crash_point("shards.10")

    async def _await(self, release: int, vector: str | None, is_done: Callable[[Course], bool]) -> Course:
        """Look until it is done. Raises DisturbedError if the release, or its vector, is another one by now."""
        said = time.monotonic()
        while True:
            course = await read_course(self._store)
            if course.number != release or (vector is not None and course.vector != vector):
                raise DisturbedError
            if course.failed:
                raise ShardsFailedError(release, course.failed)
            if is_done(course):
                return course
            if time.monotonic() - said > SAY_S:
                said = time.monotonic()
                left = waited_for(course, self._store.shards)
                self._log.info("release.waiting", release=release, step=self.standing.step, shards=left)
            await asyncio.sleep(WAIT_S)

    # -- after Redis was set back -------------------------------------------------------------------------------------

    async def _freeze_again(
        self,
        release_log: ReleaseLog,
        coordination: Coordination,
        announced: ManifestRecord,
        last: ManifestRecord | None,
    ) -> None:
        """Freeze an announced release at its own vector, unless it is frozen there already."""
        number, partitions = announced.number, self._partitions
        origin = read_origin(number, announced.headers, partitions)
        begins = [0] * partitions if last is None else read_origin(last.number, last.headers, partitions).offsets
        skipped = {label: frozenset(offsets) for label, offsets in origin.skipped.items()}
        barrier, known = await release_log.barrier(), await read_skipped(self._store)
        begun = await self._store.external_offsets()
        here = in_window(known, begins, origin.offsets, begun, origin.external)
        too_late = {label: frozenset(found) - skipped.get(label, frozenset()) for label, found in here.items()}
        is_known = {label: frozenset(found) for label, found in here.items()} == skipped
        policy = None if origin.policy == self._meaning else origin.policy
        ends = dict(enumerate(origin.offsets))
        asked = Barrier(number, origin.trigger, origin.at, ends, tuple(origin.external), policy)
        if barrier == asked and is_known:
            return
        self._log.warning("release.frozen", release=number, trigger=origin.trigger, cause="announced")
        vector = Vector(
            release=number,
            trigger=origin.trigger,
            at=origin.at,
            begins=begins,
            ends=origin.offsets,
            external=origin.external,
            skipped=skipped,
            too_late=too_late,
            policy=policy or "",
        )
        await coordination.refreeze(vector, time.time())


def check_announced(
    table: str, meta: TableMeta, last: ManifestRecord | None, announced: ManifestRecord | None
) -> ManifestRecord | None:
    """The release that is announced and that Redis does not know of, if there is one; it is the next.

    Raises GuaranteeError if another one is announced, or one with another content than Redis has sealed.
    """
    seen = 0 if last is None else last.number
    if announced is None or announced.number <= seen:
        return None
    if announced.number == meta.release:
        if sha256(announced.value).hexdigest() != meta.manifest:
            raise GuaranteeError(
                f"Redis has sealed another content for release {meta.release} of table {table} than was announced: "
                "nothing is published until `shoal rebuild` has brought the state back"
            )
        return None
    if announced.number != meta.release + 1:
        raise GuaranteeError(
            f"release {announced.number} of table {table} is announced, and Redis knows only release {meta.release}: "
            "nothing is published until `shoal rebuild` has brought it back"
        )
    return announced
