"""Newcomers: entries that are to be shown for the first time in their groups.

Sets of values are masks here: bit v of a whole number stands for the value with leaf code v. Nearly all newcomers have
nothing that a signature could collide with. The others *shun* values: those of the signatures their person was shown
under before, of the guard, and, while several values of one person are dealt at once, those shown with the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags

NO_ROUND: Final = -1
ANY: Final = -1


class Newcomers(NamedTuple):
    """The newcomers of one pool, within which rounds are made: columns, in the order of `draw`."""

    value: Rows
    place: Rows  # in the tree's depth-first order
    draw: Tags
    wanted: Rows  # the signature of somebody with a second value under it, or ANY
    shunned: Mapping[int, int]  # by position, for those who shun something
    siblings: Mapping[int, Sequence[int]]  # by position, the other newcomers of the same person


def mask_of(values: Iterable[int]) -> int:
    """The mask of these values."""
    found = 0
    for value in values:
        found |= 1 << value
    return found


def values_in(mask: int) -> tuple[int, ...]:
    """The values of a mask, ascending."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(found)
