"""Everyone an event was ever about: one row per person over parallel columns.

Layout. Rows are given out in order of first appearance and never removed, because a person's ledger outlives their
record. Everything about a person is a number in a column: sets of sensitive values and guards are interned (a code
stands for the set), and the groups a person was published in form a chain through one shared arena, newest first. So a
copy for planning costs a few memory moves, and most of the work on it is vectorised.

No result may depend on the order of rows or on codes: a restart reads people back in any order. Code that needs an
order uses tags (keyed hashes of ids) or the ids themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows, Tree
from shoal.core.events.guard import Guard, as_guard
from shoal.core.events.window import ABSENT, PRESENT
from shoal.core.person import AWAY, NOBODY, NONE, NOTHING, NOWHERE, IdList, Ids, Person, Qid, RowsById, Values
from shoal.core.policy.policy import Attribute
from shoal.core.randomness import Keyed
from shoal.core.sampling import sampling

T = TypeVar("T")


_FROZEN = ("status", "home", "since", "leaf", "tag", "set", "guard", "held")  # the others are alike in lasting tables


class Interned(Generic[T]):
    """Numbers for things: equal things have the same number. It only ever grows, so copies may share it."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._codes: dict[T, int] = {}

    def code(self, item: T) -> int:
        code = self._codes.get(item)
        if code is None:
            code = self._codes[item] = len(self.items)
            self.items.append(item)
        return code

    def codes(self, items: Iterable[T]) -> list[int]:
        known, code = self._codes, self.code
        return [known[item] if item in known else code(item) for item in items]


