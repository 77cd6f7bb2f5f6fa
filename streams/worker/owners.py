"""The shards that this worker owns: taken and released as Kafka assigns them, and worked on one after the other.

Nobody writes to the topic `shoal.<table>.shards`: the consumer group of its partitions only assigns shards to workers.
Ownership is proved in Redis by a token for each shard, and in Kafka by a transactional id. A shard that is assigned
again stays in memory if its token is unchanged.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from mode import Service

from shoal.core.policy.policy import Policy
from shoal.streams.errors import FencedError, LostError, ServiceError
from shoal.streams.intake.state_watch import StateWatch
from shoal.streams.kafka.group_consumer import open_group_consumer
from shoal.streams.kafka.partition_reader import stop_client
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.sealed import Announcements
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.prometheus import RECONNECTS
from shoal.streams.settings import Settings
from shoal.streams.store.connection import RedisError, is_passing, patiently, pause_s
from shoal.streams.store.course import Course, read_course, waited_for, word_of
from shoal.streams.store.keys import shard_label
from shoal.streams.store.release_log import DisturbedError
from shoal.streams.store.shard_records import read_shard_records
from shoal.streams.store.store import Store
from shoal.streams.worker.failure_report import StepFailedError
from shoal.streams.worker.instance import Instance, instance_of
from shoal.streams.worker.shard_owner import ShardOwner
from shoal.streams.worker.together import Together

_IDLE_S: Final = 0.05
_BUSY_S: Final = 0.01  # while a release is under way and a shard waits for it
_PAUSE_S: Final = 0.3


class Owners(Service, ConsumerRebalanceListener):
    """The service. `fail` is called with the error after which this worker cannot go on."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, fail: Callable[[BaseException], None]
    ) -> None:
        super().__init__()
        self._settings, self._policy, self._store, self._fail = settings, policy, store, fail
        self._partitions, self._topics = partitions, Topics(policy.table)
        self._consumer: AIOKafkaConsumer | None = None
        self._assigned: frozenset[int] | None = None  # None while a rebalance is under way
        self._owners: dict[int, ShardOwner] = {}
        self._running: dict[int, asyncio.Task[None]] = {}  # a step of a shard, by shard
        self._together = Together(Announcements(settings.kafka_servers, policy.table))
        self._not_before: dict[int, float] = {}
        self._course: Course | None = None  # as last seen
        self._people: Mapping[int, int] = {}  # of every shard, after the last release
        self._late: dict[int, float] = {}  # since when a release has waited for a shard
        self._state = StateWatch(store, self._on_retry)
        self._instance = Instance(store, instance_of(settings))
        self._is_checked = True  # whether the tokens of the shards that were kept have been checked
        self._attempt = 0
        self._log = get_log(table=policy.table)

    # -- what the web views ask ---------------------------------------------------------------------------------------

    @property
    def owned(self) -> list[int]:
        """The shards that are this worker's."""
        return sorted(self._owners)

    @property
    def words(self) -> Mapping[int, str]:
        """Where every shard of the table is, this worker's or not, as Redis last said."""
        course = self._course
        return {} if course is None else {shard: word_of(course, shard) for shard in range(self._store.shards)}

    @property
    def failures(self) -> Mapping[int, str]:
        """Why shards cannot be planned, by shard."""
        return {} if self._course is None else self._course.failed

    @property
    def people(self) -> Mapping[int, int]:
        """How many people every shard has, absent ones included, after the last release."""
        return self._people

    @property
    def waited_for_s(self) -> Mapping[int, float]:
        """For how long the release under way has waited for each shard, this worker's or not."""
        now = time.monotonic()
        return {shard: now - self._late.get(shard, now) for shard in self.words}

    @property
    def is_loaded(self) -> bool:
        """Whether every shard assigned to this worker is its own in Redis, too."""
        return self._assigned is not None and self._assigned == self._owners.keys()

    # -- the service --------------------------------------------------------------------------------------------------

    @Service.task
    async def _join(self) -> None:
        """Stay a member of the group, whatever step the work is in."""
        await self._until_stopped(self._belong)

    @Service.task
    async def _work(self) -> None:
        await self._until_stopped(self._turn)

    async def _until_stopped(self, turn: Callable[[], Any]) -> None:
        try:
            while not self.should_stop:
                await turn()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - after any error the worker must end, not go on without shards
            self._fail(error)

    async def on_stop(self) -> None:
        consumer, self._consumer = self._consumer, None
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        await self._close()
        if consumer is not None:
            await stop_client(consumer)

    def on_partitions_revoked(self, revoked: Any) -> None:  # noqa: ARG002 - all of them, always
        """Called by aiokafka as a rebalance begins."""
        self._assigned = None

    def on_partitions_assigned(self, assigned: Any) -> None:
        """Called by aiokafka, which sends no heartbeats meanwhile; so nothing is loaded here."""
        self._assigned, self._is_checked = frozenset(partition.partition for partition in assigned), False
        self._log.info("shards.assigned", shards=sorted(self._assigned))

    async def _belong(self) -> None:
        try:
            if self._consumer is None:
                servers, session_s = self._settings.kafka_servers, self._settings.session_s
                name, group = await self._state.name(), self._topics.owners_group
                await patiently(self._instance.claim, self._on_retry)
                self._consumer = await open_group_consumer(
                    servers, self._topics.shards, group, name, session_s, self, "latest", self._instance.name
                )
            await patiently(partial(self._instance.check, soon=self._assigned is None), self._on_retry)
            await self._consumer.getmany(timeout_ms=0)  # nothing ever comes; raises what went wrong with the group
            if await self._state.has_changed():
                await self._leave()
        except KafkaError as error:
            if is_refusal(error):
                raise
            RECONNECTS.labels("kafka", "shards").inc()
            self._log.warning("kafka.retry", step="shards", error=type(error).__name__)
            await self._leave()
        await self.sleep(_PAUSE_S)

    async def _leave(self) -> None:
        consumer, self._consumer, self._assigned = self._consumer, None, None
        if consumer is not None:
            await stop_client(consumer)

    # -- the work -----------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Look once, begin the next step of each shard, and wait until one step is done."""
        assigned = self._assigned
        if assigned is None:
            await self.sleep(_IDLE_S)
            return
        try:
            await self._own(assigned)
            course = await self._look()
            for number in sorted(self._waiting(assigned)):
                if self._owners[number].next(course) is not None:
                    self._running[number] = asyncio.create_task(self._advance(number, course))
            await self._collect(pause_between_looks_s(course, has_waiting=bool(self._waiting(assigned))))
            self._attempt = 0
        except (RedisError, KafkaError, ServiceError, OSError) as error:
            if is_refusal(error) or (isinstance(error, RedisError) and not is_passing(error)):
                raise
            self._attempt += 1
            RECONNECTS.labels("redis" if isinstance(error, RedisError) else "kafka", "shards").inc()
            if self._attempt in (1, 5) or self._attempt % 30 == 0:
                self._log.warning("shards.retry", error=type(error).__name__, attempt=self._attempt)
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            self._running.clear()
            await self._close()  # a producer cannot be used after an error
            await self.sleep(pause_s(self._attempt))

    def _waiting(self, assigned: frozenset[int]) -> frozenset[int]:
        """The shards of this worker that are not in the middle of a step."""
        return frozenset(self._owners.keys() & assigned - self._running.keys())

    async def _look(self) -> Course:
        """How far the release under way has come."""
        course = await patiently(partial(read_course, self._store), self._on_retry)
        if self._course is None or self._course.number != course.number:
            records = await read_shard_records(self._store)
            self._people = {shard: records.counts(shard).people for shard in range(self._store.shards)}
            self._late = {}
        now, late = time.monotonic(), waited_for(course, self._store.shards)
        self._late = {shard: self._late.get(shard, now) for shard in late}
        self._course = course
        return course

    async def _close(self) -> None:
        for owner in self._owners.values():
            await owner.close()
        await self._together.announcements.close()

    async def _collect(self, within_s: float) -> None:
        """Wait until a step is done, if there is one, or for a moment; raises what a step has raised."""
        if not self._running:
            await self.sleep(within_s)
            return
        done, _ = await asyncio.wait(self._running.values(), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        over = [number for number, task in self._running.items() if task in done]
        outcomes = [self._running.pop(number).exception() for number in over]
        for error in filter(None, outcomes):
            raise error

    async def _own(self, assigned: frozenset[int]) -> None:
        """Take ownership of the assigned shards. Forget the others, and those that another worker has had since."""
        if not self._is_checked:
            for number in sorted(self._owners.keys() - self._running.keys()):
                try:
                    await self._store.check_owner(shard_label(number), self._owners[number].token)
                except FencedError:
                    await self._drop(number)
            self._is_checked = True
        for number in [number for number in self._owners if number not in assigned and number not in self._running]:
            await self._drop(number)
        for number in sorted(assigned - self._owners.keys()):
            if time.monotonic() >= self._not_before.get(number, 0.0):
                token = await patiently(partial(self._store.own, shard_label(number)), self._on_retry)
                self._owners[number] = ShardOwner(
                    self._settings, self._policy, self._store, self._partitions, number, token, self._together
                )
                self._log.info("shard.owned", shard=number)

    async def _drop(self, number: int) -> None:
        await self._owners.pop(number).close()
        self._log.info("shard.released", shard=number)

    async def _advance(self, number: int, course: Course) -> None:
        owner = self._owners[number]
        try:
            try:
                await owner.advance(course)
            except LostError:
                # A shard that was loaded while another worker applied a release looks like a loss, once.
                await self._store.check_owner(shard_label(number), owner.token)
                raise
        except FencedError:
            # Kafka is about to give it to another worker. If it does not within a session, it is ours after all.
            self._log.warning("shard.fenced", shard=number)
            self._not_before[number] = time.monotonic() + self._settings.session_s + 1.0
            await self._drop(number)
        except StepFailedError:
            await self.sleep(_PAUSE_S)  # it was reported
        except DisturbedError:
            self._log.warning("shard.disturbed", shard=number)
            await self.sleep(_PAUSE_S)

    def _on_retry(self, error: BaseException, attempt: int) -> None:
        RECONNECTS.labels("redis", "shards").inc()
        if attempt in (1, 5) or attempt % 30 == 0:
            self._log.warning("redis.retry", step="shards", error=type(error).__name__, attempt=attempt)


def pause_between_looks_s(course: Course, *, has_waiting: bool) -> float:
    """How long until an owner looks at the release again. It looks more often from the freeze on, while some shard of
    this worker waits for the others. A shard in the middle of a step needs no look: the worker wakes when it ends.
    """
    is_under_way = course.is_frozen or course.is_sealed
    return _BUSY_S if is_under_way and has_waiting else _IDLE_S
