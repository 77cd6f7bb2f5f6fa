"""Baig's five phases (section 5), as step 5 of a release: sampling, division, balancing, assignment, generalize.

Sampling happens where people are counted (`People.sampled`). The next three phases take the rows of a pool that overlap
other publications, with as many neighbours as needed, and make complete groups of them: balanced beside all external
groups, and in keeping with G2 and G4. A row that cannot be balanced is *barred*: its value is shown as "*" in the group
that step 6 finds for it. Then generalize (`core/overlap/generalize.py`) lets rows of these groups start in larger
cells.

Most rows are grouped together: `even_groups.py` deals groups of equal counts, and `uneven_groups.py` finds common
templates. The rows left are served one by one. Such a row calls into its group what it needs (balancing): of each e it
overlaps alpha - 1 other values, each as often as makes the sums equal. A row that is called must be balanced there too;
a value that no free row has is counterfeited.
"""

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
from shoal.core.overlap.assembly import Assembly, Draft, fewest_people
from shoal.core.overlap.even_groups import deal_even_groups
from shoal.core.overlap.generalize import generalize
from shoal.core.overlap.overlaps import Overlaps
from shoal.core.overlap.tuning import (
    CANDIDATES,
    HIDDEN_TOGETHER,
    LARGEST_CALL,
    PATIENCE,
    TIMES_TRIED,
    TRIED_SHARE,
    TRIES_PER_GROUP,
)
from shoal.core.overlap.uneven_groups import fit_uneven_groups
from shoal.core.person import Values
from shoal.core.policy.policy import Policy
from shoal.core.sampling import sampling

__all__ = ["Overlapped", "assignment", "balancing", "division", "form_overlapping", "generalize", "merged", "sampling"]


@dataclass
class Overlapped:
    """The groups of the rows of a pool that overlap, and the values that have none.

    `drafts` are balanced groups. `hidden` are groups of people whose values can only be shown as "*". `barred` are, by
    unit, such values of people who have no group yet.
    """

    drafts: list[Draft]
    barred: dict[int, Values]
    breach: float
    hidden: list[list[int]] = field(default_factory=list)

    @property
    def grouped(self) -> list[int]:
        """The units that have a group."""
        return [unit for members in (*(draft.members for draft in self.drafts), *self.hidden) for unit in members]


def form_overlapping(
    pool: Pool, columns: Sequence[Column], overlaps: Overlaps, ledger: Ledger, policy: Policy
) -> Overlapped:
    """Step 5 for a pool with overlaps: every phase but sampling, which came first, and generalize, which follows."""
    promises = Promises(pool, ledger, policy)
    assembly = Assembly(pool, columns, overlaps, promises, policy)
    classes, others = division(assembly)
    is_left = np.zeros(len(pool), dtype=bool)
    is_left[[unit for units in (others, *classes) for unit in units if assembly.can_fill(unit)]] = True
    for draft in deal_even_groups(pool, overlaps, promises, is_left):
        assembly.accept(draft)
    for draft in fit_uneven_groups(pool, overlaps, promises, is_left, assembly.counterfeits_left):
        assembly.accept(draft)
    assembly.put(np.flatnonzero(is_left).tolist())
    assembly.put(unit for units in classes for unit in units if not assembly.can_fill(unit))
    _form_each(assembly, classes)
    _join_rest(assembly)
    breach = max(
        (promises.breach_in(draft.members, draft.standing(promises)) for draft in assembly.accepted), default=0.0
    )
    barred = _barred(assembly)
    tied = {unit for tie in pool.ties for unit in tie}
    hidden = [unit for unit, values in barred.items() if len(values) == len(pool.sets[unit]) and unit not in tied]
    for unit in hidden:
        del barred[unit]
    together = [hidden[start : start + HIDDEN_TOGETHER] for start in range(0, len(hidden), HIDDEN_TOGETHER)]
    return Overlapped(assembly.accepted, barred, breach, together)


