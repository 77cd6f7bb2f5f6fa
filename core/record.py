"""Reading quasi-identifiers and sensitive values of an event under a policy: the inner loop of ingest.

Everything a check needs is prepared once per policy, so that a good event costs type tests and look-ups, and nothing is
raised. Why a bad one is bad is worked out afterwards, from scratch, by the functions named `_wrong_…`.
"""

import re
from typing import Any, NamedTuple

from core.event import Reason, Reject
from core.hierarchy import Hierarchy
from core.policy import Attribute, Policy

_INTEGER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class _Column(NamedTuple):
    """What one quasi-identifier may be."""

    position: int
    name: str
    codes: dict[str | int, int] | None  # of a category, see `_codes`
    whole: bool
    low: int | float
    high: int | float


def _codes(hierarchy: Hierarchy) -> dict[str | int, int]:
    """Leaf codes by label, and by the integer whose text is the label. Ask for a str or an int only: True equals 1."""
    numbers = {int(label): code for label, code in hierarchy.leaf_code.items() if _INTEGER.fullmatch(label)}
    return hierarchy.leaf_code | numbers


class RecordReader:
    """Reads records under one policy. Each method returns what it read, or a Reject that lacks only the op."""

    __slots__ = ("_by_name", "_columns", "_policy", "_single", "unchanged")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._columns = tuple(_column(position, attribute) for position, attribute in enumerate(policy.attributes))
        self._by_name = {column.name: column for column in self._columns}
        self._single = {label: (code,) for label, code in _codes(policy.sensitive.hierarchy).items()}
        self.unchanged: tuple[Any, ...] = (None,) * len(self._columns)

    def read_qid(self, raw: object) -> tuple[Any, ...] | Reject:
        """Every attribute, in the policy's order."""
        if type(raw) is not dict:
            return Reject(Reason.WRONG_TYPE, None, "qid")
        found: list[Any] = []
        for _, name, codes, whole, low, high in self._columns:
            value = raw.get(name)
            kind = type(value)
            if codes is not None:
                if kind is str or kind is int:
                    code = codes.get(value)
                    if code is not None:
                        found.append(code)
            elif kind is int:
                if low <= value <= high:
                    found.append(value if whole else value + 0.0)
            elif kind is float and not whole and low <= value <= high:
                found.append(value + 0.0)  # -0.0 becomes 0.0
        if len(found) == len(self._columns) == len(raw):
            return tuple(found)
        return self._wrong_qid(raw)

    def read_patch(self, raw: object) -> tuple[Any, ...] | Reject:
        """The attributes that are there, in the policy's order, and None for the others."""
        if type(raw) is not dict:
            return Reject(Reason.WRONG_TYPE, None, "qid")
        found = [*self.unchanged]
        by_name = self._by_name
        for name, value in raw.items():
            column = by_name.get(name)
            if column is None:
                return Reject(Reason.UNKNOWN_ATTRIBUTE, None, "qid")
            read = _read_value(column, value)
            if read is None:
                return self._wrong_value(column, value)
            found[column.position] = read
        return tuple(found)

    def read_values(self, raw: object) -> tuple[int, ...] | Reject:
        """The leaf codes of one label or of a list of them, sorted, each once."""
        labels = raw if type(raw) is list else [raw]
        single = self._single
        codes: tuple[int, ...] = ()
        for label in labels:
            kind = type(label)
            code = single.get(label) if kind is str or kind is int else None
            if code is None:
                return self._wrong_label(label)
            codes += code
        if len(codes) == 1:
            return codes
        return tuple(sorted(set(codes))) if codes else Reject(Reason.EMPTY, None, "sensitive")

    def _wrong_qid(self, raw: dict[Any, Any]) -> Reject:
        for name in raw:
            if name not in self._by_name:
                return Reject(Reason.UNKNOWN_ATTRIBUTE, None, "qid")
        for column in self._columns:
            if column.name not in raw:
                return Reject(Reason.MISSING_ATTRIBUTE, None, f"qid.{column.name}")
        wrong = next(column for column in self._columns if _read_value(column, raw[column.name]) is None)
        return self._wrong_value(wrong, raw[wrong.name])

    def _wrong_value(self, column: _Column, value: object) -> Reject:
        hierarchy = self._policy.attributes[column.position].hierarchy
        if hierarchy is not None:
            return Reject(_wrong_node(hierarchy, value), None, f"qid.{column.name}")
        is_number = type(value) is int or (type(value) is float and not column.whole)
        return Reject(Reason.OUT_OF_DOMAIN if is_number else Reason.WRONG_TYPE, None, f"qid.{column.name}")

    def _wrong_label(self, value: object) -> Reject:
        return Reject(_wrong_node(self._policy.sensitive.hierarchy, value), None, "sensitive")


def _column(position: int, attribute: Attribute) -> _Column:
    codes = None if attribute.hierarchy is None else _codes(attribute.hierarchy)
    return _Column(position, attribute.name, codes, attribute.kind == "int", attribute.low, attribute.high)


def _read_value(column: _Column, value: Any) -> int | float | None:
    """One attribute's value, or None if it is not one. (`read_qid` has this written out in its loop.)"""
    _, _, codes, whole, low, high = column
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
