"""The last releases of a table, looked up from the end of their topic, for a page that must not read all of it.

The records of a release lie side by side before its manifest, which says how many they are, or in parts elsewhere. So
the manifest before it is found in one step, and a release is read without those before it. A release that holds only
what changed also needs earlier ones. What was read once is remembered.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition

from shoal.streams.errors import InputError
from shoal.streams.kafka.fold_back import first_offset, fold_back
from shoal.streams.kafka.manifest import ManifestRecord
from shoal.streams.kafka.part_reader import open_parts
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.release_search import last_manifest, manifest_before
from shoal.streams.kafka.topics import Topics

_MOST: Final = 200


class Known(NamedTuple):
    """A release on the topic: its manifest, where its first record is, and the manifest's record."""

    manifest: Mapping[str, Any]
    first: int
    record: ManifestRecord

    @property
    def number(self) -> int:
        return int(self.manifest["release"])


class History:
    """The manifests of the last releases, `most` of them. Raises what `open_reader` and aiokafka do."""

    def __init__(self, servers: list[str], table: str, most: int = _MOST) -> None:
        self._servers, self._table, self._most = servers, table, most
        self._partition = TopicPartition(Topics(table).releases, 0)
        self._known: list[Known] = []

    async def look(self) -> Sequence[Known]:
        """The releases that are committed by now, the oldest first."""
        async with open_reader(self._servers) as consumer:
            newer: list[Known] = []
            known = self._known[-1].number if self._known else 0
            found = await last_manifest(consumer, self._partition.topic)
            while found is not None and found.number > known:
                if len(newer) == self._most:
                    break
                newer.append(_known(found))
                found = await manifest_before(consumer, self._partition, newer[-1].first)
        self._known = [*self._known, *reversed(newer)][-self._most :]
        return self._known

    async def records(self, number: int) -> list[bytes]:
        """All records as they stand after one of these releases. Raises InputError if it is none of them."""
        wanted = next((known for known in self._known if known.number == number), None)
        if wanted is None:
            raise InputError(f"release {number} is not among the last {self._most}; `shoal report` shows older ones.")
        async with open_reader(self._servers) as consumer, open_parts(self._servers, self._table) as parts:
            chain = await fold_back(consumer, self._partition, parts, wanted.record, self._table)
        return list(chain.whole().records)


def _known(found: ManifestRecord) -> Known:
    manifest = json.loads(found.value)
    return Known(manifest, first_offset(found, manifest), found)
