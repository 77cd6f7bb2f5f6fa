"""The `sealed` record of a release with shards: it stands on the releases topic before any of the release is seen.

Its key is `<table>/<release>/sealed` and its value the manifest's bytes. Its headers say what the release is made of,
as those of the manifest do (manifest.py), and `kind` is `sealed`. From its commit on it is this release, even if Redis
is lost. Readers of releases pass over it.
"""

from typing import Any, Final

from shoal.streams.kafka.manifest import KIND, Headers, ManifestRecord, read_number
from shoal.streams.kafka.partition_reader import open_reader
from shoal.streams.kafka.release_search import last_manifest
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message

SEALED: Final = b"sealed"


def sealed_message(table: str, number: int, manifest: bytes, headers: Headers) -> Message:
    return Message(f"{table}/{number}/sealed".encode(), manifest, ((KIND, SEALED), *headers))


def sealed_of(record: Any) -> ManifestRecord | None:
    """What a record of the releases topic announces, None if it is no `sealed` record. Raises GuaranteeError if it
    calls itself one and is none.
    """
    headers = dict(record.headers)
    if headers.get(KIND) != SEALED:
        return None
    return ManifestRecord(read_number(record), record.value, headers, record.offset)


async def last_announced(servers: list[str], table: str, *, patient: bool = False) -> ManifestRecord | None:
    """The last `sealed` record that is committed, None if there is none. `patient` as for `last_manifest`.

    Raises KafkaError, ServiceError.
    """
    async with open_reader(servers) as consumer:
        return await last_manifest(consumer, Topics(table).releases, sealed_of, patient=patient)
