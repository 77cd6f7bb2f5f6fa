"""What a release says, put into records: rows that are published go in, the bytes of cells and groups come out.

Both models of a table (`privacy.values`) publish through it. A row is a person in a redrawn table, an entry in a
lasting one, where a person may have several rows, all in the person's cell.

Only what changed is written anew. A cell's region is written once for good (`Tree.cells_json`). A group's record from
its number on is its tail, which a release takes over from the one before unless the group is new, the caller names it
as changed, or one of its cells was split.

In a table with deltas or shards every record has a digest, kept with the group's tail or the cell's people, and only
what was written anew is hashed anew. A delta holds the records whose bytes are others than before, and the ids that are
gone. What stood before is kept in memory; after a restart it is made again from the rows of the state (`stand`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows, Tree
from shoal.core.measure.loss import Loss, LossSums, sum_losses
from shoal.core.policy.policy import Policy
from shoal.core.release import Members, Part, RecordWriter, ShownGroup, Tail, Tally, case_ids_json
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

    def members(self, ids: Callable[[], Sequence[str]], leaves: Sequence[str], prefix: str = "") -> Members:
        """Who they are; `ids` reads the id of each row's person, `leaves` are the labels of the sensitive values."""
        return Members(ids, self.group, self.cell, self.value, leaves, prefix)


class Showing(NamedTuple):
    """What a state shows: rows, what groups show, and the case ids of rows, if they are shown."""

    rows: PublishedRows
    describe: Callable[[Rows], Iterable[ShownGroup]]
    case_ids: Callable[[Rows], Iterable[str]] | None = None


class ShownCells(NamedTuple):
    """The cells of a release by number, with the people and the digest, 32 bytes, of each record."""

    cells: Rows
    people: Rows
    digests: NDArray[np.uint8]


class Earlier(NamedTuple):
    """What the release before leaves to this one: the tails of its groups, how many cells there were, and which of
    them it showed, in a table that is not plain.
    """

    tails: Mapping[int, Tail]
    cells: int
    shown: ShownCells | None = None


@dataclass(frozen=True)
class Written:
    """The records of a release, the counts and losses of its manifest, and what it leaves to the one after it."""

    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    tally: Tally
    losses: LossSums
    tails: dict[int, Tail]
    shown: ShownCells | None = None
    part: Part | None = None
    """What the manifest says of it; None in a plain table, as `shown`."""

    @property
    def loss(self) -> Loss | None:
        return self.losses.loss()

    @property
    def records(self) -> tuple[bytes, ...]:
        return self.cells + self.groups + self.gone


