"""Reading quasi-identifiers and sensitive values of an event under a policy: the inner loop of ingest.

Everything a check needs is prepared once per policy, so that a good event costs type tests and look-ups, and nothing is
raised. The reason to reject a bad event is worked out afterwards, from scratch, by the functions named `_wrong_…`.
"""

import re
from typing import Any

from shoal.core.events.event import Reason, Reject
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


# What one quasi-identifier may be: name, leaf codes (of a category, see `leaf_codes`), whether it is an int, least and
# largest value. A plain tuple, because Python 3.11 unpacks nothing else as fast.
_Column = tuple[str, dict[str | int, int] | None, bool, int | float, int | float]


def leaf_codes(hierarchy: Hierarchy) -> dict[str | int, int]:
    """Leaf codes by label, and by the integer whose text is the label. Look up only a str or an int: True equals 1."""
    numbers = {int(label): code for label, code in hierarchy.leaf_code.items() if _INTEGER.fullmatch(label)}
    return hierarchy.leaf_code | numbers


class RecordReader:
    """Reads records under one policy. Each method returns the codes it read, or a Reject that lacks only the op."""

    __slots__ = ("_by_name", "_columns", "_most_values", "_policy", "_single", "unchanged")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._columns = tuple(_column(attribute) for attribute in policy.attributes)
        self._by_name = {column[0]: (position, column) for position, column in enumerate(self._columns)}
        self._single = {label: (code,) for label, code in leaf_codes(policy.sensitive.hierarchy).items()}
        self._most_values = len(policy.sensitive.hierarchy.leaves)  # a longer list says something twice
        self.unchanged: tuple[Any, ...] = (None,) * len(self._columns)

    def read_qid(self, raw: object) -> tuple[Any, ...] | Reject:
        """Every attribute, in the policy's order."""
        if type(raw) is not dict:
            return Reject(Reason.WRONG_TYPE, None, "qid")
        found: list[Any] = []
        value: Any
        for name, codes, whole, low, high in self._columns:
            value = raw.get(name)
            kind = type(value)
            if codes is not None:
                if kind is str or kind is int:
                    found.append(codes.get(value))
            elif kind is int:
                if low <= value <= high:
                    found.append(value if whole else value + 0.0)
            elif kind is float and not whole and low <= value <= high:
                found.append(value + 0.0)  # -0.0 becomes 0.0
        if len(found) != len(raw) or len(found) != len(self._columns) or None in found:
            return self._wrong_qid(raw)
        return tuple(found)

    def read_patch(self, raw: object) -> tuple[Any, ...] | Reject:
        """The attributes that are given, in the policy's order, and None for the others."""
        if type(raw) is not dict:
            return Reject(Reason.WRONG_TYPE, None, "qid")
        found = [*self.unchanged]
        by_name = self._by_name
        for name, value in raw.items():
            place = by_name.get(name)
            if place is None:
                return Reject(Reason.UNKNOWN_ATTRIBUTE, None, "qid")
            position, column = place
            read = _read_value(column, value)
            if read is None:
                return self._wrong_value(position, value)
            found[position] = read
        return tuple(found)

    def read_values(self, raw: object) -> tuple[int, ...] | Reject:
        """The leaf codes of one label or of a list of them, sorted, each once."""
        if type(raw) is str and (code := self._single.get(raw)) is not None:
            return code
        labels: list[Any] = raw if type(raw) is list else [raw]
        if len(labels) > self._most_values:
            return Reject(Reason.TOO_LONG, None, "sensitive")
        codes: list[int] = []
        for label in labels:
            kind = type(label)
            code = self._single.get(label) if kind is str or kind is int else None
            if code is None:
                return Reject(_wrong_node(self._policy.sensitive.hierarchy, label), None, "sensitive")
            codes += code
        return tuple(sorted(set(codes))) if codes else Reject(Reason.EMPTY, None, "sensitive")

    def _wrong_qid(self, raw: dict[Any, Any]) -> Reject:
        for name in raw:
            if name not in self._by_name:
                return Reject(Reason.UNKNOWN_ATTRIBUTE, None, "qid")
        for name in self._by_name:
            if name not in raw:
                return Reject(Reason.MISSING_ATTRIBUTE, None, f"qid.{name}")
        wrong = (at for at, column in self._by_name.values() if _read_value(column, raw[column[0]]) is None)
        position = next(wrong)
        return self._wrong_value(position, raw[self._columns[position][0]])

    def _wrong_value(self, position: int, value: object) -> Reject:
        attribute = self._policy.attributes[position]
        if attribute.hierarchy is not None:
            reason = _wrong_node(attribute.hierarchy, value)
        elif type(value) is int or (type(value) is float and attribute.kind == "float"):
            reason = Reason.OUT_OF_DOMAIN
        else:
            reason = Reason.WRONG_TYPE
        return Reject(reason, None, f"qid.{attribute.name}")


def _column(attribute: Attribute) -> _Column:
    codes = None if attribute.hierarchy is None else leaf_codes(attribute.hierarchy)
    return attribute.name, codes, attribute.kind == "int", attribute.low, attribute.high


def _read_value(column: _Column, value: Any) -> Any:
    """One attribute's value, or None if it is not one. (`read_qid` has this written out in its loop, for speed.)"""
    _, codes, whole, low, high = column
    kind = type(value)
    if codes is not None:
        return codes.get(value) if kind is str or kind is int else None
    if (kind is int or (kind is float and not whole)) and low <= value <= high:
        return value if whole else value + 0.0
    return None


def _wrong_node(hierarchy: Hierarchy, value: object) -> Reason:
    if type(value) is not str and type(value) is not int:
        return Reason.WRONG_TYPE
    return Reason.NOT_A_LEAF if str(value) in hierarchy.node_of else Reason.UNKNOWN_NODE
