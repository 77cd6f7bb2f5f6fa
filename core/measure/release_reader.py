"""A published release read back into numpy columns, from which metrics and query answers are worked out.

Layout. Cells, groups, rows and values are parallel arrays. A cell is a half-open run `[low, high)` per attribute, as in
`core/cells/region.py`. The `cell_rows_*` arrays say how many rows of one group lie in one cell, the `shown_*` arrays
how often one group shows one node of the sensitive hierarchy. A row is a person in a redrawn table, an entry in a
lasting one. Reading costs one JSON parse per cell and per group.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from shoal.core.cells.tree import Column, Rows
from shoal.core.errors import CoreError
from shoal.core.measure.density import Spread, spread_over
from shoal.core.policy.policy import Attribute, Policy

SPARE: Final = {"redrawn": "counterfeits", "lasting": "vacant"}
"""By model, what values of a group are called that have no row."""


@dataclass(frozen=True)
class ReleaseColumns:
    """One release. Groups and cells are numbered by their position in `group_names` and `cell_names`."""

    policy: Policy
    group_names: tuple[str, ...]
    formed: Rows  # by group: the release it was formed at
    group_rows: Rows  # by group
    spare: Rows  # by group: of the values it shows, how many have no row; counterfeits, or vacant in a lasting table
    cell_names: tuple[str, ...]
    cell_people: Rows  # by cell
    low: tuple[Column, ...]  # by attribute, then by cell
    high: tuple[Column, ...]
    cell_rows_group: Rows
    cell_rows_cell: Rows
    cell_rows_count: Rows
    shown_group: Rows
    shown_node: Rows
    shown_count: Rows

    @property
    def rows_by_cell(self) -> Rows:
        """How many rows each cell has."""
        counts = np.bincount(self.cell_rows_cell, self.cell_rows_count, len(self.cell_names))
        return counts.astype(np.int64)

    @property
    def rows(self) -> int:
        return int(self.group_rows.sum())

    @cached_property
    def spread(self) -> tuple[Spread, ...]:
        """By attribute, how people are spread over it."""
        runs = zip(self.low, self.high, strict=True)
        return tuple(spread_over(low, high, self.cell_people) for low, high in runs)


def read_columns(policy: Policy, records: Iterable[bytes]) -> ReleaseColumns:
    """Read the records of one release, cells before groups. Raises CoreError for a record that is neither."""
    return _Reader(policy).read(records)


class _Reader:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cells: dict[str, int] = {}
        self._bounds: list[list[tuple[float, float]]] = []
        self._people: list[int] = []

    def read(self, records: Iterable[bytes]) -> ReleaseColumns:
        names: list[str] = []
        groups: list[tuple[int, int, int]] = []
        cell_rows: list[tuple[int, int, int]] = []
        shown: list[tuple[int, int, int]] = []
        node_of, spare = self._policy.sensitive.hierarchy.node_of, SPARE[self._policy.values]
        for number, record in enumerate(records, start=1):
            try:
                found = json.loads(record)
                if "cell" in found:
                    self._add_cell(found)
                    continue
                position = len(names)
                names.append(found["group"])
                mine = [(position, self._cells[cell], _rows(rows)) for cell, rows in found["cells"].items()]
                shown += [(position, node_of[label], int(count)) for label, count in found["sensitive"].items()]
                groups.append((int(found["formed"]), sum(rows for _, _, rows in mine), int(found[spare])))
            except (KeyError, TypeError, ValueError, AttributeError):
                raise CoreError(
                    f"record {number} is neither a cell nor a group of the table {self._policy.table}"
                ) from None
            cell_rows += mine
        formed, group_rows, spares = _columns(groups)
        low, high = self._regions()
        cell_rows_group, cell_rows_cell, cell_rows_count = _columns(cell_rows)
        shown_group, shown_node, shown_count = _columns(shown)
        return ReleaseColumns(
            policy=self._policy,
            group_names=tuple(names),
            formed=formed,
            group_rows=group_rows,
            spare=spares,
            cell_names=tuple(self._cells),
            cell_people=np.array(self._people, dtype=np.int64),
            low=low,
            high=high,
            cell_rows_group=cell_rows_group,
            cell_rows_cell=cell_rows_cell,
            cell_rows_count=cell_rows_count,
            shown_group=shown_group,
            shown_node=shown_node,
            shown_count=shown_count,
        )

    def _add_cell(self, cell: Mapping[str, Any]) -> None:
        region = cell["region"]
        self._bounds.append([_run(attribute, region[attribute.name]) for attribute in self._policy.attributes])
        self._people.append(int(cell["people"]))
        self._cells[cell["cell"]] = len(self._bounds) - 1

    def _regions(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        lows, highs = [], []
        for position, attribute in enumerate(self._policy.attributes):
            dtype = np.float64 if attribute.kind == "float" else np.int64
            lows.append(np.array([bounds[position][0] for bounds in self._bounds], dtype=dtype))
            highs.append(np.array([bounds[position][1] for bounds in self._bounds], dtype=dtype))
        return tuple(lows), tuple(highs)


def _run(attribute: Attribute, part: Mapping[str, Any]) -> tuple[float, float]:
    """One attribute of a region as a half-open run."""
    if attribute.kind == "int":
        return int(part["min"]), int(part["max"]) + 1
    if attribute.kind == "float":
        return float(part["min"]), float(part["below"] if "below" in part else part["max"])
    hierarchy = attribute.hierarchy
    assert hierarchy is not None
    nodes = [hierarchy.node_of[label] for label in part["nodes"]]
    first, last = min(hierarchy.first[node] for node in nodes), max(hierarchy.last[node] for node in nodes)
    if sum(hierarchy.last[node] - hierarchy.first[node] for node in nodes) != last - first:
        raise ValueError("the nodes of a region are not neighbours")
    return first, last


def _rows(shown: Any) -> int:
    """How many rows of a group are in one cell: a number, or their case ids."""
    return len(shown) if isinstance(shown, list) else int(shown)


def _columns(triples: Sequence[tuple[int, int, int]]) -> tuple[Rows, Rows, Rows]:
    table = np.array(triples, dtype=np.int64).reshape(len(triples), 3)
    return table[:, 0], table[:, 1], table[:, 2]
