"""Baig's five phases (section 5), as step 5 of a release: sampling, division, balancing, assignment, generalize.

Sampling happens where people are counted (`People.sampled`). The next three turn the part of a pool that overlaps other
publications, with as many of its neighbours as it takes, into groups that are complete: balanced beside all of them,
in keeping with G2 and G4. What cannot be balanced is barred: its value is shown as "*" in whatever group step 6 finds.
Then generalize (`core/overlap/generalize.py`) lets rows of these groups start in larger cells.

A row calls into its group what it needs (balancing): alpha - 1 other values of each e it overlaps, each as often as
evens out the sum. Whoever comes must be content there too; what nobody can supply is counterfeited. Before that,
`even_groups.py` deals with all rows for which groups of equal counts will do, and `uneven_groups.py` with those that a
common template suits.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.core.cells.tree import Column, Rows
from shoal.core.groups.deal import ALONE
from shoal.core.groups.formation import Formation
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Pool
from shoal.core.groups.promises import Promises
from shoal.core.overlap.assembly import Desk, Draft
from shoal.core.overlap.even_groups import deal_level
from shoal.core.overlap.generalize import generalize
from shoal.core.overlap.overlaps import Beside
from shoal.core.overlap.sampling import sampling
from shoal.core.overlap.uneven_groups import fit_templates
from shoal.core.people import Values
from shoal.core.policy.policy import Policy

__all__ = ["Overlapped", "assignment", "balancing", "division", "generalize", "merged", "sampling", "stand_beside"]

LARGEST = 48  # people and counterfeits that one row may call into its group
TIMES = (1, 2, 3, 4, 6, 8)  # how often it tries to have its own value shown
PATIENCE, TRIES_PER_GROUP = 256, 3  # rows tried without success before the rest are given up
CARE = 0.01  # of a pool's rows, how many are tried one by one at all, once there are more than that
TOGETHER = 32  # people of whom nothing is shown, in one group
TRIED = 4  # of each value, how many are considered to fill up a group; and how many groups for a row left over


@dataclass
class Overlapped:
    """What became of the part of a pool that overlaps.

    `drafts` are groups; so are `hidden`, of people who can only be shown as "*"; `barred` are such values of others.
    """

    drafts: list[Draft]
    barred: dict[int, Values]
    breach: float
    hidden: list[list[int]] = field(default_factory=list)

    @property
    def grouped(self) -> list[int]:
        """Everybody who has a group."""
        return [unit for members in (*(draft.members for draft in self.drafts), *self.hidden) for unit in members]


def stand_beside(pool: Pool, columns: Sequence[Column], beside: Beside, ledger: Ledger, policy: Policy) -> Overlapped:
    """Step 5 for a pool that overlaps something: everything but sampling, which came first."""
    promises = Promises(pool, ledger, policy)
    desk = Desk(pool, columns, beside, promises, policy)
    classes, others = division(desk)
    is_left = np.zeros(len(pool), dtype=bool)
    is_left[[unit for units in (others, *classes) for unit in units if desk.can_fill(unit)]] = True
    for draft in deal_level(pool, beside, promises, is_left):
        desk.keep(draft)
    for draft in fit_templates(pool, beside, promises, is_left, desk.fakes_left):
        desk.keep(draft)
    desk.lay_out(np.flatnonzero(is_left).tolist())
    desk.lay_out(unit for units in classes for unit in units if not desk.can_fill(unit))
    _form_each(desk, classes)
    _join_rest(desk)
    breach = max((promises.breach_in(draft.members, draft.standing(promises)) for draft in desk.done), default=0.0)
    barred = _barred(desk)
    tied = {unit for tie in pool.ties for unit in tie}
    hidden = [unit for unit, values in barred.items() if len(values) == len(pool.sets[unit]) and unit not in tied]
    for unit in hidden:
        del barred[unit]
    return Overlapped(
        desk.done, barred, breach, [hidden[start : start + TOGETHER] for start in range(0, len(hidden), TOGETHER)]
    )


def _form_each(desk: Desk, classes: list[list[int]]) -> None:
    """A group around one row after the other, for as long as enough of them find one."""
    tries, before, most = 0, len(desk.done), max(PATIENCE, CARE * len(desk.pool))
    for unit in (unit for units in classes for unit in units):
        if tries > min(most, PATIENCE + TRIES_PER_GROUP * (len(desk.done) - before)):
            return
        if desk.has(unit):
            tries += 1
            draft = balancing(desk, unit)
            if draft is not None and assignment(desk, draft):
                desk.keep(draft)


def division(desk: Desk) -> tuple[list[list[int]], list[int]]:
    """Rows that overlap, by their set of possible values, and rows that do not (Baig, section 5, division).

    Rows with the same possible values can stand in one group. Left out are rows tied to others, as all who have a
    permanent value are, and rows that a guard or an account leaves no freedom: they are for step 6, and barred if they
    overlap. Of rows with several values or a guard only those that overlap are here: groups are made around them.
    """
    pool, promises = desk.pool, desk.promises
    tied = {unit for tie in pool.ties for unit in tie}
    has_paid = set(pool.exposed.tolist())
    classes: dict[frozenset[int], list[int]] = {}
    others: list[int] = []
    for unit, possible in enumerate(desk.beside.possible()):
        if unit in tied or (unit in has_paid and promises.requirements.target(unit).starred):
            continue
        if possible:
            classes.setdefault(possible, []).append(unit)
        elif desk.can_fill(unit):
            others.append(unit)
    return list(classes.values()), others


def balancing(desk: Desk, unit: int) -> Draft | None:
    """A group around one row that balances everybody in it, perhaps not large enough yet; None if there is none.

    Counterfeits fill what nobody can supply (Baig, section 5, balancing).
    """
    for times in TIMES:
        shown = _template(desk, unit, times)
        if shown is not None:
            break
    else:
        return None
    desk.take(unit)
    draft = Draft([unit], shown)
    wanted = dict(shown)
    for value in desk.pool.sets[unit]:
        wanted[value] -= 1
    for value, count in sorted(wanted.items()):
        while count:
            found = _content(desk, desk.nearest(value, draft), shown)
            if found is None:
                draft.counterfeits[value] = count
                if not _can_counterfeit(desk, draft):
                    desk.lay_out(draft.members)
                    return None
                break
            desk.take(found)
            draft.members.append(found)
            count -= 1
    return draft


def _content(desk: Desk, units: list[int], shown: dict[int, int]) -> int | None:
    """The first of these units that would be content in a group that shows this; not many that overlap are asked."""
    asked = 0
    for unit in units:
        if desk.beside.overlaps[unit]:
            asked += 1
            if asked > TRIED:
                continue
        if desk.beside.is_content(unit, shown):
            return unit
    return None


def _can_counterfeit(desk: Desk, draft: Draft) -> bool:
    """Whether so many counterfeits are bearable: few beside the pool, and none of what never goes away."""
    if any(value in desk.policy.sensitive.permanent for value in draft.counterfeits):
        return False
    return draft.fakes <= desk.fakes_left


def _template(desk: Desk, unit: int, times: int) -> dict[int, int] | None:
    """What a group must show, this row's values so many times, for all its overlaps to be balanced."""
    alpha, permanent = desk.beside.alpha, desk.policy.sensitive.permanent
    shown = dict.fromkeys(desk.pool.sets[unit], times)
    needs = sorted(desk.beside.needs(unit), key=lambda need: (len(desk.beside.histograms[need[1]]), need))
    for own, histogram in needs:
        entries = desk.beside.histograms[histogram]
        total = times + entries[own]
        lacking = alpha - sum(1 for value, count in shown.items() if count + entries.get(value, -1 - count) == total)
        if lacking <= 0:
            continue
        options = [
            (max(0, count - desk.supply(value)), count, value)
            for value, weight in entries.items()
            if value not in shown and value not in permanent and 1 <= (count := total - weight) <= LARGEST
        ]
        if len(options) < lacking:
            return None
        shown.update((value, count) for _, count, value in sorted(options)[:lacking])
    return shown if sum(shown.values()) <= LARGEST else None


