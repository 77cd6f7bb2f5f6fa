"""One shard in the memory of the worker that owns it: its part in steps 3, 4, 7 and 9 of a release.

Every decision follows from what Redis says (`Course`): `advance` looks at it and does this shard's next step, if there
is one. So a new owner goes on where the one before it stopped. The state in memory is that of the last applied release.
The plan of the next release is kept until that release is applied, too. Both can be made again: the state from Redis,
the plan from the state and what the desks have written.
"""

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from shoal.core.cells.shard import Shard
from shoal.core.cuts import Cuts, Sample
from shoal.core.parts import PartPlan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.desk import Resident, gather, may_move, present
from shoal.core.shards.moves import Deltas, ShardWindow
from shoal.core.shards.part import plan_part
from shoal.core.state import State
from shoal.streams.errors import FencedError, LostError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.manifest import Origin
from shoal.streams.kafka.part_publisher import PartPublisher
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.course import Course
from shoal.streams.store.keys import shard_label
from shoal.streams.store.moves import (
    Misrouted,
    MissingError,
    pack_moves,
    pack_strays,
    read_bucket,
    read_everybody,
    read_histories,
    read_known,
    read_moves,
    read_strays,
)
from shoal.streams.store.records import Chunk, meta_of, pack, unpack
from shoal.streams.store.release_log import DisturbedError, ReleaseLog
from shoal.streams.store.shard_records import ShardRecords, read_shard_records
from shoal.streams.store.shard_report import ShardReport
from shoal.streams.store.shard_table import digest_of, load_shard
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.staging import chunks_of, counts_after, foreign_ids
from shoal.streams.store.state_digest import StateDigest
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import read_window
from shoal.streams.thread import in_thread
from shoal.streams.worker.external import ExternalRead, read_external
from shoal.streams.worker.failed_step import FailedStep, gather_again, present_again
from shoal.streams.worker.failure_report import FailureReport
from shoal.streams.worker.foreign import foreign_handles
from shoal.streams.worker.publish import check_part
from shoal.streams.worker.shard_policies import PolicyReader
from shoal.streams.worker.together import Together
from shoal.streams.worker.vector import origin_in

_NONE_YET: Final = b""  # stands in the place of cuts for which there are too few people


class _Strays(NamedTuple):
    """Events that came by another partition than their person's, and by partition the people at home elsewhere."""

    misrouted: Misrouted
    foreign: Mapping[int, Sequence[str]]


class _Planned(NamedTuple):
    """A plan of this shard, and what it was made for. With several shards desks know the strays."""

    release: int
    vector: str
    plan: PartPlan
    strays: _Strays | None


