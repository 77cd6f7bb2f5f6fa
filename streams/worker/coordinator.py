"""The coordinator: makes the releases of a table. It handles vectors and reports, never people.

2. pass     until ingest has brought every partition to its barrier; then the vector is told
3. gather   wait for the desks            \\
4. plan     wait for every shard's report / what owners do (shard_owner.py)
5. seal     one script: from here on this is release n, unless Redis is lost before step 6
6. announce the `sealed` record, in a transaction: from here on it is this release, whatever happens
7. parts    wait for every shard's part
8. manifest on the releases topic, with where the parts are as a header
9. apply    wait for every shard
10. finish  what moved away goes, then windows and moves

With one shard the coordinator is its owner, too, in one process: nothing is gathered, and the state, the plan and the
records stay in memory. The records go out in one transaction with the manifest. So nothing of a release is seen before
all of it is, and steps 3, 6 and 7 are empty.

docs/protocol.md, "A release", has what happens if a process dies after each step.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from shoal.core.conclude import conclude
from shoal.core.cuts import Cuts
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.errors import GuaranteeError, LostError
from shoal.streams.faults import crash_point
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.companions import check_companions, state_name
from shoal.streams.kafka.entry import events_id
from shoal.streams.kafka.manifest import (
    Headers,
    ManifestRecord,
    Origin,
    read_origin,
    read_parts,
    read_states,
    write_origin,
    write_parts,
    write_states,
)
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.course import Course, read_course, waited_for
from shoal.streams.store.meta import TableMeta, check_identity, identity_of
from shoal.streams.store.records import Counts, meta_of, unpack
from shoal.streams.store.release_log import Barrier, DisturbedError, ReleaseLog, Vector
from shoal.streams.store.shard_records import pack_cuts, read_shard_records, write_shard_records
from shoal.streams.store.shard_report import ShardReport
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.staging import SealedRelease
from shoal.streams.store.state_digest import proofs_of
from shoal.streams.store.store import Store
from shoal.streams.worker.changing import read_change
from shoal.streams.worker.external import external_letters
from shoal.streams.worker.only_shard import OnlyShard
from shoal.streams.worker.plan_failure import PlanFailedError
from shoal.streams.worker.publish import Publisher, check_announced, check_sealed, check_story
from shoal.streams.worker.skipping import in_window
from shoal.streams.worker.standing import Standing
from shoal.streams.worker.vector import pack_vector

WAIT_S: Final = 0.01
SAY_S: Final = 10.0


class Coordinator:
    """Makes the releases of one table, one at a time. `release` is the last one that is applied."""

    def __init__(self, settings: Settings, policy: Policy, store: Store, partitions: int) -> None:
        self._policy, self._store, self._partitions = policy, store, partitions
        self._settings, self._servers = settings, settings.kafka_servers
        self._topics, self._meaning = Topics(policy.table), meaning_of(policy)
        self._last: ManifestRecord | None = None  # on the releases topic
        self._announced: ManifestRecord | None = None  # a release that is announced and that Redis does not know of
        self._only = OnlyShard(settings, policy, store, partitions) if policy.shards == 1 else None
        self.release = 0
        self.is_planning = False
        self.standing = Standing()
        self._log = get_log(table=policy.table)

    async def rest(self) -> None:
        """Let go of what a tenure has begun; what is remembered stays."""
        if self._only is not None:
            await self._only.rest()

    async def prepare(self) -> None:
        """Load what the next release is planned from, if this worker plans it, and say what the last one was."""
        if self._only is not None:
            await self._only.do_next(await read_course(self._store))
        records = await read_shard_records(self._store)
        people = sum(records.counts(shard).people for shard in range(self._store.shards))
        waiting = await self._store.waiting(self.release + 1)
        self.standing.published(None if self._last is None else self._last.value, waiting.last_s, people, self._policy)

    async def finish_sealed(self, release_log: ReleaseLog, publisher: Publisher) -> None:
        """Go on with a sealed release. Freeze an announced one again if Redis was set back behind it.

        Raises GuaranteeError if Redis and the releases topic contradict each other.
        """
        if self._only is not None:
            await self._only.own()
        meta = await self._meta()
        last, announced = await publisher.last(), await publisher.last_announced()
        check_story(self._policy.table, meta, last)
        self._announced = check_announced(self._policy.table, meta, last, announced)
        if meta.applied < meta.release:
            await self._complete(release_log, publisher, meta, last, announced)
        elif self._announced is not None:
            await self._freeze_again(release_log, self._announced, last)
        self.release = meta.release
        self._last = await publisher.last()

    async def make(self, release_log: ReleaseLog, publisher: Publisher, release: int) -> bool:
        """Steps 2 to 10 of a release that is frozen; whether another policy has taken over with it."""
        began = time.monotonic()
        self.is_planning = True
        try:
            self.standing.enter("wait")
            barrier = await self._await_passage(release_log, release)
            before = await self._meta()
            headers = await self._headers(publisher, barrier, barrier.external)
            vector = pack_vector(release, before.sealed.manifest, headers)
            await release_log.tell_vector(release, vector.digest, vector.packed, barrier.policy)
            crash_point("release.2")
            course = await self._await_reports(release_log, release, vector.digest)
            self._log.info("release.planned", release=release, seconds=round(time.monotonic() - began, 3))
            self.standing.enter("seal")
            sealed = await self._seal(release_log, course, before, barrier, headers)
            self._log.info("release.sealed", release=release)
            await self._publish(release_log, publisher, sealed, self._last, self._announced)
            published_at = time.time()
            await self._apply(release_log, release)
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

    # -- steps 3 to 5 -------------------------------------------------------------------------------------------------

    async def _await_reports(self, release_log: ReleaseLog, release: int, vector: str) -> Course:
        """Steps 3 and 4, which are the owners'. Raises PlanFailedError if a shard cannot be planned."""
        await release_log.retry()
        shards = self._store.shards
        if shards > 1:
            self.standing.enter("gather")
            await self._await(release, vector, lambda course: len(course.gathered) == shards)
            self._log.info("release.gathered", release=release)
        self.standing.enter("plan")
        return await self._await(release, vector, lambda course: len(course.reports) == shards)

    async def _seal(
        self, release_log: ReleaseLog, course: Course, before: TableMeta, barrier: Barrier, headers: Headers
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
        states, meta = [report.state for report in reports], made.meta
        digests, proofs = [report.digest for report in reports], list[str]()
        if self._store.shards == 1:  # the table's own record is that of its shard
            digests, meta = [], meta._replace(next_group=meta_of(states[0]).next_group)
        else:
            keyed = Keyed(self._settings.key_bytes, self._policy.table)
            proofs = proofs_of(keyed, number, digests, states, cuts)
            headers = (*headers, write_states(proofs))
        if self._announced is not None and (
            self._announced.value != manifest or read_states(self._announced.headers) != proofs
        ):
            raise GuaranteeError(
                f"release {number} of table {self._policy.table} does not come out as it was announced: nothing is "
                "published until `shoal rebuild` has brought the state back"
            )
        counts = Counts(*map(sum, zip(*(report.counts for report in reports), strict=True)))
        lasting = write_shard_records(states, cuts, counts=[one.counts for one in reports], digests=digests)
        sealed = SealedRelease(number=number, manifest=manifest, headers=headers)
        assert course.vector is not None
        previous, vector = before.sealed.manifest, course.vector
        await release_log.seal(previous, meta, vector, raw, lasting, counts, sealed, barrier.policy)
        crash_point("release.5")
        return sealed

    # -- steps 6 to 10 ------------------------------------------------------------------------------------------------

    async def _complete(
        self,
        release_log: ReleaseLog,
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
                    await release_log.sent(release)
                else:
                    sealed = await release_log.outbox(release)
                    check_sealed(self._policy.table, sealed, last)
                    await self._publish(release_log, publisher, sealed, last, announced)
            await self._apply(release_log, release)
            self._log.info("release.applied", release=release)
        finally:
            self.standing.leave()

    async def _publish(
        self,
        release_log: ReleaseLog,
        publisher: Publisher,
        sealed: SealedRelease,
        last: ManifestRecord | None,
        announced: ManifestRecord | None,
    ) -> None:
        """Steps 6 to 8. `last` is the last release on the topic, `announced` the last that was announced."""
        release, headers = sealed.number, sealed.headers
        records: Sequence[bytes] = ()
        if self._only is None:
            parts = await self._await_parts(release_log, publisher, sealed, last, announced)
            headers = (*headers, write_parts(parts))
        else:
            course = await read_course(self._store)
            if not course.is_sealed or course.number != release:  # another coordinator has applied it meanwhile
                await release_log.check_owner()
                raise DisturbedError
            records = await self._only.records(course, sealed.manifest)
        self.standing.enter("manifest")
        whole = SealedRelease(number=release, manifest=sealed.manifest, headers=headers)
        self._last = await publisher.publish(whole, records)
        crash_point("release.8")
        self._log.info("release.published", release=release, records=len(records) + 1)
        await release_log.sent(release)

    async def _await_parts(
        self,
        release_log: ReleaseLog,
        publisher: Publisher,
        sealed: SealedRelease,
        last: ManifestRecord | None,
        announced: ManifestRecord | None,
    ) -> list[tuple[int, int]]:
        """Steps 6 and 7: where each part stands. A release of one part has no need of them."""
        release, shards = sealed.number, self._store.shards
        self.standing.enter("announce")
        if announced is None or announced.number < release:
            await publisher.announce(sealed)
            self._log.info("release.announced", release=release)
        crash_point("release.6")
        before = [(0, 0)] * shards if last is None else read_parts(last.number, last.headers, shards)
        await release_log.announced(release, {shard: end for shard, (_, end) in enumerate(before)})
        self.standing.enter("parts")
        course = await self._await(release, None, lambda course: len(course.parts) == shards)
        self._log.info("release.sent", release=release)
        return [course.parts[shard] for shard in range(shards)]

    async def _apply(self, release_log: ReleaseLog, release: int) -> None:
        """Steps 9 and 10."""
        self.standing.enter("apply")
        await self._await(release, None, lambda course: len(course.applied) == self._store.shards)
        self.standing.enter("finish")
        await release_log.finish(release)
        crash_point("release.10")

    async def _await(self, release: int, vector: str | None, is_done: Callable[[Course], bool]) -> Course:
        """Look until it is done. Raises DisturbedError if the release, or its vector, is another one by now."""
        said = time.monotonic()
        while True:
            course = await read_course(self._store)
            if course.number != release or (vector is not None and course.vector != vector):
                raise DisturbedError
            if course.failed:
                raise PlanFailedError(release, course.failed)
            if is_done(course):
                return course
            if self._only is not None and await self._only.do_next(course):
                continue
            if time.monotonic() - said > SAY_S:
                said = time.monotonic()
                left = waited_for(course, self._store.shards)
                self._log.info("release.waiting", release=release, step=self.standing.step, shards=left)
            await asyncio.sleep(WAIT_S)

    # -- after Redis was set back -------------------------------------------------------------------------------------

    async def _freeze_again(
        self, release_log: ReleaseLog, announced: ManifestRecord, last: ManifestRecord | None
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
        await release_log.refreeze(vector, time.time())

    # -- what others ask, and what is checked -----------------------------------------------------------------------

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
        barrier = await release_log.barrier()
        if barrier is None or barrier.release != release or len(barrier.ends) != self._partitions:
            raise DisturbedError
        return barrier

    async def _meta(self) -> TableMeta:
        meta = await self._store.meta()
        if meta is None:
            raise LostError
        return meta
