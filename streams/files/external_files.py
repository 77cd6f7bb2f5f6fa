"""What other publishers have released, as external events: a folder of Shoal's releases, or a CSV of generalized rows.

Of a folder every group counts that was ever published, as it was last: a carried group's regions only get finer, and a
broken one is known for ever. A CSV file has a column for each attribute that is published, named as in the policy, and
one for the sensitive value. `15-25`, `20`, `[50,72.5)`, `a|b` and `*` are understood. Rows with the same text in a
column `group` are one group; without that column, rows with the same regions are.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.core.events.event import Reject
from shoal.core.overlap.external import parse_external
from shoal.core.policy.policy import Attribute, Policy
from shoal.streams.errors import InputError
from shoal.streams.files.csv_events import Line

GROUPS_PER_EVENT = 500
_RELEASE = re.compile(r"release-[0-9]+", re.ASCII)
_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_RANGE = re.compile(rf"{_NUMBER}\s*[-–]\s*{_NUMBER}", re.ASCII)
_HALF_OPEN = re.compile(rf"\[{_NUMBER},\s*{_NUMBER}([)\]])", re.ASCII)


def read_other_tables(policy: Policy, source: Path, publisher: str) -> Iterator[Line]:
    """External events of a folder or a CSV file. Raises `InputError`, which says where and never what."""
    groups = _read_folder(source) if source.is_dir() else _read_csv(policy, source)
    batch: list[Any] = []
    number = 0
    for place, group in groups:
        read = parse_external({"op": "external", "publisher": publisher, "groups": [group]}, policy)
        if isinstance(read, Reject):
            raise InputError(f"{place} does not fit the policy: {read.field or 'it'} is {read.reason}.")
        batch.append(group)
        if len(batch) == GROUPS_PER_EVENT:
            number += 1
            yield Line(number, {"op": "external", "publisher": publisher, "groups": batch})
            batch = []
    if batch:
        yield Line(number + 1, {"op": "external", "publisher": publisher, "groups": batch})


def _read_folder(folder: Path) -> Iterable[tuple[str, Any]]:
    """The groups of all releases in a folder, or of one."""
    releases = sorted(entry for entry in folder.iterdir() if entry.is_dir() and _RELEASE.fullmatch(entry.name))
    files = [release / "groups.jsonl" for release in releases] or [folder / "groups.jsonl"]
    if not releases and not files[0].exists():
        raise InputError(
            f"{folder} holds no release: give a folder as `shoal releases --out` writes it, or a CSV file."
        )
    found: dict[tuple[Any, Any], tuple[str, Any]] = {}
    for path in files:
        for number, line in enumerate(_read(path).splitlines(), start=1):
            place = f"{path}, line {number},"
            try:
                record = json.loads(line)
                regions = [cell["region"] for cell in record["cells"]]
                name = record["table"], record["group"]
                found[name] = place, {"regions": regions, "sensitive": record["sensitive"]}
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(f"{place} is not a group of a release.") from None
    return found.values()


def _read_csv(policy: Policy, path: Path) -> Iterable[tuple[str, Any]]:
    rows = csv.DictReader(_read(path).removeprefix("\ufeff").splitlines(), skipinitialspace=True)
    names = rows.fieldnames or []
    attributes = [attribute for attribute in policy.attributes if attribute.name in names]
    unknown = set(names) - {a.name for a in attributes} - {"group", policy.sensitive.name}
    if policy.sensitive.name not in names or unknown or len(set(names)) < len(names):
        raise InputError(
            f"{path} must have a column {policy.sensitive.name}, and others only for attributes and group, each once."
        )
    found: dict[str, tuple[str, Any]] = {}
    for row in rows:
        place = f"{path}, line {rows.line_num},"
        if None in row or None in row.values():  # how csv says that there are more fields, or fewer
            raise InputError(f"{place} has another number of fields than the header.")
        region = {a.name: part for a in attributes if (part := _read_part(a, row[a.name], place)) is not None}
        text = json.dumps(region, sort_keys=True)
        _, group = found.setdefault(row.get("group") or text, (place, {"regions": [], "sensitive": {}}))
        if region not in group["regions"]:
            group["regions"].append(region)
        value = row[policy.sensitive.name].strip()
        group["sensitive"][value] = group["sensitive"].get(value, 0) + 1
    if not found:
        raise InputError(f"{path} has no row: what somebody else has published is more than a header.")
    return found.values()


def _read_part(attribute: Attribute, text: str, place: str) -> Any:
    """One attribute of a printed row; None where it is unrestricted."""
    text = text.strip()
    if text == "*":
        return None
    if attribute.kind == "category":
        return {"nodes": [label.strip() for label in text.split("|")]}
    number = int if attribute.kind == "int" else float
    try:
        if (ends := _RANGE.fullmatch(text)) is not None:
            return {"min": number(ends[1]), "max": number(ends[2])}
        if (ends := _HALF_OPEN.fullmatch(text)) is not None:
            return {"min": number(ends[1]), "below" if ends[3] == ")" else "max": number(ends[2])}
        return {"min": number(text), "max": number(text)}
    except ValueError:
        raise InputError(f"{place} has no range in column {attribute.name}: write it as 15-25, 20 or *.") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'unknown reason'}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
