"""Places that fell free and are offered: newcomers take them where a round comes out of it (see `signature.py`)."""

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
    """Step 1: newcomers drawn unseen take places in rounds that then lack no more than `lacking`.

    A round that lacks more would be "*" with all in it. So rounds for which one newcomer is enough are served first,
    those that lack least before others; then those that need several, each with all that it needs or with none.
    """
    line, asked = _needs(gaps, lacking)
    easy = np.flatnonzero(asked == 1)
    _take_fitting_places(newcomers, known, gaps, easy, found)
    is_free = found == UNDECIDED
    is_free[list(newcomers.shunned)] = False
    theirs, ours = easy[~gaps.is_taken[easy]], np.flatnonzero(is_free)
    ours = first_of_each(newcomers.value, ours, newcomers.draw, np.bincount(gaps.value[theirs], minlength=1))
    theirs = first_of_each(gaps.value, theirs, gaps.missing, np.bincount(newcomers.value[ours], minlength=1))
    ours = ours[np.lexsort((newcomers.draw[ours], newcomers.value[ours]))]
    theirs = theirs[np.lexsort((theirs, gaps.value[theirs]))]
    found[ours] = gaps.signature[theirs]
    gaps.is_taken[theirs] = True
    _fill_together(newcomers, known, gaps, np.flatnonzero(asked > 1), line, asked, found)


def _needs(gaps: Gaps, lacking: int) -> tuple[Rows, Rows]:
    """By place its round, and how many newcomers that round needs: at least 1; 0 if it has too few places to offer."""
    most = int(gaps.turn.max(initial=0)) + 1
    _, line = np.unique(gaps.signature * most + gaps.turn, return_inverse=True)
    needed = np.maximum(1, gaps.missing - lacking)
    return line, np.where(np.bincount(line, minlength=1)[line] >= needed, needed, 0)


def _fill_together(
    newcomers: Newcomers, known: Signatures, gaps: Gaps, hard: Rows, line: Rows, needed: Rows, found: Rows
) -> None:
    """Rounds that need several newcomers: those that need least first, each only if there are enough who fit."""
    undecided = np.flatnonzero((found == UNDECIDED) & np.isin(newcomers.value, gaps.value[hard]))
    is_picky = np.zeros(len(found), dtype=bool)
    is_picky[list(newcomers.shunned)] = True
    waiting: dict[int, list[int]] = {}  # by value, the picky ones at the end, where they are asked first
    for position in undecided[np.lexsort((newcomers.draw[undecided], is_picky[undecided]))].tolist():
        waiting.setdefault(int(newcomers.value[position]), []).append(position)
    hard = hard[np.isin(gaps.value[hard], list(waiting))]
    rounds: dict[int, list[int]] = {}
    for gap in hard[np.lexsort((hard, needed[hard]))].tolist():
        rounds.setdefault(int(line[gap]), []).append(gap)
    for places in rounds.values():
        number = int(gaps.signature[places[0]])
        taken: dict[int, int] = {}
        for gap in places if len(places) >= needed[places[0]] else ():
            mine = reversed(waiting[int(gaps.value[gap])])
            fitting = next((at for at in mine if newcomers.fits(at, known.sets[number])), None)
            if fitting is not None:
                taken[gap] = fitting
        for gap, position in taken.items() if len(taken) >= needed[places[0]] else ():
            found[position], gaps.is_taken[gap] = number, True
            newcomers.settle(position, known.sets[number])
            waiting[int(gaps.value[gap])].remove(position)


def _take_fitting_places(newcomers: Newcomers, known: Signatures, gaps: Gaps, some: Rows, found: Rows) -> None:
    """Picky newcomers take places before the others do, one after the other."""
    value, signatures = gaps.value.tolist(), gaps.signature.tolist()
    asked = some[np.isin(gaps.value[some], newcomers.value[list(newcomers.shunned)])]
    places: dict[int, list[tuple[int, list[int]]]] = {}  # by value, runs of gaps of one signature
    for gap in asked[np.argsort(gaps.missing[asked], kind="stable")].tolist():
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
