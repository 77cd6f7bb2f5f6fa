"""What both models of a table share while a release is made: people, the tree, and the bytes at the end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.core.cells.mondrian import grow
from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import Rows, Tree
from shoal.core.fold import Folded, Window, fold
from shoal.core.parts import PartPlan, Summary
from shoal.core.people import People
from shoal.core.person import NOWHERE
from shoal.core.policy.policy import Policy
from shoal.core.publication import Earlier, Publication, PublishedRows, Showing, Written, shard_prefix
from shoal.core.release import (
    Members,
    Release,
    ShownGroup,
    is_full,
    plain_content,
)
from shoal.core.state import ENGINE, Change, LazyPeople, Meta, State


@dataclass(frozen=True)
class Plan:
    """A release, the change it makes to the state, and (partition, offset) of accepted events that were misrouted."""

    release: Release
    change: Change
    misrouted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What a model decided: the rows of the release, what their groups show, and what is to be written down.

    `changed` are the carried groups whose records are different now; `before` says what the last release showed.
    `people` are those whose records changed beside those the window touched; `records` are the other changed records by
    the name of their kind, and `after` the parts of the state that take the place of the old ones.
    """

    rows: PublishedRows
    describe: Callable[[Rows], Iterable[ShownGroup]]
    changed: Sequence[int]
    case_ids: Callable[[Rows], Iterable[str]] | None = None
    before: Callable[[], Showing]
    next_group: int
    waiting: int = 0
    max_breach: float
    cohorts: Mapping[str, list[list[str]]]
    people: Rows
    records: Mapping[str, dict[int, Any]]
    after: Mapping[str, Any] = field(repr=False)


class Draft:
    """A release being made: copies of people, tree and what others published, that become what the change says.

    With a `shard` it is a part of one.
    """

    def __init__(self, state: State, policy: Policy, number: int, shard: Shard | None = None) -> None:
        self.state, self.policy, self.number, self.shard = state, policy, number, shard
        self._shard_number = None if shard is None else shard.number
        self.people: People = state.people.copy()
        self.tree: Tree = state.tree.copy()
        self.externals = state.externals.copy()
        self.published_since = range(0)  # external publications that are new
        self._split: list[int] = []

    def fold_window(self, window: Window) -> Folded:
        """Step 1: the net effect per person of everything since the last release, and what others released."""
        self.published_since = self.externals.add(window.externals)
        cures = self.policy.values == "lasting"
        return fold(self.people, window, self.number, self.policy.sensitive.permanent, cures=cures)

    def grow_tree(self, folded: Folded) -> None:
        """Step 3: route arrivals to their leaves, and split leaves while both sides keep k + headroom rows."""
        people = self.people
        arrived = np.array(folded.arrived, dtype=np.int64)
        people.settle(self.tree, arrived)
        present = people.sampled()
        cells = people.leaf[present]
        smallest = self.policy.k + self.policy.headroom
        is_large = np.bincount(cells, minlength=self.tree.size) >= 2 * smallest
        is_reached = np.zeros(self.tree.size, dtype=bool)
        is_reached[people.leaf[arrived[people.coarse[arrived] == NOWHERE]]] = True  # coarse cells are never split
        in_reach = present[(is_reached & is_large)[cells]]
        order = in_reach[np.argsort(people.leaf[in_reach], kind="stable")]
        leaves, starts = np.unique(people.leaf[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(leaves) else []
        self._split = grow(self.tree, people.columns, people.leaf, zip(leaves.tolist(), parts, strict=True), smallest)

    def emit(self, folded: Folded, decided: Decided, digest: str) -> PartPlan:
        """Step 8: the bytes of the part, and the records it changes. `digest` is of the policy that manifests name."""
        written = self.write(decided)
        meta = Meta(self.number, None, decided.next_group, decided.max_breach, ENGINE, digest)
        content = plain_content(written.records).digest if written.part is None else None
        return PartPlan(
            written.cells,
            written.groups,
            written.gone,
            Summary(written.part, written.tally, written.losses, decided.max_breach, content),
            self.change(meta, folded, decided, written),
            self.members(decided),
            decided.cohorts,
            tuple(sorted(folded.misrouted)),
        )

    def write(self, decided: Decided) -> Written:
        """The records of the release."""
        people, state, number = self.people, self.state, self.number
        sampled = len(people.sampled())
        withheld, unsampled = sampled - decided.rows.people(), len(people.present()) - sampled
        is_first = state.meta.release == 0 or state.meta.engine != ENGINE  # another engine may write other bytes
        is_first |= state.shard != self.shard  # its region is new
        full = is_full(self.policy.full_every, number, self._shard_number or 0, is_first=is_first)
        return self._publication(self.tree, decided.describe, decided.case_ids).write(
            decided.rows,
            self._earlier(decided, full),
            decided.changed,
            withheld=withheld,
            unsampled=unsampled,
            waiting=decided.waiting,
            is_full=full,
        )

    def change(self, meta: Meta, folded: Folded, decided: Decided, written: Written) -> Change:
        """What becomes of the state."""
        people, departed = self.people, np.array(folded.departed, dtype=np.int64)
        after = self.state.next(
            people=people,
            tree=self.tree,
            externals=self.externals,
            tails=written.tails,
            shown=written.shown,
            shard=self.shard,
            **decided.after,
        )
        changed = np.union1d(decided.people, np.array(folded.touched, dtype=np.int64))
        return Change(
            meta,
            LazyPeople(after, np.setdiff1d(changed, departed)),
            nodes={node: self.tree.record(node) for node in self._split},
            externals={new: self.externals.records()[new] for new in self.published_since},
            departed=tuple(people.ids(departed)),
            after=after,
            **decided.records,
        )

    def members(self, decided: Decided) -> Members:
        """Who is published where."""
        ids, leaves = self.people.ids_later(decided.rows.person), self.policy.sensitive.hierarchy.leaves
        return decided.rows.members(ids, leaves, shard_prefix(self._shard_number))

    def _earlier(self, decided: Decided, full: bool) -> Earlier:
        """What the release before leaves to this one. A delta needs all of it, and a state read back has none of it."""
        state = self.state
        if full or state.shown is not None:
            return Earlier(state.tails, state.tree.size, state.shown)
        before = decided.before()
        return self._publication(state.tree, before.describe, before.case_ids).stand(before.rows)

    def _publication(
        self,
        tree: Tree,
        describe: Callable[[Rows], Iterable[ShownGroup]],
        case_ids: Callable[[Rows], Iterable[str]] | None,
    ) -> Publication:
        return Publication(self.policy, tree, self.number, describe, case_ids, self._shard_number)

    def places(self, cells: Rows) -> Rows:
        """The place of each of these cells in a depth-first walk over them."""
        found = np.flatnonzero(np.bincount(cells))
        places = np.empty(self.tree.size, dtype=np.int64)
        places[found[np.lexsort((found, self.tree.depth_first(found)))]] = np.arange(len(found))
        return places[cells]
