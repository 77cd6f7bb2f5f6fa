"""Step 3 of a lasting release: how every entry without a row may be shown, by the rules in `verdict.py`.

Most people have no guard, and nobody else published anything about them; their entries are judged all at once. The
others are judged one by one.
"""

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.person import NONE
from shoal.core.policy.policy import Policy
from shoal.core.runs import numbered, ranks
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.entries import BARRED, HELD, NO_GROUP, NO_SIGNATURE, PLAIN, STARRED, Entries
from shoal.core.signatures.group import STAR, Groups
from shoal.core.signatures.scene import Scene
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.verdict import SHOW_NEW, SHOW_PLAIN, SHOW_STAR, UNLIMITED, Held, Judge, most_shown

UNJUDGED = -9


class Judging:
    """The entries of one release before the rules.

    `taken` is, by row, what a new signature must not hold; of people judged all at once only their signatures are.
    """

    def __init__(
        self,
        policy: Policy,
        judge: Judge,
        entries: Entries,
        signatures: Signatures,
        groups: Groups,
        scene: Scene,
        neighbours: Neighbours,
    ) -> None:
        self._policy, self._judge, self._entries, self._groups = policy, judge, entries, groups
        self._signatures, self._scene, self._neighbours = signatures, scene, neighbours
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
        is_special[entries.owner[entries.has(BARRED) | self._is_plain_for_no_reason()]] = True
        is_simple = ~is_special[entries.owner[asked]]
        self._judge_at_once(asked[is_simple], shown)
        self._judge_one_by_one(np.unique(entries.owner[asked[~is_simple]]), shown)
        return shown

    def _waiting(self) -> Rows:
        """Entries to be judged: without a row, "*" that may be shown, or of somebody who changed."""
        entries = self._entries
        is_star = self._groups.kind == STAR
        is_waiting = is_star[entries.group] & ~entries.has(STARRED)  # NO_GROUP finds any group, and is looked at next
        is_waiting |= entries.group == NO_GROUP
        is_waiting |= self._is_touched[entries.owner]
        waiting = np.flatnonzero(is_waiting & entries.has(HELD))
        return waiting[self._scene.is_published[entries.owner[waiting]]]

    def _is_plain_for_no_reason(self) -> NDArray[np.bool_]:
        """Entries of protected values that were shown plainly, under the empty guard."""
        is_open = np.zeros(self._blank + 1, dtype=bool)
        is_open[list(self._policy.sensitive.open)] = True
        return np.asarray((self._entries.signature == PLAIN) & ~is_open[self._entries.value])

    def _judge_at_once(self, asked: Rows, shown: Rows) -> None:
        """Entries of people without guard or others' groups."""
        entries = self._entries
        is_open = np.zeros(self._blank + 1, dtype=bool)
        is_open[list(self._policy.sensitive.open)] = True
        signature = entries.signature[asked]
        shown[asked] = SHOW_STAR
        shown[asked[is_open[entries.value[asked]]]] = SHOW_PLAIN
        again = asked[(signature >= 0) & ~entries.has(STARRED)[asked]]
        shown[again] = entries.signature[again]
        unseen = asked[(signature == NO_SIGNATURE) & ~is_open[entries.value[asked]] & ~entries.has(STARRED)[asked]]
        if not len(unseen):
            return
        rows, person = numbered(entries.owner[unseen])
        where, mine = entries.of(rows)
        is_signed = entries.signature[mine] >= 0
        where, mine = where[is_signed], mine[is_signed]
        most = self._most_unseen(where, entries.signature[mine].astype(np.int64), len(rows))
        is_first = ranks(person, self._scene.draws(entries, unseen, "unseen")) < most[person]
        some = unseen[is_first]
        shown[some] = SHOW_NEW
        self._find_seconds(some, person[is_first], where, entries.signature[mine].astype(np.int64), shown)

    def _most_unseen(self, person: Rows, signature: Rows, people: int) -> Rows:
        """How many entries not yet shown each of these people may be shown with, wherever they lie (S3).

        `person` and `signature` are those of the entries shown before.
        """
        m, l, insiders = self._policy.signature, self._policy.l, self._policy.insiders
        sizes = self._signatures.sizes
        width = len(sizes) + 1
        keys, values = np.unique(person * width + signature, return_counts=True)
        person, signature = keys // width, keys % width
        limit = np.array([most_shown(size, l, insiders) for size in range(int(sizes.max(initial=0)) + 1)])
        most = np.full(people, UNLIMITED, dtype=np.int64)
        np.minimum.at(most, person, limit[sizes[signature]] - values)
        is_permanent = np.zeros(self._blank + 1, dtype=bool)
        is_permanent[list(self._judge.permanent)] = True
        is_of_permanent = is_permanent[self._signatures.members[signature, 0]] if len(signature) else signature > 0
        for kind, is_kind in ((self._judge.transient, ~is_of_permanent), (self._judge.permanent, is_of_permanent)):
            used = np.bincount(person[is_kind], weights=sizes[signature[is_kind]], minlength=people).astype(np.int64)
            outside = len(kind) - used
            room = most_shown(m, l, insiders) * (outside // m)
            most = np.where(outside > 0, np.minimum(most, room), most)
        return np.maximum(0, most)

    def _find_seconds(self, some: Rows, person: Rows, owner: Rows, signature: Rows, shown: Rows) -> None:
        """Entries whose value lies in a signature of their person can only be shown under that one (S2)."""
        entries = self._entries
        order = np.argsort(owner, kind="stable")
        owner, signature = owner[order], signature[order]
        begins = np.searchsorted(owner, person)
        sizes = np.searchsorted(owner, person, side="right") - begins
        for turn in range(int(sizes.max(initial=0))):
            has_one = np.flatnonzero(sizes > turn)
            theirs = signature[begins[has_one] + turn]
            is_in = (self._signatures.members[theirs] == entries.value[some[has_one]][:, None]).any(axis=1)
            shown[some[has_one[is_in]]] = theirs[is_in]

    def _judge_one_by_one(self, rows: Rows, shown: Rows) -> None:
        entries, people = self._entries, self._scene.people
        where, mine = entries.of(rows)
        mine = mine[np.argsort(where, kind="stable")]
        bounds = np.searchsorted(np.sort(where), np.arange(len(rows) + 1)).tolist()
        columns = [column[mine].tolist() for column in (entries.value, entries.signature, entries.flags)]
        draws: list[int] = self._scene.draws(entries, mine, "unseen").tolist()
        lines = [Held(*line) for line in zip(mine.tolist(), *columns, draws, strict=True)]
        guards = people.guard[rows].tolist()
        for at, row in enumerate(rows.tolist()):
            held = [line for line in lines[bounds[at] : bounds[at + 1]] if line.value != self._blank]
            verdict = self._judge.decide(held, people.guards.items[guards[at]], self._neighbours.beside(row))
            for entry, how in verdict.shown.items():
                shown[entry] = how
            self.taken[row] = verdict.taken