def _form_each(assembly: Assembly, classes: list[list[int]]) -> None:
    """A group around one row after the other, as long as enough of them find one."""
    tries, before, most = 0, len(assembly.accepted), max(PATIENCE, TRIED_SHARE * len(assembly.pool))
    for unit in (unit for units in classes for unit in units):
        if tries > min(most, PATIENCE + TRIES_PER_GROUP * (len(assembly.accepted) - before)):
            return
        if assembly.is_free(unit):
            tries += 1
            draft = balancing(assembly, unit)
            if draft is not None and assignment(assembly, draft):
                assembly.accept(draft)


def division(assembly: Assembly) -> tuple[list[list[int]], list[int]]:
    """Rows that overlap, by their set of possible values, and rows that do not (Baig, section 5, division).

    Rows with equal sets can stand in one group. Two kinds of rows are left to step 6, and barred if they overlap: rows
    tied to others, as all holders of a permanent value are, and rows with a value that a guard or their account allows
    only as "*". Rows with several values or a guard are here only if they overlap: groups are made around them.
    """
    pool, promises = assembly.pool, assembly.promises
    tied = {unit for tie in pool.ties for unit in tie}
    has_paid = set(pool.exposed.tolist())
    classes: dict[frozenset[int], list[int]] = {}
    others: list[int] = []
    for unit, possible in enumerate(assembly.overlaps.possible()):
        if unit in tied or (unit in has_paid and promises.requirements.target(unit).starred):
            continue
        if possible:
            classes.setdefault(possible, []).append(unit)
        elif assembly.can_fill(unit):
            others.append(unit)
    return list(classes.values()), others


def balancing(assembly: Assembly, unit: int) -> Draft | None:
    """A group around one row that balances all its members, perhaps not large enough yet; None if there is none.

    Counterfeits stand in for values that no free row has (Baig, section 5, balancing).
    """
    for times in TIMES_TRIED:
        shown = _template(assembly, unit, times)
        if shown is not None:
            break
    else:
        return None
    assembly.take(unit)
    draft = Draft([unit], shown)
    wanted = dict(shown)
    for value in assembly.pool.sets[unit]:
        wanted[value] -= 1
    for value, count in sorted(wanted.items()):
        while count:
            found = _first_balanced(assembly, assembly.nearest(value, draft), shown)
            if found is None:
                draft.counterfeits[value] = count
                if not _can_counterfeit(assembly, draft):
                    assembly.put(draft.members)
                    return None
                break
            assembly.take(found)
            draft.members.append(found)
            count -= 1
    return draft


def _first_balanced(assembly: Assembly, units: list[int], shown: dict[int, int]) -> int | None:
    """The first of these units that a group with these values balances; only a few that overlap are considered."""
    considered = 0
    for unit in units:
        if assembly.overlaps.is_overlapping[unit]:
            considered += 1
            if considered > CANDIDATES:
                continue
        if assembly.overlaps.are_balanced(unit, shown):
            return unit
    return None


def _can_counterfeit(assembly: Assembly, draft: Draft) -> bool:
    """Whether a draft's counterfeits are within the limit of the pool, and none of them is a permanent value."""
    if any(value in assembly.policy.sensitive.permanent for value in draft.counterfeits):
        return False
    return draft.counterfeit_count <= assembly.counterfeits_left


def _template(assembly: Assembly, unit: int, times: int) -> dict[int, int] | None:
    """The counts that balance all overlaps of a row in a group that shows its values so many times; None if none do."""
    alpha, permanent = assembly.overlaps.alpha, assembly.policy.sensitive.permanent
    shown = dict.fromkeys(assembly.pool.sets[unit], times)
    histograms = assembly.overlaps.histograms
    for own, histogram in sorted(assembly.overlaps.of_unit(unit), key=lambda pair: (len(histograms[pair[1]]), pair)):
        theirs = histograms[histogram]
        total = times + theirs[own]
        lacking = alpha - sum(1 for value, count in shown.items() if count + theirs.get(value, -1 - count) == total)
        if lacking <= 0:
            continue
        options = [
            (max(0, count - assembly.supply(value)), count, value)
            for value, weight in theirs.items()
            if value not in shown and value not in permanent and 1 <= (count := total - weight) <= LARGEST_CALL
        ]
        if len(options) < lacking:
            return None
        shown.update((value, count) for _, count, value in sorted(options)[:lacking])
    return shown if sum(shown.values()) <= LARGEST_CALL else None


