"""A sink that writes the same folder of releases as `shoal replay` (docs/contract.md, "Releases")."""

from collections.abc import Callable
from pathlib import Path

from shoal.core.policy.policy import Policy
from shoal.streams.files.release_folder import ReleaseFolder
from shoal.streams.kafka.release_reader import CommittedRelease, open_releases
from shoal.streams.settings import Settings
from shoal.streams.sink.release_sink import deliver


class FolderSink:
    """One subfolder a release; a release appears whole or not at all."""

    def __init__(self, path: Path, policy: Policy) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._folder = ReleaseFolder(path, [attribute.name for attribute in policy.attributes])

    async def put(self, release: CommittedRelease) -> None:
        """Raises GuaranteeError if the folder has another release of that number."""
        self._folder.stage(release.number, release.cells, release.groups, release.manifest, release.gone)
        self._folder.show(release.number)

    async def close(self, *, is_whole: bool) -> None:
        """Every release is on the disk already."""


class Counted:
    """Tells somebody who waits that a release is there."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    async def put(self, _release: CommittedRelease) -> None:
        self._advance(1)

    async def close(self, *, is_whole: bool) -> None:
        """There is nothing to end."""


async def read_topic(settings: Settings, policy: Policy, path: Path, advance: Callable[[int], None]) -> int:
    """Writes every release that is committed now to a folder, and returns how many there are.

    Raises GuaranteeError where the chain is broken, ServiceError without Kafka, InputError without the topic.
    """
    async with open_releases(settings.kafka_servers, policy.table, settings.connect_s) as reader:
        return await deliver(reader, [FolderSink(path, policy), Counted(advance)])
