"""The planner's clocks: they send a trigger when the policy wants a release, as `shoal release` does."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from aiokafka import AIOKafkaProducer

from shoal.core.policy.policy import Policy
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.partition_reader import open_reader, stop_client
from shoal.streams.kafka.topics import Topics
from shoal.streams.log import get_log
from shoal.streams.settings import Settings
from shoal.streams.store.store import Store
from shoal.streams.worker.external import Gathered
from shoal.streams.worker.steady_clock import Elapsed, SteadyClock
from shoal.streams.worker.trigger import Clock, due, has_timers, not_before, request

_TICK_S = 0.25
_ASK_AGAIN_S = 30.0


class Progress(Protocol):
    """What the clocks read of the planner."""

    release: int
    is_planning: bool


async def keep_time(settings: Settings, policy: Policy, store: Store, progress: Progress) -> None:
    """Run until cancelled; returns at once if the policy has no clock. Raises KafkaError, RedisError, LostError.

    A trigger names the release it wants. Should it be sent twice, the second makes nothing.
    """
    if not has_timers(policy):
        return
    log, servers, topics = get_log(table=policy.table), settings.kafka_servers, Topics(policy.table)
    producer = AIOKafkaProducer(**client_options(servers), acks="all", enable_idempotence=True)
    await producer.start()
    asked, asked_at = 0, 0.0
    steady = SteadyClock()
    elapsed = Elapsed(steady)
    try:
        async with open_reader(servers) as consumer:
            gathered = Gathered(consumer, servers, topics, policy)
            while True:
                await asyncio.sleep(_TICK_S)
                wanted = progress.release + 1
                if progress.is_planning or (asked == wanted and time.monotonic() - asked_at < _ASK_AGAIN_S):
                    continue
                clock = await read_clock(store, wanted, steady.now(), elapsed)
                if policy.triggers.every_events is not None:
                    others = await gathered.count(await store.external_offsets())
                    clock = clock._replace(accepted=clock.accepted + others)
                cause = due(policy, clock)
                if cause is not None:
                    log.info("trigger.due", release=wanted, cause=cause)
                    at = not_before(clock.now, await store.last_at())
                    await producer.send_and_wait(topics.triggers, request(at, wanted), partition=0)
                    asked, asked_at = wanted, time.monotonic()
    finally:
        await stop_client(producer)


async def read_clock(store: Store, release: int, now: datetime, elapsed: Elapsed) -> Clock:
    """The time, the last trigger's time, and the events that wait for `release`. Raises LostError."""
    waiting = await store.waiting(release)
    elapsed_s, last = elapsed.look(release, datetime.fromtimestamp(waiting.last_s, UTC), now)
    return Clock(now, last, waiting.accepted, elapsed_s)
