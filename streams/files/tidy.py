"""Releases as four tidy tables: one line per cell, per group and cell, per group and value, and per release.

- cells: release, cell, people, and each attribute as rows.csv writes it; a number besides as `age_min` and `age_max`
- rows: release, group, cell, rows: how many rows of the group are in the cell
- values: release, group, value, count, group_rows, counterfeits, share, vacant: the share is how many of the value a
  row of the group is expected to have; a lasting table has vacant values where a redrawn one has counterfeits
- releases: what a manifest says

rows x share, added up over groups, is the estimate of `core/measure/query.py` for whole cells. A `_max` is included if
it is an integer or the end of a float's domain. An attribute whose name a column has already gets a `_` behind it.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from shoal.core.published.manifest import PublishedRelease
from shoal.streams.files.release_folder import region_text, row_count

Kind: TypeAlias = Literal["int", "float", "text"]
Columns: TypeAlias = dict[str, list[Any]]
Schema: TypeAlias = dict[str, Kind]

ROWS: Schema = {"release": "int", "group": "text", "cell": "text", "rows": "int"}
VALUES: Schema = {
    "release": "int",
    "group": "text",
    "value": "text",
    "count": "int",
    "group_rows": "int",
    "counterfeits": "int",
    "share": "float",
    "vacant": "int",
}
RELEASES: Schema = {
    "release": "int",
    "table": "text",
    "values": "text",
    "published_at": "text",
    "people": "int",
    "rows": "int",
    "cells": "int",
    "groups": "int",
    "withheld": "int",
    "suppressed": "int",
    "generalized": "int",
    "counterfeits": "int",
    "max_breach": "float",
    "bound": "float",
    "waiting": "int",
    "vacant": "int",
}
_CELLS: Schema = {"release": "int", "cell": "text", "people": "int"}


class Part(NamedTuple):
    """One column of cells that comes from a region: its attribute, and the end it has, None for the text of it all."""

    attribute: str
    end: Literal["min", "max"] | None


class Layout:
    """Which columns cells have. All cells of a table have the attributes of its policy; without cells none is known."""

    def __init__(self, releases: Iterable[PublishedRelease]) -> None:
        first = next((cell for files in releases for cell in files.cells), None)
        region: Mapping[str, Mapping[str, Any]] = {} if first is None else json.loads(first)["region"]
        self.cells: Schema = dict(_CELLS)
        self.parts: dict[str, Part] = {}
        for name, part in region.items():
            self._add(name, Part(name, None), "text")
            if "min" in part:
                kind: Kind = "int" if isinstance(part["min"], int) else "float"
                self._add(f"{name}_min", Part(name, "min"), kind)
                self._add(f"{name}_max", Part(name, "max"), kind)

    @property
    def tables(self) -> dict[str, Schema]:
        """The columns of each table, and what they hold."""
        return {"cells": self.cells, "rows": ROWS, "values": VALUES, "releases": RELEASES}

    def _add(self, name: str, part: Part, kind: Kind) -> None:
        # SQL and spreadsheets do not tell capitals apart
        while name.lower() in {taken.lower() for taken in self.cells}:
            name += "_"
        self.cells[name] = kind
        self.parts[name] = part


def tidy(files: PublishedRelease, layout: Layout) -> dict[str, Columns]:
    """One release as columns of each table."""
    groups = [json.loads(record) for record in files.groups]
    return {
        "cells": _cells(files, layout),
        "rows": _by_line(
            ROWS,
            (
                (files.number, group["group"], cell, row_count(shown))
                for group in groups
                for cell, shown in group["cells"].items()
            ),
        ),
        "values": _by_line(VALUES, (line for group in groups for line in _values(files.number, group))),
        "releases": {name: [files.meaning.get(name)] for name in RELEASES},
    }


def _cells(files: PublishedRelease, layout: Layout) -> Columns:
    columns: Columns = {name: [] for name in layout.cells}
    for record in files.cells:
        cell = json.loads(record)
        columns["release"].append(files.number)
        columns["cell"].append(cell["cell"])
        columns["people"].append(cell["people"])
        for name, (attribute, end) in layout.parts.items():
            columns[name].append(_part(cell["region"][attribute], end))
    return columns


def _part(part: Mapping[str, Any], end: Literal["min", "max"] | None) -> Any:
    if end is None:
        return region_text(part)
    return part["below"] if end == "max" and "below" in part else part[end]


def _values(number: int, group: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    rows = sum(row_count(shown) for shown in group["cells"].values())
    fakes, vacant = group.get("counterfeits", 0), group.get("vacant", 0)  # a group has one of them, by its model
    shown = sum(group["sensitive"].values())
    for value, count in group["sensitive"].items():
        # these are among the values shown and belong to no row
        share = count * (shown - fakes - vacant) / (shown * rows)
        yield number, group["group"], value, count, rows, fakes, share, vacant


def _by_line(schema: Schema, lines: Iterable[tuple[Any, ...]]) -> Columns:
    columns: Columns = {name: [] for name in schema}
    for line in lines:
        for column, item in zip(columns.values(), line, strict=True):
            column.append(item)
    return columns
