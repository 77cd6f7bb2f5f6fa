"""Other publishers' groups whose regions meet, taken together: for each such *component*, which values it tells apart.

Layout. Groups are numbered by position. Two groups are in one component if the hulls of their regions meet, directly or
through others. A value's *weights* in a component are how often each of its groups shows it; two values with equal
weights cannot be told apart by anything that these groups say.

Cost. Regions are compared in the order of their lows in the first attribute, a block at a time; the result is kept with
the externals until there are more.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.overlap.external import ExternalGroup, Externals, domain_run
from shoal.core.overlap.overlaps import weights
from shoal.core.overlap.region_index import RegionIndex
from shoal.core.policy.policy import Policy
from shoal.core.signatures.tuning import REGIONS_AT_ONCE

Weights = tuple[tuple[int, Fraction], ...]


class Components:
    """The components of everything that others have published."""

    def __init__(self, policy: Policy, groups: Sequence[ExternalGroup]) -> None:
        self._policy, self._groups = policy, groups
        self._index = RegionIndex(policy.attributes, groups)
        self.of_group = _join(policy, groups)

    def find(self, columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
        """Positions in `rows` and the components they lie in, each pair once."""
        where, groups = self._index.find(columns, rows)
        if not len(where):
            return where, groups
        size = len(self._groups)
        keys = np.unique(where * size + self.of_group[groups])
        return keys // size, keys % size

    def weights_of(self, groups: Iterable[int]) -> dict[int, Weights]:
        """The weights of every value that some of these groups show."""
        found: dict[int, list[tuple[int, Fraction]]] = {}
        for group in groups:
            for leaf, weight in weights(self._groups[group].shown, self._policy.sensitive.hierarchy).items():
                found.setdefault(leaf, []).append((group, weight))
        return {leaf: tuple(pairs) for leaf, pairs in found.items()}

    def counts_of(self, group: int) -> dict[int, int] | None:
        """How often a group shows each value; None if it shows a node that stands for several."""
        hierarchy, shown = self._policy.sensitive.hierarchy, self._groups[group].shown
        is_exact = all(not node or hierarchy.last[node] == hierarchy.first[node] + 1 for node, _ in shown)
        return {hierarchy.first[node]: count for node, count in shown if node} if is_exact else None


def components_of(policy: Policy, externals: Externals) -> Components:
    """The components of all that others have published; made once and kept until there is more."""
    kept = externals.prepared
    if not isinstance(kept, Components):
        kept = externals.prepared = Components(policy, [group for _, group in sorted(externals.records().items())])
    return kept


def _join(policy: Policy, groups: Sequence[ExternalGroup]) -> Rows:
    """The component of each group: the smallest position of a group in it."""
    low, high = _hulls(policy, groups)
    order = np.argsort(low[0], kind="stable")
    low, high = [column[order] for column in low], [column[order] for column in high]
    some, other = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(groups), REGIONS_AT_ONCE):
        here = slice(first, first + REGIONS_AT_ONCE)
        last = int(np.searchsorted(low[0], high[0][here].max()))
        meets: NDArray[np.bool_] = np.ones((len(low[0][here]), max(0, last - first)), dtype=bool)
        for lows, highs in zip(low, high, strict=True):
            meets &= lows[here][:, None] < highs[first:last][None, :]
            meets &= lows[first:last][None, :] < highs[here][:, None]
        for found, side in zip((some, other), np.nonzero(meets), strict=True):
            found.append(order[first + side])
    return join(len(groups), np.concatenate(some), np.concatenate(other))


def join(size: int, some: Rows, other: Rows) -> Rows:
    """For each of so many things the smallest that it is joined with, directly or through others."""
    found = np.arange(size)
    while True:
        before = found.copy()
        least = np.minimum(found[some], found[other])
        np.minimum.at(found, found[some], least)
        np.minimum.at(found, found[other], least)
        found = found[found]
        if np.array_equal(found, before):
            return found


def _hulls(policy: Policy, groups: Sequence[ExternalGroup]) -> tuple[list[Column], list[Column]]:
    """By attribute the hull of each group's regions."""
    low, high = [], []
    for position, attribute in enumerate(policy.attributes):
        whole = (domain_run(attribute),)
        runs = [[run for region in group.regions for run in region[position] or whole] for group in groups]
        low.append(np.array([min(run[0] for run in mine) for mine in runs]))
        high.append(np.array([max(run[1] for run in mine) for mine in runs]))
    return low, high