class Publication:
    """A release being written, or the part of a shard. `describe` says what groups show; `case_ids` are those of rows,
    if they are shown. With a `shard` ids begin with its name.
    """

    def __init__(
        self,
        policy: Policy,
        tree: Tree,
        number: int,
        describe: Callable[[Rows], Iterable[ShownGroup]],
        case_ids: Callable[[Rows], Iterable[str]] | None = None,
        shard: int | None = None,
    ) -> None:
        self._tree, self._number, self._describe, self._case_ids = tree, number, describe, case_ids
        self._is_lasting = policy.values == "lasting"
        self._is_plain, self._shard, self.prefix = policy.is_plain, shard or 0, shard_prefix(shard)
        self._writer = RecordWriter(policy, number, self.prefix)

    def stand(self, rows: PublishedRows) -> Earlier:
        """What a release of these rows leaves to the next one, without writing it."""
        people = rows.people_by_cell(self._tree.size)
        live = np.flatnonzero(np.bincount(rows.group))
        is_fresh = np.ones(int(live[-1]) + 1 if len(live) else 0, dtype=bool)
        shown = None if self._is_plain else self._show(np.flatnonzero(people), people, None)
        return Earlier(dict(self._fresh_tails(rows, is_fresh)), self._tree.size, shown)

    def write(
        self,
        rows: PublishedRows,
        earlier: Earlier,
        changed: Sequence[int],
        *,
        withheld: int,
        unsampled: int,
        waiting: int = 0,
        is_full: bool = True,
    ) -> Written:
        """All records of these rows, or, unless `is_full`, those that differ from `earlier`, which must then be whole.

        `changed` are groups whose tails are no longer true, in so far as there are any. Costs one step per group and
        cell, and some more for each row of a group that is written anew.
        """
        people, in_cell = rows.people_by_cell(self._tree.size), np.bincount(rows.cell, minlength=self._tree.size)
        cells = np.flatnonzero(in_cell)
        live = np.flatnonzero(np.bincount(rows.group))
        is_fresh = self._fresh(rows, live, earlier, changed)
        found, numbers = {**earlier.tails, **dict(self._fresh_tails(rows, is_fresh))}, live.tolist()
        tails = [found[group] for group in numbers]
        columns = list(zip(*tails, strict=True)) or [()] * len(Tail._fields)
        texts, formed, changes, suppressed, generalized, spare, digests = columns
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
            waiting=waiting,
            generalized=sum(generalized),
            counterfeits=0 if self._is_lasting else sum(spare),
            vacant=sum(spare) if self._is_lasting else 0,
        )
        head = self._writer.group_head
        shown = None if self._is_plain else self._show(cells, people, earlier.shown)
        written, gone = cells, self._writer.gone(())
        if not is_full:
            assert earlier.shown is not None
            written, gone = cells[self._is_other(cells, people, earlier.shown)], self._gone(people, live, earlier)
            texts = tuple(
                [tail.text for group, tail in zip(numbers, tails, strict=True) if _is_new(earlier, group, tail)]
            )
        records = self._writer.cells(self._tree.cells_json(written), people[written].tolist())
        part = None
        if shown is not None:
            digest = sha256(b"".join([shown.digests.tobytes(), *digests])).digest()
            region, counts = self._tree.region_json(self._tree.root), (len(records), len(texts), len(gone))
            part = Part(self._shard, region, is_full, *counts, tally.people, digest)
        return Written(
            records,
            tuple([head + text for text in texts]),
            gone,
            tally,
            sum_losses(self._tree, cells, in_cell[cells], len(live)),
            dict(zip(numbers, tails, strict=True)),
            shown,
            part,
        )

    def _show(self, cells: Rows, people: Rows, before: ShownCells | None) -> ShownCells:
        """These cells with their digests; only those that are new or have other `people`, given by cell, are hashed."""
        known = np.zeros((self._tree.size, 32), dtype=np.uint8)
        fresh = cells
        if before is not None:
            known[before.cells] = before.digests
            fresh = cells[self._is_other(cells, people, before)]
        digests = self._writer.cell_digests(self._tree.cells_json(fresh), people[fresh].tolist())
        known[fresh] = np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32)
        return ShownCells(cells, people[cells], known[cells])

    def _is_other(self, cells: Rows, people: Rows, before: ShownCells) -> NDArray[np.bool_]:
        """Whether each of these cells was not there before, or had other people."""
        were = np.zeros(self._tree.size, dtype=np.int64)
        were[before.cells] = before.people
        return np.asarray(people[cells] != were[cells])

    def _gone(self, people: Rows, live: Rows, earlier: Earlier) -> tuple[bytes, ...]:
        """The records of cells and groups that were there before."""
        assert earlier.shown is not None
        before = earlier.shown.cells
        cells = [f"{self.prefix}c{cell}" for cell in before[people[before] == 0].tolist()]
        groups = [f"{self.prefix}g{group}" for group in sorted(earlier.tails.keys() - set(live.tolist()))]
        return self._writer.gone(cells + groups)

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
            texts = _counted(self.prefix, cells, ends - starts)
        else:
            runs = zip(cells.tolist(), starts.tolist(), ends.tolist(), strict=True)
            person, case_ids = rows.person[order], self._case_ids
            texts = [f'"{self.prefix}c{cell}":{case_ids_json(case_ids(person[at:to]))}' for cell, at, to in runs]
        names, firsts = np.unique(groups, return_index=True)
        bounds = pairwise([*firsts.tolist(), len(texts)])
        write = self._writer.tail
        for group, shown, (begin, end) in zip(names.tolist(), self._describe(names), bounds, strict=True):
            yield group, write(group, shown, texts[begin:end])


def shard_prefix(shard: int | None) -> str:
    """What the ids of a shard's cells and groups begin with; nothing in a table that has one."""
    return "" if shard is None else f"s{shard}-"


def _is_new(earlier: Earlier, group: int, tail: Tail) -> bool:
    """Whether a group's record differs from the one before."""
    before = earlier.tails.get(group)
    return before is not tail and (before is None or before.text != tail.text)


def _counted(prefix: str, cells: Rows, sizes: Rows) -> list[str]:
    """Cells with their rows, as groups list them; many groups have one row in the same cell, which is written once."""
    found, at = numbered(cells)
    texts = np.array([f'"{prefix}c{cell}":1' for cell in found.tolist()], dtype=object)[at]
    several = np.flatnonzero(sizes > 1)
    pairs = zip(cells[several].tolist(), sizes[several].tolist(), strict=True)
    texts[several] = [f'"{prefix}c{cell}":{size}' for cell, size in pairs]
    listed: list[str] = texts.tolist()
    return listed
