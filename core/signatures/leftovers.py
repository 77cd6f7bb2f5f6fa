"""Newcomers that make no whole round: a few are shown with counterfeits; of the others no value may be the most."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.signature import Signatures


class Spare(NamedTuple):
    """How many more counterfeits a release may have at most, and how many it can have without having enough."""

    most: int
    ample: int


def take_back_rounds(
    newcomers: Newcomers, undecided: Rows, left: Rows, known: Signatures, l: float, found: Rows
) -> None:
    """Take rounds back until no value is more than 1/l of those who are given nothing.

    The signatures with the fewest rounds lose theirs first, those without the value that is too frequent before others.
    """
    values = Counter(newcomers.value[undecided].tolist())
    if max(values.values()) * l <= values.total():
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


def round_up(
    newcomers: Newcomers, mine: Rows, known: Signatures, values: Rows, m: int, l: float, spare: int, found: Rows
) -> int:
    """Make rounds that lack one value of those who are still left; returns how many counterfeits that takes.

    Of those who are left after it, no value may be more than 1/l, unless it occurs once: they are "*" together.
    """
    frequent = np.bincount(newcomers.value[mine], minlength=int(values.max(initial=-1)) + 1)
    others: list[int] = values[np.lexsort((values, -frequent[values]))].tolist()
    for spent in range(spare):
        undecided = mine[found[mine] == UNDECIDED]
        members = _fitting(newcomers, undecided, m - 1)
        signature = _widened(newcomers, members, others) if len(members) == m - 1 else None
        counts = Counter(newcomers.value[undecided].tolist())
        counts.subtract(list(members))
        if signature is None or max(counts.values()) > max(1.0, counts.total() / l):
            return spent
        positions = list(members.values())
        found[positions] = known.number(signature)
        for position in positions:
            newcomers.settle(position, signature)
    return spare


def _fitting(newcomers: Newcomers, undecided: Rows, size: int) -> dict[int, int]:
    """By value, so many newcomers that fit each other: of the most frequent values first, drawn unseen."""
    counts = np.bincount(newcomers.value[undecided], minlength=1)[newcomers.value[undecided]]
    found: dict[int, int] = {}
    for position in undecided[np.lexsort((newcomers.draw[undecided], -counts))].tolist():
        wider = {**found, int(newcomers.value[position]): position}
        if len(found) < len(wider) <= size and all(newcomers.fits(one, wider) for one in wider.values()):
            found = wider
    return found


def _widened(newcomers: Newcomers, members: dict[int, int], others: Iterable[int]) -> tuple[int, ...] | None:
    """The values of these newcomers and the first of some others that fits them all."""
    for other in others:
        signature = tuple(sorted([*members, other]))
        if other not in members and all(newcomers.fits(one, signature) for one in members.values()):
            return signature
    return None


def spend_counterfeits(
    newcomers: Newcomers, left: Rows, known: Signatures, usable: Rows, most: int, found: Rows
) -> None:
    """Let a few that are still left join signatures in use, in rounds that are counterfeit but for them."""
    undecided, holding = left[found[left] == UNDECIDED], known.holding(usable)
    for position in undecided[np.argsort(newcomers.draw[undecided], kind="stable")].tolist()[: max(0, most)]:
        for number in holding.get(int(newcomers.value[position]), usable[:0]):
            if newcomers.fits(position, known.sets[number]):
                found[position] = number
                newcomers.settle(position, known.sets[number])
                break
