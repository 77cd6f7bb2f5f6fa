"""A count over a region and values, with an interval: what the groups of a release leave open, not only a guess.

A count without values counts people: cells say how many they have, and nobody is in two. A count with values counts
people's values, as queries do: a person with two of them counts twice. For each group, `certain` rows lie in cells
wholly inside the region, and `possible` rows in cells that meet it. Of its values, `spare` have no row, and nobody
knows which.

Lasting. A row is an entry and has at most one value. Let c values that are asked for be shown. At least
c - spare of them have a row, rows that are not certain take at most one each, so at least
c - spare - (rows - certain) are in the region, and at most min(possible, c).

Redrawn. A row is a person, who has a leaf at most once but may have several. A shown node that holds n leaves that are
asked for, c times, is in the region at least c - n (rows - certain) times, before spare values are taken from the sum
of these over all nodes, and at most min(c, n possible) times.

A node counts for the lower end only if all leaves below it are asked for, and "*" never, for it may stand for nothing.
People who are withheld, and values that are not shown at all, are in no count.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import domain
from shoal.core.cells.tree import Column, Rows
from shoal.core.errors import CoreError
from shoal.core.measure.query import Numbers, Query, Range, estimate, share_inside
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

Runs: TypeAlias = tuple[Range, ...]  # in order, with gaps between them
Flags: TypeAlias = NDArray[np.bool_]


class Count(NamedTuple):
    """An answer: the truth about what was published is from `low` to `high`, both included."""

    estimate: float
    low: int
    high: int


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
            values = _labelled(name, policy.sensitive.hierarchy, wanted)
        elif name in names:
            conditions.append((names[name], _runs(policy.attributes[names[name]], wanted)))
        else:
            known = ", ".join([*names, policy.sensitive.name])
            raise CoreError(f"the table {policy.table} has no attribute {name}; it has {known}")
    return Question(tuple(sorted(conditions)), values)


def count_values(release: ReleaseColumns, question: Question) -> Count:
    """How many values that are asked for people of the region have; O(cells + groups) for each run of the question."""
    assert question.values is not None, "a question without values is for count_people"
    whole, meets = _cells(release, question)
    groups = len(release.group_rows)
    certain, possible = (
        np.bincount(release.cell_rows_group, release.cell_rows_count * chosen[release.cell_rows_cell], groups).astype(
            float
        )
        for chosen in (whole, meets)
    )
    bounds = _lasting if release.policy.values == "lasting" else _redrawn
    low, high = bounds(release, question.values, release.group_rows - certain, possible)
    runs = [runs for _, runs in question.conditions]
    positions = [position for position, _ in question.conditions]
    queries = [
        Query(tuple(zip(positions, chosen, strict=True)), values) for *chosen, values in product(*runs, question.values)
    ]
    return _count(float(estimate(release, queries).sum()), low.sum(), high.sum())


def count_people(release: ReleaseColumns, question: Question) -> Count:
    """How many people are in the region, whatever they have. O(cells)."""
    whole, meets = _cells(release, question)
    by_cell = release.cell_people
    share = np.ones(len(release.cell_names))
    for position, runs in question.conditions:
        share *= np.sum([share_inside(release, position, run) for run in runs], axis=0)
    return _count(float(by_cell @ share), by_cell[whole].sum(), by_cell[meets].sum())


def _lasting(release: ReleaseColumns, values: Runs, outside: Numbers, possible: Numbers) -> tuple[Numbers, Numbers]:
    accepted, is_whole = _accepted(release, values)
    groups = len(outside)
    sure = np.bincount(release.shown_group, release.shown_count * is_whole, groups)
    maybe = np.bincount(release.shown_group, release.shown_count * (accepted > 0), groups)
    return np.maximum(0, sure - release.spare - outside), np.minimum(possible, maybe)


def _redrawn(release: ReleaseColumns, values: Runs, outside: Numbers, possible: Numbers) -> tuple[Numbers, Numbers]:
    accepted, is_whole = _accepted(release, values)
    groups, shown = len(outside), release.shown_group
    sure = np.maximum(0, release.shown_count - accepted * outside[shown]) * is_whole
    maybe = np.minimum(release.shown_count, accepted * possible[shown])
    asked = sum(run.high - run.low for run in values)
    low = np.maximum(0, np.bincount(shown, sure, groups) - release.spare)
    return low, np.minimum(np.bincount(shown, maybe, groups), asked * possible)


def _accepted(release: ReleaseColumns, values: Runs) -> tuple[Rows, Flags]:
    """Of each node that a group shows: how many leaves below it are asked for, and whether it can be nothing else."""
    hierarchy = release.policy.sensitive.hierarchy
    first, last = np.array(hierarchy.first)[release.shown_node], np.array(hierarchy.last)[release.shown_node]
    accepted = np.zeros(len(first), dtype=np.int64)
    for run in values:
        accepted += np.maximum(0, np.minimum(last, int(run.high)) - np.maximum(first, int(run.low)))
    return accepted, (accepted == last - first) & (release.shown_node != 0)


def _cells(release: ReleaseColumns, question: Question) -> tuple[Flags, Flags]:
    """The cells that lie wholly in the region, and those that meet it."""
    whole, meets = (np.ones(len(release.cell_names), dtype=bool) for _ in range(2))
    for position, runs in question.conditions:
        low, high = release.low[position], _ends(release.policy.attributes[position], release.high[position])
        # there are gaps between the runs, so a cell inside the region is inside one of them
        whole &= np.any([(low >= run.low) & (high <= run.high) for run in runs], axis=0)
        meets &= np.any([(low < run.high) & (high > run.low) for run in runs], axis=0)
    return whole, meets


def _ends(attribute: Attribute, high: Column) -> Column:
    """The ends of cells, not included: the last cell of a float's domain includes the domain's end."""
    if attribute.kind != "float":
        return high
    return np.where(high == domain(attribute)[1], np.nextafter(high, np.inf), high)


def _count(guess: float, low: float, high: float) -> Count:
    """The guess is independent of the interval, and is moved into it where it takes a row for more than it can be."""
    return Count(min(max(guess, float(low)), float(high)), int(low), int(high))


def _runs(attribute: Attribute, wanted: object) -> Runs:
    if attribute.hierarchy is not None:
        return _labelled(attribute.name, attribute.hierarchy, wanted)
    ends = wanted if isinstance(wanted, tuple | list) else (wanted, wanted)
    if len(ends) != 2 or not all(end is None or _is_number(end) for end in ends):
        raise CoreError(f"{attribute.name} takes a number or a pair of numbers, as in {attribute.name}=(30, 50)")
    low, high = (attribute.low if ends[0] is None else ends[0]), (attribute.high if ends[1] is None else ends[1])
    if low > high:
        raise CoreError(f"{attribute.name} takes the smaller number first")
    if attribute.kind == "float":
        return (Range(float(low), float(np.nextafter(float(high), np.inf))),)
    return (Range(math.ceil(low), math.floor(high) + 1),)


def _is_number(end: object) -> bool:
    return isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool) and math.isfinite(end)


def _labelled(name: str, hierarchy: Hierarchy, wanted: object) -> Runs:
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
