"""Reading the parts of a release with shards: each from its own partition of the parts topic, committed records only.

The manifest's record says where they stand (docs/contract.md, "Deltas and shards"). A release with one shard has its
records before its manifest, on the releases topic itself.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.cluster import UNKNOWN_TOPIC, describe
from shoal.streams.kafka.manifest import ManifestRecord, has_parts, read_parts
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.rights import check_rights, parts_rights
from shoal.streams.kafka.topics import Topics, admin_client


class PartReader:
    """Reads parts; it connects when it is first asked."""

    def __init__(self, servers: list[str], table: str, within_s: float, stack: AsyncExitStack) -> None:
        self._servers, self._table, self._within_s, self._stack = servers, table, within_s, stack
        self._topic = Topics(table).parts
        self._consumer: AIOKafkaConsumer | None = None

    async def read(self, release: ManifestRecord) -> list[bytes]:
        """The records of a release's parts, shard after shard.

        Raises GuaranteeError if they are not where the headers say, InputError without the right to read them,
        ServiceError and KafkaError.
        """
        number, shards = release.number, release.head.shards
        if not shards:
            return []
        try:
            places = read_parts(number, release.headers, len(shards))
        except InputError as error:
            raise GuaranteeError(f"{error}.") from None
        key, found = f"{self._table}/{number}".encode(), []
        consumer = self._consumer = self._consumer or await self._open(number)
        for shard, (first, end) in enumerate(places):
            partition = TopicPartition(self._topic, shard)
            if (await consumer.end_offsets([partition]))[partition] < end:
                raise GuaranteeError(
                    f"topic {self._topic}, partition {shard}, ends before the part of release {number}: it was created "
                    "anew, or lost its last records."
                )
            if first < end:
                async for records in read_to_end(consumer, partition, first, end):
                    found += [one.value for one in records if one.offset < end and one.key == key]
        return found

    async def _open(self, number: int) -> AIOKafkaConsumer:
        async with admin_client(self._servers, self._within_s) as admin:
            cluster = await describe(admin, [self._topic])
            await check_rights(admin, self._servers, cluster, parts_rights(self._table))
        if cluster.topics[self._topic].error == UNKNOWN_TOPIC:
            raise GuaranteeError(f"there is no topic {self._topic}, which had the parts of release {number}.")
        return await self._stack.enter_async_context(open_reader(self._servers, self._within_s))


@asynccontextmanager
async def open_parts(servers: list[str], table: str, within_s: float = 15.0) -> AsyncIterator[PartReader]:
    """A reader of parts, which lets go of its connection at the end."""
    async with AsyncExitStack() as stack:
        yield PartReader(servers, table, within_s, stack)


async def records_of(
    consumer: AIOKafkaConsumer,
    partition: TopicPartition,
    parts: PartReader,
    found: ManifestRecord,
    first: int,
) -> list[bytes]:
    """The records of a release: its parts, or those from `first` on the releases topic to its manifest."""
    if has_parts(found.headers):
        return await parts.read(found)
    records: list[bytes] = []
    if first < found.offset:
        async for fetched in read_to_end(consumer, partition, first, found.offset):
            records += [one.value for one in fetched if one.offset < found.offset]
    return records
