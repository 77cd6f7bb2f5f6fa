"""The steps of a release of a lasting table (docs/design.md, "Values that last"), between the tree and the bytes.

1. *hold*: bring the entries up to date with the people, and offer the places of those that ended;
2. *part*: the entries of people who cannot be published now leave their groups;
3. *judge*: decide for every entry without a place how it may be shown;
4. *choose*: give newcomers their signatures;
5. *balance*: put entries into groups in which every value of the signature is shown equally often;
6. *settle*: put plain entries and "*" into groups of their own;
7. *bind*: show the cliques of permanent values.
"""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.people import People
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Tags
from shoal.core.runs import each_between, numbered
from shoal.core.signatures.balance import Balanced, Members, Standing, balance
from shoal.core.signatures.blocks import Neighbours
from shoal.core.signatures.choice import choose_signatures
from shoal.core.signatures.entries import BARRED, CURRENT, HELD, NO_GROUP, NO_SIGNATURE, PLAIN, SHOWN, STARRED, Entries
from shoal.core.signatures.group import PLAIN_GROUP, STAR, Groups
from shoal.core.signatures.judging import UNJUDGED, Judging
from shoal.core.signatures.leftovers import Spare
from shoal.core.signatures.nearest import NONE as NO_SITE
from shoal.core.signatures.nearest import Sites, join_nearest, means
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.places import Gaps
from shoal.core.signatures.scene import Scene
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import COUNTERFEITS_ENOUGH, COUNTERFEITS_IN_GROUP, PLAIN_ROWS
from shoal.core.signatures.turnover import classes_of, weight_of
from shoal.core.signatures.verdict import SHOW_NEW, SHOW_PLAIN, SHOW_STAR, Judge


