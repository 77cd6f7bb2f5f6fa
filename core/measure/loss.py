"""Information loss of a release: as its manifest states it, and as anyone can compute it from what was published.

NCP (normalized certainty penalty) is the mean over rows and attributes of the share of the domain a region spans;
discernibility is the sum over cells of rows squared (Pei, section 3); the average group is people per group; the
information loss of a table is Xiao-Tao's (section 4, equations 4 to 6, every penalty factor 1): over all rows, for each
attribute and for the sensitive value, how many other values of the domain it might as well be, as a share of the
domain. Withheld rows are late, not lost, and count in none of them.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import attribute_losses, domain
from shoal.core.cells.tree import Column, Rows, Tree
from shoal.core.measure.release_reader import Published
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute


class Loss(NamedTuple):
    ncp: float
    discernibility: int
    average_group: float


class ReleaseLoss(NamedTuple):
    """Everything that is measured of a release without knowing the truth. Sums are over rows, or values shown."""

    rows: int
    groups: int
    ncp: float
    discernibility: int
    average_group: float
    median_group: float
    largest_group: int
    qid_loss: float
    sensitive_loss: float

    @property
    def information_loss(self) -> float:
        """IL of the table (Xiao-Tao, equation 6)."""
        return self.qid_loss + self.sensitive_loss


def measure_loss(tree: Tree, cells: Rows, rows: NDArray[np.int64], groups: int) -> Loss | None:
    """The loss of a release from its cells and the rows in each; None without rows."""
    total = int(rows.sum())
    if not total:
        return None
    penalty = float((tree.losses(cells) * rows).sum())
    return Loss(penalty / total, int((rows * rows).sum()), total / groups)


def release_loss(published: Published) -> ReleaseLoss | None:
    """The losses of a release from its published records alone; None without rows."""
    rows, people = published.rows, published.people
    if not rows:
        return None
    cell_rows = published.cell_rows
    attributes = published.policy.attributes
    ncp = qid_loss = 0.0
    for attribute, low, high in zip(attributes, published.low, published.high, strict=True):
        ncp += float(cell_rows @ attribute_losses(attribute, low, high))
        qid_loss += float(cell_rows @ value_losses(attribute, low, high))
    by_node = np.array([float(node_loss(published.policy.sensitive.hierarchy, node)) for node in _nodes(published)])
    return ReleaseLoss(
        rows=rows,
        groups=len(people),
        ncp=ncp / rows / len(attributes),
        discernibility=int(cell_rows @ cell_rows),
        average_group=rows / len(people),
        median_group=float(np.median(people)),
        largest_group=int(people.max()),
        qid_loss=qid_loss,
        sensitive_loss=float(published.shown_count @ by_node[published.shown_node]),
    )


def value_losses(attribute: Attribute, low: Column, high: Column) -> NDArray[np.float64]:
    """Xiao-Tao's loss of one attribute over many regions (equation 4).

    The number of values in a region less one, over the number of values in the domain; of a float, which has no number
    of values, the share of the domain.
    """
    start, end = domain(attribute)
    less = 0 if attribute.kind == "float" else 1
    return np.asarray((high - low - less) / (end - start), dtype=np.float64)


def node_loss(hierarchy: Hierarchy, node: int) -> Fraction:
    """Xiao-Tao's loss of showing a value as a node of its hierarchy (equation 4): a leaf 0, "*" nearly 1."""
    return Fraction(hierarchy.last[node] - hierarchy.first[node] - 1, len(hierarchy.leaves))


def _nodes(published: Published) -> range:
    return range(len(published.policy.sensitive.hierarchy.labels))
