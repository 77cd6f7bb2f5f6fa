"""What the model of a release expects, as a tidy table: for each cell and value, and, without a cell, in all of it.

It takes the policy, so an export without one has no such table.
"""

from collections.abc import Iterator
from typing import Any

from shoal.core.errors import CoreError
from shoal.core.measure.by_cell import count_by_cell, count_everywhere
from shoal.core.measure.count import Answers
from shoal.core.measure.release_reader import read_columns
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import PublishedRelease
from shoal.streams.errors import InputError
from shoal.streams.files.tidy import Columns, Schema

ESTIMATES: Schema = {
    "release": "int",
    "cell": "text",
    "value": "text",
    "estimate": "float",
    "likely_low": "float",
    "likely_high": "float",
    "low": "int",
    "high": "int",
}


def estimate_columns(policy: Policy, release: PublishedRelease) -> Columns:
    """One release as lines of the table. Raises `InputError` if it was not made with this policy."""
    try:
        answers = Answers(read_columns(policy, release.records))
    except CoreError as error:
        raise InputError(f"{error}.") from None
    columns: Columns = {name: [] for name in ESTIMATES}
    for line in _lines(answers):
        for column, item in zip(columns.values(), (release.number, *line), strict=True):
            column.append(item)
    return columns


def _lines(answers: Answers) -> Iterator[tuple[Any, ...]]:
    labels = answers.release.policy.sensitive.hierarchy.leaves
    for leaf, count in count_everywhere(answers).items():
        yield None, labels[leaf], count.estimate, *count.likely, count.low, count.high
    found = count_by_cell(answers)
    for cell, leaf, *figures in zip(*(column.tolist() for column in found), strict=True):
        yield answers.release.cell_names[cell], labels[leaf], *figures
