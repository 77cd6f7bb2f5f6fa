"""The steps of a release of a lasting table (docs/design.md, "Values that last"), between the tree and the bytes.

1. *hold*: bring the entries up to date with the people;
2. *part*: the entries of people who cannot be published now have no row;
3. *judge*: decide for every entry without a row how it may be shown;
4. *return*: entries that were shown before have their rows in their groups again;
5. *deal*: newcomers form groups, once enough of them wait;
6. *place*: plain entries and "*" form groups of their own.

Nobody ever joins a group that is there.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.people import People
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Tags
from shoal.core.runs import each_between, ranks
from shoal.core.signatures.blocks import NOWHERE, Neighbours
from shoal.core.signatures.dealing import Dealing, Values, cover
from shoal.core.signatures.entries import (
    COMPANY,
    CURRENT,
    HELD,
    NO_GROUP,
    NO_SIGNATURE,
    PLAIN,
    SECOND,
    STARRED,
    Entries,
)
from shoal.core.signatures.group import PLAIN_GROUP, STAR, Groups
from shoal.core.signatures.judging import UNJUDGED, Judging
from shoal.core.signatures.newcomers import ANY, NO_ROUND, Newcomers, mask_of, values_in
from shoal.core.signatures.scene import Scene
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import PLAIN_ROWS, ROWS_AT_MOST
from shoal.core.signatures.turnover import kinds_of
from shoal.core.signatures.verdict import SHOW_NEW, SHOW_PLAIN, SHOW_STAR, Judge


class Settling:
    """A release of a lasting table being made; entries, signatures and groups are changed in place."""

    def __init__(self, policy: Policy, entries: Entries, signatures: Signatures, groups: Groups) -> None:
        self._policy = policy
        self.entries, self.signatures, self.groups = entries, signatures, groups
        self._judge = Judge(policy, signatures.sets)
        self._blank = len(policy.sensitive.hierarchy.leaves)  # the value of a row that stands for none
        self.bound_values = policy.sensitive.permanent - self._judge.permanent
        self._is_permanent = np.zeros(self._blank + 1, dtype=bool)
        self._is_permanent[list(policy.sensitive.permanent)] = True
        self._rows_before = np.bincount(entries.group[entries.group != NO_GROUP], minlength=groups.size)
        self.waiting = 0  # how many newcomers are "*" until there are more

    # -- 1, 2 ---------------------------------------------------------------------------------------------------

    def hold(self, people: People, touched: Rows) -> None:
        """Step 1: spells begin and end."""
        owner, value = self._wanted(people, touched)
        ended = self.entries.hold(touched, owner, value, self._is_permanent)
        self.entries.group[ended] = NO_GROUP

    def _wanted(self, people: People, touched: Rows) -> tuple[Rows, Rows]:
        """(person, value) of every entry that these people should hold; the blank one for somebody without another."""
        rows = touched[people.is_sampled()[touched]]
        sets = [tuple(value for value in values if value not in self.bound_values) for values in people.sets.items]
        sets = [values or (self._blank,) for values in sets]
        sizes = np.array([len(values) for values in sets], dtype=np.int64)
        flat = np.array([value for values in sets for value in values], dtype=np.int64)
        codes = people.set[rows]
        begins = (np.cumsum(sizes) - sizes)[codes]
        return np.repeat(rows, sizes[codes]), flat[each_between(begins, sizes[codes])]

    def part(self, scene: Scene) -> None:
        """Step 2: entries of people who are withheld have no row, for as long as that lasts."""
        entries = self.entries
        grouped = np.flatnonzero(entries.group != NO_GROUP)
        entries.group[grouped[~scene.is_published[entries.owner[grouped]]]] = NO_GROUP

    def settle(self, scene: Scene, neighbours: Neighbours, touched: Rows) -> None:
        """Steps 3 to 6."""
        self._scene = scene
        judging = Judging(self._policy, self._judge, self.entries, self.signatures, self.groups, scene, neighbours)
        judging.touch(touched)
        judging.touch(neighbours.affected)
        shown = judging.run()
        self._return(shown)
        self._keep_company(shown)
        self._deal(shown, judging, neighbours)
        self._place(shown)

    # -- 4 ------------------------------------------------------------------------------------------------------

    def _return(self, shown: Rows) -> None:
        """Step 4: rows in the groups where they were shown before."""
        entries = self.entries
        at_home = np.flatnonzero((shown >= 0) | (shown == SHOW_PLAIN))
        at_home = at_home[entries.home[at_home] != NO_GROUP]
        entries.show(at_home)
        shown[at_home] = UNJUDGED

    def _keep_company(self, shown: Rows) -> None:
        """Star newcomers with those who have nothing to show but a permanent value.

        A "*" is rare. If most of them stood for a permanent value, each would tell it. So of the people who are given
        one for it, and those who are starred with them, no more than 1/l hold it.
        """
        entries = self.entries
        blank = np.flatnonzero((shown == SHOW_STAR) & (entries.value == self._blank) & ~entries.has(CURRENT))
        new = np.flatnonzero(shown == SHOW_NEW)
        is_one_of_several = np.bincount(entries.owner[entries.has(HELD)], minlength=1)[entries.owner[new]] > 1
        count = ceil((self._policy.l - 1) * len(blank))
        starred = new[np.lexsort((self._draws(new, "company"), is_one_of_several))[:count]]
        self._star(starred, shown, COMPANY)
        entries.flags[blank] |= CURRENT

    def _star(self, some: Sequence[int] | Rows, shown: Rows, reason: int = 0) -> None:
        """These are "*" for their spell."""
        shown[some] = SHOW_STAR
        self.entries.flags[some] |= np.uint8(STARRED | reason)

    # -- 5 ------------------------------------------------------------------------------------------------------

    def _deal(self, shown: Rows, judging: Judging, neighbours: Neighbours) -> None:
        """Step 5: newcomers form groups, if enough of them wait."""
        shown[(shown >= 0) & neighbours.is_inside[self.entries.owner]] = SHOW_STAR  # who came from another shard
        new = np.flatnonzero((shown >= 0) | (shown == SHOW_NEW))
        new = new[np.argsort(self._draws(new, "deal"), kind="stable")]
        if len(new) >= self._policy.batch:
            values, joined = self._values(new), neighbours.sets(self.entries.owner[new])
            free = new[joined == NOWHERE]
            is_permanent = self._is_permanent[self.entries.value[free]]
            pools = [free[~is_permanent], free[is_permanent]]
            self._settle_kind([(mine, self._dealt(mine, shown, judging, values)) for mine in pools if len(mine)], shown)
            for one in np.unique(joined[joined != NOWHERE]).tolist():
                mine = new[joined == one]
                self._settle_kind([(mine, self._planned(one, mine, shown, judging, values, neighbours))], shown)
        left = np.flatnonzero((shown >= 0) | (shown == SHOW_NEW))
        shown[left] = SHOW_STAR
        self.waiting = int(np.count_nonzero(~neighbours.is_inside[self.entries.owner[left]]))

    def _values(self, new: Rows) -> Values:
        """Values that last alike and are about equally frequent stand next to each other.

        What is frequent is what began often so far, which everybody knows: so the order stays much the same, signatures
        are used again, and later second values find rounds.
        """
        leaves, groups, signatures = self._blank, self.groups, self.signatures
        kinds = kinds_of(groups, signatures, self._rows_before, self._scene.number, leaves)
        times = np.bincount(groups.kind[groups.kind >= 0], groups.rounds[groups.kind >= 0], len(signatures))
        members, is_one = signatures.members, signatures.members >= 0
        began = np.bincount(members[is_one], np.repeat(times, np.count_nonzero(is_one, axis=1)), leaves)
        began += np.bincount(self.entries.value[new], minlength=leaves)
        order = np.lexsort((np.arange(leaves), -began, kinds))
        blocks = np.empty(leaves, dtype=np.int64)
        blocks[order] = np.arange(leaves) // self._policy.signature
        return Values(order.tolist(), blocks.tolist())

    def _dealt(self, mine: Rows, shown: Rows, judging: Judging, values: Values) -> Dealing:
        dealing = self._dealing(mine, shown, judging, values)
        dealing.run()
        return dealing

    def _planned(
        self, joined: int, mine: Rows, shown: Rows, judging: Judging, values: Values, neighbours: Neighbours
    ) -> Dealing:
        """Newcomers inside a joined set of others' groups: exactly the rounds that those allow."""
        value, turns = self.entries.value[mine], itertools.count()
        is_permanent = self._is_permanent[value]
        waiting = [Counter(value[is_kind].tolist()) for is_kind in (~is_permanent, is_permanent)]

        def shuffle(some: Sequence[int]) -> list[int]:
            draws = self._company_draws(f"beside {joined} {next(turns)}", len(some))
            return [some[at] for at in np.argsort(draws, kind="stable").tolist()]

        dealing = self._dealing(mine, shown, judging, values)
        dealing.seat(neighbours.plan(joined, waiting, shuffle))
        return dealing

    def _dealing(self, mine: Rows, shown: Rows, judging: Judging, values: Values) -> Dealing:
        salt = int(self._draws(mine[:1], "salt")[0]) if len(mine) else 0

        def draws(purpose: str, count: int) -> Tags:
            return self._scene.keyed.draw(np.arange(count, dtype=np.uint64), self._scene.number, f"{purpose} {salt}")

        newcomers, policy = self._newcomers(mine, shown, judging), self._policy
        return Dealing(newcomers, self.signatures.sets, values, policy.signature, policy.l, draws)

    def _newcomers(self, new: Rows, shown: Rows, judging: Judging) -> Newcomers:
        """These entries as the dealing sees them."""
        entries = self.entries
        owner = entries.owner[new]
        rows, counts = np.unique(owner, return_counts=True)
        siblings: dict[int, list[int]] = {}
        by_owner = np.argsort(owner, kind="stable")
        last = np.cumsum(counts)
        for end, count in zip(last[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
            mine = by_owner[end - count : end].tolist()
            siblings.update({one: [other for other in mine if other != one] for one in mine})
        where, known = entries.of(rows)
        is_signed = entries.signature[known] >= 0
        where, signature = where[is_signed], entries.signature[known[is_signed]].tolist()
        masks: dict[int, int] = {}
        person: dict[int, int] = {}
        for at, number in zip(where.tolist(), signature, strict=True):
            if number not in masks:
                masks[number] = mask_of(self.signatures.sets[number])
            person[at] = person.get(at, 0) | masks[number]
        for at in np.flatnonzero(np.isin(rows, list(judging.taken))).tolist() if judging.taken else ():
            person[at] = person.get(at, 0) | mask_of(judging.taken[int(rows[at])])
        value = entries.value[new]
        shunned: dict[int, int] = {}
        if person:
            positions = np.searchsorted(rows, owner)
            has_some = np.flatnonzero(np.isin(positions, list(person)))
            for at, row, own in zip(
                has_some.tolist(), positions[has_some].tolist(), value[has_some].tolist(), strict=True
            ):
                shunned[at] = person[row] & ~(1 << own)
        wanted = np.where(shown[new] >= 0, shown[new], ANY)
        return Newcomers(value, self._scene.place[owner], self._draws(new, "deal"), wanted, shunned, siblings)

    def _settle_kind(self, dealings: Sequence[tuple[Rows, Dealing]], shown: Rows) -> None:
        """Star who found no round, with company, and form the groups of the others."""
        only = [dealing for _, dealing in dealings]
        is_covered = cover(only, self._policy.l, self._company_draws)
        while is_covered and sum(dealing.deal_again() for dealing in only):
            is_covered = cover(only, self._policy.l, self._company_draws)
        if not is_covered:
            return
        for mine, dealing in dealings:
            for some, reason in ((dealing.starred - dealing.company, 0), (dealing.company, COMPANY)):
                self._star(mine[sorted(some)], shown, reason)
            self._star(mine[dealing.starred_seconds], shown, SECOND)
            self._form(mine, dealing, shown)

    def _company_draws(self, purpose: str, count: int) -> Tags:
        return self._scene.keyed.draw(np.arange(count, dtype=np.uint64), self._scene.number, purpose)

    def _form(self, mine: Rows, dealing: Dealing, shown: Rows) -> None:
        """Form groups of rounds with one signature, near each other; a round of a second value is a group by itself."""
        rounds = np.array(dealing.rounds.round_of, dtype=np.int64)
        got = np.flatnonzero(rounds != NO_ROUND)
        if not len(got):
            return
        numbers = {
            mask: self.signatures.number(values_in(mask)) for mask in dict.fromkeys(dealing.rounds.masks) if mask
        }
        numbers[0] = NO_SIGNATURE
        signature = np.array([numbers[mask] for mask in dealing.rounds.masks], dtype=np.int64)
        place = self._scene.place[self.entries.owner[mine[got]]].astype(np.float64)
        counts = np.bincount(rounds[got], minlength=len(signature))
        mean = np.bincount(rounds[got], weights=place, minlength=len(signature)) / np.maximum(1, counts)
        lowest = np.full(len(signature), np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(lowest, rounds[got], self._draws(mine[got], "number"))
        used = np.flatnonzero(counts)
        is_alone = np.zeros(len(signature), dtype=bool)
        is_alone[sorted(dealing.rounds.closed)] = True
        group, first = _groups(used, signature[used], mean[used], lowest[used], is_alone[used], counts[used])
        by_round = np.full(len(signature), -1, dtype=np.int64)
        by_round[used] = group
        times = np.bincount(group)
        formed = self.groups.form(signature[first], np.zeros(len(first), dtype=np.int64), self._scene.number, times)
        entries = mine[got]
        self.entries.settle(entries, signature[rounds[got]], formed[by_round[rounds[got]]])
        shown[entries] = UNJUDGED

    # -- 6 ------------------------------------------------------------------------------------------------------

    def _place(self, shown: Rows) -> None:
        """Step 6: plain entries by value, and "*", in new groups, unless they have a row of this kind already."""
        entries = self.entries
        for how, kind in ((SHOW_PLAIN, PLAIN_GROUP), (SHOW_STAR, STAR)):
            asked = np.flatnonzero(shown == how)
            asked = asked[self.groups.kind[np.maximum(0, entries.group[asked])] != kind]  # group 0 is of no kind
            value = entries.value[asked] if kind == PLAIN_GROUP else np.zeros(len(asked), dtype=np.int64)
            place = self._scene.place[entries.owner[asked]]
            order = np.lexsort((self._draws(asked, "runs"), place, value))
            asked, value = asked[order], value[order]
            is_first = ranks(value, np.arange(len(value))) % PLAIN_ROWS == 0
            kinds = np.full(np.count_nonzero(is_first), kind, dtype=np.int64)
            formed = self.groups.form(kinds, value[is_first], self._scene.number)
            groups = formed[np.cumsum(is_first) - 1] if len(asked) else asked
            if how == SHOW_PLAIN:
                entries.settle(asked, PLAIN, groups)
            else:
                entries.group[asked] = groups

    def is_told(self) -> NDArray[np.bool_]:
        """By row, whether somebody has a row that is not "*"."""
        entries = self.entries
        grouped = np.flatnonzero(entries.group != NO_GROUP)
        told = np.zeros(len(self._scene.people), dtype=bool)
        told[entries.owner[grouped[~self.groups.is_star(entries.group[grouped])]]] = True
        return told

    def _draws(self, some: Rows, purpose: str) -> Tags:
        return self._scene.draws(self.entries, some, purpose)


def _groups(
    used: Rows, signature: Rows, place: NDArray[np.float64], lowest: Tags, is_alone: NDArray[np.bool_], sizes: Rows
) -> tuple[Rows, Rows]:
    """The group of each of these rounds, and for each group the first of its rounds.

    Groups are numbered in the order of the least draw in them, which says nothing about who is in them.
    """
    order = np.lexsort((lowest, place, signature, is_alone))
    rank = ranks(np.where(is_alone, -1 - np.arange(len(used)), signature)[order], np.arange(len(used)))
    is_first = rank % np.maximum(1, ROWS_AT_MOST // sizes[order]) == 0
    run = np.cumsum(is_first) - 1
    least = np.minimum.reduceat(lowest[order], np.flatnonzero(is_first))
    number = np.empty(len(least), dtype=np.int64)
    number[np.argsort(least, kind="stable")] = np.arange(len(least))
    group = np.empty(len(used), dtype=np.int64)
    group[order] = number[run]
    first = np.empty(len(least), dtype=np.int64)
    first[number] = used[order[is_first]]
    return group, first
