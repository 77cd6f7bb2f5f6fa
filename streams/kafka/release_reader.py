"""Reading the releases topic forwards, as any consumer would: committed records only, checked release by release."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.published.chain import ReleaseChain
from shoal.core.published.manifest import PublishedRelease, as_released
from shoal.streams.errors import GuaranteeError, ServiceError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.manifest import KIND, has_parts, manifest_of, not_ours, trigger_of
from shoal.streams.kafka.part_reader import PartReader, open_parts
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_back import ReleaseBack, check_topic, needs_earlier
from shoal.streams.kafka.release_search import manifest_at
from shoal.streams.kafka.sealed import SEALED
from shoal.streams.kafka.topics import Topics, connect_within
from shoal.streams.published import checked_release

POLL_MS = 200
SILENCE_S = 45.0  # there is more to read, and no record comes: long enough for a broker to be restarted
GONE = "Kafka went away while the releases were being read."


@dataclass(frozen=True)
class CommittedRelease(PublishedRelease):
    """A release read from the topic, and the headers of its manifest."""

    headers: Mapping[str, bytes] = field(default_factory=dict)
    next_offset: int = 0
    """Where the topic goes on after it."""


class Place(NamedTuple):
    """Where a reader of releases has come to: the last release, its manifest's sha256, and where the topic goes on."""

    number: int
    digest: str
    next_offset: int


class ReleaseReader:
    """The releases of one table, from the first on or from where another reader had come to."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        partition: TopicPartition,
        servers: list[str],
        table: str,
        parts: PartReader,
        after: Place | None = None,
    ) -> None:
        self._consumer, self._partition, self._servers, self._table = consumer, partition, servers, table
        self._parts, self._after = parts, after
        self._chain = ReleaseChain(table) if after is None else ReleaseChain(table, after.number, after.digest)
        self._records: list[bytes] = []
        self._fetched: deque[Any] = deque()

    async def releases(self, *, follow: bool = False) -> AsyncIterator[CommittedRelease]:
        """Yields every release that is committed now; with `follow` also every later one, for ever.

        Raises `GuaranteeError` where the chain is broken and `ServiceError` when Kafka is gone.
        """
        loop = asyncio.get_running_loop()
        try:
            end = (await self._consumer.end_offsets([self._partition]))[self._partition]
            heard = loop.time()
            while True:
                while self._fetched:
                    message = self._fetched.popleft()
                    release = await self._add(message)
                    if release is not None:
                        yield release
                        heard = loop.time()
                if not follow and await self._consumer.position(self._partition) >= end:
                    return
                fetched = await self._consumer.getmany(self._partition, timeout_ms=POLL_MS)
                self._fetched.extend(fetched.get(self._partition, ()))
                if self._fetched or follow:
                    heard = loop.time()
                elif loop.time() - heard > SILENCE_S:
                    raise ServiceError(GONE)
        except KafkaError as error:
            raise ServiceError(GONE) from error

    async def _add(self, message: Any) -> CommittedRelease | None:
        """Takes the next record; returns a release when this was its manifest, the last of it.

        A worker's headers say which record is which. One without any is of a cell, of a group, or of what is gone.
        """
        headers = dict(message.headers)
        if KIND not in headers:
            if not (message.key or b"").startswith(f"{self._table}/".encode()):
                raise not_ours(message.topic, message.offset)
            self._records.append(message.value or b"")
            return None
        if headers[KIND] == SEALED:
            return None
        found = manifest_of(message)
        if found is None:
            raise not_ours(message.topic, message.offset)
        records, self._records = self._records, []
        if has_parts(headers):
            records = await self._parts.read(found)
        if self._after is not None and self._chain.number == self._after.number and needs_earlier(found.head):
            await self._begin_earlier(self._after)
        told = as_released(found.head, records)
        with checked_release():
            return self._chain.add(
                CommittedRelease(
                    told.number, told.cells, told.groups, told.head, told.gone,
                    headers=headers, next_offset=message.offset + 1,
                )
            )  # fmt: skip

    async def _begin_earlier(self, after: Place) -> None:
        """Begun in the middle: what stands before a release that holds only what changed."""
        found = await manifest_at(self._servers, self._table, after.next_offset - 1)
        if found is None:
            raise GuaranteeError(f"release {after.number} is not where it was read before.")
        async with open_reader(self._servers) as consumer:
            chain, _ = await ReleaseBack(consumer, self._table, self._parts).chain_at(found)
        if (chain.number, chain.digest) != (after.number, after.digest):
            raise GuaranteeError(f"release {after.number} on the topic is not the one that was read before.")
        self._chain = chain


@asynccontextmanager
async def open_releases(
    servers: list[str], table: str, within_s: float, after: Place | None = None
) -> AsyncIterator[ReleaseReader]:
    """Connects to a table's releases, from the first on or those after a place that a reader had come to.

    Raises `ServiceError` without Kafka, `InputError` without the topic or the right to read it, and `GuaranteeError`
    if the topic has lost its start, or ends before that place.
    """
    await check_topic(servers, table, within_s)
    topic = Topics(table).releases
    consumer = AIOKafkaConsumer(
        **client_options(servers),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=16 * 1024 * 1024,
    )
    try:
        await connect_within(consumer.start, within_s, servers)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        if (await consumer.beginning_offsets([partition]))[partition] > 0:
            raise GuaranteeError(f"the start of topic {topic} is gone, so the chain of releases cannot be checked.")
        if after is not None:
            if (await consumer.end_offsets([partition]))[partition] < after.next_offset:
                raise GuaranteeError(
                    f"topic {topic} ends before release {after.number}, which was read from it before."
                )
            consumer.seek(partition, after.next_offset)
        async with open_parts(servers, table, within_s) as parts:
            yield ReleaseReader(consumer, partition, servers, table, parts, after)
    except KafkaError as error:
        raise unreachable(servers) from error
    finally:
        await consumer.stop()


async def wait_for_release(reader: ReleaseReader, trigger_offset: int, within_s: float) -> CommittedRelease:
    """Waits for the first release made by that trigger or a later one. Raises `ServiceError` when time is up."""

    async def wait() -> CommittedRelease:
        async for release in reader.releases(follow=True):
            if trigger_of(release.headers) >= trigger_offset:
                return release
        raise AssertionError("following never ends")

    try:
        return await asyncio.wait_for(wait(), within_s)
    except TimeoutError:
        raise ServiceError(
            f"no release came within {within_s:g} seconds; the request stays in the queue: is a worker running?"
        ) from None
