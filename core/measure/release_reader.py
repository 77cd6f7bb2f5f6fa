"""A published release read back into columns, which is all that a loss or a query needs of it.

Layout. Cells, groups, rows and values are parallel arrays. A cell is a half-open run `[low, high)` per attribute, as in
`core/cells/region.py`; an *entry* says how many rows of one group lie in one cell; a *shown* value says how often one
group shows one node of the sensitive hierarchy. Reading costs one JSON parse per group.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.core.cells.tree import Column, Rows
from shoal.core.errors import CoreError
from shoal.core.policy.policy import Attribute, Policy


@dataclass(frozen=True)
class Published:
    """One release. Positions of groups and cells are those of `group_names` and `cell_names`."""

    policy: Policy
    group_names: tuple[str, ...]
    formed: Rows  # by group: the release it was formed at
    people: Rows  # by group
    counterfeits: Rows  # by group
    cell_names: tuple[str, ...]
    low: tuple[Column, ...]  # by attribute, then by cell
    high: tuple[Column, ...]
    entry_group: Rows
    entry_cell: Rows
    entry_rows: Rows
    shown_group: Rows
    shown_node: Rows
    shown_count: Rows

    @property
    def cell_rows(self) -> Rows:
        """The rows of each cell."""
        return np.bincount(self.entry_cell, self.entry_rows, len(self.cell_names)).astype(np.int64)

    @property
    def rows(self) -> int:
        return int(self.people.sum())


def read_published(policy: Policy, records: Iterable[bytes]) -> Published:
    """Read the group records of one release. Raises CoreError for one that is not written as this policy asks."""
    return _Reader(policy).read(records)


class _Reader:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cells: dict[str, int] = {}
        self._bounds: list[list[tuple[float, float]]] = []

    def read(self, records: Iterable[bytes]) -> Published:
        names: list[str] = []
        groups: list[tuple[int, int, int]] = []
        entries: list[tuple[int, int, int]] = []
        shown: list[tuple[int, int, int]] = []
        node_of = self._policy.sensitive.hierarchy.node_of
        for position, record in enumerate(records):
            try:
                group = json.loads(record)
                names.append(group["group"])
                mine = [(position, self._cell(cell), int(cell["rows"])) for cell in group["cells"]]
                shown += [(position, node_of[label], int(count)) for label, count in group["sensitive"].items()]
                groups.append((int(group["formed"]), sum(rows for _, _, rows in mine), int(group["counterfeits"])))
            except (KeyError, TypeError, ValueError, AttributeError):
                raise CoreError(f"record {position + 1} is not a group of the table {self._policy.table}") from None
            entries += mine
        formed, people, counterfeits = _columns(groups)
        return Published(
            self._policy, tuple(names), formed, people, counterfeits, tuple(self._cells),
            *self._regions(), *_columns(entries), *_columns(shown),
        )  # fmt: skip

    def _cell(self, cell: Mapping[str, Any]) -> int:
        name = cell["cell"]
        known = self._cells.get(name)
        if known is None:
            region = cell["region"]
            self._bounds.append([_run(attribute, region[attribute.name]) for attribute in self._policy.attributes])
            known = self._cells[name] = len(self._cells)
        return known

    def _regions(self) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        lows, highs = [], []
        for position, attribute in enumerate(self._policy.attributes):
            dtype = np.float64 if attribute.kind == "float" else np.int64
            lows.append(np.array([bounds[position][0] for bounds in self._bounds], dtype=dtype))
            highs.append(np.array([bounds[position][1] for bounds in self._bounds], dtype=dtype))
        return tuple(lows), tuple(highs)


def _run(attribute: Attribute, part: Mapping[str, Any]) -> tuple[float, float]:
    """One attribute of a region as the half-open run it stands for."""
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


def _columns(triples: Sequence[tuple[int, int, int]]) -> tuple[Rows, Rows, Rows]:
    table = np.array(triples, dtype=np.int64).reshape(len(triples), 3)
    return table[:, 0], table[:, 1], table[:, 2]
