"""Other publishers' groups: read from events with every mistake found, and kept for good, because releases add up.

Layout. A group is its regions and what it shows. A region has one item per attribute of the policy: a tuple of
half-open runs `[low, high)`, sorted and apart, or () where it is unrestricted. An inclusive end of a float becomes the
next float after it, so that every run is half-open. A group is plain numbers and equal groups are equal tuples, so a
publication that is sent twice is kept once: the second says nothing new.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.events.event import Reason, Reject, read_only, wrong_fields, wrong_id
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.policy.section import LARGEST_COUNT

Run = tuple[int, int] | tuple[float, float]
Region = tuple[tuple[Run, ...], ...]

_RUN_FIELDS: Final = {"int": ({"min", "max"},), "float": ({"min", "below"}, {"min", "max"}), "category": ({"nodes"},)}


class ExternalGroup(NamedTuple):
    """A group of another publisher: its people's regions, and (node of the sensitive hierarchy, count) pairs."""

    publisher: str
    regions: tuple[Region, ...]
    shown: tuple[tuple[int, int], ...]


class External(NamedTuple):
    """One event: the groups of one publication, or of a part of it."""

    groups: tuple[ExternalGroup, ...]


def parse_external(event: object, policy: Policy) -> External | Reject:
    """Read an `external` event; other ops are rejected as `wrong-topic`. Never raises."""
    fields = read_only("external", event)
    if isinstance(fields, Reject):
        return fields
    found = _read(fields, policy)
    return found._replace(op="external") if isinstance(found, Reject) else found


def _read(fields: dict[Any, Any], policy: Policy) -> External | Reject:
    if wrong_field := wrong_fields("external", fields):
        return wrong_field
    if wrong := wrong_id(fields["publisher"]):
        return Reject(wrong, None, "publisher")
    if type(fields["groups"]) is not list:
        return Reject(Reason.WRONG_TYPE, None, "groups")
    groups = []
    for raw in fields["groups"]:
        group = _read_group(raw, fields["publisher"], policy)
        if isinstance(group, Reject):
            return group
        groups.append(group)
    return External(tuple(groups)) if groups else Reject(Reason.EMPTY, None, "groups")


def _read_group(raw: object, publisher: str, policy: Policy) -> ExternalGroup | Reject:
    if type(raw) is not dict:
        return Reject(Reason.WRONG_TYPE, None, "groups")
    places = [name for name in ("region", "regions") if name in raw]
    if not raw.keys() <= {"region", "regions", "sensitive"} or len(places) > 1:
        return Reject(Reason.UNKNOWN_FIELD, None, "groups")
    if not places or "sensitive" not in raw:
        return Reject(Reason.MISSING_FIELD, None, "groups.sensitive" if places else "groups.region")
    listed = raw["regions"] if places == ["regions"] else [raw["region"]]
    if type(listed) is not list:
        return Reject(Reason.WRONG_TYPE, None, "groups.regions")
    regions = set()
    for part in listed:
        region = _read_region(part, policy)
        if isinstance(region, Reject):
            return region
        regions.add(region)
    if not regions:
        return Reject(Reason.EMPTY, None, "groups.regions")
    shown = _read_shown(raw["sensitive"], policy)
    return shown if isinstance(shown, Reject) else ExternalGroup(publisher, tuple(sorted(regions)), shown)


def _read_region(raw: object, policy: Policy) -> Region | Reject:
    if type(raw) is not dict:
        return Reject(Reason.WRONG_TYPE, None, "groups.region")
    if not raw.keys() <= {attribute.name for attribute in policy.attributes}:
        return Reject(Reason.UNKNOWN_ATTRIBUTE, None, "groups.region")
    found: list[tuple[Run, ...]] = []
    for attribute in policy.attributes:
        runs = _read_runs(raw[attribute.name], attribute) if attribute.name in raw else ()
        if isinstance(runs, Reason):
            return Reject(runs, None, f"groups.region.{attribute.name}")
        found.append(() if runs == (domain_run(attribute),) else runs)
    return tuple(found)


def domain_run(attribute: Attribute) -> Run:
    """The whole of an attribute, its upper end included."""
    low, high = domain(attribute)
    return (low, _after(high)) if attribute.kind == "float" else (low, high)


def _after(number: float) -> float:
    return math.nextafter(number, math.inf)


def _read_runs(raw: object, attribute: Attribute) -> tuple[Run, ...] | Reason:
    """The runs of one attribute of a region, or the reason why it cannot be read."""
    if type(raw) is not dict:
        return Reason.WRONG_TYPE
    kinds = _RUN_FIELDS[attribute.kind]
    if raw.keys() not in kinds:
        is_known = any(raw.keys() <= kind for kind in kinds)
        return Reason.MISSING_FIELD if is_known else Reason.UNKNOWN_FIELD
    if attribute.kind == "category":
        return _read_nodes(raw["nodes"], attribute)
    low, high = raw["min"], raw["below"] if "below" in raw else raw["max"]
    numbers = (int,) if attribute.kind == "int" else (int, float)
    if type(low) not in numbers or type(high) not in numbers:
        return Reason.WRONG_TYPE
    if not (attribute.low <= low <= attribute.high and attribute.low <= high <= attribute.high):
        return Reason.OUT_OF_DOMAIN
    if low > high or ("below" in raw and low == high):
        return Reason.EMPTY
    if attribute.kind == "int":
        return ((low, high + 1),)
    return ((low + 0.0, high + 0.0 if "below" in raw else _after(high + 0.0)),)


