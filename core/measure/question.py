"""What a COUNT query asks for, read from a caller's words."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.core.errors import CoreError
from shoal.core.measure.query import Query, Range
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

Runs: TypeAlias = tuple[Range, ...]  # in order, with gaps between them


class Question(NamedTuple):
    """Conditions on some attributes, by their position in the policy, and on the values; None counts people."""

    conditions: tuple[tuple[int, Runs], ...]
    values: Runs | None


def read_question(policy: Policy, where: Mapping[str, object]) -> Question:
    """What a caller asks, by the policy's names.

    A number attribute has a number or a pair of ends, both included, None for no end. A category and the sensitive
    attribute have a label or several; a label that stands above others means all of them. Raises CoreError.
    """
    names = {attribute.name: position for position, attribute in enumerate(policy.attributes)}
    conditions = []
    values = None
    for name, wanted in where.items():
        if name == policy.sensitive.name:
            values = runs_of_labels(name, policy.sensitive.hierarchy, wanted)
        elif name in names:
            conditions.append((names[name], _runs(policy.attributes[names[name]], wanted)))
        else:
            known = ", ".join([*names, policy.sensitive.name])
            raise CoreError(f"the table {policy.table} has no attribute {name}; it has {known}")
    return Question(tuple(sorted(conditions)), values)


def question_of(query: Query) -> Question:
    """A random query as a question."""
    return Question(tuple((position, (run,)) for position, run in query.conditions), (query.sensitive,))


def _runs(attribute: Attribute, wanted: object) -> Runs:
    if attribute.hierarchy is not None:
        return runs_of_labels(attribute.name, attribute.hierarchy, wanted)
    ends = wanted if isinstance(wanted, tuple | list) else (wanted, wanted)
    if len(ends) != 2 or not all(end is None or is_number(end) for end in ends):
        raise CoreError(f"{attribute.name} takes a number or a pair of numbers, as in {attribute.name}=(30, 50)")
    low, high = (attribute.low if ends[0] is None else ends[0]), (attribute.high if ends[1] is None else ends[1])
    if low > high:
        raise CoreError(f"{attribute.name} takes the smaller number first")
    if attribute.kind == "float":
        return (Range(float(low), float(np.nextafter(float(high), np.inf))),)
    return (Range(math.ceil(low), math.floor(high) + 1),)


def is_number(end: object) -> bool:
    """It is a finite number; a boolean is none."""
    return isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool) and math.isfinite(end)


def runs_of_labels(name: str, hierarchy: Hierarchy, wanted: object) -> Runs:
    """The leaves below a label or several. Raises CoreError."""
    labels = [wanted] if isinstance(wanted, str) else list(wanted) if isinstance(wanted, Iterable) else []
    if not labels or not all(isinstance(label, str) for label in labels):
        raise CoreError(f"{name} takes a label or a list of labels")
    if any(label not in hierarchy.node_of for label in labels):
        raise CoreError(f"{name} has no such label; its hierarchy in the policy has them all")
    chosen = np.zeros(len(hierarchy.leaves) + 2, dtype=np.int8)
    for label in labels:
        node = hierarchy.node_of[label]
        chosen[hierarchy.first[node] + 1 : hierarchy.last[node] + 1] = 1
    steps = np.diff(chosen)
    begins, ends = np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist()
    return tuple(Range(begin, end) for begin, end in zip(begins, ends, strict=True))
