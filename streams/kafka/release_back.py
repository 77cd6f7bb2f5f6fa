"""One release of a topic, read back from the topic's end, without those before it that it does not need.

The records of a release lie side by side before its manifest, which says how many they are, or in parts elsewhere. So
the manifest before it is found in one step. A release that holds only what changed needs those back to the last ones in
which each shard was full: the reader goes back to them, and then forward.
"""

from contextlib import suppress

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.published.chain import LookBack, ReleaseChain
from shoal.core.published.manifest import Manifest, PublishedError, PublishedRelease, as_released
from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.cluster import UNKNOWN_TOPIC, describe
from shoal.streams.kafka.manifest import ManifestRecord, has_parts, read_parts
from shoal.streams.kafka.part_reader import PartReader, open_parts, records_of
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import last_manifest, manifest_before
from shoal.streams.kafka.rights import check_rights, consumer_rights
from shoal.streams.kafka.topics import Topics, admin_client
from shoal.streams.published import checked_release


def first_offset(found: ManifestRecord) -> int:
    """Where the records of a release begin on the first partition of the releases topic; the manifest before stands
    before that.

    Raises GuaranteeError if the manifest does not say how many they are.
    """
    with checked_release():
        totals = [part.total for part in found.head.parts]
    if not has_parts(found.headers):
        return found.offset - sum(totals)
    try:
        return read_parts(found.number, found.headers, len(totals))[0][0] if totals and totals[0] else found.offset
    except InputError as error:
        raise GuaranteeError(f"{error}.") from None


def needs_earlier(head: Manifest) -> bool:
    """Whether a release holds only what changed, of some shard; what cannot be read is the chain's business."""
    with suppress(PublishedError):
        return not head.is_full
    return False


class ReleaseBack:
    """Releases of a topic by their manifests, the latest first."""

    def __init__(self, consumer: AIOKafkaConsumer, table: str, parts: PartReader) -> None:
        self._consumer, self._table, self._parts = consumer, table, parts
        self._partition = TopicPartition(Topics(table).releases, 0)

    async def last(self) -> ManifestRecord | None:
        """The last release, None if there is none. Raises KafkaError."""
        return await last_manifest(self._consumer, self._partition.topic)

    async def before(self, found: ManifestRecord) -> ManifestRecord | None:
        """The release before another one, None if it is not there (any more). Raises KafkaError, GuaranteeError."""
        return await manifest_before(self._consumer, self._partition, first_offset(found))

    async def chain_at(self, found: ManifestRecord) -> tuple[ReleaseChain, PublishedRelease]:
        """A release with all records as they stand after it, and the chain that goes on behind it.

        Raises GuaranteeError if one that is needed is missing, or not what it was; InputError, KafkaError,
        ServiceError.
        """
        back, needed = LookBack(), list[ManifestRecord]()
        one: ManifestRecord | None = found
        while one is not None:
            needed.append(one)
            with checked_release():
                back.see(one.head)
            if back.is_done:
                break
            one = await self.before(one)
            if one is None or one.number != needed[-1].number - 1:
                raise GuaranteeError(
                    f"release {needed[-1].number - 1} is missing, and release {found.number} holds only what changed "
                    "since."
                )
        chain = ReleaseChain.from_here(self._table, needed[-1].number, needed[-1].head)
        while needed:
            one = needed.pop()
            records = await records_of(self._consumer, self._partition, self._parts, one, first_offset(one))
            with checked_release():
                release = chain.add(as_released(one.head, records))
        with checked_release():
            chain.check_whole()
        return chain, release


async def check_topic(servers: list[str], table: str, within_s: float) -> None:
    """Raises `ServiceError` without Kafka, `InputError` without the releases topic or the right to read it."""
    topic = Topics(table).releases
    async with admin_client(servers, within_s) as admin:
        cluster = await describe(admin, [topic])
        await check_rights(admin, servers, cluster, consumer_rights(table))
    if cluster.topics[topic].error == UNKNOWN_TOPIC:
        raise InputError(f"there is no topic {topic} yet; a worker for this table makes it when it first starts.")


async def read_release(servers: list[str], table: str, within_s: float, number: int | None) -> PublishedRelease | None:
    """One release of a table, the last unless a number is named, in full; None if there is none.

    Raises ServiceError without Kafka, InputError without the topic or the right to read it, and GuaranteeError if the
    release is not what it says, or one that it needs is missing.
    """
    try:
        await check_topic(servers, table, within_s)
        async with open_reader(servers, within_s) as consumer, open_parts(servers, table, within_s) as parts:
            back = ReleaseBack(consumer, table, parts)
            found = await back.last()
            while found is not None and number is not None and found.number > number:
                found = await back.before(found)
            if found is None or (number is not None and found.number != number):
                return None
            _, release = await back.chain_at(found)
            return release.in_full()
    except KafkaError as error:
        raise unreachable(servers) from error
