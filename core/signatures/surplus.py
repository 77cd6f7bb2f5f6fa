"""Values that are too frequent, and the company of those who are starred.

A round has each value once, so a value that more than one in m of the newcomers have cannot all be shown. A "*" that is
given to such a value alone would tell it. So others, drawn unseen, are starred with it: of those starred in a release
for want of a round, no value is more than 1/l.
"""

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.runs import ranks


class Surplus(NamedTuple):
    """How often each value can be shown, and how many others are starred with those that are too frequent."""

    rounds: int
    shown: Rows  # by value, at most
    company: int


def find_surplus(counts: Rows, m: int, l: float) -> Surplus:
    """The most rounds that newcomers with these values make."""
    total = int(counts.sum())
    low, high = 0, total // m
    while low < high:
        rounds = (low + high + 1) // 2
        kept = total - int(np.maximum(counts - rounds, 0).sum()) - _company(counts, rounds, l)
        if kept >= m * rounds:
            low = rounds
        else:
            high = rounds - 1
    return Surplus(low, np.minimum(counts, low), _company(counts, low, l) if low else 0)


def _company(counts: Rows, rounds: int, l: float) -> int:
    over = np.maximum(counts - rounds, 0)
    return max(0, ceil(l * int(over.max(initial=0))) - int(over.sum()))


def keep(value: Rows, draw: Tags, surplus: Surplus) -> tuple[Rows, Rows]:
    """The newcomers who are not starred for this, and those who are as company; all drawn unseen."""
    if not surplus.rounds:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    kept = np.flatnonzero(ranks(value, draw) < surplus.shown[value])
    is_top = np.bincount(value, minlength=len(surplus.shown)) > surplus.shown
    others = kept[~is_top[value[kept]]]
    company = others[np.argsort(draw[others], kind="stable")[: surplus.company]]
    return np.setdiff1d(kept, company), company


def is_covered(counts: Iterable[int], l: float) -> bool:
    """Whether no value is more than 1/l of those starred, given how many have each."""
    listed = list(counts)
    return max(listed, default=0) * l <= sum(listed)
