"""The worker: one process that runs ingest, the planner and the web views under one Faust app.

Before anything runs it checks whether it may: settings, services, topics, and that Redis and the releases topic do not
contradict each other. An error after which one of its services cannot go on ends the process, with one sentence and an
exit code; there is no half-working worker.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import faust
from aiokafka.errors import KafkaError

from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.core.state import State
from shoal.streams.errors import GuaranteeError, LostError, ServiceError, StreamsError
from shoal.streams.files.not_built import check_buildable
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.ingest import Ingest
from shoal.streams.kafka.companions import check_companions, state_name
from shoal.streams.kafka.entry import enter, events_id, require
from shoal.streams.kafka.record_limit import set_limit
from shoal.streams.kafka.refusal import is_refusal, unreachable
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.rights import refused, worker_rights
from shoal.streams.log import configure_log, get_log
from shoal.streams.settings import Settings
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.keys import BEGINNING
from shoal.streams.store.meta import Identity, TableMeta, check_identity, identity_of
from shoal.streams.store.shard_table import is_whole
from shoal.streams.store.store import Store
from shoal.streams.vitals import check_port
from shoal.streams.worker.faust_app import make_app
from shoal.streams.worker.owners import Owners
from shoal.streams.worker.planner import Planner
from shoal.streams.worker.publish import check_story
from shoal.streams.worker.trigger import has_timers
from shoal.streams.worker.web import add_views

_STOP_S = 15.0
_LOOKS = 3
_PATIENCE = 150
_LATE_S = 5.0  # how much longer than a session a worker that was killed, or its state rebuilt, may be seen as it was


def run_worker(settings: Settings, *, debug: bool = False) -> int:
    """Run until a signal ends it, and return 0. Raises StreamsError, with its exit code, if anything else ends it."""
    configure_log(settings.log_format, settings.log_level, debug=debug)
    set_limit(settings.max_record)
    # A release is planned in a thread; this gives the event loop, and so the heartbeats, its turn ten times as often.
    sys.setswitchinterval(0.0005)
    # Ingest makes and drops a dozen objects an event, none in a cycle; by default Python searches every 700.
    gc.set_threshold(200_000, 20, 100)
    policy = load_policy(settings.policy_path)
    return asyncio.run(_run(settings, policy))


async def _run(settings: Settings, policy: Policy) -> int:
    log = get_log(table=policy.table)
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), meaning_of(policy), policy.shards)
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def end(error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result(error)

    with _signals(end):
        try:
            preparing: asyncio.Future[Any] = asyncio.ensure_future(prepare(settings, policy, store))
            await asyncio.wait({preparing, outcome}, return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                preparing.cancel()
                return 0
            partitions = preparing.result()
            log.info("worker.start", partitions=partitions, redis=without_secret(settings.redis), pid=os.getpid())
            async with _services(settings, policy, store, partitions, end):
                error = await outcome
            if error is not None:
                raise await _explain(error, settings, policy, store)
            log.info("worker.stop")
        finally:
            await store.close()
    return 0


async def prepare(settings: Settings, policy: Policy, store: Store) -> int:
    """Check everything that must be true before the first event is read; returns the number of events partitions.

    Raises ServiceError (Kafka or Redis cannot be reached), InputError (the table was begun under other settings),
    GuaranteeError (lost state). Begins the table if neither Redis nor the releases topic knows it.
    """
    table, servers = policy.table, settings.kafka_servers
    check_buildable(policy, settings)
    check_port(settings)
    await store.connect(settings.connect_s)
    if not settings.embedded:
        await _check_durability(store)
    rights = worker_rights(table, has_clock=has_timers(policy), shards=policy.shards)
    has_snapshots = policy.snapshot is not None
    partitions, remarks = await enter(
        settings, table, rights, checks_topics=True, has_snapshots=has_snapshots, shards=policy.shards
    )
    for remark in remarks:
        get_log(table=table).warning("topic.risky", topic=remark.topic, setting=remark.setting, reason=remark.reason)
    identity = identity_of(settings, policy, store.cipher, await events_id(settings, table))
    try:
        meta: TableMeta | None = None
        for look in range(_LOOKS):
            meta = await store.meta()
            if meta is not None:
                check_identity(meta, identity, partitions, table)
            try:
                check_story(table, meta, await last_committed(servers, table))
                if meta is not None and not await is_whole(store, meta):
                    raise _part_lost(table)
            except GuaranteeError:
                # Another worker may have published between the two readings; then the next look finds no fault.
                if look == _LOOKS - 1:
                    raise
                await asyncio.sleep(1.0)
            else:
                break
        if meta is None:
            await _begin(store, policy, settings, identity, partitions)
        else:
            await store.write_under_first_key(meta)
        await check_companions(settings, table, state_name(await store.created()), settings.session_s + _LATE_S)
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), table) from error
    return partitions


async def _check_durability(store: Store) -> None:
    log = get_log(table=store.table)
    lacking = await store.check_server()
    if lacking is None:
        log.warning("redis.unchecked", reason="it does not answer CONFIG GET, so its durability could not be checked")
    for name in lacking or ():
        log.warning("redis.forgetful", setting=name)


async def _begin(store: Store, policy: Policy, settings: Settings, identity: Identity, partitions: int) -> None:
    """The first start of a table, or the first after a loss before anything was published."""
    if await store.begin_once():
        await store.wipe(keep=BEGINNING)  # what an interrupted rebuild may have left
        await store.create(identity, partitions, time.time(), State.empty(policy, settings.key_bytes).meta)
    for _ in range(_PATIENCE):
        meta = await store.meta()
        if meta is not None:
            check_identity(meta, identity, partitions, policy.table)
            return
        await asyncio.sleep(0.2)  # another worker is creating it
    raise ServiceError(f"another worker did not finish beginning table {policy.table} in Redis; try again in a minute")


@asynccontextmanager
async def _services(settings: Settings, policy: Policy, store: Store, partitions: int, end: Any) -> AsyncIterator[None]:
    ingest = Ingest(settings, policy, store, partitions, end)
    planner = Planner(settings, policy, store, partitions, end)
    owners = Owners(settings, policy, store, partitions, end) if policy.shards > 1 else None
    app = make_app(settings, policy, planner)
    add_views(app, settings, policy, store, ingest, planner, owners)
    # Faust starts the app's dependencies in this order, and stops them in reverse.
    app.add_dependency(ingest)
    if owners is not None:
        app.add_dependency(owners)
    app.add_dependency(planner)
    running = asyncio.ensure_future(_start(app, end))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        try:
            await asyncio.wait_for(app.stop(), _STOP_S)
        except TimeoutError:
            get_log(table=policy.table).warning("worker.stop", reason="some connections did not close in time")


async def _start(app: faust.App, end: Any) -> None:
    """Start the app and watch it: after a crash of one of its own services Faust would only note it."""
    try:
        await app.start()
        await app.wait_until_stopped()
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - it ends the worker, which says so
        end(error)
    else:
        end(app.crash_reason or RuntimeError("the app stopped"))


class _signals:  # noqa: N801 - a context manager, used like a function
    """Ctrl-C and SIGTERM end the worker in good order."""

    def __init__(self, end: Any) -> None:
        self._end = end
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._end, None)

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.remove_signal_handler(number)


async def _explain(error: BaseException, settings: Settings, policy: Policy, store: Store) -> BaseException:
    """The error to show the operator for the one that ended the worker."""
    if is_refusal(error):  # it was granted when the worker started
        try:
            rights = worker_rights(policy.table, has_clock=has_timers(policy), shards=policy.shards)
            await require(settings, policy.table, rights)
        except StreamsError as found:
            return found
        return refused(settings.kafka_servers, [f"what was taken away from it ({type(error).__name__})"])
    if isinstance(error, KafkaError):  # our services wait for Kafka to come back; Faust, while it starts, does not
        return unreachable(settings.kafka_servers)
    if isinstance(error, RedisError):  # one that does not pass by itself
        return explain(error, without_secret(settings.redis), policy.table)
    if isinstance(error, StreamsError) or not isinstance(error, LostError):
        return error
    try:
        meta: TableMeta | None = await store.meta()
        check_story(policy.table, meta, await last_committed(settings.kafka_servers, policy.table))
    except StreamsError as found:
        return found
    except RedisError as found:
        return explain(found, without_secret(settings.redis), policy.table)
    if meta is not None:
        return _part_lost(policy.table)
    return GuaranteeError(
        f"Redis lost the state of table {policy.table} while the worker ran; nothing of it was published yet, so start "
        "the worker again and it begins from the first event"
    )


def _part_lost(table: str) -> GuaranteeError:
    return GuaranteeError(
        f"Redis lost a part of the state of table {table}: nothing is published until `shoal rebuild` has brought it "
        "back"
    )
