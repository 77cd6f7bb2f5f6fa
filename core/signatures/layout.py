"""Rounds of newcomers who shun nothing, all at once, by McNaughton's wrap-around rule.

Values are laid one after the other, each as long as it has newcomers, and wrapped around rounds 0 to R - 1: the
newcomer at position p is in round p mod R. No value is longer than R, so no round has a value twice, and every newcomer
is in one. Rounds between two places where a value begins show the same values, so there are at most as many signatures
as values.

Values that should share a signature stand next to each other in `order`. They are dealt to as many machines as a round
has places, always to the shortest, and the machines are laid one after the other; so neighbours in the order lie at
about the same rounds.

A value may be in several signatures. Each is given newcomers from everywhere, and within a signature newcomers are
matched in the order of their places, so that the rows of a round are near each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.runs import narrow
from shoal.core.signatures.newcomers import mask_of


class Layout(NamedTuple):
    """The round of each newcomer, and the values of each round as a mask."""

    round: Rows
    masks: list[int]


def lay_rounds(value: Rows, place: Rows, draw: Tags, order: Sequence[int], rounds: int) -> Layout:
    """Deal all of these into so many rounds. Sorts twice: O(n log n)."""
    counts = np.bincount(value, minlength=max(order) + 1)
    values = _machines(counts, order, -(-len(value) // rounds))
    laid = np.array(values, dtype=np.int64)
    ends = np.cumsum(counts[laid])
    breaks = np.unique(np.r_[0, ends % rounds])
    position = np.arange(len(value))
    turn = np.repeat(np.arange(len(laid)), counts[laid])
    segment = np.searchsorted(breaks, position % rounds, side="right") - 1
    is_first = np.r_[True, (turn[1:] != turn[:-1]) | (segment[1:] != segment[:-1])][: len(turn)]
    begins = np.flatnonzero(is_first)
    run = np.cumsum(is_first) - 1
    lengths = np.diff(np.r_[begins, len(value)])
    spread = (position - begins[run] + 0.5) / lengths[run]
    by_turn = np.empty(len(counts), dtype=np.int64)
    by_turn[laid] = np.arange(len(laid))
    found = np.empty(len(value), dtype=np.int64)
    seat = position[np.lexsort((spread, narrow(turn)))] % rounds
    found[np.lexsort((draw, narrow(place), narrow(by_turn[value])))] = seat
    places = breaks[:, None] + rounds * np.arange(-(-len(value) // rounds))[None, :]
    shown = np.searchsorted(ends, places, side="right")
    masks = [mask_of(values[one] for one in line if one < len(values)) for line in shown.tolist()]
    sizes = np.diff(np.r_[breaks, rounds]).tolist()
    return Layout(found, [mask for mask, size in zip(masks, sizes, strict=True) for _ in range(size)])


def _machines(counts: Rows, order: Sequence[int], machines: int) -> list[int]:
    """The values machine by machine, each value on the one that is shortest so far."""
    ends, laid = [0] * machines, [list[int]() for _ in range(machines)]
    for value in order:
        if counts[value]:
            machine = ends.index(min(ends))
            laid[machine].append(value)
            ends[machine] += int(counts[value])
    return [value for values in laid for value in values]
