"""Information loss of a release: as its manifest states it, and as anyone can compute it from the published records.

NCP (normalized certainty penalty) is the mean over rows and attributes of the share of the domain a region spans.
Discernibility is the sum over cells of rows squared (Pei, section 3). The information loss of a table is Xiao-Tao's
(section 4, equations 4 to 6, every penalty factor 1): over all rows, for each attribute and for the sensitive value,
the number of other values of the domain that are as possible, as a share of the domain. Withheld rows are late, not
lost, and count in none of these figures.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import attribute_losses, domain
from shoal.core.cells.tree import Column, Rows, Tree
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute


class Loss(NamedTuple):
    """The losses that a manifest states (docs/contract.md, "Manifest")."""

    ncp: float
    discernibility: int
    average_group: float


class LossSums(NamedTuple):
    """What losses are quotients of, so that those of several shards can be added up."""

    penalty: float = 0.0
    rows: int = 0
    squares: int = 0
    groups: int = 0

    def plus(self, other: "LossSums") -> "LossSums":
        return LossSums(
            self.penalty + other.penalty,
            self.rows + other.rows,
            self.squares + other.squares,
            self.groups + other.groups,
        )

    def loss(self) -> Loss | None:
        """None without rows."""
        return Loss(self.penalty / self.rows, self.squares, self.rows / self.groups) if self.rows else None


def sum_losses(tree: Tree, cells: Rows, rows: NDArray[np.int64], groups: int) -> LossSums:
    """The sums of a release from its cells and the rows in each."""
    return LossSums(float((tree.losses(cells) * rows).sum()), int(rows.sum()), int((rows * rows).sum()), groups)


def ncp(release: ReleaseColumns) -> float:
    """The mean over rows and attributes of the share of the domain that a region spans; 0 is exact."""
    rows = release.rows_by_cell
    attributes = release.policy.attributes
    penalty = 0.0
    for attribute, low, high in zip(attributes, release.low, release.high, strict=True):
        penalty += float(rows @ attribute_losses(attribute, low, high))
    return penalty / release.rows / len(attributes)


def discernibility(release: ReleaseColumns) -> int:
    """The sum over cells of rows squared."""
    return int(release.rows_by_cell @ release.rows_by_cell)


def qid_loss(release: ReleaseColumns) -> float:
    """Xiao-Tao's loss of the quasi-identifiers, summed over rows and attributes."""
    rows, total = release.rows_by_cell, 0.0
    for attribute, low, high in zip(release.policy.attributes, release.low, release.high, strict=True):
        total += float(rows @ value_losses(attribute, low, high))
    return total


def sensitive_loss(release: ReleaseColumns) -> float:
    """Xiao-Tao's loss of the sensitive values, summed over the values shown."""
    hierarchy = release.policy.sensitive.hierarchy
    by_node = np.array([float(node_loss(hierarchy, node)) for node in range(len(hierarchy.labels))])
    return float(release.shown_count @ by_node[release.shown_node])


def value_losses(attribute: Attribute, low: Column, high: Column) -> NDArray[np.float64]:
    """Xiao-Tao's loss of one attribute over many regions (equation 4).

    The number of values in a region less one, over the number of values in the domain. A float has no number of values:
    its loss is the share of the domain.
    """
    start, end = domain(attribute)
    less = 0 if attribute.kind == "float" else 1
    return np.asarray((high - low - less) / (end - start), dtype=np.float64)


def node_loss(hierarchy: Hierarchy, node: int) -> Fraction:
    """Xiao-Tao's loss of showing a value as a node of its hierarchy (equation 4): a leaf 0, "*" nearly 1."""
    return Fraction(hierarchy.last[node] - hierarchy.first[node] - 1, len(hierarchy.leaves))
