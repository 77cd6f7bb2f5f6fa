"""The groups of another publisher from a CSV file of generalized rows, as papers and spreadsheets print them.

The file has a column for each attribute that is published, named as in the policy, and one for the sensitive value.
`15-25`, `20`, `[50,72.5)`, `a|b` and `*` are understood. Rows with the same text in a column `group` are one group;
without that column, rows with the same regions are.
"""

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.core.policy.policy import Attribute, Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats.external import read_text

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_RANGE = re.compile(rf"{_NUMBER}\s*[-–]\s*{_NUMBER}", re.ASCII)
_HALF_OPEN = re.compile(rf"\[{_NUMBER},\s*{_NUMBER}([)\]])", re.ASCII)


def read_groups(policy: Policy, path: Path) -> Iterable[tuple[str, Any]]:
    """The groups of a file. Raises `InputError`."""
    rows = csv.DictReader(read_text(path).removeprefix("\ufeff").splitlines(), skipinitialspace=True)
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
            raise InputError(f"{place} does not have as many fields as the header.")
        region = {a.name: part for a in attributes if (part := _read_part(a, row[a.name], place)) is not None}
        text = json.dumps(region, sort_keys=True)
        _, group = found.setdefault(row.get("group") or text, (place, {"regions": [], "sensitive": {}}))
        if region not in group["regions"]:
            group["regions"].append(region)
        value = row[policy.sensitive.name].strip()
        group["sensitive"][value] = group["sensitive"].get(value, 0) + 1
    if not found:
        raise InputError(f"{path} has only a header; it must have at least one row.")
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
