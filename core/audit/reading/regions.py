"""Regions as an outsider reads them: boxes in the quasi-identifier space, and the one way in which each may be written.

A box is a half-open run `[low, high)` per attribute: of integers, of floats, of a category's leaf codes. A float region
that ends with the domain (`max`) includes its end; its `high` is then infinite, which no value reaches. Comparisons are
between numbers as they were published, so nothing is rounded.
"""

import math
from decimal import Decimal
from fractions import Fraction
from operator import le
from typing import Any, NamedTuple

from shoal.core.audit.reading.epochs import Epoch
from shoal.core.audit.reading.strictjson import WrittenFloat, frozen
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

UNREADABLE = "a region cannot be read"
INCOMPLETE = "a region does not have every attribute in the policy's order"
OUTSIDE = "a region's end lies outside its domain"
NOT_SIBLINGS = "a region of a category is neither a node nor a run of siblings"
NOT_CANONICAL = "a region is not written in the one way it may be"

Qid = tuple[float, ...]  # by attribute, in the policy's order: a number, or a category's leaf code


class Region(NamedTuple):
    """A box; `low` and `high` have one entry per attribute, in the policy's order."""

    low: Qid
    high: Qid

    def holds(self, qid: Qid) -> bool:
        return all(low <= value < high for low, value, high in zip(self.low, qid, self.high, strict=True))

    def is_inside(self, other: "Region") -> bool:
        return all(map(le, other.low, self.low)) and all(map(le, self.high, other.high))

    def is_disjoint(self, other: "Region") -> bool:
        return any(map(le, self.high, other.low)) or any(map(le, other.high, self.low))

    def intersect(self, other: "Region") -> "Region":
        """What both hold; of boxes that share a point."""
        return Region(tuple(map(max, self.low, other.low)), tuple(map(min, self.high, other.high)))


def just_above(value: float) -> float:
    """The end of a run that includes `value` as its last float."""
    return math.nextafter(value, math.inf)


class RegionReader:
    """Reads regions under a policy; the same region is judged once."""

    def __init__(self, policy: Policy) -> None:
        self._attributes = policy.attributes
        self._known: dict[object, tuple[Region | None, tuple[str, ...]]] = {}

    def read(self, raw: object) -> tuple[Region | None, tuple[str, ...]]:
        """The box, None if it is none, and every sentence that is true of how it is written."""
        key = frozen(raw)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(raw)
        return known

    def _read(self, raw: object) -> tuple[Region | None, tuple[str, ...]]:
        if not isinstance(raw, dict):
            return None, (UNREADABLE,)
        wrong: dict[str, None] = {}
        if list(raw) != [attribute.name for attribute in self._attributes]:
            wrong[INCOMPLETE] = None
        low, high = [], []
        for attribute in self._attributes:
            part = raw.get(attribute.name)
            read = self._part(attribute, part, wrong) if isinstance(part, dict) else None
            if read is None:
                return None, (*wrong, UNREADABLE)
            low.append(read[0])
            high.append(read[1])
        return Region(tuple(low), tuple(high)), tuple(wrong)

    def _part(self, attribute: Attribute, part: dict[str, Any], wrong: dict[str, None]) -> tuple[float, float] | None:
        if attribute.hierarchy is not None:
            return _category(attribute.hierarchy, part, wrong)
        return _whole(attribute, part, wrong) if attribute.kind == "int" else _decimal(attribute, part, wrong)


def _whole(attribute: Attribute, part: dict[str, Any], wrong: dict[str, None]) -> tuple[int, int] | None:
    low, end = part.get("min"), part.get("max")
    if type(low) is not int or type(end) is not int or low > end:
        return None
    if list(part) != ["min", "max"]:
        wrong[NOT_CANONICAL] = None
    if low < attribute.low or end > attribute.high:
        wrong[OUTSIDE] = None
    return low, end + 1


def _decimal(attribute: Attribute, part: dict[str, Any], wrong: dict[str, None]) -> tuple[float, float] | None:
    last = "max" if "max" in part else "below"
    low, end = part.get("min"), part.get(last)
    if not isinstance(low, int | float) or not isinstance(end, int | float) or bool in (type(low), type(end)):
        return None
    if not low < end:
        return None
    is_written_so = all(isinstance(n, WrittenFloat) and n.text == _decimal_text(n) for n in (low, end))
    if list(part) != ["min", last] or not is_written_so:
        wrong[NOT_CANONICAL] = None
    if low < attribute.low or end > attribute.high:
        wrong[OUTSIDE] = None
    elif (last == "max") != (end == attribute.high):
        wrong[NOT_CANONICAL] = None  # `max` is for the end of the domain, and only for it
    if last == "max":
        return float(low), math.inf if end == attribute.high else just_above(end)
    return float(low), float(end)


def _decimal_text(number: float) -> str:
    """The shortest text of a float that has a decimal point and no exponent."""
    text = format(Decimal(repr(float(number))), "f")
    return text if "." in text else text + ".0"


def _category(hierarchy: Hierarchy, part: dict[str, Any], wrong: dict[str, None]) -> tuple[int, int] | None:
    labels = part.get("nodes")
    if list(part) != ["nodes"] or not isinstance(labels, list) or not labels:
        return None
    if not all(isinstance(label, str) and label in hierarchy.node_of for label in labels):
        return None
    nodes = [hierarchy.node_of[label] for label in labels]
    leaves = sorted({leaf for node in nodes for leaf in range(hierarchy.first[node], hierarchy.last[node])})
    low, high = leaves[0], leaves[-1] + 1
    fewest = fewest_nodes(hierarchy, low, high)
    if len(leaves) != high - low or len({hierarchy.parent[node] for node in fewest}) > 1:
        wrong[NOT_SIBLINGS] = None
    elif nodes != fewest:
        wrong[NOT_CANONICAL] = None
    return low, high


def fewest_nodes(hierarchy: Hierarchy, low: int, high: int) -> list[int]:
    """The fewest nodes that cover exactly a run of leaves, in the hierarchy's order: those whose parent covers more.

    Nodes are numbered parents first, so the first of a chain that covers the same leaves is the highest.
    """
    inside = [low <= first and last <= high for first, last in zip(hierarchy.first, hierarchy.last, strict=True)]
    return [node for node, is_in in enumerate(inside) if is_in and (node == 0 or not inside[hierarchy.parent[node]])]


def penalty(attributes: tuple[Attribute, ...], region: Region, epoch: Epoch) -> Fraction:
    """NCP of a row: the mean over attributes of the share of the domain its region spans; one leaf spans nothing."""
    total = Fraction(0)
    for place, (attribute, low, high) in enumerate(zip(attributes, region.low, region.high, strict=True)):
        if attribute.hierarchy is not None:
            leaves, of_all = epoch.widths(place, attribute.hierarchy, int(low), int(high))
            total += Fraction(leaves, of_all) if leaves > 1 else 0
        elif attribute.kind == "int":
            total += Fraction(int(high) - 1 - int(low), int(attribute.high) - int(attribute.low))
        else:
            domain = Fraction(attribute.high) - Fraction(attribute.low)
            total += (min(Fraction(attribute.high), _exact(high)) - Fraction(low)) / domain
    return total / len(attributes)


def _exact(number: float) -> Fraction:
    return Fraction(2) ** 2000 if math.isinf(number) else Fraction(number)
