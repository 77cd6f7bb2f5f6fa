"""Releases in format 1, those of engine 1.0, as the same releases in format 2.

A group of format 1 lists its cells with their regions, and there are no records of cells: {"group": "g3", "cells":
[{"cell": "c20", "region": {…}, "rows": 2}], …}, or `case_ids` in place of `rows`. Its manifest names neither the format
nor the model, which was redrawn, nor how many cells there are. What a release says is the same in both. So it is
rewritten here and held to everything that later ones are; only its digests are those of its own bytes.
"""

import json
from typing import Any, NamedTuple

from shoal.core.audit.reading.strictjson import parse


class Rewritten(NamedTuple):
    """The three files of a release in format 2."""

    cells: bytes
    groups: bytes
    manifest: bytes


def in_format_two(groups: bytes, manifest: bytes) -> Rewritten | None:
    """A release in format 1, rewritten; None if it is in another one, or cannot be read."""
    try:
        told: Any = parse(manifest)
        if not isinstance(told, dict) or "format" in told or "content" not in told:
            return None
        records: list[Any] = [parse(line) for line in groups.split(b"\n")[:-1]]
        return _rewrite(told, records)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def _rewrite(told: dict[str, Any], groups: list[dict[str, Any]]) -> Rewritten:
    regions: dict[str, Any] = {}
    people: dict[str, int] = {}
    lines = []
    for group in groups:
        rows = {cell["cell"]: cell.get("case_ids", cell.get("rows")) for cell in group["cells"]}
        for cell in group["cells"]:
            count = cell.get("rows", len(cell.get("case_ids", ())))
            regions[cell["cell"]] = cell["region"]
            people[cell["cell"]] = people.get(cell["cell"], 0) + count
        lines.append({**group, "changed": group["formed"], "cells": rows})
    head = {name: told[name] for name in ("table", "release")}
    cells = [{**head, "cell": name, "region": regions[name], "people": people[name]} for name in regions]
    more = {"format": 2, "values": "redrawn", "people": told["rows"], "cells": len(cells)}
    return Rewritten(_text(cells), _text(lines), _compact({**told, **more}))


def _text(records: list[dict[str, Any]]) -> bytes:
    return b"".join(_compact(record) + b"\n" for record in records)


def _compact(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
