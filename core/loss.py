"""Information loss of a release, as its manifest states it.

NCP (normalized certainty penalty) is the mean over rows and attributes of the share of the domain a region spans;
discernibility is the sum over cells of rows squared; the average group is people per group. Withheld rows are late,
not lost, and count in none of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.tree import Rows, Tree


class Loss(NamedTuple):
    ncp: float
    discernibility: int
    average_group: float


def measure_loss(tree: Tree, cells: Rows, rows: NDArray[np.int64], groups: int) -> Loss | None:
    """The loss of a release from its cells and the rows in each; None without rows."""
    total = int(rows.sum())
    if not total:
        return None
    penalty = float((tree.losses(cells) * rows).sum())
    return Loss(penalty / total, int((rows * rows).sum()), total / groups)
