"""`shoal sink`: keeps the newest release of a table where analysts work, and follows the releases topic.

What a target holds, and the place on the topic where it goes on, change together or not at all. So a sink that is
killed at any moment, and started again, goes on as if nothing had happened: nothing is lost, nothing is done twice, and
a reader of the target sees one whole release. A release that has a successor on the topic already is checked, and
listed among the releases, but its tables are not written.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka.errors import KafkaError

from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import GuaranteeError
from shoal.streams.files.tidy import RELEASES, Columns
from shoal.streams.kafka.refusal import unreachable
from shoal.streams.kafka.release_reader import CommittedRelease, Place, open_releases
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.settings import Settings
from shoal.streams.thread import in_thread
from shoal.streams.vitals import SinkVitals


class Kept(NamedTuple):
    """What a target says that it holds."""

    table: str
    place: Place


class Delivery(NamedTuple):
    """The newest release, and the manifests of it and of those before it that the target has not been told of."""

    release: CommittedRelease
    manifests: Sequence[Mapping[str, Any]]

    @property
    def files(self) -> PublishedRelease:
        """Its records as they stand, whether it holds all of them or what changed."""
        return self.release.in_full()

    @property
    def kept(self) -> Kept:
        """What the target says once it holds this release."""
        one = self.release
        return Kept(str(one.meaning["table"]), Place(one.number, one.head.digest, one.next_offset))

    def releases_after(self, number: int) -> Columns:
        """The lines of the table `releases` for those after a number."""
        fresh = [manifest for manifest in self.manifests if manifest["release"] > number]
        return {name: [manifest.get(name) for manifest in fresh] for name in RELEASES}


class NewestSink(Protocol):
    """Somewhere that the newest release is kept. Its methods may block."""

    def kept(self) -> Kept | None:
        """What the target holds; None if it is new."""

    def keep(self, delivery: Delivery) -> None:
        """Replaces what the target holds, all at once. Does nothing if it has this release, or a newer one, already."""

    def close(self) -> None:
        """Lets go of the target."""


async def follow_newest(
    settings: Settings, table: str, sink: NewestSink, vitals: SinkVitals, *, once: bool = False
) -> AsyncIterator[CommittedRelease]:
    """Keeps the newest release now and, unless it is for once, every later one; yields each that was written.

    Raises GuaranteeError where the chain of releases is broken or the target holds another one, ServiceError when Kafka
    or the target cannot be reached, InputError for a target of another table.
    """
    kept = await in_thread(sink.kept)
    if kept is not None and kept.table != table:
        raise GuaranteeError(f"this target keeps the table {kept.table}; give {table} a target of its own.")
    after = None if kept is None else kept.place
    async with open_releases(settings.kafka_servers, table, settings.connect_s, after) as reader:
        end = await _last_offset(settings.kafka_servers, table)
        vitals.holds(0 if after is None else after.number)
        passed: list[Mapping[str, Any]] = []
        async for release in reader.releases(follow=not once):
            passed.append(release.meaning)
            if release.next_offset <= end:
                continue
            await in_thread(sink.keep, Delivery(release, passed))
            vitals.kept(release.number)
            passed = []
            yield release
            end = await _last_offset(settings.kafka_servers, table)


def is_kept(held: Kept | None, delivery: Delivery) -> bool:
    """Whether a target has a release, or a newer one, already. Raises GuaranteeError if it has another of that number.

    A second sink on the same target may have been quicker.
    """
    if held is None or held.place.number < delivery.release.number:
        return False
    if held.place.number == delivery.release.number and held.place.digest != delivery.kept.place.digest:
        raise GuaranteeError(
            f"the target holds another release {held.place.number}, and a number is never used for two releases."
        )
    return True


async def _last_offset(servers: list[str], table: str) -> int:
    """The offset of the last manifest on the topic, -1 if there is none."""
    try:
        last = await last_committed(servers, table)
    except KafkaError as error:
        raise unreachable(servers) from error
    return -1 if last is None else last.offset