class Regrouping:
    """A release of a lasting table being made; entries, signatures and groups are changed in place."""

    def __init__(self, policy: Policy, entries: Entries, signatures: Signatures, groups: Groups) -> None:
        self._policy = policy
        self.entries, self.signatures, self.groups = entries, signatures, groups
        self._judge = Judge(policy, signatures.sets)
        self._blank = len(policy.sensitive.hierarchy.leaves)  # the value of a row that stands for none
        self.bound_values = policy.sensitive.permanent - self._judge.permanent
        self._is_permanent = np.zeros(self._blank + 1, dtype=bool)
        self._is_permanent[list(policy.sensitive.permanent)] = True
        self._enough = COUNTERFEITS_ENOUGH * 0.02
        self._group_before = entries.group.copy()
        self._taken: dict[int, frozenset[int]] = {}  # by row, what a new signature must not hold

    # -- 1, 2 ---------------------------------------------------------------------------------------------------

    def hold(self, people: People, touched: Rows, number: int) -> None:
        """Step 1: spells begin and end; the places of those that ended are offered, in batches."""
        entries = self.entries
        rows = self._rows_by_signature() * weight_of(number)
        owner, value = self._wanted(people, touched)
        ended = entries.hold(touched, owner, value, self._is_permanent)
        placed = ended[(entries.group[ended] != NO_GROUP) & ~self._is_permanent[entries.value[ended]]]
        signed = placed[self.groups.kind[entries.group[placed]] >= 0]
        signatures = self.groups.kind[entries.group[signed]]
        self.signatures.remember(rows, signatures)
        if len(signed):
            self.signatures.offer(signatures, entries.slot[signed].astype(np.int64), self._policy.l)
        entries.group[ended] = NO_GROUP

    def _rows_by_signature(self) -> Rows:
        """How many rows of each signature the last release shows."""
        rows = np.bincount(self.entries.group[self.entries.group != NO_GROUP], minlength=self.groups.size)
        is_signed = self.groups.kind >= 0
        found = np.zeros(len(self.signatures), dtype=np.int64)
        np.add.at(found, self.groups.kind[is_signed], rows[is_signed])
        return found

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
        """Step 2: entries of people who are withheld leave their groups, for as long as that lasts."""
        entries = self.entries
        grouped = np.flatnonzero(entries.group != NO_GROUP)
        entries.group[grouped[~scene.is_published[entries.owner[grouped]]]] = NO_GROUP

    def regroup(self, scene: Scene, neighbours: Neighbours, touched: Rows) -> None:
        """Steps 3 to 6."""
        self._scene = scene
        self._rows = int(np.count_nonzero(self.entries.has(HELD) & scene.is_published[self.entries.owner]))
        judging = Judging(self._policy, self._judge, self.entries, self.groups, scene, neighbours)
        judging.touch(touched)
        judging.touch(neighbours.affected)
        shown, self._taken = judging.run(), judging.taken
        self.choose(shown)
        self.balance(shown)
        self.settle(shown)

    # -- 4 ------------------------------------------------------------------------------------------------------

    def choose(self, shown: Rows) -> None:
        """Step 4: newcomers are given signatures; those that cannot have one are "*" for their spell."""
        entries = self.entries
        self._family = np.zeros(len(entries), dtype=np.int64)
        known = np.flatnonzero(shown >= 0)
        forced = known[entries.signature[known] == NO_SIGNATURE]
        entries.give(forced, shown[forced], self.signatures)
        self._keep_company(shown)
        new = np.flatnonzero(shown == SHOW_NEW)
        for kind in (self._judge.transient, self._judge.permanent):
            values = np.array(sorted(kind), dtype=np.int64)
            mine = new[np.isin(entries.value[new], values)]
            if len(mine):
                self._choose(mine, values, shown)
        left = new[entries.signature[new] == NO_SIGNATURE]
        shown[left] = SHOW_STAR
        entries.flags[left] |= STARRED

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
        shown[starred] = SHOW_STAR
        entries.flags[starred] |= STARRED
        entries.show(blank)

    def is_told(self) -> NDArray[np.bool_]:
        """By row, whether somebody has a row that is not "*"."""
        entries = self.entries
        grouped = np.flatnonzero(entries.group != NO_GROUP)
        told = np.zeros(len(self._scene.people), dtype=bool)
        told[entries.owner[grouped[~self.groups.is_star(entries.group[grouped])]]] = True
        return told

    def _choose(self, new: Rows, values: Rows, shown: Rows) -> None:
        entries = self.entries
        newcomers = self._newcomers(new)
        usable = self.signatures.within(np.arange(len(self.signatures)), values)
        gaps = self._gaps(usable, shown)
        m, l = self._policy.signature, self._policy.l
        rows = np.bincount(entries.group[entries.group != NO_GROUP], minlength=self.groups.size)
        fakes = int(self._fakes(rows).sum())
        most, enough = self._most_counterfeits(self._rows), int(self._rows * self._enough)
        spare = Spare(max(0, most - fakes), max(0, enough - fakes))
        classes = classes_of(values, self.signatures, m)
        choice = choose_signatures(newcomers, self.signatures, usable, classes, m=m, l=l, spare=spare, gaps=gaps)
        got = choice.signature != UNDECIDED
        entries.give(new[got], choice.signature[got], self.signatures)
        shown[new[got]] = choice.signature[got]
        self._family[new[got]] = choice.family[got]
        taken = np.flatnonzero(gaps.is_taken)
        slots = self.signatures.slots(gaps.signature[taken], gaps.value[taken])
        np.subtract.at(self.signatures.offered, (gaps.signature[taken], slots), 1)

    def _newcomers(self, new: Rows) -> Newcomers:
        """These entries; those of somebody with several of them, or with a verdict of their own, are picky."""
        entries = self.entries
        owners = entries.owner[new]
        is_picky = np.bincount(owners, minlength=len(self._scene.people)) > 1
        is_picky[list(self._taken)] = True
        mine: dict[int, list[int]] = {}
        for at in np.flatnonzero(is_picky[owners]).tolist():
            mine.setdefault(int(owners[at]), []).append(at)
        values = entries.value[new]
        shunned: dict[int, set[int]] = {}
        siblings: dict[int, list[int]] = {}
        for row, positions in mine.items():
            taken = {*self._taken.get(row, ()), *values[positions].tolist()}
            for at in positions:
                siblings[at] = [other for other in positions if other != at]
                shunned[at] = taken - {int(values[at])}
        place = self._scene.place[owners]
        return Newcomers(values, place, self._draws(new, "choose"), shunned, siblings)

    def _gaps(self, usable: Rows, shown: Rows) -> Gaps:
        """Places that are offered and would make a round more complete, the most complete rounds first."""
        entries, signatures = self.entries, self.signatures
        is_asked = np.zeros(len(signatures), dtype=bool)
        is_asked[usable] = signatures.offered[usable].any(axis=1)
        is_there = (shown >= 0) | ((shown == UNJUDGED) & (entries.group != NO_GROUP))
        mine = np.flatnonzero(is_there & (entries.signature >= 0))
        mine = mine[is_asked[entries.signature[mine]]]
        width = signatures.members.shape[1]
        keys = entries.signature[mine].astype(np.int64) * width + entries.slot[mine]
        counts = np.bincount(keys, minlength=len(signatures) * width).reshape(len(signatures), width)
        number, slot, turn, missing = signatures.free_places(counts, is_asked)
        value = signatures.members[number, slot]
        return Gaps(value, number, turn, missing, np.zeros(len(value), dtype=bool))

    # -- 5 ------------------------------------------------------------------------------------------------------

    def balance(self, shown: Rows) -> None:
        """Step 5: every signature that somebody joined or left is balanced anew."""
        groups, group = self.groups, self._places_now(shown)
        is_joining = (shown >= 0) & (group == NO_GROUP)
        rows = np.bincount(group[group != NO_GROUP], minlength=groups.size)
        fakes = self._fakes(rows)
        is_touched = self._has_touched_signature(shown[is_joining], group)
        budget = self._most_counterfeits(self._rows)
        elsewhere = int(fakes[~is_touched].sum())
        if elsewhere > budget:  # groups that nobody touched have too many by now
            is_touched, elsewhere = groups.kind >= 0, 0
        is_whole = is_touched & (fakes == 0)  # nobody left it and nothing is counterfeit: nobody in it is loose
        mine = np.flatnonzero(is_joining | np.append(is_touched & ~is_whole, False)[group])  # False for NO_GROUP
        numbers, _, place = self._standing(is_whole & (groups.is_frozen == 0), group)
        whole = Standing(numbers, groups.kind[numbers], groups.rounds[numbers], place)
        enough = int(self._rows * self._enough) - elsewhere
        self._regroup(mine, whole, group, shown, budget - elsewhere, enough)

    def _has_touched_signature(self, joined: Rows, group: Rows) -> NDArray[np.bool_]:
        """By group, whether somebody joins its signature, or left a group of it since the last release."""
        kind = np.maximum(NO_SIGNATURE, self.groups.kind)
        left = self._group_before[self._group_before != group[: len(self._group_before)]]
        is_touched = np.zeros(len(self.signatures) + 1, dtype=bool)  # the last one stands for NO_SIGNATURE
        is_touched[joined] = is_touched[kind[left[left != NO_GROUP]]] = True
        is_touched[NO_SIGNATURE] = False
        return np.asarray(is_touched[kind])

    def _standing(self, is_asked: NDArray[np.bool_], group: Rows) -> tuple[Rows, Rows, NDArray[np.float64]]:
        """Of these groups, those that somebody is in: their numbers, how many rows they have, and where on average."""
        members = np.flatnonzero(np.append(is_asked, False)[group])  # False for NO_GROUP
        groups, line = numbered(group[members])
        rows = np.bincount(line, minlength=len(groups))
        return groups, rows, means(line, self._scene.place[self.entries.owner[members]], len(groups))

    def _places_now(self, shown: Rows) -> Rows:
        """The group of each entry, but NO_GROUP for one that must not stay where it is."""
        group = self.entries.group.copy()
        judged = np.flatnonzero(shown != UNJUDGED)
        judged = judged[group[judged] != NO_GROUP]
        kind = self.groups.kind[group[judged]]
        stays = np.where(shown[judged] == SHOW_PLAIN, kind == PLAIN_GROUP, kind == shown[judged])
        stays = np.where(shown[judged] == SHOW_STAR, kind == STAR, stays)
        group[judged[~stays]] = NO_GROUP
        return group

    def _regroup(self, mine: Rows, whole: Standing, group: Rows, shown: Rows, most: int, enough: int) -> None:
        """Balance these entries; those that find no place are "*"."""
        entries, scene = self.entries, self._scene
        lost, left = self._dissolve_frozen(mine, group, most)
        shown[lost] = SHOW_STAR
        mine = mine[~np.isin(mine, lost)] if len(lost) else mine

        def draw(some: Rows) -> Tags:
            return self._draws(mine[some], "even", is_for_ever=True)

        place = scene.place[entries.owner[mine]]
        signature, slot = entries.signature[mine].astype(np.int64), entries.slot[mine].astype(np.int64)
        is_new = ~entries.has(SHOWN)[mine]
        members = Members(signature, slot, group[mine], place, draw, self._family[mine], is_new)
        frozen = np.flatnonzero(self.groups.is_frozen == 1)
        sizes, first = self.signatures.sizes, self.groups.size
        enough -= most - left
        made = balance(members, sizes, whole, frozen, most_counterfeits=left, enough=enough, next_group=first)
        numbers = self._number_new(mine, made, first)
        self.groups.rounds[numbers[made.groups]] = made.rounds
        joined = np.flatnonzero((made.group != members.group) & (made.group != NO_GROUP))
        entries.group[mine[joined]] = numbers[made.group[joined]]
        entries.show(mine[joined])
        self._star(mine[made.group == NO_GROUP], shown)

    def _dissolve_frozen(self, mine: Rows, group: Rows, most: int) -> tuple[Rows, int]:
        """Give up frozen groups that have too many counterfeits by now.

        Returns their entries, and how many counterfeits are left for the others. These entries must not be grouped with
        others any more, so they are "*" for ever.
        """
        entries, groups = self.entries, self.groups
        grouped = mine[group[mine] != NO_GROUP]
        grouped = grouped[groups.is_frozen[group[grouped]] != 0]
        frozen, line = np.unique(group[grouped], return_inverse=True)
        places = groups.rounds[frozen] * self.signatures.sizes[groups.kind[frozen]]
        fakes = places - np.bincount(line, minlength=len(frozen))
        is_kept = fakes * COUNTERFEITS_IN_GROUP <= places
        order = np.lexsort((frozen, fakes))
        is_kept[order] &= np.cumsum(np.where(is_kept, fakes, 0)[order]) <= most
        lost = grouped[~is_kept[line]]
        entries.flags[lost] |= BARRED
        group[lost] = entries.group[lost] = NO_GROUP
        return lost, most - int(fakes[is_kept].sum())

    def _star(self, unplaced: Rows, shown: Rows) -> None:
        """Entries that found no place are "*": those shown before come back later, the others not in this spell."""
        entries = self.entries
        shown[unplaced] = SHOW_STAR
        entries.group[unplaced[self.groups.kind[np.maximum(0, entries.group[unplaced])] >= 0]] = NO_GROUP
        never = unplaced[~entries.has(SHOWN)[unplaced]]
        entries.signature[never] = NO_SIGNATURE
        entries.flags[never] |= STARRED

    def _number_new(self, mine: Rows, made: Balanced, first: int) -> Rows:
        """The numbers of all groups, new ones in an order that says nothing about who is in them."""
        count = len(made.new_signatures)
        numbers = np.arange(first + count)
        is_new = made.group >= first
        lowest = np.full(count, np.iinfo(np.uint64).max, dtype=np.uint64)
        np.minimum.at(lowest, made.group[is_new] - first, self._draws(mine[is_new], "number"))
        is_used = np.bincount(made.group[is_new] - first, minlength=count) > 0
        order = np.lexsort((np.arange(count), lowest, ~is_used))
        order = order[: np.count_nonzero(is_used)]
        formed = self.groups.form(made.new_signatures[order], np.zeros(len(order), dtype=np.int64), self._scene.number)
        numbers[first + order] = formed
        return numbers

    # -- 6 ------------------------------------------------------------------------------------------------------

    def settle(self, shown: Rows) -> None:
        """Step 6: plain entries by value, and "*", in groups that keep their people while they can."""
        entries = self.entries
        for how, kind in ((SHOW_PLAIN, PLAIN_GROUP), (SHOW_STAR, STAR)):
            asked = np.flatnonzero(shown == how)
            is_there = self.groups.kind[np.maximum(0, entries.group[asked])] == kind
            is_there &= entries.group[asked] != NO_GROUP
            asked = asked[~is_there]
            entries.group[asked] = NO_GROUP
            self._join_runs(asked, kind)
            if how == SHOW_PLAIN:
                entries.signature[asked] = PLAIN
                entries.show(asked)

    def _join_runs(self, asked: Rows, kind: int) -> None:
        if not len(asked):
            return
        entries, scene = self.entries, self._scene
        asked = asked[np.argsort(self._draws(asked, "join"), kind="stable")]  # not in the order of arrival
        value = entries.value[asked] if kind == PLAIN_GROUP else np.zeros(len(asked), dtype=np.int64)
        place = scene.place[entries.owner[asked]]
        groups, rows, where = self._standing(self.groups.kind == kind, entries.group)
        sites = Sites(self.groups.value[groups], where, PLAIN_ROWS - rows)
        joined = join_nearest(value, place.astype(np.float64), sites)
        entries.group[asked[joined != NO_SITE]] = groups[joined[joined != NO_SITE]]
        left = np.flatnonzero(joined == NO_SITE)
        left = left[np.lexsort((self._draws(asked[left], "runs"), place[left], value[left]))]
        turn = np.arange(len(left)) - np.searchsorted(value[left], value[left])
        is_first = turn % PLAIN_ROWS == 0
        kinds = np.full(np.count_nonzero(is_first), kind, dtype=np.int64)
        formed = self.groups.form(kinds, value[left][is_first], scene.number)
        entries.group[asked[left]] = formed[np.cumsum(is_first) - 1]

    # -- parts --------------------------------------------------------------------------------------------------

    def _draws(self, some: Rows, purpose: str, *, is_for_ever: bool = False) -> Tags:
        return self._scene.draws(self.entries, some, purpose, is_for_ever=is_for_ever)

    def _most_counterfeits(self, rows: int) -> int:
        share = 0.02
        return int(rows * share / (1 - share))

    def _fakes(self, rows: Rows) -> Rows:
        """By group its counterfeits as its rounds stand now, given how many rows it has."""
        groups = self.groups
        places = groups.rounds * np.append(self.signatures.sizes, 0)[np.maximum(NO_SIGNATURE, groups.kind)]
        return np.where((rows > 0) & (groups.kind >= 0), places - rows, 0)
