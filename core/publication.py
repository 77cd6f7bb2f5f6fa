"""What a release says, put into records: rows that are published go in, the bytes of cells and groups come out.

Both models of a table (`privacy.values`) publish through it. A row is a person in a redrawn table, an entry in a
lasting one, where a person may have several rows, all in the person's cell.

Only what changed is written anew. A cell's region is written once for good (`Tree.cells_json`). A group's record from
its number on is its tail, which a release takes over from the one before unless the group is new, the caller names it
as changed, or one of its cells was split.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows, Tree
from shoal.core.measure.loss import LossSums, sum_losses
from shoal.core.policy.policy import Policy
from shoal.core.release import Members, RecordWriter, ShownGroup, Tail, Tally, case_ids_json
from shoal.core.runs import numbered


class PublishedRows(NamedTuple):
    """The rows of a release as columns: the person (a row of `People`), the numbers of group and cell.

    `value` is for lasting tables: the leaf code of the true value, `NO_VALUE` for a row that stands for none.
    """

    person: Rows
    group: Rows
    cell: Rows
    value: Rows | None = None

    def people(self) -> int:
        """How many people there are, whatever the number of their rows."""
        return len(self.person) if self.value is None else int(np.count_nonzero(np.bincount(self.person)))

    def people_by_cell(self, cells: int) -> Rows:
        """How many people each cell has, whatever the number of their rows."""
        if not len(self.person):
            return np.zeros(cells, dtype=np.int64)
        cell_of = np.full(int(self.person.max()) + 1, -1, dtype=np.int64)
        cell_of[self.person] = self.cell
        return np.bincount(cell_of[cell_of >= 0], minlength=cells)

    def members(self, ids: Callable[[], Sequence[str]], leaves: Sequence[str]) -> Members:
        """Who they are; `ids` reads the id of each row's person, `leaves` are the labels of the sensitive values."""
        return Members(ids, self.group, self.cell, self.value, leaves)


class Earlier(NamedTuple):
    """What the release before leaves to this one: the tails of its groups, and how many cells there were."""

    tails: Mapping[int, Tail]
    cells: int


@dataclass(frozen=True)
class Written:
    """The records of a release, the counts and losses of its manifest, and the tails for the release after it."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    tally: Tally
    loss: LossSums
    tails: dict[int, Tail]

    @property
    def records(self) -> tuple[bytes, ...]:
        return self.cells + self.groups


class Publication:
    """A release being written. `describe` says what groups show; `case_ids` are those of rows, if they are shown."""

    def __init__(
        self,
        policy: Policy,
        tree: Tree,
        number: int,
        describe: Callable[[Rows], Iterable[ShownGroup]],
        case_ids: Callable[[Rows], Iterable[str]] | None = None,
    ) -> None:
        self._tree, self._number, self._describe, self._case_ids = tree, number, describe, case_ids
        self._writer = RecordWriter(policy, number)

    def write(
        self, rows: PublishedRows, earlier: Earlier, changed: Sequence[int], *, withheld: int, unsampled: int
    ) -> Written:
        """All records of these rows; `changed` are groups whose tails are no longer true, in so far as there are any.

        Costs one step per group and cell, and some more for each row of a group that is written anew.
        """
        people, in_cell = rows.people_by_cell(self._tree.size), np.bincount(rows.cell, minlength=self._tree.size)
        cells = np.flatnonzero(in_cell)
        live = np.flatnonzero(np.bincount(rows.group))
        is_fresh = self._fresh(rows, live, earlier, changed)
        found, numbers = {**earlier.tails, **dict(self._fresh_tails(rows, is_fresh))}, live.tolist()
        tails = [found[group] for group in numbers]
        columns = list(zip(*tails, strict=True)) or [()] * len(Tail._fields)
        texts, formed, changes, suppressed, generalized, counterfeits = columns
        tally = Tally(
            people=int(people.sum()),
            rows=len(rows.group),
            cells=len(cells),
            groups=len(live),
            formed=formed.count(self._number),
            carried=len(live) - changes.count(self._number),
            withheld=withheld,
            unsampled=unsampled,
            suppressed=sum(suppressed),
            generalized=sum(generalized),
            counterfeits=sum(counterfeits),
        )
        head = self._writer.group_head
        return Written(
            self._writer.cells(self._tree.cells_json(cells), people[cells].tolist()),
            tuple([head + text for text in texts]),
            tally,
            sum_losses(self._tree, cells, in_cell[cells], len(live)),
            dict(zip(numbers, tails, strict=True)),
        )

    def _fresh(self, rows: PublishedRows, live: Rows, earlier: Earlier, changed: Sequence[int]) -> NDArray[np.bool_]:
        """By group, whether its tail is to be written."""
        is_fresh = np.ones(int(live[-1]) + 1 if len(live) else 0, dtype=bool)
        known, named = np.array([*earlier.tails], dtype=np.int64), np.array(changed, dtype=np.int64)
        is_fresh[known[known < len(is_fresh)]] = False
        is_fresh[named[named < len(is_fresh)]] = True
        is_fresh[rows.group[rows.cell >= earlier.cells]] = True  # its cell was split
        return is_fresh

    def _fresh_tails(self, rows: PublishedRows, is_fresh: NDArray[np.bool_]) -> Iterator[tuple[int, Tail]]:
        mine = np.flatnonzero(is_fresh[rows.group])
        key = rows.group[mine] * self._tree.size + rows.cell[mine]
        in_order = np.argsort(key)
        order, key = mine[in_order], key[in_order]
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]][: len(order)])
        ends = np.append(starts, len(order))[1:]
        groups, cells = rows.group[order[starts]], rows.cell[order[starts]]
        if self._case_ids is None:
            texts = _counted(cells, ends - starts)
        else:
            runs = zip(cells.tolist(), starts.tolist(), ends.tolist(), strict=True)
            person, case_ids = rows.person[order], self._case_ids
            texts = [f'"c{cell}":{case_ids_json(case_ids(person[start:end]))}' for cell, start, end in runs]
        names, firsts = np.unique(groups, return_index=True)
        bounds = pairwise([*firsts.tolist(), len(texts)])
        write = self._writer.tail
        for group, shown, (begin, end) in zip(names.tolist(), self._describe(names), bounds, strict=True):
            yield group, write(group, shown, texts[begin:end])


def _counted(cells: Rows, sizes: Rows) -> list[str]:
    """Cells with their rows, as groups list them; many groups have one row in the same cell, which is written once."""
    found, at = numbered(cells)
    texts = np.array([f'"c{cell}":1' for cell in found.tolist()], dtype=object)[at]
    several = np.flatnonzero(sizes > 1)
    pairs = zip(cells[several].tolist(), sizes[several].tolist(), strict=True)
    texts[several] = [f'"c{cell}":{size}' for cell, size in pairs]
    listed: list[str] = texts.tolist()
    return listed
