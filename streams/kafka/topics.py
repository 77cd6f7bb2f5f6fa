"""The topics of one table: their names, how they are created, and how many partitions they have."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from shoal.streams.errors import InputError, ServiceError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.cluster import NO_ERROR, UNKNOWN_TOPIC, describe
from shoal.streams.kafka.refusal import is_refusal, unreachable, why_refused

# Everything is kept: a rebuild replays the events, and an attacker who has copied an old release has it for ever.
_KEEP = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
# A dead letter is the original record and some headers, so it must be allowed to be longer than any original.
LONGEST_DEAD_LETTER = 16 * 1024 * 1024
_BROKERS_DEFAULT = -1
_REFUSALS = (TopicAuthorizationFailedError, ClusterAuthorizationFailedError)
# A broker that has just come back may not know its topics yet. A consumer that joins a group then is assigned nothing
# until it asks again; the libraries ask every five minutes.
METADATA_MAX_AGE_MS = 5_000
_CLOSE_S = 3.0


@dataclass(frozen=True)
class Topics:
    """The names of a table's topics."""

    table: str

    @property
    def events(self) -> str:
        return f"shoal.{self.table}.events"

    @property
    def external(self) -> str:
        return f"shoal.{self.table}.external"

    @property
    def triggers(self) -> str:
        return f"shoal.{self.table}.triggers"

    @property
    def releases(self) -> str:
        """Partition s has what shard s publishes, the first one the manifests as well."""
        return f"shoal.{self.table}.releases"

    @property
    def dead_letter(self) -> str:
        return f"shoal.{self.table}.dead-letter"

    @property
    def shards(self) -> str:
        """Never written to: its partitions say which worker owns which shard."""
        return f"shoal.{self.table}.shards"

    @property
    def all(self) -> tuple[str, ...]:
        """Those of every table."""
        return (self.events, self.external, self.triggers, self.releases, self.dead_letter)

    def with_shards(self, shards: int) -> tuple[str, ...]:
        """Those of a table that is cut into so many shards."""
        return self.all if shards == 1 else (*self.all, self.shards)

    @property
    def ingest_group(self) -> str:
        return f"shoal.{self.table}.ingest"

    @property
    def trigger_group(self) -> str:
        return f"shoal.{self.table}.triggers"

    @property
    def owners_group(self) -> str:
        return f"shoal.{self.table}.shards"

    @property
    def publisher(self) -> str:
        """The transactional id under which releases are published."""
        return f"shoal.{self.table}.publisher"

    @property
    def source(self) -> str:
        """The transactional id of `shoal source`, and the group under which it commits how far it has read."""
        return f"shoal.{self.table}.source"

    def parts_producer(self, shard: int | str) -> str:
        """The transactional id under which a shard's part of a release is published."""
        return f"shoal.{self.table}.parts.{shard}"

    def dead_letter_producer(self, label: str) -> str:
        """The transactional id of the dead letters of one source, by its label (streams/store/keys.py)."""
        return f"shoal.{self.table}.dead-letter.{label}"


async def ensure_topics(
    servers: list[str],
    table: str,
    partitions: int = 8,
    replication: int | None = None,
    *,
    shards: int = 1,
    within_s: float = 15.0,
    embedded: bool = False,
) -> int:
    """Create the topics that are missing; returns the number of partitions of the events topic, new or not.

    Without `replication` they have as many copies as the broker gives by default. The embedded broker creates topics by
    itself, with a number of partitions of its own. Topics that this client may not see are taken to exist. Raises
    ServiceError if Kafka cannot be reached within `within_s`, InputError if the triggers topic has more than one
    partition, or a topic with a partition for each shard has another number.
    """
    topics = Topics(table)
    wanted = {
        topics.events: (partitions, _KEEP),
        topics.external: (partitions, _KEEP),
        topics.triggers: (1, _KEEP),
        topics.releases: (shards, _KEEP),
        topics.dead_letter: (1, {**_KEEP, "max.message.bytes": str(LONGEST_DEAD_LETTER)}),
    }
    if shards > 1:
        wanted[topics.shards] = (shards, _KEEP)
    async with admin_client(servers, within_s) as admin:
        if embedded:
            return (await _await_topics(admin, list(wanted), within_s))[topics.events]
        found = (await describe(admin, list(wanted))).topics
        missing = [
            _new_topic(name, count, replication, config)
            for name, (count, config) in wanted.items()
            if found[name].error == UNKNOWN_TOPIC
        ]
        if missing:
            await _create(admin, missing)
        seen = [name for name in wanted if found[name].error in (NO_ERROR, UNKNOWN_TOPIC)]
        existing = await _await_topics(admin, seen, within_s)
    if existing.get(topics.triggers, 1) != 1:
        raise InputError(
            f"topic {topics.triggers} has {existing[topics.triggers]} partitions and must have one: its order is the "
            "order of releases"
        )
    for name in (topics.shards, topics.releases):
        if existing.get(name, shards) != shards:
            raise InputError(
                f"topic {name} has {existing[name]} partitions, and the policy has {shards} "
                f"{'shard' if shards == 1 else 'shards'}: the topic has a partition for each shard, and a table keeps "
                "the number of shards that it was begun with"
            )
    return existing.get(topics.events, 0)


