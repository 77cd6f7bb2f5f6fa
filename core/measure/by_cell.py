"""Counts of every value in every cell of a release, and in all of them: what an export gives to SQL.

The same figures as those of count.py, whose region is one cell, worked out for all cells together.
"""

from typing import Final, NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.count import Answers, Count
from shoal.core.measure.entries import NOTHING, Numbers, add_up, entries_of
from shoal.core.measure.likely import Unsure, likely_range
from shoal.core.measure.query import Range
from shoal.core.measure.question import Question

LEAST: Final = 0.005  # a smaller estimate of a value that no group of the cell shows is left out


class CellCounts(NamedTuple):
    """Parallel arrays: of a cell and a leaf code, the estimate and its ranges."""

    cell: Rows
    leaf: Rows
    estimate: Numbers
    likely_low: Numbers
    likely_high: Numbers
    low: Rows
    high: Rows


class _Sums(NamedTuple):
    """What is summed over the groups of a cell, by cell and leaf."""

    low: Numbers
    high: Numbers
    values: Numbers
    hidden: Numbers
    even: Numbers


def count_everywhere(answers: Answers) -> dict[int, Count]:
    """By leaf code that occurs, how often the whole release has it. O(rows by cell + values shown) for each."""
    if not answers.release.rows:
        return {}
    leaves = answers.field.leaves.tolist()
    return {leaf: answers.count(Question((), (Range(leaf, leaf + 1),))) for leaf in leaves}


def count_by_cell(answers: Answers) -> CellCounts:
    """Every cell and leaf that a group shows there, or that the model expects. O(cells x leaves + entries)."""
    release = answers.release
    if not release.rows:
        nothing, none = np.zeros(0, dtype=np.int64), np.zeros(0)
        return CellCounts(nothing, nothing, none, none, none, nothing, nothing)
    leaves, field = answers.field.leaves, answers.field
    estimates = np.stack([field.by_cell(leaf, leaf + 1) for leaf in leaves.tolist()], axis=1)
    keys, shown = _sum_shown(answers)
    all_keys = np.union1d(keys, np.flatnonzero(estimates.ravel() >= LEAST))
    at = np.searchsorted(all_keys, keys)
    cell, leaf = all_keys // len(leaves), all_keys % len(leaves)
    share, suppressed = field.shares(leaves, leaves + 1)
    stars, most = _stars(answers)
    sums = [np.zeros(len(all_keys)) for _ in shown]
    for one, found in zip(sums, shown, strict=True):
        one[at] = found
    low, high, values, hidden, even = sums
    part = suppressed[leaf]
    unsure = Unsure(
        values=values,
        places=np.zeros(len(cell)),
        hidden=hidden + stars[cell] * part * (1 - part),
        even=even + stars[cell] * part,
        shares=field.by_cell(0, np.inf)[cell] * share[leaf],
        variety=np.array([field.variety((Range(one, one + 1),)) for one in leaves.tolist()])[leaf],
    )
    high = high + most[cell]
    guess = np.clip(estimates.ravel()[all_keys], low, high)
    begin, end = likely_range(guess, low, high, unsure)
    ends = (np.asarray(begin), np.asarray(end))
    return CellCounts(cell, leaves[leaf], guess, *ends, low.astype(np.int64), high.astype(np.int64))


def _sum_shown(answers: Answers) -> tuple[Rows, _Sums]:
    """What groups show, by cell and leaf: the keys are cell x leaves + leaf, in order."""
    release, sides = answers.release, answers.sides
    width, groups = len(sides.leaves), np.arange(len(release.group_rows))
    entries = entries_of(sides, groups)
    known = np.flatnonzero(entries.leaf != NOTHING)
    row, value, leaf = entries.row[known], entries.value[known], entries.leaf[known]
    row_group = np.repeat(groups, np.diff(sides.row_start))
    share = answers.field.shares(sides.leaves, sides.leaves + 1)[0][leaf]
    # a raised value is each leaf below it as often as this is everywhere
    _, place = np.unique(value * len(entries.row_count) + row, return_inverse=True)
    part = share / add_up(place, share, 0)[place]
    pair, of = np.unique(row * width + leaf, return_inverse=True)
    mine = entries.value_count[value] * part
    group = row_group[pair // width]
    is_real = np.divide(sides.real, sides.shown, out=np.zeros(len(groups)), where=sides.shown > 0)
    expected = add_up(of, mine, len(pair))
    raw = entries.value_count[value] / np.maximum(is_real[row_group[row]], 1e-12)
    sure, maybe = add_up(of, raw * (part == 1), len(pair)).round(), add_up(of, raw, len(pair)).round()
    rows = _rows_by_cell(answers)[pair // width]
    total = np.maximum(1, release.group_rows[group])
    there = rows / total
    left = np.maximum(0, sides.real[group] - expected)
    vacant = (1 - is_real[group]) * expected * left / np.maximum(1, sides.shown[group] - 1)
    outside, nobodys = release.group_rows[group] - rows, (sides.shown - sides.real)[group]
    stars = _stars_by_group(answers)[group]
    sums = _Sums(
        low=np.maximum(0, sure - outside - nobodys),
        high=np.minimum(rows, maybe + stars) - np.minimum(rows, stars),
        values=there * (1 - there) * expected * left / total,
        hidden=there * (add_up(of, mine * (1 - part), len(pair)) + vacant),
        even=there * expected,
    )
    keys, place = np.unique(sides.row_cell[pair // width] * width + pair % width, return_inverse=True)
    return keys, _Sums(*(add_up(place, one, len(keys)) for one in sums))


def _rows_by_cell(answers: Answers) -> Rows:
    """How many rows each group has in each of its cells, in the order of the sides."""
    release = answers.release
    return release.cell_rows_count[np.argsort(release.cell_rows_group, kind="stable")]


def _stars_by_group(answers: Answers) -> Numbers:
    """By group, how many values are shown that may be too many leaves to have entries."""
    release, sides = answers.release, answers.sides
    is_lump = sides.value_low == NOTHING
    group = np.repeat(np.arange(len(release.group_rows)), np.diff(sides.value_start))[is_lump]
    at = np.argsort(release.shown_group, kind="stable")[is_lump]
    return add_up(group, release.shown_count[at], len(release.group_rows))


def _stars(answers: Answers) -> tuple[Numbers, Numbers]:
    """By cell, how many suppressed values are expected there, and how many there may be."""
    release, sides = answers.release, answers.sides
    group = np.repeat(np.arange(len(release.group_rows)), np.diff(sides.row_start))
    stars, rows = _stars_by_group(answers)[group], _rows_by_cell(answers)
    real = stars * (sides.real / np.maximum(1, sides.shown))[group]
    cells = len(release.cell_names)
    expected = add_up(sides.row_cell, real * rows / np.maximum(1, release.group_rows[group]), cells)
    return expected, add_up(sides.row_cell, np.minimum(rows, stars), cells)
