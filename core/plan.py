"""How a release is made: `plan(state, window, policy, number)`, the steps of DESIGN section 4, each one call.

Pure and deterministic: no clock, no I/O, randomness only from the state's keyed generator. The state is not touched;
what is to become of it is returned as a `Change`, to be sealed before anyone sees the release, and applied after.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core.cells.mondrian import grow
from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.clique import Cohorts, cohorts_of
from shoal.core.cohort.registration import Registration
from shoal.core.cohort.update import CohortUpdate, clique_size
from shoal.core.errors import CoreError
from shoal.core.fold import Folded, Window, fold
from shoal.core.groups.formation import Formation, form_groups
from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.groups.pool import NO_TIES, Pool
from shoal.core.overlap.carried import overlapping_holders, unsafe_groups
from shoal.core.overlap.formation import Overlapped, form_overlapping, merged
from shoal.core.overlap.generalize import ReleaseContext, generalize, refill
from shoal.core.overlap.overlaps import ExternalIndex, Overlaps, index_of
from shoal.core.people import NOBODY, NOWHERE, People
from shoal.core.policy.policy import Policy
from shoal.core.publication import Earlier, Publication, PublishedRows, Written
from shoal.core.release import Release, ShownGroup, sha256, write_manifest
from shoal.core.state import ENGINE, After, Change, LazyPeople, Meta, State

__all__ = ["Plan", "Window", "plan"]


@dataclass(frozen=True)
class Plan:
    """A release, the change it makes to the state, and (partition, offset) of accepted events that were misrouted."""

    release: Release
    change: Change
    misrouted: tuple[tuple[int, int], ...]


def plan(state: State, window: Window, policy: Policy, number: int) -> Plan:
    """The next release of a table; raises CoreError if `number` is not the next one."""
    if number != state.meta.release + 1:
        raise CoreError(f"release {number} cannot follow release {state.meta.release}")
    if policy.values == "lasting":
        raise CoreError("tables with `values: lasting` cannot be released yet; write `values: redrawn` under privacy")
    draft = _Draft(state, policy, number)
    folded = draft.fold_window(window)
    draft.break_groups(folded)
    draft.grow_tree(folded)
    draft.close_cells()
    draft.update_cohorts(folded)
    pool = draft.gather_pool()
    overlapped = draft.form_overlapping(pool)
    formation = draft.form_groups(pool, overlapped)
    formed = draft.charge(pool, formation)
    return draft.emit(window, folded, formed)


class _Draft:
    """A release being made: copies of people, tree and ledger that become what the change says."""

    def __init__(self, state: State, policy: Policy, number: int) -> None:
        self._state, self._policy, self._number = state, policy, number
        self._people: People = state.people.copy()
        self._tree: Tree = state.tree.copy()
        self._ledger: Ledger = state.ledger.copy()
        self._cohorts: Cohorts = state.cohorts.copy()
        self._ties = NO_TIES
        self._externals = state.externals.copy()
        self._context = ReleaseContext(self._people, self._tree, self._ledger, policy, state.keyed, number)
        self._published_since = range(0)  # external publications that are new
        self._next_group = state.meta.next_group
        self._max_breach = state.meta.max_breach
        self._split: list[int] = []
        self._is_closed = np.zeros(0, dtype=bool)

    def fold_window(self, window: Window) -> Folded:
        """Step 1: the net effect per person of everything since the last release, and what others released."""
        self._published_since = self._externals.add(window.externals)
        return fold(self._people, window, self._number, self._policy.sensitive.permanent)

    def break_groups(self, folded: Folded) -> None:
        """Step 2: a group that lost or changed someone is broken; its people go to the pool, all others are carried.

        So is one that somebody else's new publication makes unsafe (G5).
        """
        self._break(folded.broken)
        people, published = self._people, np.flatnonzero(self._people.group != NOBODY)
        if self._published_since and len(published):
            new = ExternalIndex(self._policy, self._externals, self._published_since)
            self._break(unsafe_groups(people, published, self._ledger, self._policy, new))

    def grow_tree(self, folded: Folded) -> None:
        """Step 3: route arrivals to their leaves, and split leaves while both sides keep k + headroom rows."""
        people = self._people
        arrived = np.array(folded.arrived, dtype=np.int64)
        people.settle(self._tree, arrived)
        present = people.sampled()
        cells = people.leaf[present]
        smallest = self._policy.k + self._policy.headroom
        is_large = np.bincount(cells, minlength=self._tree.size) >= 2 * smallest
        is_reached = np.zeros(self._tree.size, dtype=bool)
        is_reached[people.leaf[arrived[people.coarse[arrived] == NOWHERE]]] = True  # coarse cells are never split
        in_reach = present[(is_reached & is_large)[cells]]
        order = in_reach[np.argsort(people.leaf[in_reach], kind="stable")]
        leaves, starts = np.unique(people.leaf[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(leaves) else []
        self._split = grow(self._tree, people.columns, people.leaf, zip(leaves.tolist(), parts, strict=True), smallest)

    def close_cells(self) -> None:
        """Step 3, continued: a cell under k is closed; its people are withheld and their groups broken."""
        people = self._people
        present = people.sampled()
        refill(self._context, present)
        self._is_closed = self._context.counts(present) < self._policy.k
        hidden = present[self._is_closed[people.leaf[present]]]
        self._break({group for group in people.group[hidden].tolist() if group != NOBODY})

    def update_cohorts(self, folded: Folded) -> None:
        """Step 4: bring roles and cohorts up to date, and tie each clique of the pool into one unit."""
        if self._policy.sensitive.permanent:
            people = self._people
            release = CohortUpdate(self._cohorts, people, self._tree, self._ledger, self._policy)
            registration = Registration(people, self._tree, self._is_closed, self._state.keyed, self._number)
            has_others, touched = len(self._externals), np.array(folded.touched, dtype=np.int64)
            others = index_of(self._policy, self._externals) if has_others else None
            overlapping = overlapping_holders(people, others) if others else {}
            self._ties = release.update(registration, touched, overlapping, self._break)

    def gather_pool(self) -> Pool:
        """Who needs a group, in the tree's depth-first order, shuffled within each cell."""
        people = self._people
        in_open_cell = self._in_open_cells()
        rows = in_open_cell[people.group[in_open_cell] == NOBODY]
        shuffle = self._state.keyed.draw(people.tag[rows], self._number, "shuffle")
        rows = rows[np.lexsort((shuffle, self._places(people.leaf[rows])))]
        return Pool.of(people, rows, self._policy, self._ties)

    def form_overlapping(self, pool: Pool) -> Overlapped:
        """Step 5: rows that overlap what others have published are put into groups that are balanced beside it.

        Those of them never published before may start in coarse cells, but for tables with permanent values.
        """
        if not len(self._externals) or not len(pool):
            return Overlapped([], {}, 0.0)
        columns, policy = self._people.columns, self._policy
        index = index_of(policy, self._externals)
        overlaps = Overlaps(pool, columns, index, policy.overlap)
        overlapped = form_overlapping(pool, columns, overlaps, self._ledger, policy)
        balanced = [unit for draft in overlapped.drafts for unit in draft.members]
        if balanced and not policy.sensitive.permanent:
            rows = pool.rows[np.array(balanced)]
            self._is_closed[generalize(self._context, index, rows, self._in_open_cells())] = False
        return overlapped

    def form_groups(self, pool: Pool, overlapped: Overlapped) -> Formation:
        """Step 6: group the rest of the pool."""
        published = self._context.counts(self._in_open_cells())
        cells = np.unique(pool.cells)
        least = [max(self._policy.k, self._ties.least.get(cell, 0)) for cell in cells.tolist()]
        spare = dict(zip(cells.tolist(), (published[cells] - least).tolist(), strict=True))
        grouped = overlapped.grouped
        if not grouped and not overlapped.barred:
            return form_groups(pool, self._ledger, self._policy, spare, self._max_breach)
        is_left = np.ones(len(pool), dtype=bool)
        is_left[grouped] = False
        left = np.flatnonzero(is_left)
        barred = {int(np.searchsorted(left, unit)): values for unit, values in overlapped.barred.items()}
        rest = Pool.of(self._people, pool.rows[left], self._policy, self._ties, barred)
        formed = form_groups(rest, self._ledger, self._policy, spare, self._max_breach)
        return merged(pool, left, formed, overlapped)

    def charge(self, pool: Pool, formation: Formation) -> Sequence[int]:
        """Step 7: number the groups in an order that says nothing, and write them into everyone's account."""
        people = self._people
        grouped = np.flatnonzero(formation.group != NOBODY)
        draw = self._state.keyed.draw(people.tag[pool.rows[grouped]], self._number, "number")
        lowest = np.full(formation.groups, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(lowest, formation.group[grouped], draw)
        numbers = np.empty(formation.groups, dtype=np.int64)
        numbers[np.argsort(lowest, kind="stable")] = self._next_group + np.arange(formation.groups)
        group_of = numbers[formation.group[grouped]]
        people.group[pool.rows[grouped]] = group_of
        people.expose(pool.rows[grouped], group_of)
        self._ledger.extend(self._records_of(pool, formation, numbers))
        self._max_breach = max(self._max_breach, formation.breach)
        formed = range(self._next_group, self._next_group + formation.groups)
        self._next_group += formation.groups
        return formed

    def emit(self, window: Window, folded: Folded, formed: Sequence[int]) -> Plan:
        """Step 8: the bytes of the release, and the records it changes."""
        people, policy, number, hierarchy = self._people, self._policy, self._number, self._policy.sensitive.hierarchy
        rows = self._published_rows()
        written = self._write(rows)
        manifest = write_manifest(
            policy,
            number,
            self._state.meta.manifest,
            written.records,
            ENGINE,
            window.at,
            written.tally,
            self._max_breach,
            written.loss,
        )
        meta = Meta(number, sha256(manifest), self._next_group, self._max_breach, ENGINE, policy.digest)
        change = Change(
            meta,
            LazyPeople(people, self._changed_rows(folded)),
            {group: self._ledger.record(group) for group in formed},
            {node: self._tree.record(node) for node in self._split},
            self._cohorts.changed_since(self._state.cohorts),
            {new: self._externals.records()[new] for new in self._published_since},
            After(
                self._state, number - 1, people, self._tree, self._ledger, written.tails, self._cohorts, self._externals
            ),
        )
        labels = {leaf: hierarchy.leaves[leaf] for leaf in policy.sensitive.permanent}
        cohorts = cohorts_of(self._cohorts, labels, clique_size(policy))
        members = rows.members(people.ids_later(rows.person), hierarchy.leaves)
        release = Release(number, written.cells, written.groups, manifest, members, cohorts)
        return Plan(release, change, tuple(sorted(folded.misrouted)))

    # -- parts --------------------------------------------------------------------------------------------------

    def _in_open_cells(self) -> Rows:
        sampled = self._people.sampled()
        return sampled[~self._is_closed[self._people.leaf[sampled]]]

    def _places(self, cells: Rows) -> Rows:
        """The place of each of these cells in a depth-first walk over them."""
        found = np.flatnonzero(np.bincount(cells))
        places = np.empty(self._tree.size, dtype=np.int64)
        places[found[np.lexsort((found, self._tree.depth_first(found)))]] = np.arange(len(found))
        return places[cells]

    def _break(self, groups: set[int]) -> None:
        if groups:
            people = self._people
            is_broken = np.zeros(self._next_group + 1, dtype=bool)  # the last is NOBODY's
            is_broken[list(groups)] = True
            people.group[is_broken[people.group]] = NOBODY

    def _records_of(self, pool: Pool, formation: Formation, numbers: Rows) -> list[tuple[int, GroupRecord]]:
        """The formations as they are stored, in the order of their numbers."""
        hierarchy = self._policy.sensitive.hierarchy
        nodes = np.array(hierarchy.leaf_node, dtype=np.int64)[pool.leaf]
        for unit, raised in formation.raised.items():
            here = slice(*np.searchsorted(pool.owner, [unit, unit + 1]).tolist())
            nodes[here] = [raised.get(leaf, hierarchy.leaf_node[leaf]) for leaf in pool.sets[unit]]
        grouped = formation.group[pool.owner] != NOBODY
        keys = numbers[formation.group[pool.owner[grouped]]] * len(hierarchy.labels) + nodes[grouped]
        counterfeit = [
            numbers[group] * len(hierarchy.labels) + hierarchy.leaf_node[leaf]
            for group, found in formation.counterfeits.items()
            for leaf, count in found.items()
            for _ in range(count)
        ]
        keys = np.concatenate([keys, np.array(counterfeit, dtype=np.int64)])
        fakes = {int(numbers[group]): sum(found.values()) for group, found in formation.counterfeits.items()}
        pairs, counts = np.unique(keys, return_counts=True)
        in_order = np.sort(numbers)
        bounds = np.searchsorted(pairs, np.append(in_order, in_order[-1:] + 1) * len(hierarchy.labels)).tolist()
        shown = list(zip((pairs % len(hierarchy.labels)).tolist(), counts.tolist(), strict=True))
        first = self._next_group
        people = np.bincount(numbers[formation.group[formation.group != NOBODY]] - first, minlength=len(numbers))
        return [
            (
                group,
                GroupRecord(self._number, size, tuple(shown[bounds[index] : bounds[index + 1]]), fakes.get(group, 0)),
            )
            for index, (group, size) in enumerate(zip(in_order.tolist(), people.tolist(), strict=True))
        ]

    def _published_rows(self) -> PublishedRows:
        people = self._people
        published = np.flatnonzero(people.group != NOBODY)
        return PublishedRows(published, people.group[published], people.leaf[published])

    def _write(self, rows: PublishedRows) -> Written:
        people, state = self._people, self._state
        case_ids = self._case_ids if self._policy.case_ids else None
        publication = Publication(self._policy, self._tree, self._number, self._shown, case_ids)
        sampled = len(people.sampled())
        withheld, unsampled = sampled - len(rows.person), len(people.present()) - sampled
        earlier = Earlier(state.tails, state.tree.size)
        return publication.write(rows, earlier, (), withheld=withheld, unsampled=unsampled)

    def _shown(self, group: int) -> ShownGroup:
        """A group is carried or broken, so that it changed when it was formed."""
        record = self._ledger.record(group)
        return ShownGroup(record.formed, record.formed, record.shown, record.counterfeits)

    def _case_ids(self, rows: Rows) -> list[str]:
        people, keyed = self._people, self._state.keyed
        since = people.since[rows].tolist()
        return [keyed.case_id(person_id, release) for person_id, release in zip(people.ids(rows), since, strict=True)]

    def _changed_rows(self, folded: Folded) -> Rows:
        known = len(self._state.people)
        people, before = self._people, self._state.people
        has_moved = (people.group[:known] != before.group) | (people.coarse[:known] != before.coarse)
        regrouped = np.flatnonzero(has_moved)
        return np.union1d(regrouped, np.array(folded.touched, dtype=np.int64))
