"""Redrawn tables: the steps of a release in Wong's world, where a value at one formation says nothing of the next."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.cohort.clique import Cohorts, cohorts_of
from shoal.core.cohort.registration import Registration
from shoal.core.cohort.update import CohortUpdate, clique_size
from shoal.core.draft import Decided, Draft
from shoal.core.fold import Folded
from shoal.core.groups.formation import Formation, form_groups
from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.groups.pool import NO_TIES, Pool
from shoal.core.overlap.carried import overlapping_holders, unsafe_groups
from shoal.core.overlap.formation import Overlapped, form_overlapping, merged
from shoal.core.overlap.generalize import ReleaseContext, generalize, refill
from shoal.core.overlap.overlaps import ExternalIndex, Overlaps, index_of
from shoal.core.people import People
from shoal.core.person import NOBODY
from shoal.core.policy.policy import Policy
from shoal.core.publication import PublishedRows, Showing
from shoal.core.randomness import Keyed
from shoal.core.release import ShownGroup


class Redrawn:
    """A release of a redrawn table being made: copies of ledger and cohorts that become what the change says."""

    def __init__(self, draft: Draft) -> None:
        state, policy = draft.state, draft.policy
        self._draft, self._state, self._policy, self._number = draft, state, policy, draft.number
        self._people, self._tree, self._externals = draft.people, draft.tree, draft.externals
        self._ledger: Ledger = state.ledger.copy()
        self._cohorts: Cohorts = state.cohorts.copy()
        self._ties = NO_TIES
        self._context = ReleaseContext(self._people, self._tree, self._ledger, policy, state.keyed, self._number)
        self._first_group = self._next_group = state.meta.next_group
        self._max_breach = state.meta.max_breach
        self._is_closed = np.zeros(0, dtype=bool)

    def break_groups(self, folded: Folded) -> None:
        """Step 2: a group that lost or changed someone is broken; its people go to the pool, all others are carried.

        So is one that somebody else's new publication makes unsafe (G5).
        """
        self._touched = np.array(folded.touched, dtype=np.int64)
        self._break(folded.broken)
        people, published = self._people, np.flatnonzero(self._people.group != NOBODY)
        if self._draft.published_since and len(published):
            new = ExternalIndex(self._policy, self._externals, self._draft.published_since)
            self._break(unsafe_groups(people, published, self._ledger, self._policy, new))

    def close_cells(self) -> None:
        """Step 3, continued: a cell under k is closed; its people are withheld and their groups broken."""
        people = self._people
        present = people.sampled()
        refill(self._context, present)
        self._is_closed = self._context.counts(present) < self._policy.k
        hidden = present[self._is_closed[people.leaf[present]]]
        self._break({group for group in people.group[hidden].tolist() if group != NOBODY})

    def update_cohorts(self) -> None:
        """Step 4: bring roles and cohorts up to date, and tie each clique of the pool into one unit."""
        if self._policy.sensitive.permanent:
            people = self._people
            release = CohortUpdate(self._cohorts, people, self._tree, self._ledger, self._policy)
            registration = Registration(people, self._tree, self._is_closed, self._state.keyed, self._number)
            has_others, touched = len(self._externals), self._touched
            others = index_of(self._policy, self._externals) if has_others else None
            overlapping = overlapping_holders(people, others) if others else {}
            self._ties = release.update(registration, touched, overlapping, self._break)

    def overlap(self) -> None:
        """Step 5: rows that overlap what others have published are put into groups that are balanced beside it."""
        self._pool = self._gather_pool()
        self._overlapped = self._form_overlapping(self._pool)

    def form_groups(self) -> None:
        """Step 6: group the rest of the pool."""
        self._formation = self._form_groups(self._pool, self._overlapped)

    def charge(self) -> None:
        """Step 7: number the groups in an order that says nothing, and write them into everyone's account."""
        self._charge(self._pool, self._formation)

    def decided(self) -> Decided:
        """What is published, and the records that it changes."""
        people, policy, before = self._people, self._policy, self._state.people
        showing = show(policy, people, self._ledger, self._state.keyed)
        known = len(before)
        has_moved = (people.group[:known] != before.group) | (people.coarse[:known] != before.coarse)
        labels = {leaf: policy.sensitive.hierarchy.leaves[leaf] for leaf in policy.sensitive.permanent}
        formed = range(self._first_group, self._next_group)
        return Decided(
            rows=showing.rows,
            describe=showing.describe,
            changed=(),
            case_ids=showing.case_ids,
            before=lambda: show(policy, before, self._state.ledger, self._state.keyed),
            next_group=self._next_group,
            max_breach=self._max_breach,
            cohorts=cohorts_of(self._cohorts, labels, clique_size(policy)),
            people=np.flatnonzero(has_moved),
            records={
                "groups": {group: self._ledger.record(group) for group in formed},
                "cliques": self._cohorts.changed_since(self._state.cohorts),
            },
            after={"ledger": self._ledger, "cohorts": self._cohorts},
        )

    # -- parts --------------------------------------------------------------------------------------------------

    def _gather_pool(self) -> Pool:
        """Who needs a group, in the tree's depth-first order, shuffled within each cell."""
        people = self._people
        in_open_cell = self._in_open_cells()
        rows = in_open_cell[people.group[in_open_cell] == NOBODY]
        shuffle = self._state.keyed.draw(people.tag[rows], self._number, "shuffle")
        rows = rows[np.lexsort((shuffle, self._draft.places(people.leaf[rows])))]
        return Pool.of(people, rows, self._policy, self._ties)

    def _form_overlapping(self, pool: Pool) -> Overlapped:
        """Rows never published before may start in coarse cells, but for tables with permanent values."""
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

    def _form_groups(self, pool: Pool, overlapped: Overlapped) -> Formation:
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

    def _charge(self, pool: Pool, formation: Formation) -> None:
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
        self._next_group += formation.groups

    def _in_open_cells(self) -> Rows:
        sampled = self._people.sampled()
        return sampled[~self._is_closed[self._people.leaf[sampled]]]

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


def show(policy: Policy, people: People, ledger: Ledger, keyed: Keyed) -> Showing:
    """What is shown of these parts of a state."""
    published = np.flatnonzero(people.group != NOBODY)
    rows = PublishedRows(published, people.group[published], people.leaf[published])
    return Showing(rows, partial(_describe, ledger), partial(_case_ids, people, keyed) if policy.case_ids else None)


def _describe(ledger: Ledger, groups: Rows) -> Iterator[ShownGroup]:
    """A group is carried or broken, so that it changed when it was formed."""
    for record in map(ledger.record, groups.tolist()):
        yield ShownGroup(record.formed, record.formed, record.shown, record.counterfeits)


def _case_ids(people: People, keyed: Keyed, rows: Rows) -> list[str]:
    since = people.since[rows].tolist()
    return [keyed.case_id(person_id, release) for person_id, release in zip(people.ids(rows), since, strict=True)]