def _read_nodes(raw: object, attribute: Attribute) -> tuple[Run, ...] | Reason:
    hierarchy = attribute.hierarchy
    assert hierarchy is not None
    if type(raw) is not list:
        return Reason.WRONG_TYPE
    if len(raw) > len(hierarchy.labels):
        return Reason.TOO_LONG
    runs: list[tuple[int, int]] = []
    for label in raw:
        if type(label) not in (str, int):
            return Reason.WRONG_TYPE
        node = hierarchy.node_of.get(str(label))
        if node is None:
            return Reason.UNKNOWN_NODE
        runs.append((hierarchy.first[node], hierarchy.last[node]))
    return _joined(runs) if runs else Reason.EMPTY


def _joined(runs: Iterable[tuple[int, int]]) -> tuple[Run, ...]:
    """Runs sorted, with touching ones joined."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(runs):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def _read_shown(raw: object, policy: Policy) -> tuple[tuple[int, int], ...] | Reject:
    node_of = policy.sensitive.hierarchy.node_of
    if type(raw) is not dict:
        return Reject(Reason.WRONG_TYPE, None, "groups.sensitive")
    shown: dict[int, int] = {}
    for label, count in raw.items():
        node = node_of.get(str(label)) if type(label) in (str, int) else None
        if node is None:
            return Reject(Reason.UNKNOWN_NODE, None, "groups.sensitive")
        if type(count) is not int:
            return Reject(Reason.WRONG_TYPE, None, "groups.sensitive")
        if not 1 <= count <= LARGEST_COUNT:
            return Reject(Reason.OUT_OF_DOMAIN, None, "groups.sensitive")
        if node in shown:  # 1 and "1" are one label
            return Reject(Reason.DUPLICATE_KEY, None, "groups.sensitive")
        shown[node] = count
    if sum(shown.values()) > LARGEST_COUNT:  # `overlaps.py` keeps the whole part of a weight in 40 bits
        return Reject(Reason.OUT_OF_DOMAIN, None, "groups.sensitive")
    return tuple(sorted(shown.items())) if shown else Reject(Reason.EMPTY, None, "groups.sensitive")


class Externals:
    """Every group other publishers have released, numbered from 1; a restart does not change the numbers."""

    def __init__(self) -> None:
        self._groups: dict[int, ExternalGroup] = {}
        self._known: set[ExternalGroup] = set()
        self.prepared: object = None  # an index over all of them, until there are more

    def copy(self) -> "Externals":
        """Externals that can take in more groups without changing these."""
        twin = Externals()
        twin._groups, twin._known, twin.prepared = dict(self._groups), set(self._known), self.prepared
        return twin

    def __len__(self) -> int:
        return len(self._groups)

    def records(self) -> Mapping[int, ExternalGroup]:
        return self._groups

    def add(self, groups: Iterable[ExternalGroup]) -> range:
        """Take in the new groups, sorted, so that their order of arrival does not matter; returns their numbers."""
        fresh = dict.fromkeys(groups)  # not a set: the order of arrival is that of memory, and quicker
        for group in fresh.keys() & self._known:
            del fresh[group]
        first = len(self._groups) + 1
        self._groups.update(enumerate(_in_order(list(fresh)), first))
        self._known.update(fresh)
        if fresh:
            self.prepared = None
        return range(first, first + len(fresh))

    def put(self, records: Iterable[tuple[int, ExternalGroup]]) -> None:
        """Take in groups as they were stored."""
        for number, group in sorted(records):
            self.prepared = None
            self._groups[number] = group
            self._known.add(group)


def _in_order(groups: Sequence[ExternalGroup]) -> list[ExternalGroup]:
    """Sorted by publisher, values shown and regions. Each is ranked by itself, because most groups repeat a few."""
    orders = (
        _ranks([group.regions for group in groups]),
        _ranks([group.shown for group in groups]),
        _ranks([group.publisher for group in groups]),
    )
    return [groups[at] for at in np.lexsort(orders).tolist()]


def _ranks(keys: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each key among the different ones, sorted."""
    known: dict[Any, int] = {}
    codes = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
    rank = np.empty(len(known), dtype=np.int64)
    rank[[known[key] for key in sorted(known)]] = np.arange(len(known))
    return np.asarray(rank[codes])


def as_external(stored: Any) -> ExternalGroup:
    """A group as it came back from storage, where every tuple may be a list."""
    publisher, regions, shown = stored
    return ExternalGroup(
        publisher,
        tuple(tuple(tuple((low, high) for low, high in runs) for runs in region) for region in regions),
        tuple((node, count) for node, count in shown),
    )
