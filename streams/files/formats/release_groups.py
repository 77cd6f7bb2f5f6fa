"""The groups of another publisher who uses Shoal: a folder as `shoal releases --out` writes it, or one release of it.

Every group that was ever published counts, as it was published last: a carried group's regions only get finer, and a
group that was broken up later has been seen all the same.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.external import read_text
from shoal.streams.files.release_folder import CELLS, GROUPS, read_head

_RELEASE = re.compile(r"release-[0-9]+", re.ASCII)


def read_groups(_policy: Policy, folder: Path) -> Iterable[tuple[str, Any]]:
    """The groups of all releases in a folder, or of one. Raises `InputError`."""
    releases = sorted(path for path in folder.iterdir() if path.is_dir() and _RELEASE.fullmatch(path.name))
    folders = releases or [folder]
    if not releases and not (folder / GROUPS).exists():
        raise InputError(f"{folder} has no release: give a folder as `shoal releases --out` writes it, or a CSV file.")
    found: dict[tuple[Any, Any], tuple[str, Any]] = {}
    regions: dict[tuple[Any, Any], Any] = {}  # of all releases: a cell's id always means the same region
    for release in folders:
        read_head(release)
        regions |= _regions(release / CELLS)
        for place, record in _records(release / GROUPS):
            try:
                name = record["table"], record["group"]
                cells = [(record["table"], cell) for cell in record["cells"]]
                if not regions.keys() >= set(cells):
                    raise InputError(f"{place} names a cell that no release has so far; give those before it, too.")
                shown = [regions[cell] for cell in cells]
                found[name] = place, {"regions": shown, "sensitive": record["sensitive"]}
            except (KeyError, TypeError):
                raise InputError(f"{place} is not a group of a release.") from None
    return found.values()


def _regions(path: Path) -> Iterator[tuple[tuple[Any, Any], Any]]:
    for place, record in _records(path):
        try:
            yield (record["table"], record["cell"]), record["region"]
        except (KeyError, TypeError):
            raise InputError(f"{place} is not a cell of a release.") from None


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """The records of a file, each with its place in words."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        place = f"{path}, line {number},"
        try:
            yield place, json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{place} is not JSON.") from None
