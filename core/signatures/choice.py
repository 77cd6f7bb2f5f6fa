"""Choosing signatures for newcomers: entries that are to be shown for the first time and lie in no signature of theirs.

1. *Places offered.* Newcomers take places that fell free and are offered (see `signature.py`).
2. *Rounds.* The others make rounds (see `quotas.py`). Rounds are filled neighbourhood by neighbourhood, in ever larger
   ones, so that the values of a signature occur near each other: count queries about a region are answered from there.
3. Newcomers whose value is too frequent, and others drawn to be starred with them, are given nothing.

Most newcomers have nothing that a signature could collide with. The few others (somebody with several values, with
signatures from before, with a guard) are *picky*: each has a set of values that its signature must not hold, and
chooses first.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.runs import each_between
from shoal.core.signatures.nearest import ranks
from shoal.core.signatures.quotas import Surplus, find_surplus, pack_known, peel, wrap_around
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import NEIGHBOURHOOD, NEIGHBOURHOOD_GROWTH

UNDECIDED = -1
NOTHING: Final[frozenset[int]] = frozenset()


class Newcomers(NamedTuple):
    """Entries that need a signature, as columns. Picky ones are in `shunned`, by position."""

    value: Rows
    place: Rows  # in the tree's depth-first order
    draw: Tags
    shunned: dict[int, set[int]]  # what the signature must not hold
    siblings: Mapping[int, Sequence[int]]  # the other newcomers of the same person

    def fits(self, position: int, signature: Iterable[int]) -> bool:
        """Whether a newcomer may be given a signature."""
        shunned = self.shunned.get(position)
        return shunned is None or shunned.isdisjoint(signature)

    def settle(self, position: int, signature: Iterable[int]) -> None:
        """Note that a newcomer has a signature: those of its siblings must have nothing in common with it (S2)."""
        for sibling in self.siblings.get(position, ()):
            self.shunned[sibling].update(signature)


class Choice(NamedTuple):
    """By newcomer: the signature or UNDECIDED, and the size of the neighbourhood in which it was given."""

    signature: Rows
    family: Rows


def choose_signatures(
    newcomers: Newcomers,
    known: Signatures,
    usable: Rows,
    values: Rows,
    *,
    m: int,
    l: float,
    spare: int,
    gaps: "Gaps",
) -> Choice:
    """Give newcomers their signatures: those in `usable` and new ones over `values`; `known` and `gaps` change.

    `spare` is how many counterfeits the release can bear.
    """
    found = np.full(len(newcomers.value), UNDECIDED, dtype=np.int64)
    family = np.zeros(len(newcomers.value), dtype=np.int64)
    _take_places(newcomers, known, gaps, found)
    left = np.flatnonzero(found == UNDECIDED)
    leaves = int(values.max(initial=-1)) + 1
    counts = np.bincount(newcomers.value[left], minlength=leaves)
    surplus = find_surplus(counts, m, l, spare)
    left = _leave_out(newcomers, left, surplus, m)
    counts = np.bincount(newcomers.value[left], minlength=leaves)
    rounds = pack_known(counts, known, usable, m)
    rounds = _sum(rounds, pack_known(counts, known, peel(counts, m, known), m))
    more = max(-(-int(counts.sum()) // m), int(counts.max(initial=0)))
    order = _by_place(newcomers, left, values)
    for signature, times in wrap_around(counts, m, more, order).items():
        rounds = _sum(rounds, np.bincount([known.number(signature)], weights=[times]).astype(np.int64))
    _fill_rounds(newcomers, left, known, rounds, found, family)
    _undo_incomplete(newcomers, left, known, found)
    _match_one_by_one(newcomers, left, known, m, found)
    _spend_counterfeits(newcomers, left, known, usable, spare // (m - 1), found)
    if np.count_nonzero(found == UNDECIDED) >= m:  # fewer are only what does not divide
        _take_back_rounds(newcomers, left, known, l, found)
    return Choice(found, np.where(_is_even(newcomers, known, found, family), family, 0))


def _sum(some: Rows, others: Rows) -> Rows:
    """Numbers by signature added up; signatures may have been added in between."""
    size = max(len(some), len(others))
    return np.asarray(np.pad(some, (0, size - len(some))) + np.pad(others, (0, size - len(others))))


class Gaps(NamedTuple):
    """Places that newcomers may take, one line each: the value, the signature, and how much its round lacks."""

    value: Rows
    signature: Rows
    missing: Rows
    is_taken: NDArray[np.bool_]


def _take_places(newcomers: Newcomers, known: Signatures, gaps: Gaps, found: Rows) -> None:
    """Step 1: of each value, newcomers drawn unseen take the places whose rounds lack least."""
    _take_fitting_places(newcomers, known, gaps, found)
    is_free = np.ones(len(newcomers.value), dtype=bool)
    is_free[list(newcomers.shunned)] = False
    theirs, ours = np.flatnonzero(~gaps.is_taken), np.flatnonzero(is_free)
    ours = _first_of_each(newcomers.value, ours, newcomers.draw, np.bincount(gaps.value[theirs], minlength=1))
    theirs = _first_of_each(gaps.value, theirs, gaps.missing, np.bincount(newcomers.value[ours], minlength=1))
    ours = ours[np.lexsort((newcomers.draw[ours], newcomers.value[ours]))]
    theirs = theirs[np.lexsort((theirs, gaps.value[theirs]))]
    found[ours] = gaps.signature[theirs]
    gaps.is_taken[theirs] = True


def _take_fitting_places(newcomers: Newcomers, known: Signatures, gaps: Gaps, found: Rows) -> None:
    """Picky newcomers take places before the others do, one after the other."""
    value, signatures = gaps.value.tolist(), gaps.signature.tolist()
    places: dict[int, list[int]] = {}
    for gap in np.argsort(gaps.missing, kind="stable").tolist():
        places.setdefault(value[gap], []).append(gap)
    for position in sorted(newcomers.shunned, key=lambda at: int(newcomers.draw[at])):
        mine = places.get(int(newcomers.value[position]), [])
        unfit: set[int] = set()
        for at, gap in enumerate(mine):
            signature = signatures[gap]
            if signature in unfit:
                continue
            if newcomers.fits(position, known.sets[signature]):
                found[position], gaps.is_taken[gap] = signature, True
                newcomers.settle(position, known.sets[signature])
                del mine[at]
                break
            unfit.add(signature)


def _first_of_each(value: Rows, rows: Rows, draw: Rows | Tags, most: Rows) -> Rows:
    """Of these rows, of each value at most so many, those with the smallest draws."""
    limit = np.zeros(max(int(value[rows].max(initial=-1)) + 1, len(most)), dtype=np.int64)
    limit[: len(most)] = most
    return np.asarray(rows[ranks(value[rows], draw[rows]) < limit[value[rows]]])


def _leave_out(newcomers: Newcomers, left: Rows, surplus: Surplus, m: int) -> Rows:
    """Step 3: those that are not too frequent, less the decoys and those that do not divide, all drawn unseen."""
    kept = _first_of_each(newcomers.value, left, newcomers.draw, surplus.shown)
    is_top = np.bincount(newcomers.value[left], minlength=len(surplus.shown)) > surplus.shown
    others = kept[~is_top[newcomers.value[kept]]]
    kept = np.setdiff1d(kept, others[np.argsort(newcomers.draw[others], kind="stable")[: surplus.decoys]])
    odd = max(0, len(kept) - m * surplus.rounds)
    return np.sort(kept[np.argsort(newcomers.draw[kept], kind="stable")[odd:]])


def _by_place(newcomers: Newcomers, left: Rows, values: Rows) -> list[int]:
    """The values in the order of where they occur on average: neighbours in it are neighbours in space."""
    size = int(values.max(initial=-1)) + 1
    counts = np.maximum(1, np.bincount(newcomers.value[left], minlength=size))
    mean = np.bincount(newcomers.value[left], weights=newcomers.place[left].astype(np.float64), minlength=size) / counts
    found: list[int] = values[np.lexsort((values, mean[values]))].tolist()
    return found


def _fill_rounds(newcomers: Newcomers, left: Rows, known: Signatures, rounds: Rows, found: Rows, family: Rows) -> None:
    """Step 2: picky newcomers first, then everybody else, neighbourhood by neighbourhood."""
    used = np.flatnonzero(rounds)
    members = known.members[used]
    slots = np.where(members >= 0, rounds[used][:, None], 0)
    picky = [at for at in left.tolist() if at in newcomers.shunned]
    _serve_picky(newcomers, picky, known, used, slots, found)
    waiting = np.setdiff1d(left, np.array(picky, dtype=np.int64))
    waiting = waiting[np.lexsort((newcomers.draw[waiting], newcomers.place[waiting]))]
    size, level = NEIGHBOURHOOD, 1
    where = np.arange(len(waiting))
    while len(waiting) and slots.any():
        is_last = size >= len(where)
        block = where // size if not is_last else np.zeros(len(where), dtype=np.int64)
        taken = _fill_blocks(newcomers.value[waiting], block[np.arange(len(waiting))], members, slots, is_last=is_last)
        got = taken != UNDECIDED
        found[waiting[got]], family[waiting[got]] = used[taken[got]], level
        waiting, where = waiting[~got], where[~got]
        if is_last:
            break
        size, level = size * NEIGHBOURHOOD_GROWTH, level + 1
    _swap(newcomers, [at for at in picky if found[at] == UNDECIDED], left, known, (used, slots), found)


def _swap(
    newcomers: Newcomers,
    unserved: list[int],
    left: Rows,
    known: Signatures,
    places: tuple[Rows, Rows],
    found: Rows,
) -> None:
    """A picky newcomer that fits nowhere changes with one of its value that fits anywhere, and that takes its place."""
    if not unserved:
        return
    values = {int(newcomers.value[at]) for at in unserved}
    given: dict[int, dict[int, list[int]]] = {value: {} for value in values}
    served = left[(found[left] != UNDECIDED) & np.isin(newcomers.value[left], list(values))]
    for at in served.tolist():
        if at not in newcomers.shunned:
            given[int(newcomers.value[at])].setdefault(int(found[at]), []).append(at)
    used, slots = places
    for position in sorted(unserved, key=lambda at: int(newcomers.draw[at])):
        value = int(newcomers.value[position])
        free = (known.members[used] == value) & (slots[:, : known.members.shape[1]] > 0)
        open_lines = np.flatnonzero(free.any(axis=1))
        for number, others in sorted(given[value].items(), key=lambda one: (-len(one[1]), one[0])):
            if others and newcomers.fits(position, known.sets[number]):
                found[position] = number
                newcomers.settle(position, known.sets[number])
                other = others.pop()
                found[other] = UNDECIDED
                if len(open_lines):
                    line = int(open_lines[0])
                    found[other] = used[line]
                    slots[line, int(np.argmax(known.members[used[line]] == value))] -= 1
                break


def _serve_picky(
    newcomers: Newcomers, picky: list[int], known: Signatures, used: Rows, slots: Rows, found: Rows
) -> None:
    holding: dict[int, list[tuple[int, int]]] = {}
    for line, number in enumerate(used.tolist()):
        for slot, value in enumerate(known.sets[number]):
            holding.setdefault(value, []).append((line, slot))
    for position in sorted(picky, key=lambda at: int(newcomers.draw[at])):
        fitting = [
            (int(slots[line, slot]), line, slot)
            for line, slot in holding.get(int(newcomers.value[position]), ())
            if slots[line, slot] and newcomers.fits(position, known.sets[int(used[line])])
        ]
        if fitting:
            _, line, slot = max(fitting)
            slots[line, slot] -= 1
            found[position] = used[line]
            newcomers.settle(position, known.sets[int(used[line])])


def _fill_blocks(value: Rows, block: Rows, members: Rows, slots: Rows, *, is_last: bool) -> Rows:
    """The line of `members` each waiting newcomer is given, or UNDECIDED; whole rounds only, except in the last.

    `block` ascends. `slots` is reduced by what was filled.
    """
    blocks, leaves = int(block[-1]) + 1, max(int(value.max()), int(members.max(initial=0))) + 1
    counts = np.bincount(block * leaves + value, minlength=blocks * leaves).reshape(blocks, leaves)
    given: list[tuple[int, int, Rows]] = []  # value, line, how many in each block
    for line, (values, free) in enumerate(zip(members.tolist(), slots, strict=True)):
        values = [member for member in values if member >= 0]
        if is_last:
            for slot, member in enumerate(values):
                times = np.minimum(counts[:, member], int(free[slot]))
                counts[:, member] -= times
                free[slot] -= int(times[0])
                given.append((member, line, times))
            continue
        times = counts[:, values].min(axis=1)
        most = int(free[: len(values)].min())
        if int(times.sum()) > most:
            times = np.diff(np.minimum(np.cumsum(np.r_[0, times]), most))
        if times.any():
            counts[:, values] -= times[:, None]
            free[: len(values)] -= int(times.sum())
            given.extend((member, line, times) for member in values)
    return _hand_out(value, block, blocks, given)


def _hand_out(value: Rows, block: Rows, blocks: int, given: list[tuple[int, int, Rows]]) -> Rows:
    """In each block, the newcomers of a value are given its lines one after the other."""
    found = np.full(len(value), UNDECIDED, dtype=np.int64)
    if not given:
        return found
    key = np.concatenate([member * blocks + np.arange(blocks) for member, _, _ in given])
    lines = np.repeat([line for _, line, _ in given], blocks)
    times = np.concatenate([counts for _, _, counts in given])
    is_some = times > 0
    key, lines, times = key[is_some], lines[is_some], times[is_some]
    order = np.argsort(key, kind="stable")
    key, lines, times = key[order], lines[order], times[order]
    cells, totals = np.unique(key, return_inverse=True)
    sums = np.bincount(totals, weights=times).astype(np.int64)
    waiting = np.lexsort((np.arange(len(value)), value * blocks + block))
    sorted_keys = (value * blocks + block)[waiting]
    starts = np.searchsorted(sorted_keys, cells)
    found[waiting[each_between(starts, sums)]] = np.repeat(lines, times)
    return found


def _undo_incomplete(newcomers: Newcomers, left: Rows, known: Signatures, found: Rows) -> None:
    """Take back what was given in rounds that did not come out whole."""
    given = left[found[left] != UNDECIDED]
    if not len(given):
        return
    numbers, line = np.unique(found[given], return_inverse=True)
    slot = known.slots(found[given], newcomers.value[given])
    width = known.members.shape[1]
    counts = np.bincount(line * width + slot, minlength=len(numbers) * width).reshape(len(numbers), width)
    least = np.where(known.members[numbers] >= 0, counts, np.iinfo(np.int64).max).min(axis=1)
    rank = ranks(line * width + slot, newcomers.draw[given])
    found[given[rank >= least[line]]] = UNDECIDED


def _is_even(newcomers: Newcomers, known: Signatures, found: Rows, family: Rows) -> NDArray[np.bool_]:
    """Which newcomers are of a signature and family that has as many of each value."""
    is_even = np.zeros(len(found), dtype=bool)
    given = np.flatnonzero((found != UNDECIDED) & (family > 0))
    if not len(given):
        return is_even
    kinds, line = np.unique(found[given] * (int(family.max(initial=0)) + 1) + family[given], return_inverse=True)
    slot, width = known.slots(found[given], newcomers.value[given]), known.members.shape[1]
    counts = np.bincount(line * width + slot, minlength=len(kinds) * width).reshape(len(kinds), width)
    size = np.zeros(len(kinds), dtype=np.int64)
    size[line] = known.sizes[found[given]]
    is_even[given] = (counts.max(axis=1, initial=0) * size == counts.sum(axis=1))[line]
    return is_even


def _match_one_by_one(newcomers: Newcomers, left: Rows, known: Signatures, m: int, found: Rows) -> None:
    """Rounds of new signatures for the newcomers that are left: always from the m most frequent values (Anatomy).

    A value none of whose newcomers fits the others' is passed over for the next one.
    """
    waiting: dict[int, dict[int, Set[int]]] = {}  # by value: newcomers in the order of their draws, what they shun
    undecided = left[found[left] == UNDECIDED]
    for position in undecided[np.argsort(newcomers.draw[undecided], kind="stable")].tolist():
        shunned: Set[int] = newcomers.shunned.get(position, NOTHING)
        waiting.setdefault(int(newcomers.value[position]), {})[position] = shunned
    most_frequent = [(-len(positions), value) for value, positions in waiting.items()]
    heapify(most_frequent)
    while len(most_frequent) >= m:
        chosen: list[int] = []
        asked: list[int] = []
        values: set[int] = set()
        barred: set[int] = set()
        while most_frequent and len(chosen) < m:
            _, value = heappop(most_frequent)
            asked.append(value)
            if value in barred:
                continue
            for position, shunned in waiting[value].items():
                if shunned.isdisjoint(values):
                    chosen.append(position)
                    values.add(value)
                    barred |= shunned
                    break
        if len(chosen) == m:
            found[chosen] = known.number(tuple(sorted(values)))
            for position in chosen:
                newcomers.settle(position, values)
        else:
            chosen = chosen[:1]  # it finds no company
        for position in chosen:
            del waiting[int(newcomers.value[position])][position]
        for value in asked:
            if waiting[value]:
                heappush(most_frequent, (-len(waiting[value]), value))


def _take_back_rounds(newcomers: Newcomers, left: Rows, known: Signatures, l: float, found: Rows) -> None:
    """Take rounds back until no value is more than 1/l of those who are given nothing.

    The signatures with the fewest rounds lose theirs first, those without the value that is too frequent before others.
    """
    values = Counter(newcomers.value[found == UNDECIDED].tolist())
    if not values or max(values.values()) * l <= values.total():
        return
    most = max(values, key=lambda value: (values[value], value))
    given = left[found[left] != UNDECIDED]
    order = given[np.lexsort((newcomers.draw[given], newcomers.value[given], found[given]))]
    rounds: dict[int, dict[int, list[int]]] = {}
    for position in order.tolist():
        rounds.setdefault(int(found[position]), {}).setdefault(int(newcomers.value[position]), []).append(position)
    for number in sorted(rounds, key=lambda one: (most in known.sets[one], len(next(iter(rounds[one].values()))), one)):
        for chosen in zip(*rounds[number].values(), strict=False):
            if max(values.values()) * l <= values.total():
                return
            found[list(chosen)] = UNDECIDED
            values.update(newcomers.value[list(chosen)].tolist())


def _spend_counterfeits(
    newcomers: Newcomers, left: Rows, known: Signatures, usable: Rows, most: int, found: Rows
) -> None:
    """Let a few that are still left join signatures in use, in rounds that are counterfeit but for them."""
    undecided = left[found[left] == UNDECIDED]
    for position in undecided[np.argsort(newcomers.draw[undecided], kind="stable")].tolist()[: max(0, most)]:
        holding = usable[(known.members[usable] == newcomers.value[position]).any(axis=1)]
        for number in holding.tolist():
            if newcomers.fits(position, known.sets[number]):
                found[position] = number
                newcomers.settle(position, known.sets[number])
                break