class People:
    """The columns. A plan works on a `copy()`, so it never changes the state it started from."""

    def __init__(self, attributes: Sequence[Attribute], keyed: Keyed, sampling: float = 1.0) -> None:
        self._keyed, self._sampling = keyed, sampling
        self.nowhere: Qid = tuple(attribute.low for attribute in attributes)
        self._ids: IdList = []
        self._rows: RowsById = {}
        self._later_ids: list[str] = []  # a copy's own newcomers; the lists above are shared with the original
        self._later_rows: dict[str, int] = {}
        self.sets: Interned[Values] = Interned()
        self.sets.code(())
        self.guards: Interned[Guard | None] = Interned()
        self.guards.code(None)
        self.size = 0
        self._columns: list[Column] = [
            np.zeros(0, dtype=np.float64 if attribute.kind == "float" else np.int64) for attribute in attributes
        ]
        self._fixed: dict[str, NDArray[Any]] = {
            name: np.zeros(0, dtype=dtype)
            for name, dtype in (
                ("status", np.uint8),
                ("home", np.int32),
                ("group", np.int64),
                ("since", np.int64),
                ("leaf", np.int64),
                ("coarse", np.int32),
                ("tag", np.uint64),
                ("set", np.int32),
                ("guard", np.int32),
                ("held", np.int32),
                ("last", np.int64),
            )
        }
        self._exposed_to = np.zeros(0, dtype=np.int64)
        self._before = np.zeros(0, dtype=np.int64)

    def copy(self) -> "People":
        """A copy to plan on; it shares what only ever grows."""
        twin = object.__new__(People)
        twin.__dict__.update(self.__dict__)
        twin._later_ids, twin._later_rows = [], {}
        twin._columns = [column.copy() for column in self._columns]
        twin._fixed = {name: column.copy() for name, column in self._fixed.items()}
        return twin

    def merge(self) -> None:
        """Move this copy's newcomers into the shared lists, when the copy takes the original's place."""
        self._ids.extend(self._later_ids)
        self._rows.update(self._later_rows)
        self._later_ids, self._later_rows = [], {}

    def freeze(self) -> dict[str, NDArray[Any]]:
        """The columns of people of a lasting table, without their ids, sets and guards."""
        columns = {f"qid{position}": column for position, column in enumerate(self.columns)}
        return columns | {name: self._fixed[name][: self.size] for name in _FROZEN}

    def thaw(
        self, columns: Mapping[str, NDArray[Any]], ids: Ids, sets: Iterable[Values], guards: Iterable[Any]
    ) -> None:
        """The inverse, into people of whom nobody is known yet. `ids` may read them when somebody asks."""
        self.size = len(ids)
        self._ids, self._rows = ids, ids
        self._columns = [columns[f"qid{position}"] for position in range(len(self._columns))]
        self._fixed |= {name: columns[name] for name in _FROZEN}
        for name, number in (("group", NOBODY), ("coarse", NOWHERE), ("last", NOTHING)):
            self._fixed[name] = np.full(self.size, number, dtype=self._fixed[name].dtype)
        self.sets.codes(sets)
        self.guards.codes(map(as_guard, guards))

    # -- reading ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.size

    def row(self, person_id: str) -> int | None:
        row = self._rows.get(person_id)
        return self._later_rows.get(person_id) if row is None else row

    def rows_of(self, ids: Iterable[str]) -> list[int | None]:
        """The row of each of these ids; None for an unknown one."""
        if self._later_rows:
            return [self.row(person_id) for person_id in ids]
        return [self._rows.get(person_id) for person_id in ids]

    def ids(self, rows: Rows) -> list[str]:
        return self.ids_later(rows)()

    def ids_later(self, rows: Rows) -> Callable[[], list[str]]:
        """Reads the ids of these rows when somebody asks, whatever has become of this copy by then."""
        known, ids, later = len(self._ids), self._ids, self._later_ids
        return lambda: [ids[row] if row < known else later[row - known] for row in rows.tolist()]

    @property
    def all_ids(self) -> IdList:
        """The ids of everybody by row; not of a copy with newcomers of its own."""
        assert not self._later_ids
        return self._ids

    def roster(self) -> dict[str, int]:
        """Everyone's status by id, as `Intake` wants it."""
        here = self.here()
        return dict(zip(self.ids(here), self.status[here].tolist(), strict=True))

    def holdings(self) -> dict[str, Values]:
        """The permanent values of their holders, by id, as `Intake` wants them."""
        holders = self.holders()
        return {
            person_id: self.sets.items[code]
            for person_id, code in zip(self.ids(holders), self.held[holders].tolist(), strict=True)
        }

    def holders(self) -> Rows:
        """Everyone who holds a permanent value, wherever they are now."""
        return np.flatnonzero(self.held != NONE)

    @property
    def columns(self) -> Sequence[Column]:
        """One column of quasi-identifiers per attribute."""
        return [column[: self.size] for column in self._columns]

    @property
    def status(self) -> NDArray[np.uint8]:
        return self._fixed["status"][: self.size]

    @property
    def home(self) -> NDArray[np.int32]:
        return self._fixed["home"][: self.size]

    @property
    def group(self) -> Rows:
        return self._fixed["group"][: self.size]

    @property
    def since(self) -> Rows:
        return self._fixed["since"][: self.size]

    @property
    def leaf(self) -> Rows:
        """Each person's cell: a coarse one, or their leaf, or the last known node above it (see `settle`)."""
        return self._fixed["leaf"][: self.size]

    @property
    def coarse(self) -> NDArray[np.int32]:
        """The inner node at which each person is published instead of their leaf; -1 for most."""
        return self._fixed["coarse"][: self.size]

    @property
    def tag(self) -> NDArray[np.uint64]:
        return self._fixed["tag"][: self.size]

    @property
    def set(self) -> NDArray[np.int32]:
        """The code, in `sets`, of each person's sensitive values."""
        return self._fixed["set"][: self.size]

    @property
    def guard(self) -> NDArray[np.int32]:
        """The code, in `guards`, of each person's guard; 0 is none."""
        return self._fixed["guard"][: self.size]

    @property
    def held(self) -> NDArray[np.int32]:
        """The code, in `sets`, of the permanent values each person holds; 0 is none."""
        return self._fixed["held"][: self.size]

    def here(self) -> Rows:
        """Everyone who has not gone to another shard."""
        return np.flatnonzero(self.status != AWAY)

    def present(self) -> Rows:
        return np.flatnonzero(self.status == PRESENT)

    def sampled(self) -> Rows:
        """The people who are present and whose coin, tossed once for ever, showed heads: they may be published (G5)."""
        return np.flatnonzero(self.is_sampled())

    def is_sampled(self) -> NDArray[np.bool_]:
        """For each row whether it is one of `sampled`."""
        is_present = self.status == PRESENT
        if self._sampling < 1.0:
            is_present &= sampling(self._keyed, self.tag, self._sampling)
        return np.asarray(is_present, dtype=bool)

    def exposures(self, rows: Rows) -> tuple[Rows, Rows]:
        """Every exposure of these people: positions in `rows`, and the groups, oldest last."""
        positions, groups = [], []
        at, who = self._fixed["last"][rows], np.arange(len(rows))
        while who.size:
            exposed = at != NOTHING
            at, who = at[exposed], who[exposed]
            positions.append(who)
            groups.append(self._exposed_to[at])
            at = self._before[at]
        return np.concatenate([*positions, who]), np.concatenate([*groups, who])

    def last_groups(self, rows: Rows) -> Rows:
        """The group each of these people was published in last, -1 for none."""
        last = self._fixed["last"][rows]
        found = np.full(len(rows), NOBODY, dtype=np.int64)
        found[last != NOTHING] = self._exposed_to[last[last != NOTHING]]
        return found

    def person(self, row: int) -> Person:
        """One row as it is stored."""
        return next(self.persons(np.array([row])))[1]

    def persons(self, rows: Rows) -> Iterator[tuple[str, Person]]:
        """Rows as they are stored; columns are converted once, so this is the way to write a million."""
        positions, groups = self.exposures(rows)
        order = np.lexsort((np.arange(len(positions))[::-1], positions))
        bounds = np.searchsorted(positions[order], np.arange(len(rows) + 1)).tolist()
        exposed = groups[order].tolist()
        chains = (tuple(exposed[begin:end]) for begin, end in pairwise(bounds))
        return zip(self.ids(rows), self.records(rows, chains), strict=True)

    def records(self, rows: Rows, chains: Iterable[tuple[int, ...]] = repeat(())) -> Iterator[Person]:
        """Rows as they are, with these exposures, or with none if the caller does not need them."""
        qids = zip(*(column[rows].tolist() for column in self._columns), strict=True)
        names = ("status", "home", "set", "group", "since", "guard", "held", "coarse")
        fixed = (self._fixed[name][rows].tolist() for name in names)
        sets, guards = self.sets.items, self.guards.items
        for (status, home, values, group, since, guard, held, coarse), qid, exposures in zip(
            zip(*fixed, strict=True), qids, chains, strict=False
        ):
            yield Person(status, home, qid, sets[values], group, exposures, since, guards[guard], sets[held], coarse)

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, changed: Iterable[tuple[int, Person]]) -> None:
        """Overwrite the records of people who are known, but for exposures. Their leaf is the root until settled."""
        pairs = list(changed)
        if not pairs:
            return
        rows = np.array([row for row, _ in pairs], dtype=np.int64)
        columns = zip(*(person for _, person in pairs), strict=True)
        status, home, qids, values, group, _, since, guards, held, coarse, *_ = columns
        for column, numbers in zip(self._columns, zip(*qids, strict=True), strict=True):
            column[rows] = numbers
        fixed: dict[str, Any] = {"status": status, "home": home, "group": group, "since": since, "leaf": 0}
        fixed |= {"set": self.sets.codes(values), "guard": self.guards.codes(map(as_guard, guards))}
        fixed |= {"held": self.sets.codes(held), "coarse": coarse}
        for name, numbers in fixed.items():
            self._fixed[name][rows] = numbers

    def depart(self, rows: Rows) -> None:
        """Take these people's records away; everything else known about them stays."""
        for name, number in (("status", ABSENT), ("set", NONE), ("group", NOBODY), ("leaf", 0)):
            self._fixed[name][rows] = number

    def leave(self, rows: Rows) -> None:
        """Forget these people, who live in another shard now. They are right again once they are `put`."""
        forgotten = (("status", AWAY), ("home", 0), ("set", NONE), ("guard", NONE), ("held", NONE), ("since", 0))
        for name, number in (*forgotten, ("group", NOBODY), ("coarse", NOWHERE), ("leaf", 0)):
            self._fixed[name][rows] = number
        for column, least in zip(self._columns, self.nowhere, strict=True):
            column[rows] = least

    def extend(self, newcomers: Iterable[tuple[str, Person]]) -> None:
        """Append people who are not known yet, as they were stored."""
        pairs = list(newcomers)
        if not pairs:
            return
        first = self.size
        columns = zip(*(person for _, person in pairs), strict=True)
        status, home, qids, values, group, exposures, since, guards, held, coarse, *_ = columns
        ids = [person_id for person_id, _ in pairs]
        self.admit(ids, status=status, home=home, qids=qids, values=values, guards=map(as_guard, guards), since=since)
        self.group[first:] = group
        self.held[first:] = self.sets.codes(held)
        self.coarse[first:] = coarse
        for depth in range(max(map(len, exposures))):
            exposed = [(first + index, groups[depth]) for index, groups in enumerate(exposures) if len(groups) > depth]
            self.expose(*np.array(exposed, dtype=np.int64).T)

    def admit(
        self,
        ids: list[str],
        *,
        status: Sequence[int],
        home: Sequence[int],
        qids: Iterable[Qid],
        values: Iterable[Values],
        guards: Iterable[Guard | None],
        since: Sequence[int] | int,
    ) -> None:
        """Append people who are not known yet, column by column; none of them is published yet."""
        first, last = self.size, self.size + len(ids)
        self._reserve(last)
        self._later_ids.extend(ids)
        self._later_rows.update(zip(ids, range(first, last), strict=True))
        for column, numbers in zip(self._columns, zip(*qids, strict=True), strict=True):
            column[first:last] = numbers
        fixed: dict[str, Any] = {"status": status, "home": home, "since": since, "leaf": 0, "group": NOBODY}
        fixed |= {"set": self.sets.codes(values), "guard": self.guards.codes(guards)}
        fixed |= {"last": NOTHING, "tag": self._keyed.tags(ids), "held": NONE, "coarse": NOWHERE}
        for name, numbers in fixed.items():
            self._fixed[name][first:last] = numbers
        self.size = last

    def settle(self, tree: Tree, rows: Rows) -> None:
        """Bring these people's cells up to date, each from the node where it was last."""
        leaf = tree.route(self.columns, rows, self.leaf[rows])
        self.leaf[rows] = np.where(self.coarse[rows] == NOWHERE, leaf, self.coarse[rows])

    def start(self, rows: Rows, nodes: Rows | int) -> None:
        """Publish these people at coarse cells from now on."""
        self.coarse[rows] = self.leaf[rows] = nodes

    def expose(self, rows: Rows, groups: Rows) -> None:
        """Add one exposure to each of these people's chains."""
        first = len(self._exposed_to)
        self._exposed_to = np.concatenate([self._exposed_to, groups])
        self._before = np.concatenate([self._before, self._fixed["last"][rows]])
        self._fixed["last"][rows] = first + np.arange(len(rows))

    def _reserve(self, size: int) -> None:
        capacity = len(self._fixed["status"])
        if size <= capacity:
            return
        more = max(size, capacity + capacity // 4) - capacity
        self._columns = [np.concatenate([c, np.zeros(more, dtype=c.dtype)]) for c in self._columns]
        for name, column in self._fixed.items():
            self._fixed[name] = np.concatenate([column, np.zeros(more, dtype=column.dtype)])

    def check_invariants(self) -> None:
        """Ids and rows are each other's inverse; only people who are present are published, in their last group."""
        everyone = np.arange(self.size)
        assert [self.row(person_id) for person_id in self.ids(everyone)] == everyone.tolist()
        published = np.flatnonzero(self.group != NOBODY)
        assert bool(np.all(self.status[published] == PRESENT))
        assert bool(np.all(self._exposed_to[self._fixed["last"][published]] == self.group[published]))
