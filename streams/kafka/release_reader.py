"""Reading the releases topic as any consumer would: committed records only, checked release by release."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from shoal.core.measure.fold import FoldError, LookBack, Whole, by_kind
from shoal.streams.errors import GuaranteeError, InputError, ServiceError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.chain import Chain
from shoal.streams.kafka.cluster import UNKNOWN_TOPIC, describe
from shoal.streams.kafka.fold_back import fold_back
from shoal.streams.kafka.manifest import has_parts, manifest_of, not_ours, trigger_of
from shoal.streams.kafka.part_reader import PartReader, open_parts
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_search import manifest_at
from shoal.streams.kafka.rights import check_rights, consumer_rights
from shoal.streams.kafka.sealed import sealed_of
from shoal.streams.kafka.topics import Topics, admin_client, connect_within

POLL_MS = 200
SILENCE_S = 45.0  # there is more to read, and no record comes: long enough for a broker to be restarted
GONE = "Kafka went away while the releases were being read."


@dataclass(frozen=True)
class CommittedRelease:
    """A release read back from the topic: the exact bytes, its manifest parsed (`meaning`), the manifest's headers."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    manifest: bytes
    meaning: Mapping[str, Any]
    headers: Mapping[str, bytes]
    next_offset: int = 0
    """Where the topic goes on after it."""
    gone: tuple[bytes, ...] = ()
    fold: Callable[[], Whole] | None = field(default=None, repr=False, compare=False)
    """Puts it together with those before it, until the next one is read. None if it is whole."""

    @cached_property
    def whole(self) -> Whole:
        """All records as they stand after it; to be asked for before the next release is read."""
        return Whole(self.cells, self.groups) if self.fold is None else self.fold()

    @property
    def number(self) -> int:
        return int(self.meaning["release"])

    @property
    def records(self) -> tuple[bytes, ...]:
        """Its records, those of cells first, then of groups, then of what is gone, without the manifest."""
        return self.cells + self.groups + self.gone


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
        self._chain = Chain(table) if after is None else Chain(table, after.number, after.digest)
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
                    release = await self._add(message)
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

    async def _add(self, message: Any) -> CommittedRelease | None:
        """Takes the next record; returns a release when this was its manifest, the last of it."""
        value, headers = message.value or b"", dict(message.headers)
        if sealed_of(message) is not None:
            return None
        if not _is_manifest(value):
            self._records.append(value)
            return None
        if manifest_of(message) is None:
            raise not_ours(message.topic, message.offset)
        records, self._records = tuple(self._records), []
        told = json.loads(value)
        if has_parts(headers):
            records = tuple(await self._parts.read(told["release"], headers, told))
        if self._after is not None and self._chain.number == self._after.number and _needs_earlier(told):
            await self._fold_back(self._after)
        meaning = self._chain.add(records, value)
        cells, groups, gone = by_kind(meaning, records)
        fold = self._chain.whole if "shards" in meaning else None
        return CommittedRelease(cells, groups, value, meaning, headers, message.offset + 1, gone, fold)

    async def _fold_back(self, after: Place) -> None:
        """Begun in the middle: what stands before a release that holds only what changed."""
        found = await manifest_at(self._servers, self._table, after.next_offset - 1)
        if found is None:
            raise GuaranteeError(f"release {after.number} is not where it was read before.")
        async with open_reader(self._servers) as consumer:
            chain = await fold_back(consumer, self._partition, self._parts, found, self._table)
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


def _is_manifest(value: bytes) -> bool:
    """Whether a record is not one of a cell or a group; the chain says what is wrong with any other."""
    try:
        found = json.loads(value)
    except ValueError:
        return True
    return not isinstance(found, dict) or not found.keys() & {"group", "cell", "gone"}


def _needs_earlier(meaning: Mapping[str, Any]) -> bool:
    """Whether a release holds only what changed, of some shard; what cannot be read is the chain's business."""
    back = LookBack()
    with suppress(FoldError):
        back.see(meaning)
        return not back.is_done
    return False
