"""The rights on a broker with an authorizer: the fewest that each role needs, and which of them are missing.

The table in docs/operating.md, "Least rights", says the same, and a test grants exactly that. All rights are checked
before the first record is read, so a missing right is an error at the start, not in the middle of a release.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import CoordinationType
from aiokafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)

from shoal.streams.errors import InputError
from shoal.streams.kafka.cluster import TOPIC_REFUSED, Cluster
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Brokers

TOPIC, GROUP, TRANSACTION = "topic", "group", "transactional id"
# Kafka's numbers of the operations.
_NUMBERS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
_ALL = "*"
_LOOKS, _PAUSE_S = 25, 0.2


class Right(NamedTuple):
    """An operation on a resource. A name that ends in `*` means every name that begins so (Kafka: prefixed)."""

    operation: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}"


def worker_rights(table: str, *, has_clock: bool = True, shards: int = 1) -> list[Right]:
    """What the worker, a rebuild and an upgrade need on topics that exist; `has_clock` if the policy has triggers."""
    topics = Topics(table)
    everything = (topics.events, topics.external, topics.triggers, topics.releases, topics.dead_letter)
    written = (topics.releases, topics.dead_letter, *((topics.triggers,) if has_clock else ()))
    return [
        *(Right("Read", TOPIC, name) for name in everything),
        *(Right("DescribeConfigs", TOPIC, name) for name in everything),
        *(Right("Write", TOPIC, name) for name in written),
        Right("Read", GROUP, topics.ingest_group),
        Right("Read", GROUP, topics.trigger_group),
        Right("Write", TRANSACTION, topics.publisher),
        Right("Write", TRANSACTION, topics.dead_letter_producer(_ALL)),
        *(_owner_rights(topics) if shards > 1 else ()),
    ]


def _owner_rights(topics: Topics) -> list[Right]:
    """What a worker needs besides, to own shards."""
    return [
        Right("Read", TOPIC, topics.shards),
        Right("DescribeConfigs", TOPIC, topics.shards),
        Right("Read", GROUP, topics.owners_group),
        Right("Write", TRANSACTION, topics.parts_producer(_ALL)),
    ]


def source_rights(table: str, captured: Iterable[str]) -> list[Right]:
    """What `shoal source` needs on topics that exist; `captured` are those of the database's tables."""
    topics = Topics(table)
    return [
        *(Right("Read", TOPIC, name) for name in captured),
        *(Right("Write", TOPIC, name) for name in (topics.events, topics.dead_letter)),
        Right("Read", GROUP, topics.source),
        Right("Write", TRANSACTION, topics.source),
    ]


def consumer_rights(table: str) -> list[Right]:
    """What `shoal releases` and `shoal snapshot` need, and `shoal restore` with shards."""
    return [Right("Read", TOPIC, Topics(table).releases)]


def letter_rights(table: str) -> list[Right]:
    """What `shoal dead-letters` needs, and `shoal produce --wait` to report rejects."""
    return [Right("Read", TOPIC, Topics(table).dead_letter)]


def inspector_rights(table: str) -> list[Right]:
    """What `shoal inspect` needs: it reads releases, changes of policy, and where the other topics begin and end."""
    topics = Topics(table)
    others = (topics.events, topics.external, topics.dead_letter)
    read = (topics.releases, topics.triggers)
    return [*(Right("Read", TOPIC, name) for name in read), *(Right("Describe", TOPIC, name) for name in others)]


async def check_rights(
    admin: AIOKafkaAdminClient, servers: Sequence[str], cluster: Cluster, rights: Iterable[Right]
) -> None:
    """Raises InputError that names every right that is missing. `cluster` describes the topics. Raises KafkaError."""
    missing = [right for right in rights if not await _has(admin, cluster, right)]
    if missing:
        raise refused(servers, missing)


def refused(servers: Sequence[str], missing: Iterable[Right | str]) -> InputError:
    """The sentence for rights that are missing."""
    return InputError(f"Kafka does not let {who(servers)} do what it must: grant {'; '.join(map(str, missing))}")


def who(servers: Sequence[str]) -> str:
    """The client's name, as far as it is known here."""
    name = servers.settings.kafka_sasl_username if isinstance(servers, Brokers) else None
    return "this client" if name is None else f"user {name}"


async def _has(admin: AIOKafkaAdminClient, cluster: Cluster, right: Right) -> bool:
    if right.kind == TOPIC:
        topic = cluster.topics.get(right.name)
        if topic is None or topic.error:  # such a topic, refused or still to be made, says nothing of single operations
            return topic is None or topic.error != TOPIC_REFUSED
        return topic.allowed is None or _NUMBERS[right.operation] in topic.allowed
    if right.kind == GROUP:
        return await _has_group(admin, right)
    # Whoever may write with an id may find its coordinator. `*` stands for the numbers of partitions.
    return await _finds(admin, CoordinationType.TRANSACTION, right.name.replace(_ALL, "0"))


async def _has_group(admin: AIOKafkaAdminClient, right: Right) -> bool:
    if not await _finds(admin, CoordinationType.GROUP, right.name):
        return False
    try:
        described: Any = await admin.describe_consumer_groups([right.name], include_authorized_operations=True)
    except GroupAuthorizationFailedError:
        return False
    except KafkaError:
        return True  # a broker that does not say
    allowed = described[0].to_object()["groups"][0].get("authorized_operations", -(2**31))
    return bool(allowed == -(2**31) or allowed >> _NUMBERS[right.operation] & 1)


async def _finds(admin: AIOKafkaAdminClient, kind: Any, name: str) -> bool:
    for _ in range(_LOOKS):
        try:
            await admin._client.coordinator_lookup(kind, name)
        except (GroupAuthorizationFailedError, TransactionalIdAuthorizationFailed):
            return False
        except CoordinatorNotAvailableError:  # a new cluster makes the topic behind it when it is first asked for
            await asyncio.sleep(_PAUSE_S)
        else:
            break
    return True
