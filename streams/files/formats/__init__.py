"""How files of events are written: the registry of formats, shared by every command that reads one.

A new format is one module in this folder and one line in `FORMATS`. The module has a function `reader(policy, choice)`
that returns an `EventReader` (format.py); `shoal produce`, `replay`, `audit --events`, `report --events` and
`policy check --sample` then read it, by the ending of a file's name or by a flag `--<name>`.

What other publishers have released is written in formats of its own: `PUBLISHED`, read by external.py. A new one is
one module with a function `read_groups(policy, path)`, and one line.

Modules are imported when a file is read, so that `shoal --help` stays quick.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shoal.streams.errors import InputError

if TYPE_CHECKING:
    from shoal.core.policy.policy import Policy
    from shoal.streams.files.formats.external import GroupReader
    from shoal.streams.files.formats.format import EventReader, FormatChoice


class Known(NamedTuple):
    """A format: its module in this folder, how names of its files end, and what its files are, for `--help`."""

    module: str
    suffixes: tuple[str, ...]
    what: str


DEFAULT = "json"
FORMATS = {
    DEFAULT: Known("json_lines", (".jsonl", ".ndjson"), "one JSON object per line"),
    "csv": Known("csv_rows", (".csv",), "CSV with a header"),
}

FOLDER, TABLE = "folder", "table"
PUBLISHED = {
    FOLDER: Known("release_groups", (), "a folder of releases"),
    TABLE: Known("generalized_rows", (".csv",), "a CSV of generalized rows"),
}


def find_reader(source: str, policy: "Policy", choice: "FormatChoice", *others: str) -> "EventReader":
    """The reader of a source: of the format that the caller names, else by the end of its name, else of JSON lines.

    Raises `InputError` if the choice does not go with the format, or other sources are of another one.
    """
    name = choice.name or _by_suffix(source, FORMATS, DEFAULT)
    if choice.name is None and any(_by_suffix(other, FORMATS, DEFAULT) != name for other in others):
        raise InputError("files that are read together must be of one format.")
    known = FORMATS[name]
    found: EventReader = import_module(f"{__name__}.{known.module}").reader(policy, choice)
    return found


def find_group_reader(path: Path) -> "GroupReader":
    """The function that reads what somebody else has published under this path."""
    known = PUBLISHED[FOLDER if path.is_dir() else _by_suffix(path.name, PUBLISHED, TABLE)]
    found: GroupReader = import_module(f"{__name__}.{known.module}").read_groups
    return found


def _by_suffix(source: str, formats: Mapping[str, Known], default: str) -> str:
    name = source.lower()
    return next((key for key, known in formats.items() if name.endswith(known.suffixes)), default)
