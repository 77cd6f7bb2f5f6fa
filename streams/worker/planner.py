"""The planner: handles triggers, one at a time, and has a release made for each. One worker plans: the owner of the
triggers partition.

Step 1 of a release is here: *freeze*, one script that writes the barrier of the release and the trigger's offset, so
that a trigger makes one release. Steps 2 to 10 are in coordinator.py; docs/protocol.md has all of them.

Requests that wait are served together: of all triggers on the topic the last one makes the release, and those before it
make none. So a release is made for everybody who asked before it was frozen, and a thousand requests make one or two.

A release that cannot be planned does not end the worker. The planner is *stuck*: it says so (`standing`), looks for an
operator's `skip` on the triggers topic, and tries again when there is one, and now and then.

A *tenure* begins by taking ownership of planning, in Redis (a token) and in Kafka (the publisher's transactional id),
and by finishing what an earlier tenure left. Whenever anything is in doubt the tenure ends and a new one begins: there
is one way to recover, and every start goes that way.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import Service

from shoal.core.events.event import ChangeRequest, Reason, Reject, ReleaseRequest, SkipRequest
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import FencedError, GuaranteeError, LostError, PolicyChangedError, ServiceError
from shoal.streams.faults import crash_point
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_ends, read_to_end
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.prometheus import RECONNECTS
from shoal.streams.prometheus import State as Doing
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError, is_passing, pause_s, trouble
from shoal.streams.store.course import read_course
from shoal.streams.store.keys import TRIGGERS
from shoal.streams.store.records import note_of
from shoal.streams.store.release_log import DisturbedError, ReleaseLog
from shoal.streams.store.skipped import leave_out, read_skipped
from shoal.streams.store.store import Store
from shoal.streams.worker.changing import judge_change, read_change
from shoal.streams.worker.coordinator import Coordinator
from shoal.streams.worker.external import external_ends, external_letters
from shoal.streams.worker.plan_failure import PlanFailedError
from shoal.streams.worker.publish import Publisher
from shoal.streams.worker.skipping import NOT_LEFT_OUT, record_of
from shoal.streams.worker.snapshots import keep_snapshots
from shoal.streams.worker.standing import Standing
from shoal.streams.worker.timers import keep_time
from shoal.streams.worker.trigger import Trigger, judge_request, read_trigger


class _Tenure(NamedTuple):
    """What the planner writes with while it owns planning."""

    token: str
    release_log: ReleaseLog
    publisher: Publisher
    box: DeadLetterBox


_LOOK_S = 1.0  # how often a planner that is stuck looks for a `skip`
_LOOK_ANYWAY_S = 15.0  # how often the topic is looked at if nobody brings a trigger
_TRY_AGAIN_S = 300.0  # what stopped it may have passed by itself, if it was memory


class Planner(Service):
    """The service. `fail` is called with the error after which this worker cannot go on."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._policy, self._store, self._fail = settings, policy, store, fail
        self._servers, self._partitions = settings.kafka_servers, partitions
        self._topics = Topics(policy.table)
        self._reader = EventReader(policy)
        self._maker = Coordinator(settings, policy, store, partitions)
        self._owns = asyncio.Event()
        self._incoming: asyncio.Queue[Trigger | None] = asyncio.Queue()  # None: read the topic
        self._handled = asyncio.Condition()
        self._next_trigger: int | None = None  # None outside a tenure
        self._tenure: asyncio.Task[None] | None = None
        self._frozen_s = -math.inf  # when the last release was frozen, by the monotonic clock
        self._log = get_log(table=policy.table)

    # -- what the Faust app tells -------------------------------------------------------------------------------------

    @property
    def is_owner(self) -> bool:
        """Whether this worker is the one that plans."""
        return self._owns.is_set()

    @property
    def standing(self) -> Standing:
        """What it is doing, and what the last release was."""
        return self._maker.standing

    def own(self, *, is_owner: bool) -> None:
        """The triggers partition is, or is not, this worker's.

        A worker that was suspended hears "it is yours" twice, and never that it was not. Another worker may have taken
        triggers in between and lost the partition before they were handled, so the topic is read again.
        """
        if is_owner and not self._owns.is_set():
            self._owns.set()
            self.standing.say(Doing.STARTING)
            self._log.info("planner.owned")
        elif is_owner:
            self._incoming.put_nowait(None)
        elif self._owns.is_set():
            self._owns.clear()
            self.standing.say(Doing.ELSEWHERE)
            self._log.info("planner.released")
            if self._tenure is not None:
                self._tenure.cancel()

    async def take(self, trigger: Trigger) -> None:
        """Return when a trigger is handled: it has made its release, or none, or is another worker's now."""
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
            self._tenure = asyncio.create_task(self._run_tenure())
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
                self.standing.say(Doing.STARTING, "FencedError")
                pause = self._settings.session_s + 1.0
            except DisturbedError:
                self._log.warning("planner.disturbed")
            except (KafkaError, RedisError, ServiceError, OSError) as error:
                if (isinstance(error, RedisError) and not is_passing(error)) or is_refusal(error):
                    self._fail(error)
                    return
                RECONNECTS.labels("redis" if isinstance(error, RedisError) else "kafka", "planner").inc()
                self.standing.say(Doing.RETRYING, trouble(error) or type(error).__name__)
                attempt = 1 if time.monotonic() - began > 60 else attempt + 1
                if attempt in (1, 5) or attempt % 30 == 0:
                    self._log.warning("planner.retry", error=type(error).__name__, attempt=attempt)
                pause = pause_s(attempt)
            except BaseException as error:  # noqa: BLE001 - after any error the worker must end, not go on without releases
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

    async def _run_tenure(self) -> None:
        token = await self._store.own(TRIGGERS)
        release_log = ReleaseLog(self._store, token, self._partitions)
        publisher = Publisher(self._servers, self._policy.table, self._policy.shards)
        triggers = TopicPartition(self._topics.triggers, 0)
        box = DeadLetterBox(self._servers, self._store, triggers, TRIGGERS, token)
        tenure = _Tenure(token, release_log, publisher, box)
        tasks: list[asyncio.Task[None]] = []
        try:
            await publisher.start()
            await self._maker.finish_sealed(release_log, publisher)
            await self._maker.prepare()
            await self._advance(await self._store.next_trigger())
            barrier = await release_log.barrier()
            if barrier is not None:
                await self._make(tenure, barrier.release)
            await box.empty({})
            await external_letters(self._servers, self._store, self._topics)
            self.standing.say(Doing.WAITING)
            self._log.info("planner.ready", release=self._maker.release, trigger=self._next_trigger)
            tasks = [
                asyncio.create_task(self._serve(tenure)),
                asyncio.create_task(keep_time(self._settings, self._policy, self._store, self._maker)),
                asyncio.create_task(keep_snapshots(self._settings, self._policy, self._store, self._maker)),
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        except (LostError, GuaranteeError):
            # A planner that was suspended between two readings compares an old one with a new one, which another
            # planner has changed. That is no loss: a planner that is not the owner any more only stops.
            await release_log.check_owner()
            raise
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._maker.rest()
            await publisher.stop()
            await box.close()

    # -- triggers -----------------------------------------------------------------------------------------------------

    async def _serve(self, tenure: _Tenure) -> None:
        """Handle triggers in their order: first those on the topic already, then those the agent brings.

        The agent brings one at a time, and others may wait behind it. It may also bring none: Faust's consumer was seen
        to wait for ever, after brokers had come and gone. So the topic is looked at now and then.
        """
        assert self._next_trigger is not None
        await self._catch_up(tenure)
        while True:
            trigger: Trigger | None = None  # the partition was assigned again, or it is time
            with contextlib.suppress(TimeoutError):
                trigger = await asyncio.wait_for(self._incoming.get(), _LOOK_ANYWAY_S)
            if trigger is None or trigger.offset >= self._next_trigger:
                await self._catch_up(tenure)

    async def _catch_up(self, tenure: _Tenure) -> None:
        """Handle what is on the topic, until nothing is left there."""
        while waiting := await self._waiting():
            left_out = (await read_skipped(self._store)).get(TRIGGERS, frozenset())
            last_at = await self._store.last_at()
            digest = await self._maker.policy_digest()
            judged = [(trigger, self._judge(trigger, left_out, last_at, digest)) for trigger in waiting]
            served = [at for at, (_, asked) in enumerate(judged) if isinstance(asked, ReleaseRequest | ChangeRequest)]
            if served and await self._pause():
                continue  # others may have asked meanwhile
            # A change of policy is served by itself: what comes after it is for workers under the new policy.
            changes = [at for at in served if isinstance(judged[at][1], ChangeRequest)]
            last = changes[0] if changes else served[-1] if served else len(judged)
            settled = [await self._settle(tenure, trigger, asked) for trigger, asked in judged[:last]]
            if not all(settled):
                await tenure.box.empty({})
            if served:
                trigger, request = judged[last]
                assert isinstance(request, ReleaseRequest | ChangeRequest)
                self._log.info("trigger.served", offset=trigger.offset, records=len(served))
                await self._release(tenure, trigger, request)
                await self._advance(trigger.offset + 1)

    async def _waiting(self) -> list[Trigger]:
        """The triggers that are not handled yet, as many as are there now."""
        assert self._next_trigger is not None
        found: list[Trigger] = []
        async with open_reader(self._servers) as consumer:
            async for records in read_to_end(consumer, TopicPartition(self._topics.triggers, 0), self._next_trigger):
                found += [Trigger(record.offset, record.value, record.headers) for record in records]
        return found

    def _judge(
        self, trigger: Trigger, left_out: Collection[int], last_at: str | None, digest: str
    ) -> ReleaseRequest | SkipRequest | ChangeRequest | Reject | None:
        """What a trigger asks for now; None if it is a clock's whose release was made already."""
        if trigger.offset in left_out:
            return Reject(Reason.SKIPPED)
        asked = read_trigger(trigger, self._reader)
        if isinstance(asked, ChangeRequest):
            found = judge_change(asked, self._policy, digest, last_at)
            return found if isinstance(found, Reject) else asked
        if not isinstance(asked, ReleaseRequest):
            return asked
        if asked.number is not None and asked.number != self._maker.release + 1:
            return None
        return judge_request(asked, last_at)

    async def _settle(
        self, tenure: _Tenure, trigger: Trigger, asked: ReleaseRequest | SkipRequest | ChangeRequest | Reject | None
    ) -> bool:
        """A trigger that makes no release: stale, served with a later one, or a `skip`. False if it is rejected."""
        if isinstance(asked, SkipRequest):
            asked = NOT_LEFT_OUT.get(await self._leave_out(tenure, asked))
        if isinstance(asked, Reject):
            await tenure.release_log.skip(trigger.offset, note_of(trigger.offset, asked))
            self._log.warning("trigger.rejected", offset=trigger.offset, reason=str(asked.reason))
        else:
            await tenure.release_log.skip(trigger.offset)
        await self._advance(trigger.offset + 1)
        return not isinstance(asked, Reject)

    async def _pause(self) -> bool:
        """Wait until the policy allows another release; whether that took any time."""
        least = self._policy.triggers.min_seconds
        if least and self._frozen_s == -math.inf:  # this worker has made none yet, and another may have
            ago = time.time() - (await self._store.waiting(self._maker.release + 1)).last_s
            self._frozen_s = time.monotonic() - (max(0.0, ago) if self._maker.release else least)
        left = self._frozen_s + least - time.monotonic()
        if left <= 0:
            return False
        await asyncio.sleep(left)
        return True

    async def _leave_out(self, tenure: _Tenure, asked: SkipRequest) -> str:
        """Put a `skip` into effect; answers as `leave_out` does."""
        begins = await self._maker.window_begins(tenure.publisher)
        record = record_of(asked)
        begin = begins[asked.partition] if record.label.isdigit() and asked.partition < len(begins) else 0
        word = await leave_out(self._store, tenure.token, record, begin, self._maker.release + 1)
        if word == "ok":
            self._log.warning("record.skipped", topic=asked.topic, partition=asked.partition, offset=asked.offset)
        return word

    async def _release(self, tenure: _Tenure, trigger: Trigger, asked: ReleaseRequest | ChangeRequest) -> None:
        """Step 1, and the others."""
        release, changed = self._maker.release + 1, ""
        if isinstance(asked, ChangeRequest):
            changed = meaning_of(await read_change(self._servers, self._topics, self._reader, trigger.offset))
        is_request = bool(changed) or (isinstance(asked, ReleaseRequest) and asked.number is None)
        await self._maker.check_identity()
        asking = external_ends(self._servers, self._store, self._topics)
        if is_request:
            # A requested release has everything that was on the topic before the request was read. A clock's release
            # has what ingest has reached.
            events = read_ends(self._servers, self._topics.events, self._partitions)
            ends, there = await asyncio.gather(asking, events)
            ends |= {str(partition): end for partition, end in there.items()}
        else:
            ends = await asking
        word = await tenure.release_log.freeze(release, trigger.offset, asked.at, time.time(), ends, changed)
        if word == "frozen":
            raise DisturbedError
        if word == "ok":
            crash_point("release.1")
            cause = "request" if is_request else "timer"
            self._log.info("release.frozen", release=release, trigger=trigger.offset, cause=cause)
            self._frozen_s = time.monotonic()
            await self._make(tenure, release)

    async def _make(self, tenure: _Tenure, release: int) -> None:
        """Steps 2 to 10. Where the release cannot be planned, wait for somebody to leave out what stops it."""
        while True:
            try:
                if await self._maker.make(tenure.release_log, tenure.publisher, release):
                    raise PolicyChangedError(self._policy.table)
            except PlanFailedError as error:
                self._log.error("release.failed", release=release, reason=str(error))
                self.standing.say(Doing.STUCK, error.advice)
                with self._maker.held_up():
                    search = asyncio.create_task(self._hear_culprit(error))
                    try:
                        await self._await_skip(tenure)
                    finally:
                        search.cancel()
                        await asyncio.gather(search, return_exceptions=True)
            else:
                return

    async def _hear_culprit(self, error: PlanFailedError) -> None:
        """Say which record stops a release when an owner that looks for it has found it (shard_owner.py)."""
        while True:
            await asyncio.sleep(_LOOK_S)
            failed = (await read_course(self._store)).failed
            if failed and (said := PlanFailedError(error.release, failed)).args != error.args:
                error = said
                self._log.error("release.culprit", release=error.release, reason=str(error))
                self.standing.say(Doing.STUCK, error.advice)

    async def _await_skip(self, tenure: _Tenure) -> None:
        """Return when a record was left out, or after a while. The triggers before it keep waiting for their turn."""
        until, seen = time.monotonic() + _TRY_AGAIN_S, set[int]()
        while time.monotonic() < until:
            for trigger in await self._waiting():
                asked = read_trigger(trigger, self._reader)
                if isinstance(asked, SkipRequest) and trigger.offset not in seen:
                    seen.add(trigger.offset)
                    if await self._leave_out(tenure, asked) == "ok":
                        return
            await asyncio.sleep(_LOOK_S)

    async def _advance(self, next_trigger: int) -> None:
        async with self._handled:
            self._next_trigger = next_trigger
            self._handled.notify_all()
