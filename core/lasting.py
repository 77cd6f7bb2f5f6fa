"""Lasting tables: the steps of a release where values stay until something changes them.

(docs/design.md, "Values that last".) Every protected value of a person is always shown as the same set of values, its
signature, each of them equally often. `core/signatures/` has the parts.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.draft import Decided, Draft
from shoal.core.events.window import ERASED_STATUS
from shoal.core.fold import Folded
from shoal.core.people import People
from shoal.core.person import NONE
from shoal.core.policy.policy import Policy
from shoal.core.publication import PublishedRows, Showing
from shoal.core.release import NO_VALUE, ShownGroup
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.bonds import Bonds, Site, cohorts_of, lose_bonds, make_bonds, rows_of, show_bonds
from shoal.core.signatures.entries import NO_GROUP, Entries
from shoal.core.signatures.group import CLIQUE_GROUP, STAR, Groups
from shoal.core.signatures.scene import Scene
from shoal.core.signatures.settling import Settling
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.trail import follow


class Lasting:
    """A release of a lasting table being made: copies of entries, signatures, groups and bonds."""

    def __init__(self, draft: Draft) -> None:
        state = draft.state
        self._draft, self._state, self._policy, self._number = draft, state, draft.policy, draft.number
        self._people, self._tree = draft.people, draft.tree
        self._entries, self._signatures = state.entries.copy(), state.signatures.copy()
        self._groups, self._bonds, self._trail = state.groups.copy(), state.bonds.copy(), state.trail
        self._settling = Settling(draft.policy, self._entries, self._signatures, self._groups)
        self._max_breach = state.meta.max_breach

    def break_groups(self, folded: Folded) -> None:
        """Step 2: spells begin and end, and entries that ended leave their groups."""
        self._touched = np.array(folded.touched, dtype=np.int64)
        self._erased = frozenset(folded.erased)
        erased = np.array(folded.erased, dtype=np.int64)
        self._trail = follow(self._trail, self._state.people, self._people, self._touched, erased)
        self._entries.erase(
            erased, self._policy.sensitive.open
        )  # first, or a value that comes back would be the old one
        self._settling.hold(self._people, self._touched)
        self._entries.erase(erased, self._policy.sensitive.open)

    def close_cells(self) -> None:
        """Step 3, continued: a cell under k people is closed; the entries of its people leave their groups."""
        people = self._people
        sampled = people.sampled()
        is_closed = np.bincount(people.leaf[sampled], minlength=self._tree.size) < self._policy.k
        published = sampled[~is_closed[people.leaf[sampled]]]
        self._is_published = np.zeros(len(people), dtype=bool)
        self._is_published[published] = True
        place = np.zeros(len(people), dtype=np.int64)
        place[published] = self._draft.places(people.leaf[published])
        self._scene = Scene(people, self._state.keyed, self._number, self._is_published, place)
        self._settling.part(self._scene)

    def update_cohorts(self) -> None:
        """Step 4: bonds that lost somebody for good; whether the others are shown is seen when all else is."""
        lose_bonds(self._bonds, self._people, self._erased)

    def overlap(self) -> None:
        """Step 5: what others have published says which signatures their people may still be shown as."""
        draft = self._draft
        self._neighbours = Neighbours.of(
            self._policy,
            self._people,
            draft.externals,
            draft.published_since,
            self._trail,
            self._entries,
            self._signatures,
            self._groups,
            self._touched,
        )
        self._neighbours.judge_signatures()

    def form_groups(self) -> None:
        """Step 6: decide how entries are shown, deal newcomers into groups, and show bonds beside them."""
        self._settling.settle(self._scene, self._neighbours, self._touched)
        if self._settling.bound_values:
            draw = self._state.keyed.draw(self._people.tag, self._number, "bond")
            may_join = self._is_published & ~self._neighbours.is_inside
            site = Site(self._people, may_join, self._settling.is_told(), self._scene.place, draw)
            make_bonds(self._bonds, site, self._settling.bound_values, self._policy.l + self._policy.insiders)
            show_bonds(self._bonds, site, self._groups, self._number)

    def charge(self) -> None:
        """Step 7: the largest j/(m - insiders) of anybody without a guard: j values were shown under one signature."""
        entries, people = self._entries, self._people
        is_new = np.ones(len(entries), dtype=bool)
        known = len(self._state.entries)
        is_new[:known] = entries.signature[:known] != self._state.entries.signature
        is_asked = np.zeros(len(people), dtype=bool)
        is_asked[entries.owner[is_new]] = is_asked[self._touched] = True
        # Of somebody erased it is forgotten whether they had a guard.
        rows = np.flatnonzero(is_asked & (people.guard == NONE) & (people.status != ERASED_STATUS))
        _, mine = entries.of(rows)
        mine = mine[entries.signature[mine] >= 0]
        width = len(self._signatures) + 1
        keys, values = np.unique(entries.owner[mine] * width + entries.signature[mine], return_counts=True)
        shares = values / (self._signatures.sizes[keys % width] - self._policy.insiders)
        self._max_breach = max(self._max_breach, float(shares.max(initial=0.0)))

    def decided(self) -> Decided:
        """What is published, and the records that it changes."""
        showing = show(self._policy, self._people, self._entries, self._bonds, self._groups, self._signatures)
        rows = showing.rows
        changed = self._changed_groups(rows)
        before, entries = self._state.entries, self._entries
        has_changed = np.ones(len(entries), dtype=bool)
        known = len(before)
        columns = ("signature", "group", "flags", "home")
        same = [getattr(entries, name)[:known] == getattr(before, name) for name in columns]
        has_changed[:known] = ~np.logical_and.reduce(same)
        labels = self._policy.sensitive.hierarchy.leaves
        old, groups = self._state.groups.size, self._groups
        written = np.union1d(changed, np.arange(old, groups.size))
        return Decided(
            rows=rows,
            describe=showing.describe,
            changed=changed.tolist(),
            before=self._before,
            next_group=self._groups.size,
            waiting=self._settling.waiting,
            max_breach=self._max_breach,
            cohorts=cohorts_of(self._bonds, labels, self._settling.bound_values, self._policy.l),
            people=np.flatnonzero(np.bincount(entries.owner[has_changed])),
            records={
                "signatures": self._signatures.new_since(self._state.signatures),
                "lasting_groups": dict(groups.records(written)),
                "bonds": self._bonds.changed_since(self._state.bonds),
            },
            after={
                "entries": entries,
                "signatures": self._signatures,
                "groups": self._groups,
                "bonds": self._bonds,
                "trail": self._trail,
            },
        )

    # -- parts --------------------------------------------------------------------------------------------------

    def _before(self) -> Showing:
        """What the last release showed."""
        state = self._state
        return show(self._policy, state.people, state.entries, state.bonds, state.groups, state.signatures)

    def _changed_groups(self, rows: PublishedRows) -> Rows:
        """The groups whose people or places are others than in the last release, marked as changed now."""
        entries, before, groups = self._entries, self._state.entries, self._groups
        known = len(before)
        moved = np.flatnonzero(entries.group[:known] != before.group)
        touched = [before.group[moved], entries.group[moved], entries.group[known:]]
        touched.append(rows.group[self._has_moved()[rows.person]])
        found = np.concatenate(touched)
        changed = np.flatnonzero(np.bincount(found[found > 0]))
        groups.changed[changed] = self._number
        return np.asarray(changed)

    def _has_moved(self) -> NDArray[np.bool_]:
        """By row, whether somebody is in a cell that does not lie in the one they were in."""
        people, before = self._people, self._state.people
        has_moved = np.zeros(len(people), dtype=bool)
        rows = self._touched[self._touched < len(before)]
        rows = rows[people.since[rows] == self._number]
        is_inside = np.ones(len(rows), dtype=bool)
        for position, column in enumerate(people.columns):
            low, high = self._tree.bounds(position, before.leaf[rows])
            end = self._tree.bounds(position, np.array([self._tree.root]))[1]
            is_inside &= (column[rows] >= low) & ((column[rows] < high) | (high == end))
        has_moved[rows[~is_inside]] = True
        return has_moved


def show(
    policy: Policy, people: People, entries: Entries, bonds: Bonds, groups: Groups, signatures: Signatures
) -> Showing:
    """What is shown of these parts of a state."""
    shown = np.flatnonzero(entries.group != NO_GROUP)
    person, group, value = rows_of(bonds, people)
    blank = len(policy.sensitive.hierarchy.leaves)
    values = np.where(entries.value[shown] == blank, NO_VALUE, entries.value[shown])
    person = np.r_[entries.owner[shown], person]
    group = np.r_[entries.group[shown], group]
    sizes = np.bincount(group, minlength=groups.size)
    rows = PublishedRows(person, group, people.leaf[person], np.r_[values, value])
    return Showing(rows, partial(_describe, policy.sensitive.hierarchy.leaf_node, groups, signatures, sizes))


def _describe(
    nodes: Sequence[int], groups: Groups, signatures: Signatures, sizes: Rows, asked: Rows
) -> Iterator[ShownGroup]:
    """What each of the groups `asked` for shows; `sizes` are the rows of all groups."""
    sets = signatures.sets
    for (_, record), rows in zip(groups.records(asked), sizes[asked].tolist(), strict=True):
        formed, changed, kind, value, rounds = record
        if kind >= 0:
            shown = tuple([(nodes[value], rounds) for value in sets[kind]])
            yield ShownGroup(formed, changed, shown, rounds * len(shown) - rows)
        elif kind == STAR:
            yield ShownGroup(formed, changed, ((0, rows),), 0)
        else:
            yield ShownGroup(formed, changed, ((nodes[value], 1 if kind == CLIQUE_GROUP else rows),), 0)
