"""Ingest: events from the topic into the window in Redis, each with effect once.

The steps, as in docs/protocol.md:

1. poll   records of the partitions that this worker owns;
2. judge  decode them and take them into the window in memory, partition by partition;
3. commit one script per partition: the changes of the window, the rejects and the next offset, together;
4. send   the rejected records to the dead-letter topic (streams/deadletter), beside the loop;
5. clear  their rejects.

The offsets are kept in Redis. When a partition is assigned to this worker, the worker takes ownership in Redis, loads
the partition, and puts the consumer at the offset that Redis has. Kafka's own group offsets are committed now and then
for tools that watch the lag; they are never read.

While one partition's batch is on its way to Redis, another's is polled and judged. A partition has at most one batch on
its way, for the answer to a commit decides to which window the next one belongs.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from mode import Service

from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.deadletter.scheduler import DeadLetters
from shoal.streams.errors import FencedError, GuaranteeError, InputError
from shoal.streams.faults import crash_point
from shoal.streams.intake.partition import Partition, load_partition
from shoal.streams.intake.progress import Progress
from shoal.streams.intake.state_watch import StateWatch
from shoal.streams.intake.watch import Course, Place, Watch, hear
from shoal.streams.kafka.group_consumer import open_group_consumer
from shoal.streams.kafka.partition_reader import check_alive, stop_client
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.metrics import Metrics
from shoal.streams.prometheus import REBALANCES, RECONNECTS
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError, is_passing, patiently, pause_s, trouble
from shoal.streams.store.store import Store
from shoal.streams.store.window_log import MovedError

_IDLE_S: Final = 0.05
_POLL_MS: Final = 50  # after which an idle partition looks for a barrier: a release waits for the last of them
_LOOK_S: Final = 0.04  # between two looks, if events come; shorter than a poll, so that every poll without events looks
_MOST_WAITING: Final = 50_000  # rejects of one partition, before ingest waits for its dead letters


class Ingest(Service, ConsumerRebalanceListener):
    """The service. `fail` is called, once, with the error after which this worker cannot go on."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._policy, self._store, self._fail = settings, policy, store, fail
        self._keyed = Keyed(settings.key_bytes, policy.table)
        self._topics = Topics(policy.table)
        self._count = partitions
        self._consumer: AIOKafkaConsumer | None = None
        self._assigned: frozenset[int] | None = None  # None while a rebalance is under way
        self._is_aligned = False
        self._not_before: dict[int, float] = {}
        self._refused: dict[int, int] = {}  # how many commits of each partition Redis has refused in a row
        self._parts: dict[int, Partition] = {}
        self._flights: dict[int, asyncio.Task[None]] = {}  # batches on their way to Redis, one a partition
        self._letters = DeadLetters(settings.kafka_servers, store)
        self._looked = 0.0
        self._setbacks = (0, b"")  # what partitions were last set back for, as far as all of them know
        self._progress = Progress(get_log(table=policy.table))
        self._watch = Watch(settings.session_s)
        self._state = StateWatch(store, self._on_retry)
        self._log = get_log(table=policy.table)

    # -- what the web views ask ---------------------------------------------------------------------------------------

    @property
    def owned(self) -> list[int]:
        """The partitions that this worker has loaded."""
        return sorted(self._parts)

    @property
    def is_loaded(self) -> bool:
        """Whether every partition assigned to this worker is loaded."""
        return self._assigned is not None and self._assigned == self._parts.keys()

    def metrics(self) -> Metrics:
        """What this worker has counted, as of now."""
        return self._progress.metrics(sum(place.lag for place in self.places().values()))

    @property
    def partitions(self) -> int:
        """How many partitions the table has."""
        return self._count

    @property
    def assigned(self) -> int:
        """How many partitions Kafka gave this worker."""
        return len(self._assigned or ())

    @property
    def course(self) -> Course:
        """How this worker's ingest is getting on."""
        return self._watch.course(self.places().values(), is_loaded=self.is_loaded)

    @property
    def trouble(self) -> str | None:
        """What an operator has to do before ingest can go on, if it is known."""
        return self._watch.trouble

    def places(self) -> dict[int, Place]:
        """Every loaded partition as of now."""
        return {number: self._place(part) for number, part in self._parts.items()}

    def _place(self, part: Partition) -> Place:
        heard = hear(self._consumer, self._partition(part.number), part.offset)
        return Place(heard.lag, len(part.intake.window), self._letters.waiting_s(part.number), heard.silence_s)

    # -- the service --------------------------------------------------------------------------------------------------

    @Service.task
    async def _ingest(self) -> None:
        try:
            await self._work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - after any error the worker must end, not go on without ingest
            self._fail(error)

    @Service.task
    async def _bury(self) -> None:
        try:
            await self._letters.run()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - likewise
            self._fail(error)

    async def on_stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        for task in self._flights.values():
            task.cancel()
        await asyncio.gather(*self._flights.values(), return_exceptions=True)
        await self._letters.close()
        if consumer is not None:
            await stop_client(consumer)

    def on_partitions_revoked(self, revoked: Any) -> None:  # noqa: ARG002 - all of them, always
        """Called by aiokafka as a rebalance begins. A batch on its way may still be committed, or refused."""
        self._assigned, self._is_aligned = None, False
        self._watch.lose()

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Called by aiokafka, which sends no heartbeats meanwhile; so nothing is loaded here."""
        self._assigned, self._is_aligned = frozenset(partition.partition for partition in assigned), False
        REBALANCES.inc()
        self._log.info("ingest.assigned", partitions=len(self._assigned))

    async def _work(self) -> None:
        attempt = 0
        while not self.should_stop:
            try:
                if self._consumer is None:
                    servers, session_s = self._settings.kafka_servers, self._settings.session_s
                    events, group = self._topics.events, self._topics.ingest_group
                    name = await self._state.name()
                    self._consumer = await open_group_consumer(servers, events, group, name, session_s, self)
                await self._turn(self._consumer)
            except OffsetOutOfRangeError:
                raise GuaranteeError(
                    f"topic {self._topics.events} does not have the offsets from which Redis says to continue: it was "
                    "created anew, or lost records that no release had taken yet"
                ) from None
            except KafkaError as error:
                if is_refusal(error):
                    raise
                attempt += 1
                RECONNECTS.labels("kafka", "ingest").inc()
                self._log.warning("kafka.retry", step="ingest", error=type(error).__name__, attempt=attempt)
                await self._disconnect()
                await self.sleep(min(2.0, 0.1 * 2 ** min(attempt, 5)))
            else:
                attempt = 0

    async def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._assigned, self._is_aligned = None, False
        self._watch.lose()
        if consumer is not None:
            await stop_client(consumer)

    async def _turn(self, consumer: AIOKafkaConsumer) -> None:
        """Steps 1 to 3 for the partitions without a batch on its way; the other batches go on meanwhile."""
        self._land()
        check_alive(consumer)
        assigned = self._assigned
        if assigned is None or self._must_align() or assigned != self._parts.keys():
            await self._put_in_order(consumer, assigned)
            return
        self._watch.run()
        if not self._flights and await self._state.has_changed():
            for number in list(self._parts):
                await self._drop(number)
            await self._disconnect()
            return
        idle = [number for number, part in self._parts.items() if number not in self._flights and not part.is_held]
        if not self._parts or len(idle) + len(self._flights) < len(self._parts):  # nothing to take, or none of it
            await patiently(self._store.check_policy, self._on_retry)
        partitions = [self._partition(number) for number in idle]
        fetched: dict[TopicPartition, Sequence[Record]] = {}
        if idle:
            wait_ms = 0 if self._flights else _POLL_MS
            fetched = await consumer.getmany(*partitions, timeout_ms=wait_ms, max_records=self._settings.batch)
        if self._must_align():  # a rebalance came in between, and has put the consumer elsewhere
            return
        if fetched:
            crash_point("ingest.1")
        # Behind the last record there may be the end of a transaction, which is no record but has an offset.
        positions = {partition.partition: await consumer.position(partition) for partition in partitions}
        is_frozen = await self._is_frozen() if len(fetched) < len(idle) else False
        for number in idle:
            part, records = self._parts[number], fetched.get(self._partition(number), ())
            if records or positions[number] != part.offset or is_frozen:
                self._flights[number] = asyncio.create_task(self._advance(part, records, positions[number]))
                self._watch.depart(number)
        if fetched:
            await asyncio.sleep(0)  # judge, and send to Redis, before more is polled
        elif self._flights:
            await asyncio.wait(self._flights.values(), timeout=_IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        elif not idle:
            await asyncio.sleep(_IDLE_S)  # there are more workers than partitions, or the topic is gone
        if self._is_aligned and self._parts:
            await self._progress.commit(consumer, self._offsets)
        self._progress.tell(self.metrics)

    def _must_align(self) -> bool:
        return not self._is_aligned

    def _land(self) -> None:
        """Forget the batches that are committed; raise what went wrong with one."""
        for number in [number for number, task in self._flights.items() if task.done()]:
            self._watch.land(number)
            self._flights.pop(number).result()

    async def _put_in_order(self, consumer: AIOKafkaConsumer, assigned: frozenset[int] | None) -> None:
        """Let go of partitions and load others, while no batch is on its way."""
        if self._flights:
            await asyncio.wait(self._flights.values())
            self._land()
        if assigned is None:
            await asyncio.sleep(0.02)
            await consumer.getmany(timeout_ms=0)  # raises what went wrong with the group
            return
        await self._own(assigned)
        await self._align(consumer)

    async def _own(self, assigned: frozenset[int]) -> None:
        """Take ownership of the assigned partitions and load them; let go of the others."""
        for number in [number for number in self._parts if number not in assigned]:
            await self._drop(number)
        for number in sorted(assigned - self._parts.keys()):
            if number >= self._count:
                raise InputError(
                    f"topic {self._topics.events} has more partitions than the {self._count} it had when this worker "
                    "started: a person's events would arrive in another partition"
                )
            if time.monotonic() < self._not_before.get(number, 0.0):
                continue
            began = time.monotonic()
            token = await patiently(partial(self._store.own, str(number)), self._on_retry)
            await self._load(number, token)
            people = len(self._parts[number].intake.roster) if number in self._parts else 0
            seconds = round(time.monotonic() - began, 3)
            self._log.info("ingest.loaded", partition=number, people=people, seconds=seconds)
            self._watch.move()
            self._is_aligned = False
            if self._assigned != assigned:
                return

    async def _load(self, number: int, token: str) -> None:
        """Load, or load again, a partition that is owned under this token."""
        try:
            part = await patiently(
                lambda: load_partition(self._store, number, token, self._policy, self._keyed), self._on_retry
            )
        except FencedError:
            self._on_fenced(number)
            await self._drop(number)
            return
        self._parts[number] = part
        await self._letters.add(self._partition(number), token, part.rejected)

    async def _drop(self, number: int) -> None:
        self._parts.pop(number, None)
        await self._letters.drop(number)

    async def _align(self, consumer: AIOKafkaConsumer) -> None:
        """Put the consumer at the offsets that Redis has, unless a rebalance came in between."""
        for number in self._assigned or ():
            part = self._parts.get(number)
            if not self._is_assigned(number):
                return
            if part is None:  # another worker owns it; Kafka will say so too, or it will be ours again
                consumer.pause(self._partition(number))
            else:
                consumer.resume(self._partition(number))
                consumer.seek(self._partition(number), part.offset)
        self._is_aligned = self._assigned is not None
        if self._assigned != self._parts.keys() or not self._parts:
            await self.sleep(_IDLE_S)

    async def _is_frozen(self) -> bool:
        """Whether a release is frozen whose barrier some partition has not passed yet.

        Also if partitions may have been set back since the last look, dead letters were refused, or a window is older
        than the release: a worker that was suspended does not know that others had its partitions meanwhile. A commit
        finds out. Partitions with a batch on its way do not commit now, and look once more.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return False
        self._looked = now
        release, setbacks = await patiently(self._store.barrier_and_setbacks, self._on_retry)
        is_new = setbacks != self._setbacks
        if not self._flights:
            self._setbacks = setbacks
        is_behind = release is not None and any(part.window <= release for part in self._parts.values())
        return is_behind or is_new or self._letters.were_refused()

    async def _advance(self, part: Partition, records: Sequence[Record], position: int) -> None:
        """Steps 2 and 3 for one partition, in two parts where a barrier lies in between."""
        try:
            while True:
                head, records, after = part.split(records, position)
                batch = part.take(head, after, self._store.cipher, self._store.shards)
                crash_point("ingest.2")
                reply = await part.commit(self._store, batch)
                crash_point("ingest.3")
                self._refused.pop(part.number, None)
                self._watch.move()
                self._progress.count(part.number, batch.accepted, len(batch.rejects))
                if reply.waiting:
                    self._letters.wake(part.number)
                    if reply.waiting > _MOST_WAITING:
                        await self._letters.drained(part.number)
                if reply.applied > part.homes_known:
                    await part.learn_homes(self._store, reply.applied)
                if part.offset >= position or part.is_held:
                    return
        except MovedError:
            self._log.warning("ingest.reloaded", partition=part.number, reason="moved")
            await self._reload(part)
        except FencedError:
            self._on_fenced(part.number)
            await self._drop(part.number)
            self._is_aligned = False
        except RedisError as error:
            if not is_passing(error):
                raise
            attempt = self._refused[part.number] = self._refused.get(part.number, 0) + 1
            self._on_retry(error, attempt)
            await asyncio.sleep(pause_s(attempt))  # a Redis without room refuses writes and answers everything else
            await self._reload(part)

    async def _reload(self, part: Partition) -> None:
        """The memory is ahead of Redis, or Redis was set back: load the partition again."""
        self._is_aligned = False
        await self._load(part.number, part.token)

    def _on_fenced(self, number: int) -> None:
        # Kafka is about to revoke it as well. If it does not within a session, the partition is ours after all.
        self._not_before[number] = time.monotonic() + self._settings.session_s + 1.0
        self._log.warning("ingest.fenced", partition=number)

    def _on_retry(self, error: BaseException, attempt: int) -> None:
        RECONNECTS.labels("redis", "ingest").inc()
        self._watch.refuse(trouble(error))
        if attempt in (1, 5) or attempt % 30 == 0:
            self._log.warning("redis.retry", step="ingest", error=type(error).__name__, attempt=attempt)

    def _offsets(self) -> dict[TopicPartition, int]:
        return {self._partition(number): part.offset for number, part in self._parts.items()}

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._topics.events, number)

    def _is_assigned(self, number: int) -> bool:
        return self._consumer is not None and self._partition(number) in self._consumer.assignment()
