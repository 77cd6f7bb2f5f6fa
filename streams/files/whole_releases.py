"""The releases of a folder with all of their records, put together where a release holds only what changed."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from shoal.core.measure.fold import FoldError, LookBack
from shoal.streams.errors import GuaranteeError
from shoal.streams.files.release_folder import ReleaseFiles, read_files, read_releases, release_name, table_of
from shoal.streams.kafka.chain import Chain


def whole_releases(path: Path, table: str | None = None) -> Iterator[ReleaseFiles]:
    """Every release of a folder, in order, checked to be what its manifest says and to follow from the one before.

    `table` is by default that of the first. Raises `InputError` if one cannot be read, `GuaranteeError` if one is
    missing or was changed.
    """
    chain: Chain | None = None
    for files in read_releases(path):
        chain = _follow(chain or Chain(table or table_of(files)), files)
        yield _whole(chain, files)


def whole_release(path: Path, number: int) -> ReleaseFiles:
    """One release of a folder. Reads those before it as far as it needs them, and checks these.

    Raises `InputError` if it cannot be read, `GuaranteeError` if it was changed, or a release that it needs is missing.
    """
    return next(whole_from(path, [number]))


def whole_from(path: Path, numbers: Sequence[int]) -> Iterator[ReleaseFiles]:
    """Some releases of a folder that follow one another; likewise."""
    chain: Chain | None = None
    for number in numbers:
        *needed, files = _needed(path, number) if chain is None else [read_files(path, number)]
        for one in needed:
            chain = _follow(chain, one)
        chain = _follow(chain, files)
        yield _whole(chain, files)


def _needed(path: Path, number: int) -> list[ReleaseFiles]:
    """The releases, the first first, that say all about one of them."""
    back, needed = LookBack(), [read_files(path, number)]
    while True:
        files = needed[-1]
        try:
            back.see(json.loads(files.manifest))
        except (FoldError, ValueError, AttributeError):
            raise GuaranteeError(f"release {files.number} has a manifest that cannot be read.") from None
        if back.is_done:
            return needed[::-1]
        if not (path / release_name(files.number - 1)).is_dir():
            raise GuaranteeError(
                f"release {number} holds only what changed, and {path} does not have release {files.number - 1}, which "
                "it needs."
            )
        needed.append(read_files(path, files.number - 1))


def _follow(chain: Chain | None, files: ReleaseFiles) -> Chain:
    """The chain with one more release; nothing is known of those before the first."""
    if chain is None:
        chain = Chain(table_of(files), files.number - 1, json.loads(files.manifest).get("previous"))
    chain.add(files.records, files.manifest)
    return chain


def _whole(chain: Chain, files: ReleaseFiles) -> ReleaseFiles:
    whole = chain.whole()
    return ReleaseFiles(files.number, whole.cells, whole.groups, files.manifest)
