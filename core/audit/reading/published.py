"""Published releases as an outsider reads them: every record is checked for its form before anything is made of it.

What cannot be read is said once and left out; everything after works with what remains.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.regions import Region, RegionReader
from shoal.core.audit.reading.strictjson import parse
from shoal.core.policy.policy import Policy

RECORD = "a group record cannot be read"
UNKNOWN_FIELD = "a group record has a field that the contract does not name"
CASE_ID_BESIDE_VALUE = "a case id stands beside a value"
VALUES = "a group's values are not counts of nodes of the hierarchy"
ABOVE_PERMANENT = "a node above a permanent value is shown"
TWICE = "a group or cell stands twice in a release"
CASE_IDS = "a cell's case ids are not one for each of its rows"
MANIFEST = "a manifest cannot be read"
COUNTERFEITS = "counterfeits are published, though there is no other publication they could answer"

_GROUP_FIELDS = ("table", "release", "group", "formed", "cells", "sensitive", "counterfeits")
_COUNTS = (
    "rows", "groups", "formed", "carried", "withheld", "unsampled", "suppressed", "generalized", "counterfeits",
)  # fmt: skip
_MANIFEST_FIELDS = frozenset(
    ("table", "release", "previous", "policy", "content", "engine", "published_at", "max_breach", "bound", "loss")
) | frozenset(_COUNTS)


class Stored(NamedTuple):
    """One release as it lies in a folder: the number it is under, and the bytes."""

    number: int
    groups: bytes
    manifest: bytes


@dataclass(frozen=True)
class Cell:
    """A line of a group's cell list."""

    name: str
    region: Region
    rows: int
    case_ids: tuple[str, ...] | None


@dataclass(frozen=True)
class Group:
    """A published group. `shown` counts its values by node of the sensitive hierarchy; `people` are its rows."""

    name: str
    formed: int
    cells: tuple[Cell, ...]
    shown: Mapping[int, int]
    counterfeits: int
    people: int


@dataclass(frozen=True)
class Published:
    """A release that was read. `rows` counts rows by cell over all groups; `manifest` is None if it is unreadable."""

    number: int
    groups: Mapping[str, Group]
    regions: Mapping[str, Region]
    rows: Mapping[str, int]
    manifest: Mapping[str, Any] | None
    content: str
    digest: str
    added: tuple[str, ...]  # fields of the manifest that the contract does not name


