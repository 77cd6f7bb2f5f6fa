"""The planner: makes the releases of a table, one at a time. One worker has this part, the owner of the triggers
partition.

The steps of a release, as in docs/protocol.md:

1. freeze  one script: the barrier of the release, and the trigger's offset, so that a trigger makes one release
2. wait    until ingest has brought every partition to its barrier
3. read    the windows, which nobody writes to any more
4. plan    in a thread, so that heartbeats and ingest go on
5. stage   what the release changes, and its records, beside the current state
6. seal    one script: from here on this is release n, whatever happens
7. publish one Kafka transaction: every group's record, then the manifest
8. sent    marked in Redis, the sealed records deleted
9. apply   the staged changes to the current state; the windows are deleted

A *tenure* begins by taking the planner's part over, in Redis (a token) and in Kafka (the publisher's transactional
id), and by finishing what an earlier one left. Whenever anything is in doubt the tenure ends and a new one begins:
there is one way to recover, and it is the way every start goes.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import Service

from shoal.core.events.event import Reject
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import GuaranteeError, ServiceError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.partition_reader import open_reader, read_ends, read_to_end
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.connection import is_passing
from shoal.streams.store.records import Mark, pack
from shoal.streams.store.release_log import (
    Barrier,
    Chunk,
    DisturbedError,
    Redo,
    chunks_of,
    counts_after,
    foreign_ids,
    load_state,
)
from shoal.streams.store.store import TRIGGERS, Counts, FencedError, LostError, RedisError, Store, TableMeta
from shoal.streams.thread import in_thread
from shoal.streams.worker.external import ExternalRead, external_ends, external_letters, read_external, read_reached
from shoal.streams.worker.publish import Publisher, check_sealed, check_story, manifest_headers
from shoal.streams.worker.timers import keep_time
from shoal.streams.worker.trigger import Trigger, read_trigger

_WAIT_S = 0.03
_SAY_S = 10.0


class Planner(Service):
    """The service. `fail` is called with whatever this worker cannot go on after."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._policy, self._store, self._fail = settings, policy, store, fail
        self._servers, self._partitions = settings.kafka_servers, partitions
        self._topics = Topics(policy.table)
        self._owns = asyncio.Event()
        self._incoming: asyncio.Queue[Trigger | None] = asyncio.Queue()  # None: look for yourself
        self._handled = asyncio.Condition()
        self._next_trigger: int | None = None  # None outside a tenure
        self._state: State | None = None
        self._tenure: asyncio.Task[None] | None = None
        self.release = 0
        self.is_planning = False
        self._log = get_log(table=policy.table)

    # -- what the Faust app tells -------------------------------------------------------------------------------------

    @property
    def is_owner(self) -> bool:
        """Whether this worker is the one that plans."""
        return self._owns.is_set()

    def own(self, *, is_owner: bool) -> None:
        """The triggers partition is, or is not, this worker's.

        A worker that slept is told "it is yours" twice and never that it was not. Another one may have taken triggers
        in between and been relieved before it was done with them, so the topic is looked at again.
        """
        if is_owner and not self._owns.is_set():
            self._owns.set()
            self._log.info("planner.owned")
        elif is_owner:
            self._incoming.put_nowait(None)
        elif not is_owner and self._owns.is_set():
            self._owns.clear()
            self._log.info("planner.released")
            if self._tenure is not None:
                self._tenure.cancel()

    async def take(self, trigger: Trigger) -> None:
        """Return when a trigger is done with: it has made its release, or none, or is another worker's now."""
        self._incoming.put_nowait(trigger)
        async with self._handled:
            while self._owns.is_set() and not (self._next_trigger is not None and trigger.offset < self._next_trigger):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._handled.wait(), 1.0)

    # -- tenures ------------------------------------------------------------------------------------------------------

    @Service.task
    async def _plan_releases(self) -> None:
        attempt = 0
        while not self.should_stop:
            await self._owns.wait()
            self._tenure = asyncio.create_task(self._hold_tenure())
            began, pause = time.monotonic(), 0.2
            try:
                await self._tenure
            except asyncio.CancelledError:
                if self.should_stop or self._owns.is_set():
                    raise
                attempt = 0
                continue
            except FencedError:
                self._log.warning("planner.fenced")
                pause = self._settings.session_s + 1.0
            except DisturbedError:
                self._log.warning("planner.disturbed")
            except (KafkaError, RedisError, ServiceError, OSError) as error:
                if isinstance(error, RedisError) and not is_passing(error):
                    self._fail(error)
                    return
                attempt = 1 if time.monotonic() - began > 60 else attempt + 1
                if attempt in (1, 5) or attempt % 30 == 0:
                    self._log.warning("planner.retry", error=type(error).__name__, attempt=attempt)
                pause = min(2.0, 0.1 * 2 ** min(attempt, 5))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the worker must end, not go on without releases
                self._fail(error)
                return
            finally:
                self._next_trigger = None
            await self.sleep(pause)

    async def on_stop(self) -> None:
        if self._tenure is not None:
            self._tenure.cancel()
            with contextlib.suppress(BaseException):
                await self._tenure

    async def _hold_tenure(self) -> None:
        token = await self._store.claim(TRIGGERS)
        redo = Redo(self._store, token, self._partitions)
        publisher = Publisher(self._servers, self._policy.table)
        triggers = TopicPartition(self._topics.triggers, 0)
        box = DeadLetterBox(self._servers, self._store, triggers, TRIGGERS, token)
        tasks: list[asyncio.Task[None]] = []
        try:
            await publisher.start()
            await self._finish_sealed(redo, publisher)
            state = await self._current_state()
            barrier = await redo.barrier()
            if barrier is not None:
                await self._release(redo, publisher, state, barrier.release)
            await box.empty({})
            await external_letters(self._servers, self._store, self._topics)
            await self._advance(await self._stored_trigger())
            self._log.info("planner.ready", release=self.release, trigger=self._next_trigger)
            tasks = [
                asyncio.create_task(self._serve(redo, publisher, box)),
                asyncio.create_task(keep_time(self._settings, self._policy, self._store, self)),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        except (LostError, GuaranteeError):
            # Who slept between two looks compares what was with what another planner has made of it since.
            await redo.check_held()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await publisher.stop()
            await box.close()

    async def _finish_sealed(self, redo: Redo, publisher: Publisher) -> None:
        """Check that Redis and the topic tell the same story; publish and apply what is sealed."""
        meta = await self._meta()
        last = await publisher.last()
        check_story(self._policy.table, meta, last)
        if meta.sent < meta.release:
            if last is None or last.number < meta.release:
                records, manifest, headers = await redo.outbox(meta.release)
                check_sealed(self._policy.table, manifest, json.loads(manifest)["previous"], last)
                await publisher.publish(meta.release, records, manifest, headers)
                self._log.info("release.published", release=meta.release, records=len(records) + 1)
            await redo.sent(meta.release)
        if meta.applied < meta.release:
            await redo.apply(meta.release)
            self._log.info("release.applied", release=meta.release)
        self.release = meta.release

    async def _current_state(self) -> State:
        """The state in memory if it is the stored one, else the stored one."""
        meta = await self._meta()
        if self._state is None or self._state.meta != meta.sealed:
            began = time.monotonic()
            self._state = None
            self._state = await load_state(self._store, self._policy, self._settings.key_bytes, meta)
            seconds = round(time.monotonic() - began, 3)
            self._log.info("planner.loaded", release=meta.release, people=len(self._state.people), seconds=seconds)
        return self._state

    async def _serve(self, redo: Redo, publisher: Publisher, box: DeadLetterBox) -> None:
        """Handle triggers in their order: first those on the topic already, then those the agent brings."""
        assert self._next_trigger is not None
        await self._catch_up(redo, publisher, box)
        while True:
            trigger = await self._incoming.get()
            if trigger is None or trigger.offset > self._next_trigger:
                # The partition was given again, Kafka's group is ahead of Redis, or there is a gap: the topic knows.
                await self._catch_up(redo, publisher, box)
            elif trigger.offset == self._next_trigger:
                await self._handle(redo, publisher, box, trigger)

    async def _catch_up(self, redo: Redo, publisher: Publisher, box: DeadLetterBox) -> None:
        assert self._next_trigger is not None
        waiting: list[Trigger] = []
        async with open_reader(self._servers) as consumer:
            async for records in read_to_end(consumer, TopicPartition(self._topics.triggers, 0), self._next_trigger):
                waiting += [Trigger(record.offset, record.value, record.headers) for record in records]
        for trigger in waiting:
            await self._handle(redo, publisher, box, trigger)

    async def _handle(self, redo: Redo, publisher: Publisher, box: DeadLetterBox, trigger: Trigger) -> None:
        asked = read_trigger(trigger)
        if isinstance(asked, Reject):
            mark = Mark(trigger.offset, str(asked.reason), asked.field, asked.op)
            await redo.skip(trigger.offset, pack(mark))
            self._log.warning("trigger.rejected", offset=trigger.offset, reason=str(asked.reason))
            await box.empty({})
        elif asked.number is not None and asked.number != self.release + 1:
            await redo.skip(trigger.offset)
        else:
            release = self.release + 1
            ends = await external_ends(self._servers, self._store, self._topics)
            if asked.number is None:
                # What was on the topic before the request was read belongs in its release; a clock takes what is there.
                there = await read_ends(self._servers, self._topics.events, self._partitions)
                ends |= {str(partition): end for partition, end in there.items()}
            word = await redo.freeze(release, trigger.offset, asked.at, time.time(), ends)
            if word == "frozen":
                raise DisturbedError
            if word == "ok":
                crash_point("release.1")
                cause = "request" if asked.number is None else "timer"
                self._log.info("release.frozen", release=release, trigger=trigger.offset, cause=cause)
                await self._release(redo, publisher, await self._current_state(), release)
        await self._advance(trigger.offset + 1)

    # -- a release ----------------------------------------------------------------------------------------------------

    async def _release(self, redo: Redo, publisher: Publisher, state: State, release: int) -> None:
        """Steps 2 to 9."""
        self.is_planning = True
        try:
            barrier = await self._await_passage(redo, release)
            windows = await redo.read_windows(release)
            crash_point("release.3")
            begin = await read_reached(self._store)
            read = await read_external(self._servers, self._topics, self._policy, begin, barrier.external)
            offsets = [barrier.marks[partition] for partition in range(self._partitions)]
            headers = manifest_headers(offsets, barrier.trigger, barrier.at, read.ends)
            began = time.monotonic()
            before = (await self._meta()).counts
            window = Window(barrier.at, windows, read.groups)
            made, chunks, counts = await in_thread(self._make, state, window, release, headers, before, read)
            seconds = round(time.monotonic() - began, 3)
            self._log.info("release.planned", release=release, seconds=seconds, misrouted=len(made.misrouted))
            crash_point("release.4")
            count = await redo.stage(release, chunks)
            crash_point("release.5")
            meta = made.change.meta
            await redo.seal(release, state.meta.manifest, str(meta.manifest), pack(tuple(meta)), count, counts)
            crash_point("release.6")
            self._state = None  # until it is what Redis says again
            self._log.info("release.sealed", release=release, chunks=count)
            await publisher.publish(release, made.release.records, made.release.manifest, headers)
            crash_point("release.7")
            self._log.info("release.published", release=release, records=len(made.release.records) + 1)
            await redo.sent(release)
            crash_point("release.8")
            await redo.apply(release)
            crash_point("release.9")
            if read.marks:
                await external_letters(self._servers, self._store, self._topics)
            await in_thread(state.apply, made.change)
            self._state, self.release = state, release
            self._log.info("release.applied", release=release, seconds=round(time.monotonic() - began, 3))
        finally:
            self.is_planning = False

    def _make(
        self,
        state: State,
        window: Window,
        release: int,
        headers: Sequence[tuple[str, bytes]],
        before: Counts,
        read: ExternalRead,
    ) -> tuple[Plan, list[Chunk], Counts]:
        made = plan(state, window, self._policy, release)
        foreign = foreign_ids(made, state, window.deltas)
        chunks = chunks_of(made, foreign, headers, self._store.seal, read)
        return made, chunks, counts_after(made, state, before)

    async def _await_passage(self, redo: Redo, release: int) -> Barrier:
        said = time.monotonic()
        while not await redo.has_passed(release):
            if time.monotonic() - said > _SAY_S:
                said = time.monotonic()
                self._log.info("release.waiting", release=release, step="ingest must reach the barrier")
            await asyncio.sleep(_WAIT_S)
        crash_point("release.2")
        barrier = await redo.barrier()
        if barrier is None or barrier.release != release or len(barrier.marks) != self._partitions:
            raise DisturbedError
        return barrier

    # -- small things -------------------------------------------------------------------------------------------------

    async def _meta(self) -> TableMeta:
        meta = await self._store.meta()
        if meta is None:
            raise LostError
        return meta

    async def _stored_trigger(self) -> int:
        return int(await self._store.redis.hget(self._store.key("ingest"), "trigger") or 0)

    async def _advance(self, next_trigger: int) -> None:
        async with self._handled:
            self._next_trigger = next_trigger
            self._handled.notify_all()
