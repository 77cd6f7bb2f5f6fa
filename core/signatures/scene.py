"""What a release of a lasting table is made from, and the random numbers of its entries."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.people import People
from shoal.core.randomness import Keyed, Tags
from shoal.core.signatures.entries import Entries

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number: different values of one person have unlike tags


class Scene(NamedTuple):
    """People where they are now."""

    people: People
    keyed: Keyed
    number: int
    is_published: NDArray[np.bool_]  # by row
    place: Rows  # by row, in the tree's depth-first order

    def draws(self, entries: Entries, some: Rows, purpose: str, *, is_for_ever: bool = False) -> Tags:
        """A pseudo-random number for each of some entries: of its person and value, in this release or for ever."""
        tags = self.people.tag[entries.owner[some]]
        mixed = tags + (entries.value[some].astype(np.uint64) + np.uint64(1)) * SPREAD
        return self.keyed.draw(mixed, 0 if is_for_ever else self.number, purpose)
