"""Ingest: events from the topic into the window in Redis, each with effect once.

The steps, as in docs/protocol.md:

1. poll   records of the partitions this worker holds;
2. fold   decode, judge and fold them in memory, partition by partition;
3. commit one script per partition: the window's entries, the marks of rejected records and the next offset, together;
4. send   the rejected records to the dead-letter topic (letters.py), beside the loop;
5. clear  their marks.

Offsets are Redis's. A partition that is assigned to this worker is claimed there, loaded, and the consumer is put where
Redis says. Kafka's own group offsets are committed now and then for whoever watches the lag, and never believed.

While one partition's batch is on its way to Redis, another's is polled and folded: both work at the same time. A
partition has one batch on its way at most, for what the commit answers decides where the next one belongs.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from mode import Service

from shoal.core.policy.policy import Policy
from shoal.streams.deadletter.scheduler import DeadLetters
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.faults import crash_point
from shoal.streams.intake.partition import MovedError, Partition, Record, load_partition
from shoal.streams.kafka.partition_reader import stop_client
from shoal.streams.kafka.topics import METADATA_MAX_AGE_MS, Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.connection import is_passing, patiently
from shoal.streams.store.store import FencedError, RedisError, Store

_POLL_MS = 100
_IDLE_S = 0.05  # how often an idle partition looks for a barrier
_GROUP_COMMIT_S = 5.0
_PROGRESS_S = 10.0
_MOST_WAITING = 50_000  # marks of one partition, before ingest waits for its dead letters


class Ingest(Service, ConsumerRebalanceListener):
    """The service. `fail` is called, once, with whatever this worker cannot go on after."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._policy, self._store, self._fail = settings, policy, store, fail
        self._topics = Topics(policy.table)
        self._count = partitions
        self._consumer: AIOKafkaConsumer | None = None
        self._assigned: frozenset[int] | None = None  # None while a rebalance is under way
        self._is_aligned = False
        self._not_before: dict[int, float] = {}
        self._parts: dict[int, Partition] = {}
        self._flights: dict[int, asyncio.Task[None]] = {}  # batches on their way to Redis, one a partition
        self._letters = DeadLetters(settings.kafka_servers, store)
        self._looked = self._committed = self._reported = 0.0
        self.accepted = self.rejected = self._told = 0
        self._log = get_log(table=policy.table)

    # -- what the web views ask ---------------------------------------------------------------------------------------

    @property
    def held(self) -> list[int]:
        """The partitions this worker is working on."""
        return sorted(self._parts)

    @property
    def is_settled(self) -> bool:
        """Whether every partition assigned to this worker is loaded."""
        return self._assigned is not None and self._assigned == self._parts.keys()

    def lag(self) -> int:
        """Records on the topic that this worker has still to take."""
        consumer = self._consumer
        if consumer is None:
            return 0
        behind = 0
        for number, part in self._parts.items():
            high = consumer.highwater(self._partition(number)) if self._is_assigned(number) else None
            behind += max(0, (high or 0) - part.offset)
        return behind

    # -- the service --------------------------------------------------------------------------------------------------

    @Service.task
    async def _ingest(self) -> None:
        try:
            await self._work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the worker must end, not go on without ingest
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
        """Called by aiokafka as a rebalance begins. What is folded and not committed may still be committed, or
        refused.
        """
        self._assigned, self._is_aligned = None, False

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Called by aiokafka, without heartbeats meanwhile, so nothing is loaded here."""
        self._assigned, self._is_aligned = frozenset(partition.partition for partition in assigned), False
        self._log.info("ingest.assigned", partitions=len(self._assigned))

    async def _work(self) -> None:
        attempt = 0
        while not self.should_stop:
            try:
                if self._consumer is None:
                    self._consumer = await self._connect()
                await self._turn(self._consumer)
            except OffsetOutOfRangeError:
                raise GuaranteeError(
                    f"topic {self._topics.events} does not hold the offsets at which Redis says to go on: it was made "
                    "anew or lost records, and its records must be kept for ever"
                ) from None
            except KafkaError as error:
                attempt += 1
                self._log.warning("kafka.retry", step="ingest", error=type(error).__name__, attempt=attempt)
                await self._disconnect()
                await self.sleep(min(2.0, 0.1 * 2 ** min(attempt, 5)))
            else:
                attempt = 0

    async def _connect(self) -> AIOKafkaConsumer:
        session_ms = int(1000 * self._settings.session_s)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._settings.kafka_servers,
            group_id=self._topics.ingest_group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            max_poll_interval_ms=600_000,
            max_partition_fetch_bytes=2 * 1024 * 1024,
            fetch_max_wait_ms=_POLL_MS,
            request_timeout_ms=max(30_000, session_ms + 5_000),
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        consumer.subscribe([self._topics.events], listener=self)
        try:
            await consumer.start()
        except BaseException:
            await stop_client(consumer)
            raise
        return consumer

    async def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        self._assigned, self._is_aligned = None, False
        if consumer is not None:
            await stop_client(consumer)

    async def _turn(self, consumer: AIOKafkaConsumer) -> None:
        """Steps 1 to 3 for the partitions that are not at it; those that are go on meanwhile."""
        self._land()
        assigned = self._assigned
        if assigned is None or self._must_align() or assigned != self._parts.keys():
            await self._put_in_order(consumer, assigned)
            return
        idle = [number for number in self._parts if number not in self._flights]
        partitions = [self._partition(number) for number in idle]
        fetched: dict[TopicPartition, Sequence[Record]] = {}
        if idle:
            wait_ms = 0 if self._flights else _POLL_MS
            fetched = await consumer.getmany(*partitions, timeout_ms=wait_ms, max_records=self._settings.batch)
        if self._must_align():  # a rebalance has put the consumer where Kafka thinks it was
            return
        if fetched:
            crash_point("ingest.1")
        # Beyond the last record there may be the marks of transactions, which are no records but have offsets.
        positions = {partition.partition: await consumer.position(partition) for partition in partitions}
        is_frozen = await self._is_frozen() if len(fetched) < len(idle) else False
        for number in idle:
            part, records = self._parts[number], fetched.get(self._partition(number), ())
            if records or positions[number] != part.offset or is_frozen:
                self._flights[number] = asyncio.create_task(self._advance(part, records, positions[number]))
        if fetched:
            await asyncio.sleep(0)  # fold, and send to Redis, before more is polled
        elif self._flights:
            await asyncio.wait(self._flights.values(), timeout=_IDLE_S, return_when=asyncio.FIRST_COMPLETED)
        await self._report(consumer)

    def _must_align(self) -> bool:
        return not self._is_aligned

    def _land(self) -> None:
        """Forget what is done; raise what it raised."""
        for number in [number for number, task in self._flights.items() if task.done()]:
            self._flights.pop(number).result()

    async def _put_in_order(self, consumer: AIOKafkaConsumer, assigned: frozenset[int] | None) -> None:
        """Nothing is under way while partitions come and go."""
        if self._flights:
            await asyncio.wait(self._flights.values())
            self._land()
        if assigned is None:
            await asyncio.sleep(0.02)
            await consumer.getmany(timeout_ms=0)  # raises what went wrong with the group
            return
        await self._hold(assigned)
        await self._align(consumer)

    async def _hold(self, assigned: frozenset[int]) -> None:
        """Claim and load what is assigned, let go of the rest."""
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
            token = await patiently(partial(self._store.claim, str(number)), self._on_retry)
            await self._load(number, token)
            people = len(self._parts[number].intake.roster) if number in self._parts else 0
            seconds = round(time.monotonic() - began, 3)
            self._log.info("ingest.loaded", partition=number, people=people, seconds=seconds)
            self._is_aligned = False
            if self._assigned != assigned:
                return

    async def _load(self, number: int, token: str) -> None:
        """(Re)load a partition under a token it was claimed with."""
        try:
            part = await patiently(lambda: load_partition(self._store, number, token, self._policy), self._on_retry)
        except FencedError:
            self._on_fenced(number)
            await self._drop(number)
            return
        self._parts[number] = part
        await self._letters.hold(self._partition(number), token, part.rejected)

    async def _drop(self, number: int) -> None:
        self._parts.pop(number, None)
        await self._letters.drop(number)

    async def _align(self, consumer: AIOKafkaConsumer) -> None:
        """Put the consumer where Redis is, unless a rebalance came in between."""
        for number in self._assigned or ():
            part = self._parts.get(number)
            if not self._is_assigned(number):
                return
            if part is None:  # claimed by another; Kafka will tell us, or it will be ours again
                consumer.pause(self._partition(number))
            else:
                consumer.resume(self._partition(number))
                consumer.seek(self._partition(number), part.offset)
        self._is_aligned = self._assigned is not None
        if self._assigned != self._parts.keys() or not self._parts:
            await self.sleep(_IDLE_S)

    async def _is_frozen(self) -> bool:
        """Whether a release is frozen that some idle partition has not passed yet."""
        now = time.monotonic()
        if now - self._looked < _IDLE_S:
            return False
        self._looked = now
        release = await patiently(lambda: self._store.redis.hget(self._store.key("barrier"), "release"), self._on_retry)
        return release is not None and any(part.window == int(release) for part in self._parts.values())

    async def _advance(self, part: Partition, records: Sequence[Record], position: int) -> None:
        """Steps 2 and 3 for one partition, in two parts where a barrier lies in between."""
        try:
            while True:
                head, records, after = part.split(records, position)
                batch = part.fold(head, after, self._store.seal)
                crash_point("ingest.2")
                reply = await part.commit(self._store, batch)
                crash_point("ingest.3")
                self.accepted += batch.accepted
                self.rejected += len(batch.marks)
                if reply.waiting:
                    self._letters.mark(part.number)
                    if reply.waiting > _MOST_WAITING:
                        await self._letters.drained(part.number)
                if reply.applied > part.settled:
                    await part.settle(self._store, reply.applied)
                if part.offset >= position:
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
            self._log.warning("ingest.reloaded", partition=part.number, reason="redis", error=type(error).__name__)
            await self._reload(part)

    async def _reload(self, part: Partition) -> None:
        """What is in memory is ahead of Redis, or Redis was set back: start again from what is there."""
        self._is_aligned = False
        await self._load(part.number, part.token)

    def _on_fenced(self, number: int) -> None:
        # Kafka is about to say so too. If it does not within a session, the partition is ours after all.
        self._not_before[number] = time.monotonic() + self._settings.session_s + 1.0
        self._log.warning("ingest.fenced", partition=number)

    def _on_retry(self, error: BaseException, attempt: int) -> None:
        if attempt in (1, 5) or attempt % 30 == 0:
            self._log.warning("redis.retry", step="ingest", error=type(error).__name__, attempt=attempt)

    # -- what others see ----------------------------------------------------------------------------------------------

    async def _report(self, consumer: AIOKafkaConsumer) -> None:
        now = time.monotonic()
        if now - self._committed > _GROUP_COMMIT_S and self._is_aligned:
            self._committed = now
            offsets = {self._partition(number): part.offset for number, part in self._parts.items()}
            with contextlib.suppress(KafkaError, asyncio.TimeoutError):  # it is only for onlookers
                await asyncio.wait_for(consumer.commit(offsets), 3.0)
        if now - self._reported > _PROGRESS_S and self.accepted + self.rejected != self._told:
            self._reported, self._told = now, self.accepted + self.rejected
            self._log.info("ingest.progress", accepted=self.accepted, rejected=self.rejected, lag=self.lag())

    def _partition(self, number: int) -> TopicPartition:
        return TopicPartition(self._topics.events, number)

    def _is_assigned(self, number: int) -> bool:
        return self._consumer is not None and self._partition(number) in self._consumer.assignment()
