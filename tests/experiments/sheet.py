"""A release by any publisher, with the names in it, and what two adversaries read from it about a permanent value.

One of them knows who has a row in which group (`clues_of_members`), the other only the registration list: who is
registered and where they live (`clues_of_list`). The second finds of a group everyone who lives in one of its cells.
Somebody is certainly published where exactly as many people live in a cell as it has rows.
"""

from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.release_reader import ReleaseColumns
from tests.experiments.linkage import Clue, Clues
from tests.experiments.mondrian import Points
from tests.experiments.series import Step

STAR = 0  # the root of every hierarchy
CROWD = 1_000  # people who may be in a group; of larger ones nothing is concluded


class Sheet(NamedTuple):
    """A release, and of each of its rows the person, the group and the cell, as positions in it.

    `is_by_person` says that everyone has one row; with m-invariance every value of theirs is a row of its own.
    """

    published: ReleaseColumns
    person: Rows
    group: Rows
    cell: Rows
    is_by_person: bool = True

    def shows(self, node: int) -> dict[int, tuple[int, int]]:
        """By group that shows a value or a "*": how often each."""
        seen: dict[int, tuple[int, int]] = {}
        published = self.published
        is_asked = (published.shown_node == node) | (published.shown_node == STAR)
        columns = (published.shown_group, published.shown_node, published.shown_count)
        for group, shown, count in zip(*(column[is_asked].tolist() for column in columns), strict=True):
            times, stars = seen.get(group, (0, 0))
            seen[group] = (times, stars + count) if shown == STAR else (times + count, stars)
        return seen


class Homes(NamedTuple):
    """The registration list: everyone on it, by number, and their quasi-identifiers."""

    people: Rows
    points: Points


def number_of(person: str) -> int:
    """The people of these experiments are called p0, p1, and so on."""
    return int(person[1:])


def sheet_of(step: Step) -> Sheet:
    """A release of the engine."""
    published = step.published
    groups = {name: place for place, name in enumerate(published.group_names)}
    cells = {name: place for place, name in enumerate(published.cell_names)}
    rows = [(number_of(person), groups[group], cells[cell]) for person, group, cell in step.made.release.members]
    person, group, cell = np.array(rows, dtype=np.int64).reshape(len(rows), 3).T
    return Sheet(published, person, group, cell)


def clues_of_members(sheet: Sheet, node: int) -> Clues:
    """For somebody who knows who is in which group."""
    shows = sheet.shows(node)
    order = np.argsort(sheet.group, kind="stable")
    begins, ends = (np.searchsorted(sheet.group[order], list(shows), side) for side in ("left", "right"))
    parts = zip(shows, begins.tolist(), ends.tolist(), strict=True)
    may = {group: np.unique(sheet.person[order[begin:end]]) for group, begin, end in parts}
    return _clues(sheet, shows, may, frozenset(sheet.person.tolist()))


def certainly_published(sheet: Sheet, homes: Homes) -> frozenset[int]:
    """Whom the registration list gives away: everyone who lives in a cell must have a row in it."""
    living = count_inside(homes.points, *_bounds(sheet))
    # Of somebody with several rows in a cell the others' would be missing: then only one who lives alone is certain.
    is_full = living == (sheet.published.rows_by_cell if sheet.is_by_person else 1)
    return frozenset(sheet.person[is_full[sheet.cell]].tolist())


def clues_of_list(sheet: Sheet, node: int, homes: Homes, there: frozenset[int]) -> Clues:
    """For somebody who knows the registration list and nothing else; `there` are those it gives away."""
    published, shows = sheet.published, sheet.shows(node)
    low, high = _bounds(sheet)
    may: dict[int, Rows] = {}
    for group in shows:
        lives = np.zeros(len(homes.people), dtype=bool)
        for cell in published.cell_rows_cell[published.cell_rows_group == group].tolist():
            lives |= ((homes.points >= low[cell]) & (homes.points < high[cell])).all(axis=1)
        may[group] = homes.people[lives]
    return _clues(sheet, shows, may, there)


def _bounds(sheet: Sheet) -> tuple[Points, Points]:
    """Where each cell begins and ends, one column per attribute."""
    return np.stack(sheet.published.low, axis=1), np.stack(sheet.published.high, axis=1)


def _clues(sheet: Sheet, shows: dict[int, tuple[int, int]], may: dict[int, Rows], there: frozenset[int]) -> Clues:
    """The clues of one release, given who may be in each group that shows something, and who is certainly published.

    A group that a thousand people may be in says nothing about any of them, but that they may be in it.
    """
    everyone = np.concatenate([np.zeros(0, dtype=np.int64), *may.values()])
    places = np.bincount(everyone)
    groups = []
    for group, (times, stars) in shows.items():
        people = may[group]
        if len(people) <= CROWD:
            must = there.intersection(people[places[people] == 1].tolist())
            least = max(0, times - int(sheet.published.spare[group]))
            groups.append(Clue(frozenset(people.tolist()), must, least, times + stars))
    return Clues(groups, there.difference(np.unique(everyone).tolist()))


def count_inside(points: Points, low: Points, high: Points) -> Rows:
    """How many of these points lie in each box; O(points + boxes x 2^attributes + values of all attributes)."""
    base = points.min(axis=0)
    shape = points.max(axis=0) - base + 1
    table = np.zeros(tuple(shape + 1), dtype=np.int64)
    np.add.at(table, tuple((points - base + 1).T), 1)
    for axis in range(points.shape[1]):
        np.cumsum(table, axis=axis, out=table)
    ends = (np.clip(low - base, 0, shape), np.clip(high - base, 0, shape))
    found = np.zeros(len(low), dtype=np.int64)
    for corner in np.ndindex(*(2,) * points.shape[1]):
        sign = -1 if (len(corner) - sum(corner)) % 2 else 1
        found += sign * table[tuple(ends[side][:, axis] for axis, side in enumerate(corner))]
    return found


def boxes_of(points: Points, group: Rows, groups: int) -> tuple[Points, Points]:
    """The bounding box of each group's points, half-open."""
    low = np.full((groups, points.shape[1]), np.iinfo(np.int64).max, dtype=np.int64)
    high = np.full((groups, points.shape[1]), np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(low, group, points)
    np.maximum.at(high, group, points)
    return low, high + 1
