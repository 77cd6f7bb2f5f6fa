"""What may be where: for each group, how many of its rows in each cell have each of its values.

A group says how many rows it has in each cell, and how often it shows each value, and not which rows have which. An
entry is a guess: so many rows of the group in this cell have this value. Whatever is believed to begin with, the
entries of a group must add up to its rows and to its values. Iterative proportional fitting (Deming and Stephan 1940)
brings them there: it scales the guesses by rows and by values in turn.

Layout. Parallel arrays, groups one after the other. A value that is raised has an entry for each leaf that it may be,
and these add up to it together. One that may be too many leaves, as a suppressed one, has an entry without a leaf,
`NOTHING`.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.measure.release_reader import ReleaseColumns

NOTHING: Final = -1
MANY: Final = 64  # leaves; a value that may be more of them has one entry
Numbers = NDArray[np.float64]


class Sides(NamedTuple):
    """The groups of a release in order: their rows by cell, and their values, each with the counts to be met.

    A value counts as often as rows can have it: vacant places and counterfeits are nobody's, and which values these are
    is unknown, so all of a group's values are fewer by the same share.
    """

    leaves: Rows  # the leaf codes that occur, in order
    row_start: Rows  # by group, and the end: where its rows by cell begin
    row_cell: Rows
    row_count: Numbers
    value_start: Rows  # by group, and the end: where its values begin
    value_node: Rows
    value_low: Rows  # the positions in `leaves` that it may be, or NOTHING alone
    value_high: Rows
    value_count: Numbers
    real: Numbers  # by group: how many values its rows have
    shown: Numbers  # by group: how many places it shows; the others are nobody's

    @property
    def sizes(self) -> Rows:
        """By group, how many entries it has."""
        columns = np.r_[0, np.cumsum(self.value_high - self.value_low)][self.value_start]
        return np.asarray(np.diff(self.row_start) * np.diff(columns))


class Entries(NamedTuple):
    """Of some groups. `row` and `value` number those of these groups alone."""

    row: Rows
    value: Rows
    cell: Rows
    node: Rows
    leaf: Rows  # a position in `Sides.leaves`, or NOTHING
    row_count: Numbers
    value_count: Numbers

    def fit(self, guess: Numbers, rounds: int) -> Numbers:
        """The guesses, scaled to add up to the rows and, last, to the values."""
        found = guess
        for _ in range(rounds):
            for at, wanted in ((self.row, self.row_count), (self.value, self.value_count)):
                sums = add_up(at, found, len(wanted))
                found = found * np.divide(wanted, sums, out=np.zeros_like(sums), where=sums > 0)[at]
        return found


def add_up(at: Rows, what: NDArray[Any], places: int) -> Numbers:
    """The sum of what is at each place."""
    return np.bincount(at, what, places).astype(np.float64, copy=False)  # of nothing, numpy's are integers


def sides_of(release: ReleaseColumns) -> Sides:
    """A release, arranged by group; O(rows by cell + values shown)."""
    groups, hierarchy = len(release.group_rows), release.policy.sensitive.hierarchy
    shown = add_up(release.shown_group, release.shown_count, groups)
    # a clique has more rows than values, and in a redrawn table a person may have several values
    real = np.maximum(0, shown - release.spare)
    by_row, by_value = _per(real, release.group_rows.astype(np.float64)), _per(real, shown)
    at_row = np.argsort(release.cell_rows_group, kind="stable")
    at_value = np.argsort(release.shown_group, kind="stable")
    row_group, value_group = release.cell_rows_group[at_row], release.shown_group[at_value]
    node = release.shown_node[at_value]
    occurs = np.zeros(len(hierarchy.leaves), dtype=bool)
    for one in np.unique(node[node != 0]).tolist():
        occurs[hierarchy.first[one] : hierarchy.last[one]] = True
    if not occurs.any():  # nothing but "*"
        occurs[:] = True
    numbers, leaves = np.arange(groups + 1), np.flatnonzero(occurs)
    low, high = (np.searchsorted(leaves, np.array(ends))[node] for ends in (hierarchy.first, hierarchy.last))
    is_lump = (node == 0) | (high - low > MANY)
    return Sides(
        leaves=leaves,
        row_start=np.searchsorted(row_group, numbers),
        row_cell=release.cell_rows_cell[at_row],
        row_count=release.cell_rows_count[at_row] * by_row[row_group],
        value_start=np.searchsorted(value_group, numbers),
        value_node=node,
        value_low=np.where(is_lump, NOTHING, low),
        value_high=np.where(is_lump, NOTHING + 1, high),
        value_count=release.shown_count[at_value] * by_value[value_group],
        real=real,
        shown=shown,
    )


def entries_of(sides: Sides, groups: Rows) -> Entries:
    """The entries of some groups, which must be in order; O(entries)."""
    values, value_group = _spans(sides.value_start, groups)
    low, high = sides.value_low[values], sides.value_high[values]
    # one column for each leaf that a value may be, and for each group its rows times its columns
    column_value = np.repeat(np.arange(len(values)), high - low)
    column_leaf = _counted(high - low) + low[column_value]
    columns = np.bincount(value_group[column_value], minlength=len(groups))
    column_start = np.r_[0, np.cumsum(columns)]
    rows, row_group = _spans(sides.row_start, groups)
    times = columns[row_group]
    row = np.repeat(np.arange(len(rows)), times)
    column = _counted(times) + column_start[row_group][row]
    return Entries(
        row=row,
        value=column_value[column],
        cell=sides.row_cell[rows][row],
        node=sides.value_node[values][column_value][column],
        leaf=column_leaf[column],
        row_count=sides.row_count[rows],
        value_count=sides.value_count[values],
    )


def _per(part: Numbers, whole: Numbers) -> Numbers:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _spans(start: Rows, groups: Rows) -> tuple[Rows, Rows]:
    """Where the spans of these groups lie, one after the other, and the position of the group of each place."""
    sizes = start[groups + 1] - start[groups]
    of = np.repeat(np.arange(len(groups)), sizes)
    return _counted(sizes) + start[groups][of], of


def _counted(sizes: Rows) -> Rows:
    """0, 1, … for each of these sizes, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum())) - np.repeat(ends - sizes, sizes)
