"""Cross tables: bins of attributes, or of several together, and for each of them values with their counts."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from shoal.core.cells.region import domain
from shoal.core.errors import CoreError
from shoal.core.measure.count import Answers, Count, Method
from shoal.core.measure.query import Range
from shoal.core.measure.question import Question, Runs, is_number, read_question, runs_of_labels
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute

BINS: Final = 8  # of a number, unless the caller says where they begin
LARGEST: Final = 100_000  # lines

Rows: TypeAlias = str | Sequence[str] | Mapping[str, Sequence[object] | None]


class Bin(NamedTuple):
    """Part of an attribute, and what it is called."""

    label: str
    runs: Runs


class Line(NamedTuple):
    """One line of a cross table: the labels of its bins, its people, a value, and how often that is there."""

    bins: tuple[str, ...]
    people: float
    value: str
    answer: Count


class Head(NamedTuple):
    """What a cross table asks for: attributes with their bins, values, and conditions for all of it."""

    attributes: tuple[str, ...]
    bins: tuple[tuple[int, tuple[Bin, ...]], ...]
    values: tuple[Bin, ...]
    where: Question


def read_head(answers: Answers, rows: Rows, values: str | Sequence[str] | None, where: Mapping[str, object]) -> Head:
    """What a caller asks for, by the policy's names. Raises CoreError."""
    policy = answers.release.policy
    wanted: Mapping[str, Sequence[object] | None]
    wanted = rows if isinstance(rows, Mapping) else dict.fromkeys([rows] if isinstance(rows, str) else rows)
    if not wanted:
        raise CoreError("a cross table takes at least one attribute")
    if policy.sensitive.name in where:
        raise CoreError(f"the values of {policy.sensitive.name} are named with `values`")
    condition = read_question(policy, where)
    positions = {attribute.name: position for position, attribute in enumerate(policy.attributes)}
    bins = []
    for name, said in wanted.items():
        if name not in positions:
            raise CoreError(f"the table {policy.table} has no attribute {name}; it has {', '.join(positions)}")
        if name in where:
            raise CoreError(f"{name} has bins already; leave the condition out")
        bins.append((positions[name], _bins(answers, positions[name], said)))
    labelled = _labelled(policy.sensitive.name, policy.sensitive.hierarchy, values)
    lines = int(np.prod([len(each) for _, each in bins], dtype=np.float64)) * len(labelled)
    if lines > LARGEST:
        raise CoreError(f"the cross table would have {lines:,} lines, and {LARGEST:,} is the most")
    return Head(tuple(wanted), tuple(bins), labelled, condition)


def cross_table(answers: Answers, head: Head, method: Method) -> Iterator[Line]:
    """The lines in order. Costs a count for each."""
    positions = [position for position, _ in head.bins]
    for chosen in product(*(each for _, each in head.bins)):
        here = zip(positions, (part.runs for part in chosen), strict=True)
        conditions = tuple(sorted([*head.where.conditions, *here]))
        people = answers.count(Question(conditions, None), method).estimate
        for value in head.values:
            answer = answers.count(Question(conditions, value.runs), method)
            yield Line(tuple(part.label for part in chosen), people, value.label, answer)


def _bins(answers: Answers, position: int, said: Sequence[object] | None) -> tuple[Bin, ...]:
    attribute = answers.release.policy.attributes[position]
    if attribute.hierarchy is not None:
        return _labelled(attribute.name, attribute.hierarchy, said)
    low, high = domain(attribute)
    begins = _begins(answers, position) if said is None else _numbers(attribute, said)
    ends = np.unique(np.r_[low, [begin for begin in begins if low < begin < high], high]).tolist()
    return tuple(_number_bin(attribute, begin, end, end == high) for begin, end in pairwise(ends))


def _labelled(name: str, hierarchy: Hierarchy, said: object) -> tuple[Bin, ...]:
    """The labels that a caller names, or those below the root."""
    if said is None:
        said = [hierarchy.labels[node] for node in hierarchy.children(0)] or [hierarchy.labels[0]]
    labels = [said] if isinstance(said, str) else said
    runs_of_labels(name, hierarchy, labels)  # raises if they are not labels
    assert isinstance(labels, Sequence)
    return tuple(Bin(label, runs_of_labels(name, hierarchy, label)) for label in labels)


def _numbers(attribute: Attribute, said: Sequence[object]) -> list[float]:
    if isinstance(said, str) or not all(is_number(one) for one in said):
        raise CoreError(f"the bins of {attribute.name} are a list of numbers, where each begins")
    begins = np.array(said, dtype=np.float64)
    return [float(one) for one in (np.ceil(begins) if attribute.kind == "int" else begins)]


def _begins(answers: Answers, position: int) -> list[float]:
    """Where regions end, so that about as many people are in each bin."""
    if not answers.release.cell_names:
        return []
    cuts, below = answers.release.spread[position]
    wanted = np.linspace(below[0], below[-1], BINS + 1)[1:-1]
    return [float(cut) for cut in cuts[np.searchsorted(below, wanted)]]


def _number_bin(attribute: Attribute, begin: float, end: float, is_last: bool) -> Bin:
    if attribute.kind == "int":
        begin, end = int(begin), int(end)
        label = str(begin) if end == begin + 1 else f"{begin}-{end - 1}"
        return Bin(label, (Range(begin, end),))
    if is_last:
        return Bin(f"[{begin},{end}]", (Range(begin, float(np.nextafter(end, np.inf))),))
    return Bin(f"[{begin},{end})", (Range(begin, end),))
