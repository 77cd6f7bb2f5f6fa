"""The releases on a table's topic, for callers without an event loop."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

from aiokafka.errors import KafkaError

from shoal.core.published.manifest import PublishedRelease
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_back import read_release
from shoal.streams.kafka.release_reader import open_releases
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.settings import Settings


def topic_releases(settings: Settings, table: str) -> Iterator[PublishedRelease]:
    """Every release that is committed now, in order and in full, the chain checked; one at a time is in memory.

    Raises GuaranteeError where the chain is broken, ServiceError without Kafka, InputError without the topic.
    """

    async def read() -> AsyncGenerator[PublishedRelease, None]:
        async with open_releases(settings.kafka_servers, table, settings.connect_s) as reader:
            async for release in reader.releases():
                yield release.in_full()

    releases = read()
    with asyncio.Runner() as runner:
        try:
            while (release := runner.run(_next(releases))) is not None:
                yield release
        finally:
            runner.run(releases.aclose())


def topic_release(settings: Settings, table: str, number: int | None) -> PublishedRelease | None:
    """One release, the newest unless a number is named, in full; None if there is none. Read from the topic's end.

    Raises GuaranteeError if it is not what it says, ServiceError without Kafka, InputError without the topic.
    """
    return asyncio.run(read_release(settings.kafka_servers, table, settings.connect_s, number))


def last_number(settings: Settings, table: str) -> int:
    """The number of the last release, 0 if there is none. Raises ServiceError without Kafka."""
    try:
        last = asyncio.run(last_committed(settings.kafka_servers, table))
    except KafkaError as error:
        raise unreachable(settings.kafka_servers) from error
    return 0 if last is None else last.number


async def _next(releases: AsyncGenerator[PublishedRelease, None]) -> PublishedRelease | None:
    return await anext(releases, None)
