"""Step 3 of a lasting release: how every entry without a place may be shown, by the rules in `verdict.py`.

Most people have one value, no guard and no history; their entries are judged all at once. The others are judged one by
one.
"""

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.person import NONE
from shoal.core.policy.policy import Policy
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.entries import BARRED, HELD, NO_GROUP, NO_SIGNATURE, SHOWN, STARRED, Entries
from shoal.core.signatures.group import STAR, Groups
from shoal.core.signatures.nearest import ranks
from shoal.core.signatures.scene import Scene
from shoal.core.signatures.verdict import SHOW_NEW, SHOW_PLAIN, SHOW_STAR, Held, Judge, most_shown

UNJUDGED = -9


class Judging:
    """The entries of one release before the rules. `taken` is, by row, what a new signature must not hold."""

    def __init__(
        self, policy: Policy, judge: Judge, entries: Entries, groups: Groups, scene: Scene, neighbours: Neighbours
    ) -> None:
        self._policy, self._judge, self._entries, self._groups = policy, judge, entries, groups
        self._scene, self._neighbours = scene, neighbours
        self._blank = len(policy.sensitive.hierarchy.leaves)
        self._is_touched = np.zeros(len(scene.people), dtype=bool)
        self.taken: dict[int, frozenset[int]] = {}

    def touch(self, rows: Rows) -> None:
        """Judge all entries of these people anew."""
        self._is_touched[rows] = True

    def run(self) -> Rows:
        """By entry how it is to be shown, UNJUDGED for those that stay as they are."""
        entries, people = self._entries, self._scene.people
        shown = np.full(len(entries), UNJUDGED, dtype=np.int64)
        asked = self._waiting()
        shown[asked[entries.value[asked] == self._blank]] = SHOW_STAR
        asked = asked[entries.value[asked] != self._blank]
        is_special = (people.guard != NONE) | self._neighbours.is_inside
        is_special[entries.owner[entries.has(BARRED)]] = True
        has_history = np.zeros(len(people), dtype=bool)
        has_history[entries.owner[asked]] = True
        _, mine = entries.of(np.flatnonzero(has_history))
        has_history[:] = False
        has_history[entries.owner[mine[entries.signature[mine] != NO_SIGNATURE]]] = True
        is_simple = ~is_special[entries.owner[asked]]
        again = asked[is_simple & (entries.signature[asked] >= 0) & entries.has(SHOWN)[asked]]
        shown[again] = entries.signature[again]
        fresh = asked[is_simple & ~has_history[entries.owner[asked]]]
        self._judge_fresh(fresh, shown)
        left = asked[shown[asked] == UNJUDGED]
        self._judge_one_by_one(np.unique(entries.owner[left]), shown)
        return shown

    def _waiting(self) -> Rows:
        """Entries to be judged: without a group, "*" that may be shown again, or of somebody who changed."""
        entries = self._entries
        is_star = self._groups.kind == STAR
        is_waiting = is_star[entries.group] & ~entries.has(STARRED)  # NO_GROUP finds any group, and is looked at next
        is_waiting |= entries.group == NO_GROUP
        is_waiting |= self._is_touched[entries.owner]
        waiting = np.flatnonzero(is_waiting & entries.has(HELD))
        return waiting[self._scene.is_published[entries.owner[waiting]]]

    def _judge_fresh(self, fresh: Rows, shown: Rows) -> None:
        """People without guard, history or others' groups: all their entries at once."""
        entries, policy = self._entries, self._policy
        is_open = np.zeros(self._blank + 1, dtype=bool)
        is_open[list(policy.sensitive.open)] = True
        shown[fresh] = SHOW_STAR
        plain = is_open[entries.value[fresh]]
        shown[fresh[plain]] = SHOW_PLAIN
        unseen = fresh[~plain & ((entries.flags[fresh] & STARRED) == 0)]
        at_once = most_shown(policy.signature, policy.l)
        kinds = [len(kind) for kind in (self._judge.transient, self._judge.permanent) if kind]
        most = min([at_once * (size // policy.signature) for size in kinds], default=0)
        is_first = ranks(entries.owner[unseen], self._scene.draws(entries, unseen, "unseen")) < most
        shown[unseen[is_first]] = SHOW_NEW

    def _judge_one_by_one(self, rows: Rows, shown: Rows) -> None:
        entries, people = self._entries, self._scene.people
        where, mine = entries.of(rows)
        mine = mine[np.argsort(where, kind="stable")]
        bounds = np.searchsorted(np.sort(where), np.arange(len(rows) + 1)).tolist()
        known = (entries.value, entries.signature, entries.flags, entries.spells)
        columns = [column[mine].tolist() for column in known]
        draws: list[int] = self._scene.draws(entries, mine, "unseen").tolist()
        lines = [Held(*line) for line in zip(mine.tolist(), *columns, draws, strict=True)]
        guards = people.guard[rows].tolist()
        for at, row in enumerate(rows.tolist()):
            held = [line for line in lines[bounds[at] : bounds[at + 1]] if line.value != self._blank]
            guard = people.guards.items[guards[at]]
            verdict = self._judge.decide(held, guard, self._neighbours.beside(row))
            for entry, how in verdict.shown.items():
                shown[entry] = how
            self.taken[row] = verdict.taken | self._judge.guarded_leaves(guard)
