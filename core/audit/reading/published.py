"""Published releases as an outsider reads them: every record is checked for its form before anything is made of it.

What cannot be read is said once and left out; everything after works with what remains. This is format 1
(docs/contract.md, "Releases"): cell records, then group records, and a manifest over both. A release that holds only
what changed is read as the full one that it makes (`together.py`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.epochs import Epoch, Epochs
from shoal.core.audit.reading.manifest import KNOWN_FIELDS, OPTIONAL_FIELDS, ManifestReader
from shoal.core.audit.reading.regions import Region, RegionReader
from shoal.core.audit.reading.shards import ShardReader
from shoal.core.audit.reading.strictjson import parse
from shoal.core.audit.reading.together import Stored, Together
from shoal.core.policy.policy import Policy

RECORD = "a group record cannot be read"
CELL_RECORD = "a cell record cannot be read"
GONE_RECORD = "a record of what is gone cannot be read"
UNKNOWN_FIELD = "a record has a field that the contract does not name"
CASE_ID_BESIDE_VALUE = "a case id stands beside a value"
VALUES = "a group's values are not counts of nodes of the hierarchy"
ABOVE_PERMANENT = "a node above a permanent value is shown"
TWICE = "a group or cell stands twice in a release"
CASE_IDS = "a cell's case ids are not one for each of its rows"
NO_CELL = "a group names a cell that has no record"
NO_ROWS = "a cell has a record and no rows"
COUNTERFEITS = "counterfeits are published, though there is no other publication they could answer"

_CELL_FIELDS = ("table", "release", "cell", "region", "people")
_GROUP_FIELDS = ("table", "release", "group", "formed", "changed", "cells", "sensitive", "counterfeits")


@dataclass(frozen=True)
class Cell:
    """The rows that a group has in one cell."""

    name: str
    region: Region
    rows: int
    case_ids: tuple[str, ...] | None


@dataclass(frozen=True)
class Group:
    """A published group. `shown` counts its values by node of the sensitive hierarchy."""

    name: str
    formed: int
    changed: int
    cells: tuple[Cell, ...]
    shown: Mapping[int, int]
    counterfeits: int
    rows: int


@dataclass(frozen=True)
class Published:
    """A release that was read. `rows` counts rows by cell over all groups; `manifest` is None if it is unreadable.

    `people` is what the cell records say. A row is a person in a redrawn table and an entry in a lasting one.
    """

    number: int
    groups: Mapping[str, Group]
    regions: Mapping[str, Region]
    people: Mapping[str, int]
    rows: Mapping[str, int]
    manifest: Mapping[str, Any] | None
    content: str
    digest: str
    added: tuple[str, ...]  # fields of the manifest that the contract does not name
    epoch: Epoch


class ReleaseReader:
    """Reads the releases of one table, and says what is wrong with their form."""

    def __init__(self, policy: Policy, findings: Findings, epochs: Epochs | None = None) -> None:
        self._policy, self._findings = policy, findings
        self._epochs = epochs or Epochs([policy])
        self._hierarchy = policy.sensitive.hierarchy
        self._regions, self._manifests = RegionReader(policy), ManifestReader(policy, findings)
        self._together, self._shards = Together(policy, findings), ShardReader(policy, self._regions, findings)
        first, last, permanent = self._hierarchy.first, self._hierarchy.last, policy.sensitive.permanent
        self._above_permanent = {
            node
            for node in range(1, len(self._hierarchy.labels))
            if last[node] - first[node] > 1 and any(first[node] <= leaf < last[node] for leaf in permanent)
        }

    def read(self, stored: Stored) -> Published:
        number, say, original = stored.number, self._findings.say, stored
        stored, content = self._together.take(stored)
        say(Promise.CONTRACT, GONE_RECORD, number, times=stored.gone.count(b"\n"))
        regions: dict[str, Region] = {}
        people: dict[str, int] = {}
        for line in self._lines(stored.cells, number, CELL_RECORD):
            self._cell(line, number, regions, people)
        groups: dict[str, Group] = {}
        rows: Counter[str] = Counter()
        for line in self._lines(stored.groups, number, RECORD):
            group = self._group(line, number, regions)
            if group is None:
                continue
            if group.name in groups:
                say(Promise.CONTRACT, TWICE, number, group.name)
                continue
            groups[group.name] = group
            for cell in group.cells:
                rows[cell.name] += cell.rows
        for name in regions.keys() - rows.keys():
            say(Promise.CONTRACT, NO_ROWS, number, name)
            del regions[name], people[name]
        manifest = self._manifests.read(number, stored.manifest)
        epoch = self._epochs.of(manifest, number, self._findings)
        if manifest is not None:
            named = {name: [cell.name for cell in group.cells] for name, group in groups.items()}
            self._shards.see(number, stored.manifest, epoch, regions, people, named)
        return Published(
            number,
            groups,
            regions,
            people,
            rows,
            manifest,
            content,
            sha256(original.manifest).hexdigest(),
            tuple(name for name in manifest or () if name not in KNOWN_FIELDS | OPTIONAL_FIELDS),
            epoch,
        )

    def _lines(self, text: bytes, number: int, wrong: str) -> Iterator[dict[str, Any]]:
        """The objects of a file, a line each, that are of this table and release."""
        if text and not text.endswith(b"\n"):
            self._findings.say(Promise.CONTRACT, wrong, number)
        for line in text.split(b"\n")[:-1]:
            try:
                raw = parse(line, written=True)
            except (ValueError, RecursionError):
                raw = None
            is_ours = isinstance(raw, dict) and (raw.get("table"), raw.get("release")) == (self._policy.table, number)
            if isinstance(raw, dict) and is_ours and type(raw["release"]) is int:
                yield raw
            else:
                self._findings.say(Promise.CONTRACT, wrong, number)

    def _cell(self, raw: dict[str, Any], number: int, regions: dict[str, Region], people: dict[str, int]) -> None:
        say, name = self._findings.say, raw.get("cell")
        if not isinstance(name, str) or not name or not _are_counts(raw, ("people",)):
            say(Promise.CONTRACT, CELL_RECORD, number)
            return
        say(Promise.CONTRACT, UNKNOWN_FIELD, number, name, int(bool(raw.keys() - set(_CELL_FIELDS))))
        region, wrong = self._regions.read(raw.get("region"))
        for sentence in wrong:
            say(Promise.G1, sentence, number, name)
        if region is None:
            return
        if name in regions:
            say(Promise.CONTRACT, TWICE, number, name)
            return
        regions[name], people[name] = region, raw["people"]

    def _group(self, raw: dict[str, Any], number: int, regions: Mapping[str, Region]) -> Group | None:
        say, name = self._findings.say, raw.get("group")
        if not isinstance(name, str) or not name:
            say(Promise.CONTRACT, RECORD, number)
            return None
        is_right = raw.keys() >= set(_GROUP_FIELDS) and _are_counts(raw, ("formed", "changed"))
        if not is_right or type(raw["counterfeits"]) is not int or raw["counterfeits"] < 0:
            say(Promise.CONTRACT, RECORD, number, name)
            return None
        say(Promise.CONTRACT, UNKNOWN_FIELD, number, name, int(len(raw) > len(_GROUP_FIELDS)))
        cells = self._cells(raw["cells"], number, name, regions)
        shown = self._shown(raw["sensitive"], number, name)
        if cells is None or shown is None:
            return None
        rows = sum(cell.rows for cell in cells)
        return Group(name, raw["formed"], raw["changed"], cells, shown, raw["counterfeits"], rows)

    def _cells(self, raw: object, number: int, group: str, regions: Mapping[str, Region]) -> tuple[Cell, ...] | None:
        """The rows of a group by cell: a count for each, or, with `case_ids`, the list of them."""
        say = self._findings.say
        if not isinstance(raw, dict) or not raw:
            say(Promise.CONTRACT, RECORD, number, group)
            return None
        if raw.keys() - regions.keys():
            say(Promise.CONTRACT, NO_CELL, number, group)
            return None
        if not self._policy.case_ids:
            if not _are_counts(raw, tuple(raw)):
                say(Promise.CONTRACT, CASE_IDS if any(map(_has_text, raw.values())) else RECORD, number, group)
                return None
            return tuple(Cell(name, regions[name], rows, None) for name, rows in raw.items())
        if not all(_are_case_ids(listed) for listed in raw.values()):
            say(Promise.CONTRACT, CASE_IDS, number, group)
            return None
        return tuple(Cell(name, regions[name], len(listed), tuple(listed)) for name, listed in raw.items())

    def _shown(self, raw: object, number: int, group: str) -> Mapping[int, int] | None:
        hierarchy, say = self._hierarchy, self._findings.say
        if isinstance(raw, dict) and any(map(_has_text, raw.values())):
            say(Promise.CONTRACT, CASE_ID_BESIDE_VALUE, number, group)
        if not isinstance(raw, dict) or not raw or not _are_counts(raw, tuple(raw)) or raw.keys() - hierarchy.node_of:
            say(Promise.CONTRACT, VALUES, number, group)
            return None
        shown = {hierarchy.node_of[label]: count for label, count in raw.items()}
        if self._above_permanent & shown.keys():
            say(Promise.CONTRACT, ABOVE_PERMANENT, number, group)
        return shown


def _are_counts(raw: dict[str, Any], names: tuple[str, ...]) -> bool:
    return all(type(raw.get(name)) is int and raw[name] >= 1 for name in names)


def _are_case_ids(listed: object) -> bool:
    if not isinstance(listed, list) or not listed or not all(isinstance(case, str) and case for case in listed):
        return False
    return len(set(listed)) == len(listed)


def _has_text(value: object) -> bool:
    """Whether a value that should be a count holds any text: that would be somebody's name for a row."""
    if isinstance(value, dict):
        return True
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str)
