"""Choosing signatures for newcomers: entries that are to be shown for the first time and lie in no signature of theirs.

1. *Places offered.* Newcomers take places that fell free and are offered (see `signature.py`).
2. *Rounds.* The others make rounds (see `quotas.py`). Rounds are filled neighbourhood by neighbourhood, in ever larger
   ones, so that the values of a signature occur near each other: count queries about a region are answered from there.
3. Newcomers whose value is too frequent, and others drawn to be starred with them, are given nothing.

Most newcomers have nothing that a signature could collide with. The few others (somebody with several values, with
signatures from before, with a guard) are *picky*: each has a set of values that its signature must not hold, and
chooses first.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.runs import each_between
from shoal.core.signatures.leftovers import Spare, round_up, spend_counterfeits, take_back_rounds
from shoal.core.signatures.nearest import ranks
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.occurrence import occurrences
from shoal.core.signatures.places import Gaps, first_of_each, take_places
from shoal.core.signatures.quotas import Surplus, find_surplus, pack_known, pack_rarest, peel, wrap_around
from shoal.core.signatures.seats import seat
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import NEIGHBOURHOOD, NEIGHBOURHOOD_GROWTH, PICKY_AT_MOST


class Choice(NamedTuple):
    """By newcomer: the signature or UNDECIDED, and the size of the neighbourhood in which it was given."""

    signature: Rows
    family: Rows


def choose_signatures(
    newcomers: Newcomers,
    known: Signatures,
    usable: Rows,
    classes: Sequence[Rows],
    *,
    m: int,
    l: float,
    spare: Spare,
    gaps: Gaps,
) -> Choice:
    """Give newcomers their signatures: those in `usable` and new ones; `known` and `gaps` change.

    `classes` are values that should share a signature (see `turnover.py`). Rounds are made within one class after the
    other, but the last is joined by those who found no company in theirs: better among other values than "*".
    """
    found = np.full(len(newcomers.value), UNDECIDED, dtype=np.int64)
    family = np.zeros(len(newcomers.value), dtype=np.int64)
    take_places(newcomers, known, gaps, 1 if spare.most else 0, found)
    for values in classes[:-1]:
        _make_rounds(newcomers, known, usable, values, m, 1, Spare(0, 0), found, family)  # nobody is starred yet
    _make_rounds(newcomers, known, usable, np.concatenate(classes), m, l, spare, found, family)
    return Choice(found, np.where(_is_even(newcomers, known, found, family), family, 0))


def _make_rounds(
    newcomers: Newcomers,
    known: Signatures,
    usable: Rows,
    values: Rows,
    m: int,
    l: float,
    spare: Spare,
    found: Rows,
    family: Rows,
) -> None:
    """Steps 2 and 3, for the newcomers with these values."""
    mine = np.flatnonzero((found == UNDECIDED) & np.isin(newcomers.value, values))
    usable = known.within(usable, values)
    counts = np.bincount(newcomers.value[mine], minlength=int(values.max(initial=-1)) + 1)
    left = _leave_out(newcomers, mine, find_surplus(counts, m, l, spare.most), m)
    picky = [at for at in left.tolist() if at in newcomers.shunned]
    if len(picky) < PICKY_AT_MOST * len(left):
        _pack(newcomers, left, picky, known, usable, values, m, found, family)
    seat(newcomers, left, known, usable, m, found)
    spent = round_up(newcomers, mine, known, values, m, l, min(spare), found)
    spend_counterfeits(newcomers, left, known, usable, (spare.most - spent) // (m - 1), found)
    undecided = mine[found[mine] == UNDECIDED]
    if len(undecided) >= m:  # fewer are only what does not divide
        take_back_rounds(newcomers, undecided, left, known, l, found)


def _pack(
    newcomers: Newcomers,
    left: Rows,
    picky: list[int],
    known: Signatures,
    usable: Rows,
    values: Rows,
    m: int,
    found: Rows,
    family: Rows,
) -> None:
    """Rounds by how often each value occurs, as if everybody fitted everywhere; incomplete ones are undone."""
    counts = np.bincount(newcomers.value[left], minlength=int(values.max(initial=-1)) + 1)
    rounds = pack_known(counts, known, usable, m)
    near = occurrences(newcomers.value[left], newcomers.place[left], len(counts))
    rounds = _sum(rounds, pack_known(counts, known, peel(counts, m, known, near), m))
    rarest = pack_rarest(counts, m) if len(near) == 1 else {}
    more = max(-(-int(counts.sum()) // m), int(counts.max(initial=0)))
    order = _by_place(newcomers, left, values)
    for signature, times in [*rarest.items(), *wrap_around(counts, m, more, order).items()]:
        rounds = _sum(rounds, np.bincount([known.number(signature)], weights=[times]).astype(np.int64))
    _fill_rounds(newcomers, left, picky, known, rounds, found, family)
    _undo_incomplete(newcomers, left, known, found)


def _sum(some: Rows, others: Rows) -> Rows:
    """Numbers by signature added up; signatures may have been added in between."""
    size = max(len(some), len(others))
    return np.asarray(np.pad(some, (0, size - len(some))) + np.pad(others, (0, size - len(others))))


def _leave_out(newcomers: Newcomers, left: Rows, surplus: Surplus, m: int) -> Rows:
    """Step 3: those that are not too frequent, less the decoys and those that do not divide, all drawn unseen."""
    kept = first_of_each(newcomers.value, left, newcomers.draw, surplus.shown)
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


def _fill_rounds(
    newcomers: Newcomers, left: Rows, picky: list[int], known: Signatures, rounds: Rows, found: Rows, family: Rows
) -> None:
    """Step 2: picky newcomers first, then everybody else, neighbourhood by neighbourhood."""
    used = np.flatnonzero(rounds)
    members = known.members[used]
    slots = np.where(members >= 0, rounds[used][:, None], 0)
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
        for number, others in sorted(given[value].items(), key=lambda one: (-len(one[1]), one[0])):
            if others and newcomers.fits(position, known.sets[number]):
                found[position] = number
                newcomers.settle(position, known.sets[number])
                other = others.pop()
                found[other] = UNDECIDED
                lines, columns = np.nonzero((known.members[used] == value) & (slots > 0))
                if len(lines):
                    found[other] = used[lines[0]]
                    slots[lines[0], columns[0]] -= 1
                break


def _serve_picky(
    newcomers: Newcomers, picky: list[int], known: Signatures, used: Rows, slots: Rows, found: Rows
) -> None:
    """Each takes the place of its value that most are left of, among those that fit it."""
    places: dict[int, list[tuple[int, int, int]]] = {}  # heaps of (-how many are left, -line, -slot)
    for line, number in enumerate(used.tolist()):
        for slot, value in enumerate(known.sets[number]):
            if slots[line, slot]:
                places.setdefault(value, []).append((-int(slots[line, slot]), -line, -slot))
    for heap in places.values():
        heapify(heap)
    for position in sorted(picky, key=lambda at: int(newcomers.draw[at])):
        heap, unfit = places.get(int(newcomers.value[position]), []), []
        while heap and not newcomers.fits(position, known.sets[int(used[-heap[0][1]])]):
            unfit.append(heappop(heap))
        if heap:
            left, line, slot = heap[0]
            slots[-line, -slot] -= 1
            found[position] = used[-line]
            newcomers.settle(position, known.sets[int(used[-line])])
            if left == -1:
                heappop(heap)
            else:
                heapreplace(heap, (left + 1, line, slot))
        for place in unfit:
            heappush(heap, place)


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
