"""Other publishers beside a lasting table: which people are in their groups, and what that asks of signatures."""

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.signatures.verdict import FREE, Beside


class Neighbours:
    """Nobody else has published anything."""

    def __init__(self, people: int) -> None:
        self.is_inside: NDArray[np.bool_] = np.zeros(people, dtype=bool)
        self.affected: Rows = np.zeros(0, dtype=np.int64)

    def beside(self, row: int) -> Beside:
        return FREE
