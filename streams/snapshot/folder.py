"""A folder of snapshots: what they are called, which there are, and which are old enough to go."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from shoal.core.policy.policy import Policy
from shoal.streams.files.release_folder import sync_folder
from shoal.streams.settings import Settings

_ENDING: Final = ".snapshot"


class Listed(NamedTuple):
    """A snapshot by its name. Nothing of it was read."""

    release: int
    path: Path


def policy_folder(settings: Settings, policy: Policy) -> Path | None:
    """Where the policy wants snapshots; a relative path is beside the policy file, as hierarchies are."""
    return None if policy.snapshot is None else settings.policy_path.parent / policy.snapshot.to


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone, if it is not there. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def path_in(to: Path, table: str, release: int) -> Path:
    """Where a snapshot goes: into `to` if that is a folder, else it is the file itself."""
    return snapshot_path(to, table, release) if to.is_dir() else to


def snapshot_path(folder: Path, table: str, release: int) -> Path:
    """The name of a snapshot in a folder."""
    return folder / f"{table}-{release:08}{_ENDING}"


def listed(folder: Path, table: str) -> list[Listed]:
    """A table's snapshots in a folder, the newest first; none if there is no such folder."""
    return _named(folder, re.escape(table) + r"-(\d{8,})" + re.escape(_ENDING))


def drop_old(folder: Path, table: str, release: int, keep: int) -> None:
    """Delete all but the newest `keep` of those up to `release`, and what a process that was killed has left of one
    before. Snapshots of a later release are somebody else's.
    """
    old = [one for one in listed(folder, table) if one.release <= release][keep:]
    partial = re.escape(f".{table}") + r"-(\d{8,})" + re.escape(f"{_ENDING}.partial")
    for one in (*old, *(left for left in _named(folder, partial) if left.release < release)):
        one.path.unlink(missing_ok=True)
    sync_folder(folder)


def _named(folder: Path, pattern: str) -> list[Listed]:
    """The files of a folder whose name is like `pattern`, which has the release in it, the newest first."""
    found = ((re.fullmatch(pattern, path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return sorted((Listed(int(match[1]), path) for match, path in found if match), reverse=True)
