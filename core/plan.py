"""How a release is made: `plan(state, window, policy, number)`, the steps of DESIGN section 4, each one call.

Pure and deterministic: no clock, no I/O, randomness only from the state's keyed generator. The state is not touched;
what is to become of it is returned as a `Change`, to be sealed before anyone sees the release, and applied after.

Steps 4 (permanent values) and 5 (external overlap) are not built yet: a policy or event that asks for them is refused
before it gets here.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import CoreError
from core.fold import Folded, Window, fold
from core.group import Formation, Unit, form_groups
from core.ledger import GroupRecord, Ledger
from core.loss import measure_loss
from core.mondrian import grow
from core.people import NOBODY, People
from core.policy import Policy
from core.release import GroupWriter, Members, Release, Tally, sha256, write_manifest
from core.state import ENGINE, Change, Meta, State
from core.tree import Rows, Tree

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
    draft = _Draft(state, policy, number)
    folded = draft.fold_window(window)
    draft.break_groups(folded)
    draft.grow_tree(folded)
    draft.close_cells()
    formation, pool = draft.form_groups()
    formed = draft.charge(formation, pool)
    return draft.emit(window, folded, formed)


class _Draft:
    """A release being made: copies of people, tree and ledger that become what the change says."""

    def __init__(self, state: State, policy: Policy, number: int) -> None:
        self._state, self._policy, self._number = state, policy, number
        self._people: People = state.people.copy()
        self._tree: Tree = state.tree.copy()
        self._ledger: Ledger = state.ledger.copy()
        self._next_group = state.meta.next_group
        self._max_breach = state.meta.max_breach
        self._split: list[int] = []
        self._is_closed = np.zeros(0, dtype=bool)

    def fold_window(self, window: Window) -> Folded:
        """Step 1: the net effect per person of everything since the last release."""
        return fold(self._people, window, self._number)

    def break_groups(self, folded: Folded) -> None:
        """Step 2: a group that lost or changed someone is broken; its people go to the pool, all others are carried."""
        self._break(folded.broken)

    def grow_tree(self, folded: Folded) -> None:
        """Step 3: route arrivals to their leaves, and split leaves while both sides keep k + headroom rows."""
        people = self._people
        arrived = np.array(folded.arrived, dtype=np.int64)
        people.leaf[arrived] = self._tree.route(people.columns, arrived)
        present = people.present()
        in_reach = present[np.isin(people.leaf[present], np.unique(people.leaf[arrived]))]
        order = in_reach[np.argsort(people.leaf[in_reach], kind="stable")]
        leaves, starts = np.unique(people.leaf[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(leaves) else []
        smallest = self._policy.k + self._policy.headroom
        self._split = grow(self._tree, people.columns, people.leaf, zip(leaves.tolist(), parts, strict=True), smallest)

    def close_cells(self) -> None:
        """Step 3, continued: a cell under k is closed; its people are withheld and their groups broken."""
        people = self._people
        present = people.present()
        rows = np.bincount(people.leaf[present], minlength=self._tree.size)
        self._is_closed = rows < self._policy.k
        hidden = present[self._is_closed[people.leaf[present]]]
        self._break({group for group in people.group[hidden].tolist() if group != NOBODY})

    def form_groups(self) -> tuple[Formation, Rows]:
        """Step 6: group the pool, in the tree's depth-first order, shuffled within each cell."""
        people = self._people
        present = people.present()
        in_open_cell = present[~self._is_closed[people.leaf[present]]]
        pool = in_open_cell[people.group[in_open_cell] == NOBODY]
        shuffle = self._state.keyed.draw(people.tag[pool], self._number, "shuffle")
        pool = pool[np.lexsort((shuffle, self._tree.depth_first()[people.leaf[pool]]))]
        cells = people.leaf[pool].tolist()
        units = [
            Unit(cell, people.values[row], people.exposures[row])
            for row, cell in zip(pool.tolist(), cells, strict=True)
        ]
        rows = np.bincount(people.leaf[in_open_cell], minlength=self._tree.size)
        spare = {cell: int(rows[cell]) - self._policy.k for cell in set(cells)}
        return form_groups(units, self._ledger, self._policy, spare), pool

    def charge(self, formation: Formation, pool: Rows) -> list[int]:
        """Step 7: number the groups in an order that says nothing, and write them into everyone's account."""
        people, numbers = self._people, []
        draw = self._state.keyed.draw(people.tag[pool], self._number, "number")
        for formed in sorted(formation.groups, key=lambda group: int(draw[group.members].min())):
            rows = pool[formed.members].tolist()
            starred = {int(pool[position]) for position in formed.starred}
            group, self._next_group = self._next_group, self._next_group + 1
            self._ledger.put(group, self._record(rows, starred))
            for row in rows:
                people.group[row] = group
                people.exposures[row] = (*people.exposures[row], group)
            self._max_breach = max(self._max_breach, formed.breach)
            numbers.append(group)
        return numbers

    def emit(self, window: Window, folded: Folded, formed: Sequence[int]) -> Plan:
        """Step 8: the bytes of the release, and the records it changes."""
        people, policy, number = self._people, self._policy, self._number
        published = np.flatnonzero(people.group != NOBODY)
        order = published[np.lexsort((people.leaf[published], people.group[published]))]
        records, tally = self._records(order, len(formed), len(people.present()))
        cells, rows = np.unique(people.leaf[published], return_counts=True)
        loss = measure_loss(self._tree, cells, rows, tally.groups)
        manifest = write_manifest(
            policy, number, self._state.meta.manifest, records, ENGINE, window.at, tally, self._max_breach, loss
        )
        members = Members(
            [people.ids[row] for row in published.tolist()],
            people.group[published].tolist(),
            people.leaf[published].tolist(),
        )
        release = Release(number, tuple(records), manifest, members)
        meta = Meta(number, sha256(manifest), self._next_group, self._max_breach, ENGINE, policy.digest)
        change = Change(
            meta,
            dict(people.persons(self._changed_rows(folded))),
            {group: self._ledger.record(group) for group in formed},
            {node: self._tree.record(node) for node in self._split},
        )
        return Plan(release, change, tuple(sorted(folded.misrouted)))

    # -- parts --------------------------------------------------------------------------------------------------

    def _break(self, groups: set[int]) -> None:
        if groups:
            people = self._people
            people.group[np.isin(people.group, np.fromiter(groups, dtype=np.int64))] = NOBODY

    def _record(self, rows: Sequence[int], starred: set[int]) -> GroupRecord:
        sensitive = self._policy.sensitive
        counts: dict[int, int] = defaultdict(int)
        for row in rows:
            for leaf in self._people.values[row]:
                is_hidden = row in starred and leaf not in sensitive.open
                counts[0 if is_hidden else sensitive.hierarchy.leaf_node[leaf]] += 1
        return GroupRecord(self._number, len(rows), tuple(sorted(counts.items())))

    def _records(self, order: Rows, formed: int, present: int) -> tuple[list[bytes], Tally]:
        """The group records of these rows, which stand by group and cell, and the manifest's counts."""
        people, policy = self._people, self._policy
        groups, leaves = people.group[order], people.leaf[order]
        starts = np.flatnonzero(np.r_[True, (groups[1:] != groups[:-1]) | (leaves[1:] != leaves[:-1])][: len(order)])
        sizes = np.diff(np.r_[starts, len(order)])
        writer = GroupWriter(policy, self._tree, self._number)
        by_group: dict[int, list[tuple[int, int]]] = {}
        cases: dict[int, dict[int, list[str]]] = {}
        for group, leaf, start, size in zip(
            groups[starts].tolist(), leaves[starts].tolist(), starts.tolist(), sizes.tolist(), strict=True
        ):
            by_group.setdefault(group, []).append((leaf, size))
            if policy.release.case_ids:
                rows = order[start : start + size].tolist()
                named = [self._state.keyed.case_id(people.ids[row], int(people.since[row])) for row in rows]
                cases.setdefault(group, {})[leaf] = named
        records, suppressed, generalized = [], 0, 0
        leaf_nodes = frozenset(policy.sensitive.hierarchy.leaf_node)
        for group, cells in by_group.items():
            record = self._ledger.record(group)
            records.append(writer.write(group, record, cells, cases.get(group)))
            suppressed += sum(count for node, count in record.shown if node == 0)
            generalized += sum(count for node, count in record.shown if node != 0 and node not in leaf_nodes)
        tally = Tally(len(order), len(by_group), formed, present - len(order), suppressed, generalized)
        return records, tally

    def _changed_rows(self, folded: Folded) -> Rows:
        known = len(self._state.people)
        regrouped = np.flatnonzero(self._people.group[:known] != self._state.people.group)
        return np.union1d(regrouped, np.array(folded.touched, dtype=np.int64))
