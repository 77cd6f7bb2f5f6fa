"""Places that fell free and are offered: newcomers take them where they make a round complete (see `signature.py`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.signatures.nearest import ranks
from shoal.core.signatures.newcomers import UNDECIDED, Newcomers
from shoal.core.signatures.signature import Signatures


class Gaps(NamedTuple):
    """Places that newcomers may take, one line each: the value, the signature, the round, and how much that lacks."""

    value: Rows
    signature: Rows
    turn: Rows
    missing: Rows
    is_taken: NDArray[np.bool_]


def take_places(newcomers: Newcomers, known: Signatures, gaps: Gaps, lacking: int, found: Rows) -> None:
    """Step 1: of each value, newcomers drawn unseen take the places whose rounds lack least.

    A round that still lacks more than `lacking` would be "*" with all in it, so its places are given back.
    """
    _take_fitting_places(newcomers, known, gaps, found)
    is_free = np.ones(len(newcomers.value), dtype=bool)
    is_free[list(newcomers.shunned)] = False
    theirs, ours = np.flatnonzero(~gaps.is_taken), np.flatnonzero(is_free)
    ours = first_of_each(newcomers.value, ours, newcomers.draw, np.bincount(gaps.value[theirs], minlength=1))
    theirs = first_of_each(gaps.value, theirs, gaps.missing, np.bincount(newcomers.value[ours], minlength=1))
    ours = ours[np.lexsort((newcomers.draw[ours], newcomers.value[ours]))]
    theirs = theirs[np.lexsort((theirs, gaps.value[theirs]))]
    found[ours] = gaps.signature[theirs]
    gaps.is_taken[theirs] = True
    _give_back_places(newcomers, gaps, lacking, found)


def _give_back_places(newcomers: Newcomers, gaps: Gaps, lacking: int, found: Rows) -> None:
    """Of each signature and value, the newcomers drawn last give back places of rounds that stay incomplete."""
    most = int(gaps.turn.max(initial=0)) + 1
    _, line = np.unique(gaps.signature * most + gaps.turn, return_inverse=True)
    left = gaps.missing - np.bincount(line, weights=gaps.is_taken)[line]
    lost = np.flatnonzero(gaps.is_taken & (left > lacking))
    gaps.is_taken[lost] = False
    leaves = int(newcomers.value.max(initial=-1)) + 1
    kinds, counts = np.unique(gaps.signature[lost] * leaves + gaps.value[lost], return_counts=True)
    given = np.flatnonzero(found != UNDECIDED)
    mine = found[given] * leaves + newcomers.value[given]
    asked = given[np.isin(mine, kinds)]
    key = np.searchsorted(kinds, found[asked] * leaves + newcomers.value[asked])
    found[asked[ranks(key, ~newcomers.draw[asked]) < counts[key]]] = UNDECIDED


def _take_fitting_places(newcomers: Newcomers, known: Signatures, gaps: Gaps, found: Rows) -> None:
    """Picky newcomers take places before the others do, one after the other."""
    value, signatures = gaps.value.tolist(), gaps.signature.tolist()
    places: dict[int, list[tuple[int, list[int]]]] = {}  # by value, runs of gaps of one signature
    for gap in np.argsort(gaps.missing, kind="stable").tolist():
        runs = places.setdefault(value[gap], [])
        if not runs or runs[-1][0] != signatures[gap]:
            runs.append((signatures[gap], []))
        runs[-1][1].append(gap)
    for position in sorted(newcomers.shunned, key=lambda at: int(newcomers.draw[at])):
        runs = places.get(int(newcomers.value[position]), [])
        for at, (signature, run) in enumerate(runs):
            if newcomers.fits(position, known.sets[signature]):
                found[position], gaps.is_taken[run.pop(0)] = signature, True
                newcomers.settle(position, known.sets[signature])
                if not run:
                    del runs[at]
                break


def first_of_each(value: Rows, rows: Rows, draw: Rows | Tags, most: Rows) -> Rows:
    """Of these rows, of each value at most so many, those with the smallest draws."""
    limit = np.zeros(max(int(value[rows].max(initial=-1)) + 1, len(most)), dtype=np.int64)
    limit[: len(most)] = most
    return np.asarray(rows[ranks(value[rows], draw[rows]) < limit[value[rows]]])
