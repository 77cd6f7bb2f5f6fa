"""The last releases of a table, looked up from the end of their topic, for a page that must not read all of it.

What was read once is remembered.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from shoal.streams.errors import InputError
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.kafka.part_reader import open_parts
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.release_back import ReleaseBack

_MOST: Final = 200


class History:
    """The manifests of the last releases, `most` of them. Raises what `open_reader` and aiokafka do."""

    def __init__(self, servers: list[str], table: str, most: int = _MOST) -> None:
        self._servers, self._table, self._most = servers, table, most
        self._known: list[ManifestRecord] = []

    async def look(self) -> Sequence[ManifestRecord]:
        """The releases that are committed by now, the oldest first."""
        async with self._back() as back:
            newer: list[ManifestRecord] = []
            known = self._known[-1].number if self._known else 0
            found = await back.last()
            while found is not None and found.number > known and len(newer) < self._most:
                newer.append(found)
                found = await back.before(found)
        self._known = [*self._known, *reversed(newer)][-self._most :]
        return self._known

    async def records(self, number: int) -> list[bytes]:
        """All records as they stand after one of these releases. Raises InputError if it is none of them."""
        wanted = next((known for known in self._known if known.number == number), None)
        if wanted is None:
            raise InputError(f"release {number} is not among the last {self._most}; `shoal report` shows older ones.")
        async with self._back() as back:
            _, release = await back.chain_at(wanted)
        return list(release.whole.records)

    @asynccontextmanager
    async def _back(self) -> AsyncIterator[ReleaseBack]:
        async with open_reader(self._servers) as consumer, open_parts(self._servers, self._table) as parts:
            yield ReleaseBack(consumer, self._table, parts)