class ShardOwner:
    """One shard under one token."""

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        store: Store,
        partitions: int,
        number: int,
        token: str,
        together: Together,
    ) -> None:
        self._settings, self._policy, self._store, self._partitions = settings, policy, store, partitions
        self._number, self.token = number, token
        self._together = together
        self._topics = Topics(policy.table)
        self._is_only = store.shards == 1
        self._release_log = ReleaseLog(store, token, partitions, number)
        self._state: State | None = None
        self._planned: _Planned | None = None
        self._publisher: PartPublisher | None = None
        self._report = FailureReport(settings, policy, self._release_log, number, is_only=self._is_only)
        self._policies = PolicyReader(settings.kafka_servers, policy, partitions)
        self._log = get_log(table=policy.table)

    async def close(self) -> None:
        """Let go of the transactional id and of the bucket; the state stays."""
        await self._report.stop()
        self._together.drop(self._number)
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.stop()

    async def advance(self, course: Course) -> bool:
        """Do this shard's next step; False if there is none.

        Raises FencedError, DisturbedError, LostError, GuaranteeError, RedisError, KafkaError.
        """
        step = self.next(course)
        if step is None:
            return False
        began = time.monotonic()
        await self._report.stop()
        try:
            await self._take(step, course)
        except MissingError as missing:
            if course.is_sealed:
                raise LostError from missing  # nobody can write it again
            assert course.vector is not None
            await self._release_log.regather(course.number, course.vector, missing.bucket)
        else:
            seconds = round(time.monotonic() - began, 3)
            self._log.info(f"shard.{step}", shard=self._number, release=course.number, seconds=seconds)
        return True

    async def _take(self, step: str, course: Course) -> None:
        match step:
            case "load":
                await self._load(course)
            case "cut":
                await self._cut(course)
            case "read":
                await self._read(course)
            case "gather":
                await self._gather(course)
            case "plan":
                await self._plan(course)
            case "send":
                await self._send(course)
            case "apply":
                await self._apply(course)

    def next(self, course: Course) -> str | None:
        """The step that is next, if there is one, as `_take` has it."""
        here = self._number
        if course.is_sent:
            return None if here in course.applied else "apply"
        if course.is_sealed:
            return "send" if course.is_announced and here not in course.parts else None
        if course.changed is None and course.meaning != self._store.meaning:
            return None  # another policy has taken over, and this worker is about to end
        if course.vector is None or here in course.failed:
            return None if self._state is not None else "load"
        if self._is_only:  # nobody moves, so there is nothing to gather
            return "plan" if here not in course.reports else None
        if course.cuts is None:
            if here == 0:
                return "cut"
            return "read" if self._together.kept(here, course) is None else None
        if here not in course.gathered:
            return "gather"
        is_gathered = len(course.gathered) == self._store.shards
        return "plan" if is_gathered and here not in course.reports else None

    # -- the state ----------------------------------------------------------------------------------------------------

    async def _load(self, course: Course) -> None:
        """Load before this owner's first release, so that the release does not wait for it."""
        await self._current(course, await read_shard_records(self._store))

    async def _current(self, course: Course, records: ShardRecords) -> State:
        """The state in memory if it is the stored one, else the stored one."""
        packed = records.state(self._number)
        stored = None if packed is None else meta_of(packed)
        if self._state is None or (self._state.meta if self._state.meta.release else None) != stored:
            self._state = self._planned = None
            policy = (await self._policies.of(course)).before
            cuts = _read_cuts(policy, records.cuts)
            began, key = time.monotonic(), self._settings.key_bytes
            shard = None if self._is_only else self._shard(cuts)
            self._state = await load_shard(self._store, policy, key, shard, self._partitions, records)
            seconds, people = round(time.monotonic() - began, 3), len(self._state.people)
            self._log.info("state.loaded", shard=self._number, people=people, seconds=seconds)
        if self._state.meta.release != course.number - 1:
            raise DisturbedError
        return self._state

    def _shard(self, cuts: Cuts | None) -> Shard:
        return Shard(self._number, None if cuts is None else cuts.box(self._number))

    # -- step 3 -------------------------------------------------------------------------------------------------------

    async def _read(self, course: Course) -> None:
        """Read the window of this desk's bucket while the owner of shard 0 makes the cuts."""
        self._together.keep(self._number, course, await self._window(course, self._number))

    async def _window(self, course: Course, bucket: int) -> Deltas:
        kept = self._together.kept(bucket, course)
        return await read_bucket(self._store, course.number, self._partitions, bucket) if kept is None else kept

    async def _cut(self, course: Course) -> None:
        """Shard 0 only, while there are no cuts: make them if there are enough people, read bucket by bucket."""
        assert course.vector is not None
        policy = (await self._policies.of(course)).during
        sample = Sample(policy, KeyedByHandle(self._settings.key_bytes, self._policy.table))

        def add(residents: Mapping[str, Resident], deltas: Deltas) -> None:
            sample.add(present(policy, course.number, residents, deltas))

        is_anybody = (await read_shard_records(self._store)).counts(0).people > 0
        waiting = list(range(self._store.shards))
        while waiting:
            # Buckets that desks of this worker have read by now come first. Its own one is kept for its desk.
            bucket = next((one for one in waiting if self._together.kept(one, course) is not None), waiting[0])
            waiting.remove(bucket)
            deltas = await self._window(course, bucket)
            if bucket == self._number:
                self._together.keep(bucket, course, deltas)
            residents = await read_everybody(self._store, 0, self._partitions, bucket) if is_anybody else {}
            async with self._report.failing(course, present_again(policy, course.number, residents, deltas)):
                await in_thread(add, residents, deltas)
        async with self._report.failing(course, None):
            made = await in_thread(sample.cuts)
        cuts = _NONE_YET if made is None else pack(made.record())
        await self._release_log.tell_cuts(course.number, course.vector, cuts)

    async def _gather(self, course: Course) -> None:
        """The desk of the bucket with this shard's number."""
        assert course.vector is not None
        store, bucket, release = self._store, self._number, course.number
        records = await read_shard_records(store)
        policy = (await self._policies.of(course)).during
        cuts = _read_cuts(policy, course.cuts)
        deltas = await self._window(course, bucket)
        self._together.drop(bucket)
        residents = await read_known(store, records, deltas, self._partitions, bucket, has_cuts=cuts is not None)
        moving = residents if records.cuts is None else may_move(residents, deltas)
        histories = await read_histories(store, moving, has_bonds=bool(policy.sensitive.permanent))
        async with self._report.failing(course, gather_again(policy, cuts, release, residents, deltas, histories)):
            found = await in_thread(gather, policy, cuts, release, residents, deltas, histories)

        def packed() -> tuple[dict[int, list[bytes]], list[bytes]]:
            cipher, windows = store.cipher, found.windows
            moves = {
                shard: pack_moves(cipher, release, bucket, shard, windows.get(shard)) for shard in range(store.shards)
            }
            homes = {handle: resident.person.home for handle, resident in residents.items()}
            foreign = foreign_handles(homes, deltas)
            return moves, pack_strays(cipher, release, bucket, found.misrouted, foreign)

        moves, strays = await in_thread(packed)
        await self._release_log.gather(release, course.vector, moves, strays)
        crash_point("release.3")

    # -- step 4 -------------------------------------------------------------------------------------------------------

    async def _plan(self, course: Course) -> None:
        assert course.vector is not None
        release, store = course.number, self._store
        records = await read_shard_records(store)
        state = await self._current(course, records)
        planned, read, step = await self._make(course, state)
        strays = planned.strays or _Strays(*await read_strays(store, release, self._number, course.gathered))
        made = planned.plan
        counts = counts_after(made, state, records.counts(self._number))
        digest = await digest_of(state, records)
        chunks = self._chunks(made, state, strays, read, digest)
        async with self._report.failing(course, step):
            count = await self._release_log.stage(release, course.vector, chunks)
        value = b"" if digest is None else digest.value
        report = ShardReport(made.summary, pack(tuple(made.change.meta)), counts, value)
        await self._release_log.report(release, course.vector, count, report.pack())
        crash_point("release.4")

    def _chunks(
        self, made: PartPlan, state: State, strays: _Strays, read: ExternalRead, digest: StateDigest | None
    ) -> Iterator[Chunk]:
        """What the plan writes, packed as it is read."""
        is_first = self._number == 0
        return chunks_of(
            made,
            state,
            self._store.cipher,
            made.change.meta.release,
            misrouted=strays.misrouted,
            foreign=strays.foreign,
            external_ends=read.ends if is_first else (),
            rejects=read.rejects if is_first else {},
            digest=digest,
        )

    async def _make(self, course: Course, state: State) -> tuple[_Planned, ExternalRead, FailedStep | None]:
        """The plan of the release under way: the one in memory, or the same again, and how it is repeated if packing
        it fails. Raises MissingError.
        """
        assert course.vector is not None
        release = course.number
        before, _, after = await self._policies.of(course)
        read, step = await self._read_external(origin_in(course), before), None
        if self._planned is None or self._planned[:2] != (release, course.vector):
            self._planned = None
            window = (await self._input(course))._replace(externals=read.groups)
            cuts = _read_cuts(before, course.cuts)
            shard = None if self._is_only else self._shard(cuts)

            def plan(told: ShardWindow) -> tuple[PartPlan, _Strays | None]:
                made = plan_part(state, told, before, release, shard, after)
                if not self._is_only:
                    return made, None
                return made, _Strays(made.misrouted, foreign_ids(made, state, told.deltas))

            def again(people: Set[str], groups: int) -> None:
                made, strays = plan(window.only(people, groups))
                for _ in self._chunks(made, state, strays or _Strays((), {}), read, None):
                    pass

            step = FailedStep(window.people, read.places, again)
            async with self._together.planning, self._report.failing(course, step):
                made, strays = await in_thread(plan, window)
            self._planned = _Planned(release, course.vector, made, strays)
        return self._planned, read, step

    async def _input(self, course: Course) -> ShardWindow:
        """What this shard is told of the window: by the desks or, if it is the only one, by ingest."""
        if not self._is_only:
            return await read_moves(self._store, course.number, self._number, course.gathered)
        partitions = range(self._partitions)
        return ShardWindow({number: await read_window(self._store, course.number, number) for number in partitions})

    async def _read_external(self, origin: Origin, policy: Policy) -> ExternalRead:
        begin, skipped = await self._store.external_offsets(), await read_skipped(self._store)
        servers = self._settings.kafka_servers
        return await read_external(servers, self._topics, policy, begin, origin.external, skipped)

    # -- steps 7 and 9 ------------------------------------------------------------------------------------------------

    async def _send(self, course: Course) -> None:
        """The part, from memory or planned again. It must be the announced one before any of it is sent."""
        servers, table = self._settings.kafka_servers, self._policy.table
        state = await self._current(course, await read_shard_records(self._store))
        made = (await self._make(course, state))[0].plan
        announced = await self._together.announcements.of(course.number)
        if announced is None:
            raise DisturbedError
        check_part(self._policy.table, self._number, made, announced.value)
        if self._publisher is None:
            publisher = PartPublisher(servers, table, self._number)
            await publisher.start()
            self._publisher = publisher
        try:
            sent = await self._publisher.publish(course.number, made.records, course.begins[self._number])
        except FencedError:
            # A coordinator that starts ends the first shard's open transaction. Another owner has another token, too.
            publisher, self._publisher = self._publisher, None
            await publisher.stop()
            await self._store.check_owner(shard_label(self._number), self.token)
            raise DisturbedError from None
        await self._release_log.note_part(course.number, *sent)
        crash_point("release.7")

    async def records(self, course: Course, manifest: bytes) -> Sequence[bytes]:
        """With one shard, all records of the release that this manifest seals: from memory, or planned again."""
        state = await self._current(course, await read_shard_records(self._store))
        made = (await self._make(course, state))[0].plan
        check_part(self._policy.table, self._number, made, manifest)
        return made.records

    async def _apply(self, course: Course) -> None:
        await self._release_log.apply(course.number)
        crash_point("release.9")
        planned, self._planned = self._planned, None
        is_ours = planned is not None and planned[:2] == (course.number, course.vector)
        if self._state is not None and planned is not None and is_ours:
            await in_thread(self._state.apply, planned.plan.change)
        else:
            self._state = None


def _read_cuts(policy: Policy, packed: bytes | None) -> Cuts | None:
    return Cuts.read(policy, unpack(packed)) if packed else None
