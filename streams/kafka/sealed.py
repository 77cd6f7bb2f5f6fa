"""The `sealed` record of a release with shards: it stands on the releases topic before any of the release is seen.

Its key is `<table>/<release>/sealed` and its value the manifest's bytes. Its headers say what the release is made of,
as those of the manifest do (manifest.py), and `kind` is `sealed`. From its commit on it is this release, even if Redis
is lost. Readers of releases pass over it.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

from shoal.streams.kafka.manifest import KIND, Headers, ManifestRecord, record_of
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.release_search import last_manifest
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message

SEALED: Final = b"sealed"
_LOOKS: Final = 20
_LOOK_S: Final = 0.02


def sealed_message(table: str, number: int, manifest: bytes, headers: Headers) -> Message:
    return Message(f"{table}/{number}/sealed".encode(), manifest, ((KIND, SEALED), *headers))


def sealed_of(record: Any) -> ManifestRecord | None:
    """What a record of the releases topic announces, None if it is no `sealed` record. Raises GuaranteeError if it
    calls itself one and is none.
    """
    return record_of(record, SEALED)


class Announcements:
    """What is announced, as the topic says, for all shards of a worker: read once for each release."""

    def __init__(self, servers: list[str], table: str) -> None:
        self._servers, self._topic = servers, Topics(table).releases
        self._reading, self._open = asyncio.Lock(), AsyncExitStack()
        self._consumer: AIOKafkaConsumer | None = None
        self._last: ManifestRecord | None = None

    async def of(self, number: int) -> ManifestRecord | None:
        """The `sealed` record of a release, None if the last one that is committed is another's.

        A record is seen a moment after its transaction is committed, so it is looked for more than once.

        Raises KafkaError, ServiceError.
        """
        async with self._reading:
            if self._last is None or self._last.number != number:
                self._last = None
                try:
                    self._last = await self._read(number)
                except BaseException:
                    await self._close()
                    raise
            return self._last if self._last is not None and self._last.number == number else None

    async def close(self) -> None:
        async with self._reading:
            await self._close()

    async def _read(self, number: int) -> ManifestRecord | None:
        if self._consumer is None:
            self._consumer = await self._open.enter_async_context(open_reader(self._servers))
        consumer: Any = self._consumer
        consumer.resume(*consumer.assignment())
        found: ManifestRecord | None = None
        for _ in range(_LOOKS):
            found = await last_manifest(consumer, self._topic, sealed_of)
            if found is not None and found.number >= number:
                break
            await asyncio.sleep(_LOOK_S)
        consumer.pause(*consumer.assignment())  # nothing is fetched until it is asked again
        return found

    async def _close(self) -> None:
        self._consumer = None
        await self._open.aclose()


async def last_announced(servers: list[str], table: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last `sealed` record that is committed, None if there is none. `patient` as for `last_manifest`.

    Raises KafkaError, ServiceError.
    """
    async with open_reader(servers) as consumer:
        return await last_manifest(consumer, Topics(table).releases, sealed_of, patient=patient)
