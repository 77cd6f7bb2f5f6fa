"""Other publishers beside a lasting table: who is in their groups, and what may be shown of those people.

(docs/external.md, "Beside a lasting table".) Somebody is inside another publisher's group e if their quasi-identifiers
were ever in its region. Groups are *joined* if their regions meet, if somebody was ever inside both, or if a group here
has people inside both; of somebody erased nobody remembers where they were, so they join all.

A joined set of one e is *alone*, unless more than one value of somebody shown inside is known. Its people form rounds
among themselves as long as e has a *budget* for them (`budget.py`). Otherwise the rounds are *parts*: values are cut,
once, into sets of at least max(m, alpha) that each of the joined e shows equally often and that no signature of anybody
inside tells apart. If a protected value has no part, nobody is shown. Whichever of both shows more is taken.

When a publication arrives, or somebody moves into one, an entry stays if its e is alone and within its budget, or if
the fewest values of its signature that are alike are enough; of somebody who had several values, if these e show
nothing of the signature. Otherwise it is "*" from then on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.overlap.external import Externals
from shoal.core.people import People
from shoal.core.policy.policy import Policy
from shoal.core.signatures.budget import Budget, Shuffle, Signature, take_back
from shoal.core.signatures.components import Components, components_of, join
from shoal.core.signatures.entries import BARRED, NO_GROUP, NO_SIGNATURE, PLAIN, Entries
from shoal.core.signatures.group import Groups
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.trail import EVERYWHERE, Trail
from shoal.core.signatures.verdict import FREE, Beside, Judge

NOWHERE = -1


class Neighbours:
    """What others' publications ask of each person. Without any, nobody is inside and nothing is asked."""

    def __init__(
        self, policy: Policy, people: People, entries: Entries, signatures: Signatures, groups: Groups
    ) -> None:
        self._policy, self._people = policy, people
        self._entries, self._signatures, self._groups = entries, signatures, groups
        self._judge = Judge(policy, signatures.sets)
        self._set = np.full(len(people), NOWHERE, dtype=np.int64)  # by row the joined set they are inside
        self._changed: set[int] = set()
        self._free = {*policy.sensitive.open, len(policy.sensitive.hierarchy.leaves)}  # values that say nothing
        self._budgets: dict[int, Budget | None] = {}
        self._shows: dict[int, set[int]] = {}  # by joined set all values that it shows
        self._marks: dict[int, dict[int, tuple[object, ...]]] = {}
        self.affected: Rows = np.zeros(0, dtype=np.int64)  # who may not be shown any more as they were

    @classmethod
    def of(
        cls,
        policy: Policy,
        people: People,
        externals: Externals,
        new: Iterable[int],
        trail: Trail,
        entries: Entries,
        signatures: Signatures,
        groups: Groups,
        touched: Rows,
    ) -> "Neighbours":
        """Who is inside what; `new` are the numbers of publications that arrived since the last release."""
        found = cls(policy, people, entries, signatures, groups)
        if len(externals):
            found._join(components_of(policy, externals), trail, {number - 1 for number in new}, touched)
        return found

    @property
    def is_inside(self) -> NDArray[np.bool_]:
        """By row, whether somebody is or was in another publisher's group."""
        return np.asarray(self._set != NOWHERE)

    def sets(self, rows: Rows) -> Rows:
        """The joined set that each of these people is inside, or NOWHERE."""
        return np.asarray(self._set[rows])

    def beside(self, row: int) -> Beside:
        """What is asked of one person: nothing new for those who hold several protected values.

        A shard knows only its own people, so in a sharded table nobody inside is shown anything new.
        """
        if self._set[row] == NOWHERE:
            return FREE
        held = set(self._people.sets.items[self._people.set[row]]) - self._policy.sensitive.open
        return Beside(is_inside=True, may_be_new=len(held) == 1 and self._policy.shards == 1)

    def plan(self, joined: int, waiting: Sequence[Mapping[int, int]], shuffle: Shuffle) -> list[Signature]:
        """Rounds of newcomers inside a joined set, given how many wait with each value of each kind."""
        found: list[Signature] = []
        left = Counter[int]()
        for kind in waiting:
            left.update(kind)
            for part in self._parts(joined):
                found += [part] * min(kind.get(leaf, 0) for leaf in part)
        for signature in found:
            left.subtract(signature)
        take_back(found, left, self._policy.l)
        budget, within = self._budget(joined), list[Signature]()
        for kind in waiting:
            if budget is None:
                break
            some = budget.plan(kind, shuffle)
            for signature in some:
                budget.add(signature)
            within += some
        return max(found, within, key=lambda rounds: sum(map(len, rounds)))

    def judge_signatures(self) -> None:
        """Bar the signatures that a new publication, or a move into one, tells apart."""
        entries = self._entries
        inside = np.flatnonzero(np.isin(self._set, sorted(self._changed)))
        where, mine = entries.of(inside)
        by_row: dict[int, list[int]] = {}
        for row, entry in zip(inside[where].tolist(), mine.tolist(), strict=True):
            by_row.setdefault(row, []).append(entry)
        barred, is_protected = set(), self._is_protected()
        for row, some in by_row.items():
            joined = int(self._set[row])
            under = Counter(int(signature) for signature in entries.signature[some] if signature >= 0)
            if not under or self._budget(joined) is not None:
                continue
            ever = int(np.count_nonzero(is_protected[some]))
            for signature, count in under.items():
                values = self._signatures.sets[signature]
                least = max(self._policy.overlap, count * self._policy.l) + self._policy.insiders
                alike = self._alike(joined, values)
                is_met = ever > 1 and not self._shows[joined].isdisjoint(values)
                if is_met or min(map(len, alike)) < least:
                    entries.flags[[one for one in some if entries.signature[one] == signature]] |= BARRED
                    barred.add(row)
        self.affected = np.array(sorted(barred), dtype=np.int64)

    # -- who is inside what -------------------------------------------------------------------------------------

    def _join(self, components: Components, trail: Trail, new: set[int], touched: Rows) -> None:
        self._components, entries = components, self._entries
        lost = [row for row, places in sorted(trail.items()) if EVERYWHERE in places]
        rows, inside = self._locate(trail, lost)
        first = np.full(len(self._people), NOWHERE, dtype=np.int64)
        first[rows[::-1]] = inside[::-1]
        signed = np.flatnonzero(entries.signature >= 0)
        self._signed = signed[first[entries.owner[signed]] != NOWHERE]
        homes = self._signed[entries.home[self._signed] != NO_GROUP]
        count = len(components.of_group)
        edges = [
            (first[rows], inside),
            (first[entries.owner[homes]], count + entries.home[homes]),
            tuple(count + side for side in self._find_seconds(signed)),
        ]
        if lost or self._policy.shards > 1:
            edges.append((components.of_group, np.zeros(count, dtype=np.int64)))
        label = join(count + self._groups.size, *map(np.concatenate, zip(*edges, strict=True)))
        self._set = np.where(first == NOWHERE, NOWHERE, label[first])
        self._of_group = label[components.of_group]
        fresh = self._of_group[sorted(new)]
        self._changed = {*self._set[touched].tolist(), *fresh.tolist()} - {NOWHERE}
        came = np.isin(self._set, fresh)
        came[[row for row in touched.tolist() if row in trail]] = True
        self._several = {*self._set[lost].tolist(), *self._set[self._find_several(came)].tolist()}

    def _locate(self, trail: Trail, lost: Sequence[int]) -> tuple[Rows, Rows]:
        """People and the components they were ever in, ordered by people. Who was lost is in the first one."""
        here = self._people.here()
        where, inside = self._components.find(self._people.columns, here)
        rows, found = [here[where], np.array(lost, dtype=np.int64)], [inside, np.zeros(len(lost), dtype=np.int64)]
        former = [(row, qid) for row, places in sorted(trail.items()) for qid in places if qid != EVERYWHERE]
        if former:
            columns = [np.array(column) for column in zip(*(qid for _, qid in former), strict=True)]
            where, inside = self._components.find(columns, np.arange(len(former)))
            rows.append(np.array([row for row, _ in former], dtype=np.int64)[where])
            found.append(inside)
        pairs = np.stack([np.concatenate(rows), np.concatenate(found)])
        people, components = pairs[:, np.lexsort(pairs[::-1])]
        return people, components

    def _find_seconds(self, signed: Rows) -> tuple[Rows, Rows]:
        """Pairs of groups in which the same person has values under one signature."""
        entries = self._entries
        signed = signed[entries.home[signed] != NO_GROUP]
        signed = signed[np.bincount(entries.owner[signed], minlength=1)[entries.owner[signed]] > 1]
        signed = signed[np.lexsort((entries.signature[signed], entries.owner[signed]))]
        owner, signature, home = entries.owner[signed], entries.signature[signed], entries.home[signed]
        is_same = (owner[1:] == owner[:-1]) & (signature[1:] == signature[:-1])
        return home[:-1][is_same], home[1:][is_same]

    def _find_several(self, came: NDArray[np.bool_]) -> Rows:
        """The people inside of whom more is known than one value.

        Several protected values of theirs were shown; or one was, and they had others when they came to be inside. The
        latter is remembered by what was barred then.
        """
        entries, count = self._entries, len(self._set)
        is_protected = self._is_protected()
        is_shown = is_protected & ((entries.signature >= 0) | (entries.signature == PLAIN))
        held, shown = (np.bincount(entries.owner[some], minlength=count) for some in (is_protected, is_shown))
        is_barred = np.bincount(entries.owner[entries.has(BARRED)], minlength=count) > 0
        return np.flatnonzero(self.is_inside & ((shown > 1) | is_barred | (came & (shown > 0) & (held > 1))))

    def _is_protected(self) -> NDArray[np.bool_]:
        """By entry, whether something is known of a protected value."""
        entries = self._entries
        is_known = (entries.flags != 0) | (entries.signature != NO_SIGNATURE)
        return np.asarray(is_known & ~np.isin(entries.value, sorted(self._free)))

    # -- what may be shown of them ------------------------------------------------------------------------------

    def _budget(self, joined: int) -> Budget | None:
        """The budget of an e that is alone, with all rounds that ever had people inside; None if there is none."""
        if joined not in self._budgets:
            groups = np.flatnonzero(self._of_group == joined).tolist()
            counts = self._components.counts_of(groups[0]) if len(groups) == 1 else None
            is_closed = counts is None or joined in self._several or self._policy.shards > 1
            self._budgets[joined] = None if is_closed else self._filled(joined, counts or {})
        return self._budgets[joined]

    def _filled(self, joined: int, counts: Mapping[int, int]) -> Budget | None:
        entries, budget = self._entries, Budget(self._policy, counts, self._policy.insiders)
        mine = self._signed[self._set[entries.owner[self._signed]] == joined]
        if np.any(entries.home[mine] == NO_GROUP):
            return None
        for _, group in self._groups.records(np.unique(entries.home[mine])):
            for _ in range(group.rounds):
                if not budget.add(self._signatures.sets[group.kind]):
                    break  # nothing is left that one more could take
        return budget if budget.holds() else None

    def _alike(self, joined: int, values: Iterable[int]) -> list[list[int]]:
        """Values by how often each of the joined e shows them and by the signatures of people inside that hold them."""
        if joined not in self._marks:
            known = self._components.weights_of(np.flatnonzero(self._of_group == joined).tolist())
            self._shows[joined] = set(known)
            entries = self._entries
            marks: dict[int, list[object]] = {leaf: [weight] for leaf, weight in known.items()}
            mine = self._signed[self._set[entries.owner[self._signed]] == joined]
            for signature in np.unique(entries.signature[mine]).tolist():
                for leaf in self._signatures.sets[signature]:
                    marks.setdefault(leaf, []).append(signature)
            if self._policy.shards > 1:  # others may know more signatures than this shard does
                marks |= {leaf: [leaf] for leaf in known}
            self._marks[joined] = {leaf: tuple(mark) for leaf, mark in marks.items()}
        found: dict[object, list[int]] = {}
        for leaf in values:
            found.setdefault(self._marks[joined].get(leaf, ()), []).append(leaf)
        return list(found.values())

    def _parts(self, joined: int) -> list[Signature]:
        """The parts; none if any protected value has none."""
        least = max(self._policy.signature, self._policy.overlap + self._policy.insiders)
        found: list[Signature] = []
        for kind in (self._judge.transient, self._judge.permanent):
            for values in self._alike(joined, sorted(kind)):
                ends = [*range(least, len(values) - least + 1, least), len(values)]
                if len(values) < least:
                    return []
                found += [tuple(values[begin:end]) for begin, end in pairwise([0, *ends])]
        return found
