"""`shoal doctor`: makes every check that a worker makes before it starts, and begins nothing.

A worker stops at the first thing that is wrong. Here every check reports its result. A check that cannot be made
because an earlier one failed says so. The only write tries the rights on Redis: a key that is removed at once.
"""

import platform
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from shoal import __version__
from shoal.core.policy.policy import Policy
from shoal.core.state import ENGINE
from shoal.streams.errors import GuaranteeError, StreamsError
from shoal.streams.kafka.cluster import NO_ERROR, UNKNOWN_TOPIC, Cluster, describe
from shoal.streams.kafka.entry import events_id
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.rights import check_rights, worker_rights
from shoal.streams.kafka.topic_rules import check_topics
from shoal.streams.kafka.topics import Topics, admin_client, partition_counts
from shoal.streams.settings import Settings
from shoal.streams.store.address import access_of
from shoal.streams.store.connection import RedisError, explain, without_secret
from shoal.streams.store.encryption import make_cipher
from shoal.streams.store.meta import check_identity, identity_of
from shoal.streams.store.shard_table import is_whole
from shoal.streams.store.store import Store
from shoal.streams.worker.publish import check_story
from shoal.streams.worker.trigger import has_timers

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "failed", "skipped"
# What each extra brings, to tell whether it is installed.
_EXTRAS: Final = {"analysis": "duckdb", "avro": "fastavro", "postgres": "psycopg", "demo": "confluent_kafka"}
_WITHIN_S: Final = 5.0


class Finding(NamedTuple):
    """One line: what was looked at, how it is, a sentence, and for a failure its exit code."""

    what: str
    verdict: str
    sentence: str
    code: int = 0


class Examined(NamedTuple):
    """What a check that did not fail says, and what it warns of."""

    sentence: str
    warnings: Sequence[str] = ()


Check = Callable[[], Awaitable[Examined]]


def versions() -> Finding:
    """What runs here."""
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in ("aiokafka", "redis", "faust-streaming"))
    extras = ", ".join(extra for extra, package in _EXTRAS.items() if find_spec(package) is not None)
    ours = f"shoal {__version__}, engine {ENGINE}, Python {platform.python_version()} on {sys.platform}"
    return Finding("versions", OK, f"{ours}, {packages}; extras: {extras or 'none'}")


async def examine(settings: Settings, policy: Policy) -> AsyncIterator[Finding]:
    """Every check in turn. What is wrong is a finding, not an error."""
    cipher = make_cipher(settings.state_key_bytes)
    store = Store(settings.redis, policy.table, cipher, access_of(settings), shards=policy.shards)
    kafka = _Kafka(settings, policy)
    checks: Mapping[str, tuple[Check, Sequence[str]]] = {
        "Kafka": (kafka.reach, ()),
        "Kafka rights": (kafka.rights, ("Kafka",)),
        "topics": (kafka.topics, ("Kafka rights",)),
        "Redis": (partial(_reach_redis, settings, store), ()),
        "durability": (partial(_durability, store), ("Redis",)),
        "state": (partial(_compare, settings, policy, store), ("Kafka rights", "Redis")),
    }
    wrong: set[str] = set()
    try:
        for what, (check, needed) in checks.items():
            if missing := [name for name in needed if name in wrong]:
                wrong.add(what)
                yield Finding(what, SKIPPED, f"cannot be looked at before this is right: {', '.join(missing)}")
                continue
            try:
                found = await check()
            except StreamsError as error:
                wrong.add(what)
                yield Finding(what, FAILED, str(error), error.exit_code)
                continue
            yield Finding(what, OK, found.sentence)
            for warning in found.warnings:
                yield Finding(what, WARNING, warning)
    finally:
        await store.close()


class _Kafka:
    """The checks of the brokers, of which each asks anew."""

    def __init__(self, settings: Settings, policy: Policy) -> None:
        self._settings, self._policy = settings, policy
        self._names = list(Topics(policy.table).with_shards(policy.shards))
        self._within_s = min(_WITHIN_S, settings.connect_s)

    async def reach(self) -> Examined:
        cluster = await self._describe()
        where = ", ".join(self._settings.kafka_servers)
        return Examined(f"{cluster.brokers} broker{'' if cluster.brokers == 1 else 's'} at {where}")

    async def rights(self) -> Examined:
        policy = self._policy
        asked = worker_rights(policy.table, has_clock=has_timers(policy), shards=policy.shards)
        servers = self._settings.kafka_servers
        async with admin_client(servers, self._within_s) as admin:
            await check_rights(admin, servers, await describe(admin, self._names), asked)
        return Examined("a worker may do what it must")

    async def topics(self) -> Examined:
        async with admin_client(self._settings.kafka_servers, self._within_s) as admin:
            cluster = await describe(admin, self._names)
            copies, has_snapshots = self._settings.replication, self._policy.snapshot is not None
            table, names = self._policy.table, self._names
            remarks = await check_topics(admin, table, cluster, copies, names, has_snapshots=has_snapshots)
        missing = [name for name in self._names if cluster.topics[name].error == UNKNOWN_TOPIC]
        there = sum(facts.error == NO_ERROR for facts in cluster.topics.values())
        made = f"; a worker will make {', '.join(missing)}" if missing else ""
        return Examined(
            f"{there} of {len(self._names)} are there{made}",
            [f"{remark.topic}: {remark.setting}: {remark.reason}" for remark in remarks],
        )

    async def _describe(self) -> Cluster:
        async with admin_client(self._settings.kafka_servers, self._within_s) as admin:
            return await describe(admin, self._names)


async def _reach_redis(settings: Settings, store: Store) -> Examined:
    await store.connect(min(_WITHIN_S, settings.connect_s))
    version = await store.server_version()
    return Examined(f"{version or 'a server that does not say its version'} at {without_secret(settings.redis)}")


async def _durability(store: Store) -> Examined:
    lacking = await store.check_server()
    if lacking is None:
        return Examined("not known", ["Redis does not answer CONFIG GET, so its durability could not be checked"])
    return Examined(
        "Redis does not evict keys", [f"Redis may forget what it has acknowledged: set {name}" for name in lacking]
    )


async def _compare(settings: Settings, policy: Policy, store: Store) -> Examined:
    """Whether Redis and the releases topic tell one story, and the settings are those that the table began with."""
    table = policy.table
    try:
        meta = await store.meta()
        last = await _last_release(settings, table)
        check_story(table, meta, last)
        if meta is None:
            return Examined(f"table {table} has not begun")
        if settings.key is not None:
            identity = identity_of(settings, policy, store.cipher, await events_id(settings, table))
            partitions = (await partition_counts(settings.kafka_servers, _WITHIN_S)).get(Topics(table).events, 0)
            check_identity(meta, identity, partitions, table)
        if not await is_whole(store, meta):
            raise GuaranteeError(f"Redis lost a part of the state of table {table}; `shoal rebuild` brings it back")
    except RedisError as error:
        raise explain(error, without_secret(settings.redis), table) from error
    return Examined(f"Redis and the topic of table {table} are at release {meta.sent}")


async def _last_release(settings: Settings, table: str) -> ManifestRecord | None:
    async with admin_client(settings.kafka_servers, _WITHIN_S) as admin:
        topic = Topics(table).releases
        if (await describe(admin, [topic])).topics[topic].error == UNKNOWN_TOPIC:
            return None
    try:
        return await last_committed(settings.kafka_servers, table)
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error
