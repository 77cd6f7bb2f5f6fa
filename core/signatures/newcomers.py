"""Newcomers: entries that are to be shown for the first time and lie in no signature of theirs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags

UNDECIDED: Final = -1


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
