"""A sink that writes the same folder of releases as `shoal replay` (docs/contract.md, "Releases")."""

from pathlib import Path

from shoal.core.policy.policy import Policy
from shoal.streams.files.release_folder import ReleaseFolder
from shoal.streams.kafka.release_reader import CommittedRelease


class FolderSink:
    """One subfolder a release; a release appears whole or not at all."""

    def __init__(self, path: Path, policy: Policy) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._folder = ReleaseFolder(path, [attribute.name for attribute in policy.attributes])

    async def put(self, release: CommittedRelease) -> None:
        """Raises GuaranteeError if the folder has another release of that number."""
        self._folder.stage(release)
        self._folder.show(release.number)

    async def close(self, *, is_whole: bool) -> None:
        """Every release is on the disk already."""
