"""What a consumer of releases is: an object that is handed every committed release of a table, in order.

`deliver` reads the releases topic as any consumer could: committed records only, from the first release on, each
checked to follow from the one before. A sink is handed whole releases, never a part of one or an uncommitted one.

To add a sink, write a module with a class that has these two methods, and give it a scheme in `SINKS`
(sinks.py); `shoal releases --out scheme://target` then opens it.
"""

from collections.abc import Sequence
from typing import Protocol

from shoal.streams.kafka.release_reader import CommittedRelease, ReleaseReader


class ReleaseSink(Protocol):
    """Keeps, shows or passes on releases."""

    async def put(self, release: CommittedRelease) -> None:
        """Take the next release. `release.cells`, `release.groups`, `release.gone` and `release.manifest` are the exact
        published bytes; a sink that stores them must store these. `release.whole` are all records as they stand after
        it, also where it holds only what changed.

        After a restart releases come again from the first on, so taking one twice must do no harm. A number that is
        there already with another content must be refused with GuaranteeError: a number is never used for two
        releases. Any error ends the delivery; what this method has not finished must not be visible as a release.
        """

    async def close(self, *, is_whole: bool) -> None:
        """No release follows. Called once: with `is_whole` if the whole chain was handed over, without it after an
        error.
        """


async def deliver(reader: ReleaseReader, sinks: Sequence[ReleaseSink], *, follow: bool = False) -> int:
    """Hand every release that is committed now to each sink in turn, and with `follow` every later one, for ever.

    Returns the number of releases. Raises GuaranteeError where the chain of releases is broken, ServiceError when Kafka
    is gone, and whatever a sink raises.
    """
    count, is_whole = 0, False
    try:
        async for release in reader.releases(follow=follow):
            for sink in sinks:
                await sink.put(release)
            count += 1
        is_whole = True
    finally:
        for sink in sinks:
            await sink.close(is_whole=is_whole)
    return count