class ReleaseReader:
    """Reads the releases of one table, and says what is wrong with their form."""

    def __init__(self, policy: Policy, findings: Findings) -> None:
        self._policy, self._findings = policy, findings
        self._hierarchy = policy.sensitive.hierarchy
        self._regions = RegionReader(policy)
        first, last, permanent = self._hierarchy.first, self._hierarchy.last, policy.sensitive.permanent
        self._above_permanent = {
            node
            for node in range(1, len(self._hierarchy.labels))
            if last[node] - first[node] > 1 and any(first[node] <= leaf < last[node] for leaf in permanent)
        }

    def read(self, stored: Stored) -> Published:
        groups: dict[str, Group] = {}
        regions: dict[str, Region] = {}
        rows: Counter[str] = Counter()
        for line in stored.groups.split(b"\n")[:-1]:
            group = self._group(line, stored.number)
            if group is None:
                continue
            if group.name in groups or len({cell.name for cell in group.cells}) < len(group.cells):
                self._findings.say(Promise.CONTRACT, TWICE, stored.number, group.name)
                continue
            groups[group.name] = group
            for cell in group.cells:
                regions.setdefault(cell.name, cell.region)
                rows[cell.name] += cell.rows
        if stored.groups and not stored.groups.endswith(b"\n"):
            self._findings.say(Promise.CONTRACT, RECORD, stored.number)
        manifest = self._manifest(stored)
        return Published(
            stored.number,
            groups,
            regions,
            rows,
            manifest,
            sha256(stored.groups).hexdigest(),
            sha256(stored.manifest).hexdigest(),
            tuple(name for name in manifest or () if name not in _MANIFEST_FIELDS),
        )

    def _group(self, line: bytes, number: int) -> Group | None:
        say = self._findings.say
        try:
            raw = parse(line, written=True)
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict) or not isinstance(raw.get("group"), str) or not _are_counts(raw, ("formed",)):
            say(Promise.CONTRACT, RECORD, number)
            return None
        name = raw["group"]
        missing = [field for field in _GROUP_FIELDS if field not in raw]
        if missing or (raw["table"], raw["release"]) != (self._policy.table, number):
            say(Promise.CONTRACT, RECORD, number, name)
            return None
        if len(raw) > len(_GROUP_FIELDS):
            say(Promise.CONTRACT, UNKNOWN_FIELD, number, name)
        if type(raw["counterfeits"]) is not int or raw["counterfeits"] < 0:
            say(Promise.CONTRACT, RECORD, number, name)
            return None
        cells = self._cells(raw["cells"], number, name)
        shown = self._shown(raw["sensitive"], number, name)
        if cells is None or shown is None:
            return None
        people = sum(cell.rows for cell in cells)
        return Group(name, raw["formed"], cells, shown, raw["counterfeits"], people)

    def _cells(self, raw: object, number: int, group: str) -> tuple[Cell, ...] | None:
        say, found = self._findings.say, []
        for cell in raw if isinstance(raw, list) and raw else [None]:
            if not isinstance(cell, dict) or not isinstance(cell.get("cell"), str) or not _are_counts(cell, ("rows",)):
                say(Promise.CONTRACT, RECORD, number, group)
                return None
            if set(cell) - {"cell", "region", "rows", "case_ids"}:
                say(Promise.CONTRACT, UNKNOWN_FIELD, number, group)
            region, wrong = self._regions.read(cell.get("region"))
            for sentence in wrong:
                say(Promise.G1, sentence, number, cell["cell"])
            if region is None:
                return None
            found.append(Cell(cell["cell"], region, cell["rows"], self._case_ids(cell, number)))
        return tuple(found)

    def _case_ids(self, cell: dict[str, Any], number: int) -> tuple[str, ...] | None:
        listed = cell.get("case_ids")
        if listed is None and not self._policy.case_ids and "case_ids" not in cell:
            return None
        is_right = (
            self._policy.case_ids
            and isinstance(listed, list)
            and len(listed) == len(set(map(str, listed))) == cell["rows"]
            and all(isinstance(case, str) and case for case in listed)
        )
        if not is_right or not isinstance(listed, list):
            self._findings.say(Promise.CONTRACT, CASE_IDS, number, cell["cell"])
            return None
        return tuple(listed)

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

    def _manifest(self, stored: Stored) -> Mapping[str, Any] | None:
        try:
            raw = parse(stored.manifest)
        except (ValueError, RecursionError):
            raw = None
        is_right = (
            isinstance(raw, dict)
            and raw.keys() >= _MANIFEST_FIELDS
            and all(type(raw[name]) is int and raw[name] >= 0 for name in ("release", *_COUNTS))
            and all(type(raw[name]) in (int, float) for name in ("max_breach", "bound"))
            and all(isinstance(raw[name], str) for name in ("table", "policy", "content", "engine"))
            and all(raw[name] is None or isinstance(raw[name], str) for name in ("previous", "published_at"))
            and _is_loss(raw["loss"])
        )
        if not is_right or not isinstance(raw, dict):
            self._findings.say(Promise.G6, MANIFEST, stored.number)
            return None
        return raw


def _are_counts(raw: dict[str, Any], names: tuple[str, ...]) -> bool:
    return all(type(raw.get(name)) is int and raw[name] >= 1 for name in names)


def _has_text(value: object) -> bool:
    """Whether a value that should be a count holds any text: that would be somebody's name for a row."""
    if isinstance(value, dict):
        return True
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str)


def _is_loss(loss: object) -> bool:
    if loss is None:
        return True
    names = ("ncp", "discernibility", "average_group")
    return isinstance(loss, dict) and all(type(loss.get(name)) in (int, float) for name in names)