def assignment(assembly: Assembly, draft: Draft) -> bool:
    """Add rows, least distortion first, until a balanced group keeps every other promise too; false if it cannot.

    Only values that the group does not show yet may be added: they change no member's sums (Baig, section 5,
    assignment).
    """
    while not _is_complete(assembly, draft):
        added = _fill(assembly, draft) if len(draft.members) < 2 * LARGEST_CALL else None
        if added is None:
            assembly.put(draft.members)
            return False
        draft.members.append(added)
        draft.shown[assembly.value(added)] = 1
    return True


def _is_complete(assembly: Assembly, draft: Draft) -> bool:
    return draft.counterfeit_count <= len(draft.members) and assembly.is_safe(draft)


def _fill(assembly: Assembly, draft: Draft) -> int | None:
    """The free row that fits into a group with the least distortion; it is not free any more."""
    values = [value for value in assembly.free_values() if value not in draft.shown]
    candidates = [unit for value in values for unit in assembly.around(value, draft, CANDIDATES)]
    considered = 0
    for unit in assembly.by_distortion(sorted(candidates), draft):
        considered += int(assembly.overlaps.is_overlapping[unit])
        if considered > assembly.policy.search:
            return None
        if assembly.overlaps.are_balanced(unit, {**draft.shown, assembly.value(unit): 1}):
            assembly.take(unit)
            return unit
    return None


def _join_rest(assembly: Assembly) -> None:
    """Rows that cannot make a group of their own any more join one that exists (Baig, Algorithm 1, line 16).

    So do rows whose values are too frequent among the rows left for step 6.
    """
    is_overlapping, left = assembly.overlaps.is_overlapping, assembly.free_units()
    others = Counter(assembly.value(unit) for unit in left if not is_overlapping[unit])
    least = fewest_people(assembly.promises)
    crowded = {value for value, count in others.items() if count * least > others.total()}
    left = [unit for unit in left if is_overlapping[unit] or assembly.value(unit) in crowded]
    firsts = sorted((draft.members[0], at) for at, draft in enumerate(assembly.accepted))
    for unit in left[:PATIENCE]:
        middle = bisect_left(firsts, (unit, 0))
        for _, at in firsts[max(0, middle - CANDIDATES // 2) : middle + CANDIDATES // 2]:
            draft = assembly.accepted[at]
            more = {value: draft.shown.get(value, 0) + 1 for value in assembly.pool.sets[unit]}
            joined = Draft([*draft.members, unit], {**draft.shown, **more}, draft.counterfeits)
            if assembly.is_safe(joined):
                assembly.take(unit)
                assembly.accepted[at] = joined
                break


def merged(pool: Pool, left: Rows, formed: Formation, overlapped: Overlapped) -> Formation:
    """The formation of a whole pool: that of the units `left` for step 6, then the groups of step 5, numbered on."""
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


def _barred(assembly: Assembly) -> dict[int, Values]:
    """The overlapping values of all units without a group."""
    grouped = {unit for draft in assembly.accepted for unit in draft.members}
    alone = [unit for unit in np.flatnonzero(assembly.overlaps.is_overlapping).tolist() if unit not in grouped]
    sets = assembly.pool.sets
    of_unit = assembly.overlaps.of_unit
    return {
        unit: sets[unit] if len(sets[unit]) == 1 else tuple(sorted({leaf for leaf, _ in of_unit(unit)}))
        for unit in alone
    }
