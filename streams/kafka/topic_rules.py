"""Checks topics that somebody else created or changed: refuses those that cannot work, and names the risky ones.

A topic is refused if it would lose a record that a rebuild needs, or if a record could never be written to it. A topic
is reported if something may go wrong later. Events and what others published may be deleted once a snapshot has what
became of them. Without snapshots they must be kept for ever, as releases always must: a new reader needs the whole
chain.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from shoal.streams.errors import InputError
from shoal.streams.kafka.cluster import NO_ERROR, Cluster, TopicFacts
from shoal.streams.kafka.topics import Topics

CLEANUP, RETENTION_MS, RETENTION_BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
LARGEST, IN_SYNC = "max.message.bytes", "min.insync.replicas"
_ASKED = (CLEANUP, RETENTION_MS, RETENTION_BYTES, LARGEST, IN_SYNC)
# A release's records are one group each, and a dead letter is its original with some headers.
_LEAST_RELEASE = 1_000_000
_HEADERS = 4_096


class Remark(NamedTuple):
    """Something to warn about: the topic, its setting, and why."""

    topic: str
    setting: str
    reason: str


async def check_topics(
    admin: AIOKafkaAdminClient,
    table: str,
    cluster: Cluster,
    copies: int | None,
    names: Sequence[str] | None = None,
    *,
    has_snapshots: bool = False,
) -> list[Remark]:
    """Raises InputError for a topic that cannot be worked with, and returns what to warn about.

    `names` are the topics to look at, by default those of a table with one shard; `copies` is SHOAL_REPLICATION,
    `has_snapshots` says whether the policy wants snapshots. Topics whose settings may
    not be read are left out: their right is checked elsewhere. Raises KafkaError.
    """
    topics = Topics(table)
    asked = topics.all if names is None else names
    settings = await _read_settings(admin, [name for name in asked if cluster.topics[name].error == NO_ERROR])
    passing = {topics.triggers, topics.dead_letter, topics.shards}
    passing |= {topics.events, topics.external} if has_snapshots else set()
    remarks: list[Remark] = []
    for name, found in settings.items():
        if wrong := next(_losing(topics, name, found, cluster.topics[name], passing), None):
            raise InputError(f"topic {name} {wrong}")
        remarks += _risks(topics, name, settings, cluster, copies)
    return remarks


def _losing(
    topics: Topics, name: str, found: Mapping[str, str], facts: TopicFacts, passing: Collection[str]
) -> Iterator[str]:
    """`passing` are the topics whose records may be deleted after a while."""
    if "compact" in found[CLEANUP]:
        yield f"is compacted, which loses records: set its {CLEANUP} to delete, and its {RETENTION_MS} to -1"
    for setting in (RETENTION_MS, RETENTION_BYTES) if name not in passing else ():
        if found[setting] != "-1":
            or_snapshots = "" if name == topics.releases else ", or let the policy want snapshots"
            yield (
                f"deletes records after a while ({setting} is {found[setting]}), and must keep all: set it to -1"
                f"{or_snapshots}"
            )
    if int(found[IN_SYNC]) > facts.replicas:
        yield (
            f"can never be written: its {IN_SYNC} is {found[IN_SYNC]}, and it has {facts.replicas} "
            f"{'copy' if facts.replicas == 1 else 'copies'}"
        )


def _risks(
    topics: Topics, name: str, settings: Mapping[str, Mapping[str, str]], cluster: Cluster, copies: int | None
) -> Iterator[Remark]:
    found, facts = settings[name], cluster.topics[name]
    for setting in (RETENTION_MS, RETENTION_BYTES):
        if found[setting] != "-1":
            yield Remark(name, setting, "records are deleted after a while; those behind the oldest snapshot must stay")
    if name == topics.releases and int(found[LARGEST]) < _LEAST_RELEASE:
        yield Remark(name, LARGEST, f"a release may have larger records; set it to {_LEAST_RELEASE} or more")
    if name == topics.dead_letter and topics.events in settings:
        least = int(settings[topics.events][LARGEST]) + _HEADERS
        if int(found[LARGEST]) < least:
            yield Remark(name, LARGEST, f"the largest events do not fit in a dead letter; set it to {least} or more")
    if copies is not None and facts.replicas < copies:
        yield Remark(name, "replication", f"it has {facts.replicas} copies, and SHOAL_REPLICATION is {copies}")
    elif facts.replicas == 1 and cluster.brokers > 1:
        yield Remark(name, "replication", "there is one copy of it: when its broker is lost, so are its records")
    elif facts.replicas > 1 and found[IN_SYNC] == "1":
        yield Remark(name, IN_SYNC, "one broker may acknowledge a record alone, and be lost with it; set it to 2")


async def _read_settings(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, dict[str, str]]:
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(_ASKED)) for name in names]
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(asked) if asked else []:
        for error, _, _, name, entries in response.resources:
            if error == NO_ERROR:
                values = {entry[0]: entry[1] for entry in entries}
                found[name] = {setting: values[setting] for setting in _ASKED}
    return found
