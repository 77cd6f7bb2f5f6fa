"""The groups of another publisher who uses Shoal: a folder as `shoal releases --out` writes it, or one release of it.

Every group that was ever published counts, as it was published last: a carried group's regions only get finer, and a
group that was broken up later has been seen all the same.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.external import read_text

_RELEASE = re.compile(r"release-[0-9]+", re.ASCII)


def read_groups(_policy: Policy, folder: Path) -> Iterable[tuple[str, Any]]:
    """The groups of all releases in a folder, or of one. Raises `InputError`."""
    releases = sorted(entry for entry in folder.iterdir() if entry.is_dir() and _RELEASE.fullmatch(entry.name))
    files = [release / "groups.jsonl" for release in releases] or [folder / "groups.jsonl"]
    if not releases and not files[0].exists():
        raise InputError(
            f"{folder} holds no release: give a folder as `shoal releases --out` writes it, or a CSV file."
        )
    found: dict[tuple[Any, Any], tuple[str, Any]] = {}
    for path in files:
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            place = f"{path}, line {number},"
            try:
                record = json.loads(line)
                regions = [cell["region"] for cell in record["cells"]]
                name = record["table"], record["group"]
                found[name] = place, {"regions": regions, "sensitive": record["sensitive"]}
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(f"{place} is not a group of a release.") from None
    return found.values()
