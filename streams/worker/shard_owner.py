"""One shard in the memory of the worker that owns it: its part in steps 3, 4, 7 and 9 of a release.

Every decision follows from what Redis says (`Course`): `advance` looks at it and does this shard's next step, if there
is one. So a new owner goes on where the one before it stopped. The state in memory is that of the last applied release.
The plan of the next release is kept until that release is applied, too. Both can be made again: the state from Redis,
the plan from the state and what the desks have written.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from shoal.core.cells.shard import Shard
from shoal.core.cuts import Cuts, Sample
from shoal.core.parts import PartPlan
from shoal.core.policy.policy import Policy
from shoal.core.randomness import KeyedByHandle
from shoal.core.shards.desk import Resident, gather, may_move, present
from shoal.core.shards.moves import Deltas
from shoal.core.shards.part import plan_part
from shoal.core.state import State
from shoal.streams.errors import FencedError, GuaranteeError, LostError, ServiceError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.manifest import Origin
from shoal.streams.kafka.part_publisher import PartPublisher
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError
from shoal.streams.store.coordination import ShardRecords, read_shard_records
from shoal.streams.store.course import Course
from shoal.streams.store.keys import shard_label
from shoal.streams.store.moves import (
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
from shoal.streams.store.records import meta_of, pack, unpack
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.store.shard_log import ShardLog
from shoal.streams.store.shard_report import ShardReport
from shoal.streams.store.shard_table import counts_after, digest_of, load_shard, shard_chunks
from shoal.streams.store.skipped import read_skipped
from shoal.streams.store.store import Store
from shoal.streams.thread import in_thread
from shoal.streams.worker.culprit import search_window
from shoal.streams.worker.external import ExternalRead, read_external
from shoal.streams.worker.failed_step import FailedStep, gather_again, plan_again, present_again
from shoal.streams.worker.foreign import foreign_handles
from shoal.streams.worker.plan_failure import why_not
from shoal.streams.worker.shard_policies import PolicyReader
from shoal.streams.worker.together import Together
from shoal.streams.worker.vector import PackedVector, origin_of

_NONE_YET: Final = b""  # stands in the place of cuts for which there are too few people


class _Planned(NamedTuple):
    """A plan of this shard, and what it was made for."""

    release: int
    vector: str
    plan: PartPlan


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
        self._shard_log = ShardLog(store, number, token)
        self._state: State | None = None
        self._planned: _Planned | None = None
        self._publisher: PartPublisher | None = None
        self._search: asyncio.Task[None] | None = None  # for the record that stops this shard
        self._policies = PolicyReader(settings.kafka_servers, policy, partitions)
        self._log = get_log(table=policy.table)

    async def close(self) -> None:
        """Let go of the transactional id and of the bucket; the state stays."""
        await self._stop_search()
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
        await self._stop_search()
        try:
            await self._take(step, course)
        except MissingError as missing:
            if course.is_sealed:
                raise LostError from missing  # nobody can write it again
            assert course.vector is not None
            await self._shard_log.regather(course.number, course.vector, missing.bucket)
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
            shard = Shard(self._number, None if cuts is None else cuts.box(self._number))
            key = self._settings.key_bytes
            self._state = await load_shard(self._store, policy, key, shard, self._partitions, records)
        if self._state.meta.release != course.number - 1:
            raise DisturbedError
        return self._state

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
            async with self._reported(course, partial(present_again, policy, course.number, residents, deltas)):
                await in_thread(add, residents, deltas)
        async with self._reported(course, None):
            made = await in_thread(sample.cuts)
        cuts = _NONE_YET if made is None else pack(made.record())
        await self._shard_log.tell_cuts(course.number, course.vector, cuts)

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
        async with self._reported(course, partial(gather_again, policy, cuts, release, residents, deltas, histories)):
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
        await self._shard_log.gather(release, course.vector, moves, strays)
        crash_point("shards.3")

    # -- step 4 -------------------------------------------------------------------------------------------------------

    async def _plan(self, course: Course) -> None:
        assert course.vector is not None
        release, store = course.number, self._store
        records = await read_shard_records(store)
        state = await self._current(course, records)
        planned, read = await self._make(course, state)
        misrouted, foreign = await read_strays(store, release, self._number, course.gathered)
        made = planned.plan
        counts = counts_after(made, state, records.counts(self._number))
        digest, is_first = await digest_of(state, records), self._number == 0
        chunks = shard_chunks(
            made,
            state,
            store.cipher,
            release,
            misrouted=misrouted,
            foreign=foreign,
            external_ends=read.ends if is_first else (),
            rejects=read.rejects if is_first else {},
            digest=digest,
        )
        count = await self._shard_log.stage(release, course.vector, chunks)
        report = ShardReport(made.summary, pack(tuple(made.change.meta)), counts, digest.value)
        await self._shard_log.report(release, course.vector, count, report.pack())
        crash_point("shards.4")

    async def _make(self, course: Course, state: State) -> tuple[_Planned, ExternalRead]:
        """The plan of the release under way: the one in memory, or the same again. Raises MissingError."""
        assert course.vector is not None
        release = course.number
        read = await self._read_external(self._origin(course), (await self._policies.of(course)).before)
        if self._planned is None or self._planned[:2] != (release, course.vector):
            self._planned = None
            window = (await read_moves(self._store, release, self._number, course.gathered))._replace(
                externals=read.groups
            )
            before, _, after = await self._policies.of(course)
            cuts = _read_cuts(before, course.cuts)
            shard = Shard(self._number, None) if cuts is None else cuts.shard(self._number)
            again = partial(plan_again, state, window, before, release, shard, after, read.places)
            async with self._together.planning, self._reported(course, again):
                made = await in_thread(plan_part, state, window, before, release, shard, after)
            self._planned = _Planned(release, course.vector, made)
        return self._planned, read

    async def _read_external(self, origin: Origin, policy: Policy) -> ExternalRead:
        begin, skipped = await self._store.external_offsets(), await read_skipped(self._store)
        servers = self._settings.kafka_servers
        return await read_external(servers, self._topics, policy, begin, origin.external, skipped)

    # -- a step that fails --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _reported(self, course: Course, again: Callable[[], FailedStep] | None) -> AsyncIterator[None]:
        """What is pure raises for everybody, so an error stops the release, and not the worker. The record that causes
        it is looked for with `again`.
        """
        try:
            yield
        except Exception as error:
            if course.is_sealed:
                raise
            assert course.vector is not None
            is_gathered = self._number in course.gathered
            who, done = ("shard", "planned") if is_gathered else ("desk", "gathered")
            why = f"{who} {self._number} of {why_not(course.number, error, done)}"
            self._log.error("shard.failed", shard=self._number, release=course.number, reason=why)
            await self._shard_log.fail(course.number, course.vector, why)
            if again is not None:
                self._search = asyncio.create_task(self._name_culprit(course, why, again()))
            raise DisturbedError from error

    async def _name_culprit(self, course: Course, why: str, step: FailedStep) -> None:
        """Say which record is to be left out, when that is found out. It takes some twenty plans."""
        assert course.vector is not None
        try:
            found = await search_window(self._settings, self._policy, step, self._origin(course).offsets)
            if found is not None:
                await self._shard_log.fail(course.number, course.vector, f"{why}: {found.advice}")
        except (DisturbedError, FencedError, LostError, RedisError, KafkaError, ServiceError) as error:
            self._log.warning("shard.retry", shard=self._number, error=type(error).__name__)

    async def _stop_search(self) -> None:
        search, self._search = self._search, None
        if search is not None:
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)

    def _origin(self, course: Course) -> Origin:
        assert course.vector is not None
        assert course.origin is not None
        return origin_of(PackedVector(course.vector, course.origin), course.number, self._partitions)

    # -- steps 7 and 9 ------------------------------------------------------------------------------------------------

    async def _send(self, course: Course) -> None:
        """The part, from memory or planned again. It must be the announced one before any of it is sent."""
        servers, table = self._settings.kafka_servers, self._policy.table
        state = await self._current(course, await read_shard_records(self._store))
        made = (await self._make(course, state))[0].plan
        announced = await self._together.announcements.of(course.number)
        if announced is None:
            raise DisturbedError
        self._check_announced(made, announced.value, course.number)
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
        await self._shard_log.note_part(course.number, *sent)
        crash_point("shards.7")

    def _check_announced(self, made: PartPlan, manifest: bytes, release: int) -> None:
        told = {one["shard"]: one for one in json.loads(manifest)["shards"]}.get(self._number)
        part = made.summary.part
        is_same = not made.records if told is None or part is None else json.loads(part.json()) == told
        if not is_same:
            raise GuaranteeError(
                f"shard {self._number} of release {release} of table {self._policy.table} does not come out as it was "
                "announced: nothing of it is published until `shoal rebuild` has brought the state back"
            )

    async def _apply(self, course: Course) -> None:
        await self._shard_log.apply(course.number)
        crash_point("shards.9")
        planned, self._planned = self._planned, None
        is_ours = planned is not None and planned[:2] == (course.number, course.vector)
        if self._state is not None and planned is not None and is_ours:
            await in_thread(self._state.apply, planned.plan.change)
        else:
            self._state = None


def _read_cuts(policy: Policy, packed: bytes | None) -> Cuts | None:
    return Cuts.read(policy, unpack(packed)) if packed else None
