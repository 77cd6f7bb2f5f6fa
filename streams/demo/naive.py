"""The publisher that Shoal is compared with: it anonymizes each release well, and ignores the releases before.

It does what is usual for one table: Mondrian, cutting the widest attribute at its median as long as every class keeps k
rows and no sensitive value belongs to more than 1/l of a class. Regions reach from cut to cut, as in Shoal. Each of its
releases is k-anonymous and l-diverse alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.core.policy.policy import Policy
from shoal.streams.demo.attack import Box, Group, Table, View

Indices = NDArray[np.int64]


def publish_naively(policy: Policy, table: Table) -> View:
    """One release. A class with the same people and values as before has the same key, so it is not counted twice."""
    view = View()
    people = list(table)
    values = [table[person].values for person in people]
    leaf_node = policy.sensitive.hierarchy.leaf_node
    whole = tuple((float(attribute.low), float(attribute.high)) for attribute in policy.attributes)
    columns = np.array([table[person].qid for person in people], dtype=np.float64).reshape(len(people), len(whole))
    for rows, box in _classes(policy, columns, values, np.arange(len(people)), whole):
        shown = Counter(leaf_node[value] for row in rows for value in values[row])
        key = frozenset((people[row], values[row]) for row in rows)
        view.groups[key] = Group(len(rows), shown)
        for row in rows:
            view.region[people[row]] = box
            view.rows[key].append(people[row])
    return view


def _classes(
    policy: Policy, columns: NDArray[np.float64], values: Sequence[tuple[int, ...]], rows: Indices, box: Box
) -> Iterator[tuple[Indices, Box]]:
    """Cuts until no cut is allowed, and yields the classes with their regions."""
    for attribute in _widest_first(policy, columns, rows):
        column = columns[rows, attribute]
        cut = np.sort(column)[len(rows) // 2]
        if cut == column.min():
            continue  # the median is the smallest value, so the lower part would be empty
        parts = rows[column < cut], rows[column >= cut]
        if all(len(part) >= policy.k and _is_diverse(policy, values, part) for part in parts):
            is_float = policy.attributes[attribute].kind == "float"
            below = float(np.nextafter(cut, -np.inf)) if is_float else float(cut) - 1
            low, high = box[attribute]
            sides = ((low, below), (float(cut), high))
            for part, side in zip(parts, sides, strict=True):
                yield from _classes(policy, columns, values, part, (*box[:attribute], side, *box[attribute + 1 :]))
            return
    if len(rows) >= policy.k:
        yield rows, box


def _widest_first(policy: Policy, columns: NDArray[np.float64], rows: Indices) -> list[int]:
    spans = []
    for position, attribute in enumerate(policy.attributes):
        column = columns[rows, position]
        width = float(np.ptp(column)) / max(attribute.high - attribute.low, 1e-12) if len(rows) else 0.0
        spans.append((-width, position))
    return [position for width, position in sorted(spans) if width < 0]


def _is_diverse(policy: Policy, values: Sequence[tuple[int, ...]], rows: Indices) -> bool:
    counts = Counter(value for row in rows for value in values[row] if value not in policy.sensitive.open)
    return max(counts.values(), default=0) * policy.l <= len(rows)
