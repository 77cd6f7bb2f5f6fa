"""The chain of releases, as any consumer can check it: no gap, no fork, and each content is the one in its manifest.

Releases that hold only what changed are put together on the way (deltas.py). To know what stands after a release
without those before it, `LookBack` says how many of these are needed, and a chain that begins at the first of them
puts them together.
"""

from dataclasses import replace
from typing import TypeVar

from shoal.core.published.deltas import StandingRecords
from shoal.core.published.manifest import Manifest, PublishedError, PublishedRelease

Release = TypeVar("Release", bound=PublishedRelease)


class ReleaseChain:
    """Follows the releases of one table in order. `number` and `digest` are of the last one seen, by default none."""

    def __init__(self, table: str, number: int = 0, digest: str | None = None) -> None:
        self._table = table
        self.number, self.digest = number, digest
        self._standing = StandingRecords(table)

    @classmethod
    def from_here(cls, table: str, number: int, head: Manifest) -> "ReleaseChain":
        """A chain whose first release has that number and manifest; nothing is known of those before it."""
        return cls(table, number - 1, head.told.get("previous"))

    def add(self, release: Release) -> Release:
        """The next release, with what stands after it. Raises PublishedError if it does not fit, OtherFormatError."""
        number, head = self.number + 1, release.head
        if not head.is_readable:
            raise _broken(f"release {number} has a manifest that cannot be read")
        head.check_format(f"release {number} is")
        for field, expected, problem in (
            ("table", self._table, "belongs to another table"),
            ("release", number, "is missing, or out of order"),
            ("previous", self.digest, "does not follow from the release before it"),
        ):
            if head.told.get(field) != expected:
                raise _broken(f"release {number} {problem}")
        release = replace(release, number=number, stands=self._standing.whole)
        try:
            self._standing.take(release)
        except PublishedError as error:
            raise _broken(str(error)) from None
        if number == 1 and not self._standing.is_whole:
            raise _broken("release 1 holds only what changed, and nothing was before it")
        self.number, self.digest = number, head.digest
        return release

    def check_whole(self) -> None:
        """Raises PublishedError if the chain began too late to know what stands after the last release."""
        self._standing.whole()


class LookBack:
    """Finds the release to begin with, to know all records after a given one: each shard must be in full in one of
    those from there on. Give it the manifest of that release, then those before it, the latest first.
    """

    def __init__(self) -> None:
        self._needed: set[int] | None = None

    @property
    def is_done(self) -> bool:
        return self._needed is not None and not self._needed

    def see(self, manifest: Manifest) -> None:
        """Raises PublishedError if the manifest does not name its shards."""
        if self._needed is None:
            self._needed = set(range(len(manifest.parts)))
        self._needed -= self._needed if manifest.shards is None else manifest.full_shards


def _broken(problem: str) -> PublishedError:
    return PublishedError(f"the chain of releases is broken: {problem}")
