"""The releases of a folder with all of their records, put together where a release holds only what changed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.core.published.chain import LookBack, ReleaseChain
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import GuaranteeError
from shoal.streams.files.release_folder import read_files, read_releases, release_name, table_of
from shoal.streams.published import checked_release


def whole_releases(path: Path, table: str | None = None) -> Iterator[PublishedRelease]:
    """Every release of a folder, in order, checked to be what its manifest says and to follow from the one before.

    `table` is by default that of the first. Raises `InputError` if one cannot be read, `GuaranteeError` if one is
    missing or was changed.
    """
    chain: ReleaseChain | None = None
    for release in read_releases(path):
        chain = chain or ReleaseChain(table or table_of(release))
        yield _added(chain, release).in_full()


def whole_release(path: Path, number: int) -> PublishedRelease:
    """One release of a folder. Reads those before it as far as it needs them, and checks these.

    Raises `InputError` if it cannot be read, `GuaranteeError` if it was changed, or a release that it needs is missing.
    """
    return next(whole_from(path, [number]))


def whole_from(path: Path, numbers: Sequence[int]) -> Iterator[PublishedRelease]:
    """Some releases of a folder that follow one another; likewise."""
    chain: ReleaseChain | None = None
    for number in numbers:
        if chain is None:
            *needed, release = _needed(path, number)
            first = (needed or [release])[0]
            chain = ReleaseChain.from_here(table_of(release), first.number, first.head)
            for one in needed:
                _added(chain, one)
        else:
            release = read_files(path, number)
        release = _added(chain, release)
        with checked_release():
            chain.check_whole()
        yield release.in_full()


def _added(chain: ReleaseChain, release: PublishedRelease) -> PublishedRelease:
    with checked_release():
        return chain.add(release)


def _needed(path: Path, number: int) -> list[PublishedRelease]:
    """The releases, the first first, that say all about one of them."""
    back, needed = LookBack(), [read_files(path, number)]
    while True:
        release = needed[-1]
        if not release.head.is_readable:
            raise GuaranteeError(f"release {release.number} has a manifest that cannot be read.")
        with checked_release():
            back.see(release.head)
        if back.is_done:
            return needed[::-1]
        if not (path / release_name(release.number - 1)).is_dir():
            raise GuaranteeError(
                f"release {number} holds only what changed, and {path} does not have release {release.number - 1}, "
                "which it needs."
            )
        needed.append(read_files(path, release.number - 1))
