"""Entering a cluster: topics made where they are missing, rights asked for, settings of topics looked at."""

from collections.abc import Sequence

from shoal.streams.kafka.cluster import describe
from shoal.streams.kafka.rights import TOPIC, Right, check_rights
from shoal.streams.kafka.topic_rules import Remark, check_topics
from shoal.streams.kafka.topics import Topics, admin_client, ensure_topics
from shoal.streams.settings import Settings


async def enter(
    settings: Settings,
    table: str,
    rights: Sequence[Right],
    *,
    checks_topics: bool = False,
    has_snapshots: bool = False,
    shards: int = 1,
) -> tuple[int, list[Remark]]:
    """Returns the number of partitions of the events topic and, with `checks_topics`, what to warn about. With
    `has_snapshots` events may be deleted after a while.

    Raises ServiceError if Kafka cannot be reached, InputError if it does not let this client in, if one of `rights` is
    missing, or if a topic cannot be worked with. The embedded broker knows neither rights nor settings.
    """
    servers, within_s = settings.kafka_servers, settings.connect_s
    if rights and not settings.embedded:
        await require(settings, table, rights)  # before topics are made: a refused topic is not a missing one
    partitions = await ensure_topics(
        servers, table, settings.partitions, settings.replication, shards=shards, within_s=within_s,
        embedded=settings.embedded,
    )  # fmt: skip
    if settings.embedded:
        return partitions, []
    async with admin_client(servers, within_s) as admin:
        cluster = await describe(admin, _named(table, rights, shards))
        await check_rights(admin, servers, cluster, rights)
        if not checks_topics:
            return partitions, []
        names, copies = Topics(table).with_shards(shards), settings.replication
        return partitions, await check_topics(admin, table, cluster, copies, names, has_snapshots=has_snapshots)


async def events_id(settings: Settings, table: str) -> str:
    """Kafka's id of the events topic, empty where the broker does not say. Raises ServiceError."""
    if settings.embedded:
        return ""
    topic = Topics(table).events
    async with admin_client(settings.kafka_servers, settings.connect_s) as admin:
        return (await describe(admin, [topic])).topics[topic].id


def _named(table: str, rights: Sequence[Right], shards: int = 1) -> list[str]:
    """The table's topics, and those of others that a right is about."""
    return [
        *dict.fromkeys((*Topics(table).with_shards(shards), *(right.name for right in rights if right.kind == TOPIC)))
    ]


async def require(settings: Settings, table: str, rights: Sequence[Right]) -> None:
    """Raises InputError that names every right that is missing, on topics that exist. Raises ServiceError."""
    async with admin_client(settings.kafka_servers, settings.connect_s) as admin:
        cluster = await describe(admin, _named(table, rights))
        await check_rights(admin, settings.kafka_servers, cluster, rights)
