"""Reading the parts of a release with shards: each from its own partition, committed records only.

The manifest's record says where they stand (docs/contract.md, "Deltas and shards"). A release with one shard has its
records right before its manifest.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from shoal.streams.errors import GuaranteeError, InputError
from shoal.streams.kafka.cluster import describe
from shoal.streams.kafka.manifest import ManifestRecord, has_parts, read_parts
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics, admin_client


class PartReader:
    """Reads parts; it connects when it is first asked."""

    def __init__(self, servers: list[str], table: str, within_s: float, stack: AsyncExitStack) -> None:
        self._servers, self._table, self._within_s, self._stack = servers, table, within_s, stack
        self._topic = Topics(table).releases
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
        consumer = self._consumer = self._consumer or await self._open(number, len(places))
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

    async def _open(self, number: int, shards: int) -> AIOKafkaConsumer:
        async with admin_client(self._servers, self._within_s) as admin:
            found = (await describe(admin, [self._topic])).topics[self._topic].partitions
        if found < shards:
            raise GuaranteeError(
                f"topic {self._topic} has {found} partitions, and release {number} has parts on {shards}."
            )
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