def assignment(desk: Desk, draft: Draft) -> bool:
    """Add rows, least distortion first, until a balanced group keeps every other promise too; false if it cannot.

    Only values it does not show yet can come in: they change nobody's sums (Baig, section 5, assignment).
    """
    while not _is_complete(desk, draft):
        added = _fill(desk, draft) if len(draft.members) < 2 * LARGEST else None
        if added is None:
            desk.lay_out(draft.members)
            return False
        draft.members.append(added)
        draft.shown[desk.value(added)] = 1
    return True


def _is_complete(desk: Desk, draft: Draft) -> bool:
    return draft.fakes <= len(draft.members) and desk.is_kept(draft)


def _fill(desk: Desk, draft: Draft) -> int | None:
    """The row that fits into a group with the least distortion, taken from its shelf."""
    candidates = [c for value in desk.values() if value not in draft.shown for c in desk.around(value, draft, TRIED)]
    asked = 0
    for unit in desk.by_distortion(sorted(candidates), draft):
        asked += int(desk.beside.overlaps[unit])
        if asked > desk.policy.search:
            return None
        if desk.beside.is_content(unit, {**draft.shown, desk.value(unit): 1}):
            desk.take(unit)
            return unit
    return None


def _join_rest(desk: Desk) -> None:
    """Rows that cannot make a group of their own any more join those there are (Baig, Algorithm 1, line 16).

    So do rows whose values have become too frequent among those left for step 6.
    """
    overlaps, left = desk.beside.overlaps, desk.left()
    others = Counter(desk.value(unit) for unit in left if not overlaps[unit])
    least = math.ceil(desk.promises.target_base * (1 - 1e-12))
    crowded = {value for value, count in others.items() if count * least > others.total()}
    left = [unit for unit in left if overlaps[unit] or desk.value(unit) in crowded]
    firsts = sorted((draft.members[0], at) for at, draft in enumerate(desk.done))
    for unit in left[:PATIENCE]:
        middle = bisect_left(firsts, (unit, 0))
        for _, at in firsts[max(0, middle - TRIED // 2) : middle + TRIED // 2]:
            draft = desk.done[at]
            more = {value: draft.shown.get(value, 0) + 1 for value in desk.pool.sets[unit]}
            joined = Draft([*draft.members, unit], {**draft.shown, **more}, draft.counterfeits)
            if desk.is_kept(joined):
                desk.take(unit)
                desk.done[at] = joined
                break


def merged(pool: Pool, left: Rows, formed: Formation, overlapped: Overlapped) -> Formation:
    """The formation of a whole pool from that of what was left of it, and the groups of step 5, numbered after it."""
    group = np.full(len(pool), ALONE, dtype=np.int64)
    group[left] = formed.group
    counterfeits = {}
    for number, draft in enumerate(overlapped.drafts, formed.groups):
        group[draft.members] = number
        if draft.counterfeits:
            counterfeits[number] = draft.counterfeits
    raised = {int(left[unit]): nodes for unit, nodes in formed.raised.items()}
    first = formed.groups + len(overlapped.drafts)
    for number, members in enumerate(overlapped.hidden, first):
        group[members] = number
        raised.update((unit, dict.fromkeys(pool.sets[unit], 0)) for unit in members)
    return Formation(group, first + len(overlapped.hidden), raised, max(formed.breach, overlapped.breach), counterfeits)


def _barred(desk: Desk) -> dict[int, Values]:
    """The overlapping values of everybody who found no group."""
    grouped = {unit for draft in desk.done for unit in draft.members}
    alone = [unit for unit in np.flatnonzero(desk.beside.overlaps).tolist() if unit not in grouped]
    sets = desk.pool.sets
    return {
        unit: sets[unit] if len(sets[unit]) == 1 else tuple(sorted({leaf for leaf, _ in desk.beside.needs(unit)}))
        for unit in alone
    }
