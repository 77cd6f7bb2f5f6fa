"""Reading the releases topic as any consumer would: committed records only, checked release by release."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.chain import Chain, is_format_one
from shoal.streams.kafka.cluster import UNKNOWN_TOPIC, describe
from shoal.streams.kafka.manifest import ManifestRecord, manifest_of, not_ours, trigger_of
from shoal.streams.kafka.older_release import readable
from shoal.streams.kafka.partition_reader import open_reader, read_at, read_to_end
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.rights import check_rights, consumer_rights
from shoal.streams.kafka.topics import Topics, admin_client, connect_within

POLL_MS = 200
SILENCE_S = 45.0  # there is more to read, and no record comes: long enough for a broker to be restarted
GONE = "Kafka went away while the releases were being read."


@dataclass(frozen=True)
class CommittedRelease:
    """A release read back from the topic: the exact bytes, its manifest parsed (`meaning`), the manifest's headers.

    In format 1 it has no records of cells. `meaning` is in this version's format all the same.
    """

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    manifest: bytes
    meaning: Mapping[str, Any]
    headers: Mapping[str, bytes]
    next_offset: int = 0
    """Where the topic goes on after it."""

    @property
    def number(self) -> int:
        return int(self.meaning["release"])

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records in the order they were published in, without the manifest."""
        return self.cells + self.groups


class Place(NamedTuple):
    """Where a reader of releases has come to: the last release, its manifest's sha256, and where the topic goes on."""

    number: int
    digest: str
    next_offset: int


class ReleaseReader:
    """The releases of one table, from the first on or from where another reader had come to."""

    def __init__(
        self, consumer: AIOKafkaConsumer, partition: TopicPartition, table: str, after: Place | None = None
    ) -> None:
        self._consumer, self._partition = consumer, partition
        self._chain = Chain(table)
        if after is not None:
            self._chain.number, self._chain.digest = after.number, after.digest
        self._records: list[bytes] = []
        self._fetched: deque[Any] = deque()

    async def releases(self, *, follow: bool = False) -> AsyncIterator[CommittedRelease]:
        """Yields every release that is committed now; with `follow` also every later one, for ever.

        Raises `GuaranteeError` where the chain is broken and `ServiceError` when Kafka is gone.
        """
        loop = asyncio.get_running_loop()
        heard = loop.time()
        try:
            end = (await self._consumer.end_offsets([self._partition]))[self._partition]
            while True:
                while self._fetched:
                    message = self._fetched.popleft()
                    release = self._add(message)
                    if release is not None:
                        yield release
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

    def _add(self, message: Any) -> CommittedRelease | None:
        """Takes the next record; returns a release when this was its manifest, the last of it."""
        value, headers = message.value or b"", dict(message.headers)
        if not _is_manifest(value):
            self._records.append(value)
            return None
        if manifest_of(message) is None:
            raise not_ours(message.topic, message.offset)
        records, self._records = tuple(self._records), []
        meaning = self._chain.add(records, value)
        if is_format_one(value):
            meaning = json.loads(readable((), records, value).manifest)
            return CommittedRelease((), records, value, meaning, headers, message.offset + 1)
        cells = int(meaning["cells"])
        return CommittedRelease(records[:cells], records[cells:], value, meaning, headers, message.offset + 1)


@asynccontextmanager
async def open_releases(
    servers: list[str], table: str, within_s: float, after: Place | None = None
) -> AsyncIterator[ReleaseReader]:
    """Connects to a table's releases, from the first on or those after a place that a reader had come to.

    Raises `ServiceError` without Kafka, `InputError` without the topic or the right to read it, and `GuaranteeError`
    if the topic has lost its start, or ends before that place.
    """
    topic = Topics(table).releases
    async with admin_client(servers, within_s) as admin:
        cluster = await describe(admin, [topic])
        await check_rights(admin, servers, cluster, consumer_rights(table))
    if cluster.topics[topic].error == UNKNOWN_TOPIC:
        raise InputError(f"there is no topic {topic} yet; a worker for this table makes it when it first starts.")
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
        yield ReleaseReader(consumer, partition, table, after)
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


async def manifest_at(servers: list[str], table: str, offset: int) -> ManifestRecord | None:
    """The manifest at an offset of the releases topic, None if none is there (any more). Raises KafkaError."""
    partition = TopicPartition(Topics(table).releases, 0)
    async with open_reader(servers) as consumer:
        begins, ends = await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])
        if not begins[partition] <= offset < ends[partition]:
            return None
        found = await read_at(consumer, partition, [offset])
    return manifest_of(found[offset]) if offset in found else None


async def manifest_from(servers: list[str], table: str, offset: int) -> ManifestRecord | None:
    """The first manifest from an offset of the releases topic on, None if there is none. Raises KafkaError."""
    partition = TopicPartition(Topics(table).releases, 0)
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, partition, offset):
            for record in records:
                if (found := manifest_of(record)) is not None:
                    return found
    return None


async def last_committed(servers: list[str], table: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last release that a consumer can read, None if there is none; see `last_manifest` for `patient`."""
    async with open_reader(servers) as consumer:
        return await last_manifest(consumer, Topics(table).releases, patient=patient)


async def last_manifest(consumer: AIOKafkaConsumer, topic: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last release that a consumer can read, None if there is none. Reads only the end of the topic.

    With `patient` it waits for the end of open transactions. The owner of the publisher's transactional id may: its own
    start ended them. Any other caller must not: the open one may be a dead worker's, which only the next owner ends.
    """
    partition = TopicPartition(topic, 0)
    end = (await consumer.end_offsets([partition]))[partition]
    if patient:
        async for _ in read_to_end(consumer, partition, end):
            pass
        end = await consumer.position(partition)
    return await manifest_before(consumer, partition, end)


async def manifest_before(consumer: AIOKafkaConsumer, partition: TopicPartition, end: int) -> ManifestRecord | None:
    """The last manifest before an offset, None if there is none. Reads backwards from there, as far as it must."""
    begin = (await consumer.beginning_offsets([partition]))[partition]
    span = 4
    while True:
        start = max(begin, end - span)
        last: ManifestRecord | None = None
        async for records in read_to_end(consumer, partition, start, end):
            for record in records:
                if record.offset < end:
                    last = manifest_of(record) or last
        if last is not None or start >= end or start == begin:
            return last
        span *= 16


def _is_manifest(value: bytes) -> bool:
    """Whether a record is not one of a cell or a group; the chain says what is wrong with any other."""
    try:
        found = json.loads(value)
    except ValueError:
        return True
    return not isinstance(found, dict) or ("group" not in found and "cell" not in found)
