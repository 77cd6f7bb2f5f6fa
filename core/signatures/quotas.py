"""How many rounds of which signature newcomers are given: a packing that comes out even.

A *round* of a signature is one entry of each of its values. Given how many newcomers have each value, rounds are chosen
so that nearly all newcomers are in one: first of signatures in use; then of new ones whose values are frequent in the
same neighbourhoods; then, where no value prefers any, of new ones from the rarest values up; then of new ones by
McNaughton's wrap-around rule. That rule lays the values one after the other around m machines of length T; the values
that run at the same time are a signature. It is exact: whenever no value is more than one in m of the newcomers, every
newcomer is in a round, but for the fewer than m that do not divide, and there are at most as many new signatures as
values.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import LEAST_PEELED


class Surplus(NamedTuple):
    """How often each value can be shown, and how many others are starred with those that are too frequent."""

    rounds: int
    shown: Rows  # by value, at most
    decoys: int


def find_surplus(counts: Rows, m: int, l: float, spare: int) -> Surplus:
    """The most rounds that these newcomers make, `spare` counterfeits included.

    A value that is more frequent than that cannot all be shown. Its surplus would be all of the stars, so others are
    starred with it: among those starred, no value is more than 1/l.
    """
    total = int(counts.sum())
    low, high = 0, total
    while low < high:
        rounds = (low + high + 1) // 2
        kept = total - int(np.maximum(counts - rounds, 0).sum()) - _decoys(counts, rounds, l)
        if kept + min(spare, kept // 3) >= m * rounds:
            low = rounds
        else:
            high = rounds - 1
    return Surplus(low, np.minimum(counts, low), _decoys(counts, low, l) if low else 0)


def _decoys(counts: Rows, rounds: int, l: float) -> int:
    over = np.maximum(counts - rounds, 0)
    return max(0, int(np.ceil(l * int(over.max(initial=0)))) - int(over.sum()))


def pack_known(counts: Rows, known: Signatures, usable: Rows, m: int) -> Rows:
    """Rounds of signatures in use, by their number; `counts` is reduced by what they take.

    The most frequent value that is left is served first, by the signature whose other values are most frequent, half
    of what there is at a time. What is left must still make rounds, so no value may become more than one in m of it.
    """
    rounds = np.zeros(len(known), dtype=np.int64)
    holding = known.holding(known.within(usable, np.flatnonzero(counts)))  # the others can make no round
    total, waiting = int(counts.sum()), counts.copy()
    waiting[[value for value in np.flatnonzero(counts).tolist() if value not in holding]] = 0
    left = np.append(counts, total + 1)  # the last one stands for members that are not there, -1
    while waiting.any():
        value = int(waiting.argmax())
        least = left[known.members[holding[value]]].min(axis=1)
        best = int(least.argmax())
        if not least[best]:
            waiting[value] = 0
            continue
        number, taken = holding[value][best], (least[best] + 1) // 2
        members = list(known.sets[number])
        left[members] -= taken
        total -= int(taken) * len(members)
        if int(left[:-1].max()) * m > total + m - 1:
            left[members] += taken
            break
        rounds[number] += taken
        waiting[members] = np.minimum(waiting[members], left[members])
    counts[:] = left[:-1]
    return rounds


def peel(counts: Rows, m: int, known: Signatures, near: Rows) -> Rows:
    """New signatures, by number: the most frequent value and those that make most rounds with it, m at a time.

    `near` has counts by neighbourhood and value (see `occurrence.py`): rounds are made within one. With one
    neighbourhood these are values that are about as frequent. Few signatures with many entries each stay even for
    longer than many with few.
    """
    is_free = counts >= LEAST_PEELED
    found = []
    while np.count_nonzero(is_free) >= m:
        members: list[int] = []
        rounds, score = near.max(axis=1), counts
        for _ in range(m):
            members.append(int(np.where(is_free, score, -1).argmax()))
            is_free[members[-1]] = False
            rounds = np.minimum(rounds, near[:, members[-1]])
            score = np.minimum(rounds[:, None], near).sum(axis=0) * (counts.max() + 1) + counts
        found.append(known.number(tuple(sorted(members))))
    return np.array(found, dtype=np.int64)


def pack_rarest(counts: Rows, m: int) -> dict[tuple[int, ...], int]:
    """New signatures with their rounds, from the rarest values up; `counts` is reduced by what they take.

    The fewer rows a signature has, the sooner it loses its balance, and the longer it takes to regain it. So the rarest
    value that is left and the next rare ones make a signature, with as many rounds as the rarest has newcomers. Each
    rare value then has nearly all of its newcomers in one place. The remaining newcomers must still make rounds, so a
    value that would become more than one in m of them joins the signature in place of a rare one. The search stops when
    there are too many such values, at the latest after twice as many signatures as values.
    """
    found: dict[tuple[int, ...], int] = {}
    while np.count_nonzero(counts) >= m:
        present = np.flatnonzero(counts)
        present = present[np.lexsort((present, counts[present]))]
        most = int(counts.sum()) // m
        rarest, others = int(counts[present[0]]), present[1:]
        frequent = others[counts[others] > most - rarest][::-1][: m - 1]
        members = np.r_[present[0], frequent, others[: m - 1 - len(frequent)]]
        outside = np.delete(counts, members).max(initial=0)
        rounds = min(rarest, most - int(outside))
        if rounds < 1:
            break
        counts[members] -= rounds
        signature = tuple(sorted(members.tolist()))
        found[signature] = found.get(signature, 0) + rounds
    return found


def wrap_around(counts: Rows, m: int, rounds: int, order: Sequence[int]) -> dict[tuple[int, ...], int]:
    """New signatures of m values with their rounds, by McNaughton's rule.

    No count exceeds `rounds`. `order` is the order of the values; the values in it that are m apart are likely to
    meet in a signature, so those that occur near each other should stand so. Where the values do not fill the machines,
    the last signatures have places without newcomers.
    """
    if not rounds:
        return {}
    laid = [value for start in range(m) for value in order[start::m]]
    lengths = counts[laid]
    ends = np.cumsum(lengths)
    breaks = np.unique(np.r_[0, ends % rounds])
    breaks = breaks[breaks < rounds]
    times = np.diff(np.r_[breaks, rounds])
    found: dict[tuple[int, ...], int] = {}
    at = np.searchsorted(ends, breaks[:, None] + rounds * np.arange(m)[None, :], side="right")
    for places, length in zip(at.tolist(), times.tolist(), strict=True):
        values = {laid[place] for place in places if place < len(laid)}
        filled = _filled(values, m, laid)
        if filled is not None:
            found[filled] = found.get(filled, 0) + length
    return found


def _filled(values: set[int], m: int, laid: Sequence[int]) -> tuple[int, ...] | None:
    """A signature of exactly m values: where the machines ran empty, any others; None if there are too few values."""
    for value in laid:
        if len(values) >= m:
            break
        values.add(value)
    return tuple(sorted(values)) if len(values) == m else None
