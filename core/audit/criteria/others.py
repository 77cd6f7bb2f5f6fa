"""What other publishers have released, read from events by the auditor's own reader, and whose rows lie in it.

To find the groups somebody lies in, each attribute is cut at every border of every region; each piece knows the regions
that hold it as the bits of one number, and a person's regions are the bits that all of their pieces share.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from shoal.core.audit.reading.names import is_name
from shoal.core.audit.reading.regions import Qid, just_above
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

_LARGEST_COUNT = 10**9

Runs = tuple[tuple[float, float], ...]  # half-open; none means everywhere


class Other(NamedTuple):
    """A group of another publisher: its regions, what it may show each leaf how often, and whether it shows "*"."""

    regions: tuple[tuple[Runs, ...], ...]
    weights: Mapping[int, Fraction]
    has_star: bool


def weigh(hierarchy: Hierarchy, shown: Mapping[int, int]) -> dict[int, Fraction]:
    """w(s, G) of every leaf: 1 for each time it is shown itself, 1/leaves(v) for each v above it, 0 for "*"."""
    found: dict[int, Fraction] = {}
    for node, count in shown.items():
        run = range(hierarchy.first[node], hierarchy.last[node]) if node else range(0)
        for leaf in run:
            found[leaf] = found.get(leaf, Fraction(0)) + Fraction(count, len(run))
    return found


def read_others(event: Mapping[str, Any], policy: Policy) -> list[Other]:
    """The groups of an external event whose fields have been checked. Raises ValueError for anything wrong with it."""
    publisher, groups = event["publisher"], event["groups"]
    if not is_name(publisher) or not isinstance(groups, list) or not groups:
        raise ValueError
    return [_read_other(raw, policy) for raw in groups]


def _read_other(raw: Any, policy: Policy) -> Other:
    if not isinstance(raw, dict) or set(raw) not in ({"region", "sensitive"}, {"regions", "sensitive"}):
        raise ValueError
    listed = raw["regions"] if "regions" in raw else [raw["region"]]
    if not isinstance(listed, list) or not listed:
        raise ValueError
    regions = tuple(_read_region(region, policy.attributes) for region in listed)
    hierarchy, sensitive = policy.sensitive.hierarchy, raw["sensitive"]
    if not isinstance(sensitive, dict) or not sensitive:
        raise ValueError
    shown: dict[int, int] = {}
    for label, count in sensitive.items():
        if label not in hierarchy.node_of or type(count) is not int or not 1 <= count <= _LARGEST_COUNT:
            raise ValueError
        shown[hierarchy.node_of[label]] = count
    if sum(shown.values()) > _LARGEST_COUNT:
        raise ValueError
    return Other(regions, weigh(hierarchy, shown), 0 in shown)


def _read_region(raw: Any, attributes: Sequence[Attribute]) -> tuple[Runs, ...]:
    if not isinstance(raw, dict) or raw.keys() - {attribute.name for attribute in attributes}:
        raise ValueError
    return tuple(_read_runs(raw[a.name], a) if a.name in raw else () for a in attributes)


def _read_runs(raw: Any, attribute: Attribute) -> Runs:
    hierarchy = attribute.hierarchy
    if not isinstance(raw, dict):
        raise ValueError  # noqa: TRY004 - whatever is wrong with it, it is a wrong event
    if hierarchy is not None:
        nodes = raw.get("nodes")
        if set(raw) != {"nodes"} or not isinstance(nodes, list) or not 0 < len(nodes) <= len(hierarchy.labels):
            raise ValueError
        labels = [str(label) if type(label) is int else label for label in nodes]
        if any(not isinstance(label, str) or label not in hierarchy.node_of for label in labels):
            raise ValueError
        codes = {
            code
            for label in labels
            for code in range(hierarchy.first[hierarchy.node_of[label]], hierarchy.last[hierarchy.node_of[label]])
        }
        return tuple((code, code + 1) for code in sorted(codes))
    ends = ("max",) if attribute.kind == "int" else ("max", "below")
    end = next((name for name in ends if set(raw) == {"min", name}), None)
    kinds = (int,) if attribute.kind == "int" else (int, float)
    if end is None or type(raw["min"]) not in kinds or type(raw[end]) not in kinds:
        raise ValueError
    low, high = raw["min"], raw[end]
    if not attribute.low <= low <= attribute.high or not attribute.low <= high <= attribute.high:
        raise ValueError
    if low > high or (end == "below" and low == high):
        raise ValueError
    return ((low, high if end == "below" else high + 1 if attribute.kind == "int" else just_above(high)),)


class Atlas:
    """Where other publishers' groups are. A person's groups are asked for by quasi-identifiers."""

    def __init__(self, attributes: Sequence[Attribute], others: Sequence[Other]) -> None:
        places = [(at, region) for at, other in enumerate(others) for region in other.regions]
        self._owner = [at for at, _ in places]
        self._pieces = [_pieces([region[position] for _, region in places]) for position in range(len(attributes))]
        self._known: dict[Qid, tuple[int, ...]] = {}

    def groups_at(self, qid: Qid) -> tuple[int, ...]:
        """The positions of the groups that have a region with this point in it, each once."""
        found = self._known.get(qid)
        if found is None:
            bits = -1
            for value, (borders, masks) in zip(qid, self._pieces, strict=True):
                bits &= masks[bisect_right(borders, value) - 1]
            found = self._known[qid] = tuple(sorted({self._owner[place] for place in _bits(bits)}))
        return found


def _pieces(sides: Sequence[Runs]) -> tuple[list[float], list[int]]:
    """The borders of one attribute, ascending from minus infinity, and from each on the regions that hold it."""
    changes: dict[float, int] = {-math.inf: 0}
    for place, runs in enumerate(sides):
        for low, high in runs or ((-math.inf, math.inf),):
            changes[low] = changes.get(low, 0) ^ 1 << place
            changes[high] = changes.get(high, 0) ^ 1 << place
    borders = sorted(changes)
    masks, held = [], 0
    for border in borders:
        held ^= changes[border]
        masks.append(held)
    return borders, masks


def _bits(number: int) -> Iterator[int]:
    while number:
        yield (number & -number).bit_length() - 1
        number &= number - 1