async def partition_counts(servers: list[str], within_s: float = 15.0) -> Mapping[str, int]:
    """The number of partitions of every topic."""
    async with admin_client(servers, within_s) as admin:
        return await _partitions(admin)


@asynccontextmanager
async def admin_client(servers: list[str], within_s: float) -> AsyncIterator[AIOKafkaAdminClient]:
    """A connected admin client. Raises ServiceError if it cannot connect within `within_s`, InputError if Kafka does
    not let it in.
    """
    admin = AIOKafkaAdminClient(**client_options(servers), request_timeout_ms=int(1000 * max(1.0, within_s)))
    try:
        await connect_within(admin.start, within_s, servers)
        yield admin
    except KafkaError as error:
        raise unreachable(servers) from error
    finally:
        with contextlib.suppress(asyncio.TimeoutError):  # do not wait for a broker that hangs
            await asyncio.wait_for(admin.close(), _CLOSE_S)


async def connect_within(start: Callable[[], Awaitable[Any]], within_s: float, servers: list[str]) -> None:
    """Call a client's `start` until it works. Raises ServiceError if Kafka cannot be reached in time, InputError as
    soon as it is clear that Kafka does not let this client in, and KafkaError if it lacks a right.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        try:
            await start()
        except KafkaError as error:
            if is_refusal(error):
                raise
            is_late = loop.time() >= deadline
            why = await why_refused(servers, guesses=is_late)
            if is_late or isinstance(why, InputError):
                raise (why or unreachable(servers)) from error
            await asyncio.sleep(0.3)
        else:
            return


async def _partitions(admin: AIOKafkaAdminClient, names: list[str] | None = None) -> dict[str, int]:
    described = await admin.describe_topics(names)
    return {
        topic["topic"]: len(topic["partitions"])
        for topic in described
        if topic["error_code"] == NO_ERROR and topic["partitions"]
    }


async def _await_topics(admin: AIOKafkaAdminClient, names: list[str], within_s: float) -> dict[str, int]:
    """Wait until the broker's metadata has topics that were just created."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        found = await _partitions(admin, names)
        if len(found) == len(names):
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise ServiceError(f"Kafka did not create the topics {', '.join(sorted(set(names) - set(found)))}")
        await asyncio.sleep(0.1)


def _new_topic(name: str, partitions: int, replication: int | None, config: Mapping[str, str]) -> NewTopic:
    topic = NewTopic(name, partitions, replication or 1, topic_configs=config)
    if replication is None:
        topic.replication_factor = _BROKERS_DEFAULT  # set here, for aiokafka's constructor does not take it
    return topic


async def _create(admin: AIOKafkaAdminClient, missing: list[NewTopic]) -> None:
    response = await admin.create_topics(missing, timeout_ms=15_000)
    refused = [topic for topic, code, *_ in response.topic_errors if for_code(code) in _REFUSALS]
    if refused:
        names = ", ".join(sorted(refused))
        raise InputError(f"there are no topics {names}: create them, or grant Create on topic {names}")
    for topic, code, *rest in response.topic_errors:
        error = for_code(code)
        if code != NO_ERROR and error is not TopicAlreadyExistsError:  # another worker may have been quicker
            said = rest[0] if rest and isinstance(rest[0], str) else error.__name__
            raise InputError(f"Kafka does not create topic {topic}: {said}")
