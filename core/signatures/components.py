"""Other publishers' groups whose regions meet, taken together: for each such *component*, which values it tells apart.

Layout. Groups are numbered by position. Two groups are in one component if the hulls of their regions meet, directly or
through others. A value's *weights* in a component are how often each of its groups shows it; two values with equal
weights cannot be told apart by anything that these groups say.

Cost. Regions are compared in the order of their lows in the first attribute, a block at a time; the result is kept with
the externals until there are more.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Column, Rows
from shoal.core.overlap.external import ExternalGroup, Externals, domain_run
from shoal.core.overlap.overlaps import weights
from shoal.core.overlap.region_index import RegionIndex
from shoal.core.policy.policy import Policy
from shoal.core.signatures.tuning import REGIONS_AT_ONCE

Weights = tuple[tuple[int, object], ...]


class Components:
    """The components of everything that others have published."""

    def __init__(self, policy: Policy, groups: Sequence[ExternalGroup]) -> None:
        self._policy, self._groups = policy, groups
        self._index = RegionIndex(policy.attributes, groups)
        self.of_group = _join(policy, groups)
        self._classes: dict[int, dict[int, Weights]] = {}

    def find(self, columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
        """Positions in `rows` and the components they lie in, each pair once."""
        where, groups = self._index.find(columns, rows)
        if not len(where):
            return where, groups
        size = len(self._groups)
        keys = np.unique(where * size + self.of_group[groups])
        return keys // size, keys % size

    def weights_of(self, component: int) -> dict[int, Weights]:
        """The weights of every value that some group of a component shows."""
        known = self._classes.get(component)
        if known is None:
            found: dict[int, list[tuple[int, object]]] = {}
            for group in np.flatnonzero(self.of_group == component).tolist():
                for leaf, weight in weights(self._groups[group].shown, self._policy.sensitive.hierarchy).items():
                    found.setdefault(leaf, []).append((group, weight))
            known = self._classes[component] = {leaf: tuple(pairs) for leaf, pairs in found.items()}
        return known


def components_of(policy: Policy, externals: Externals) -> Components:
    """The components of all that others have published; made once and kept until there is more."""
    kept = externals.prepared
    if not isinstance(kept, Components):
        kept = externals.prepared = Components(policy, list(externals.records().values()))
    return kept


def _join(policy: Policy, groups: Sequence[ExternalGroup]) -> Rows:
    """The component of each group: the smallest position of a group in it."""
    low, high = _hulls(policy, groups)
    order = np.argsort(low[0], kind="stable")
    low, high = [column[order] for column in low], [column[order] for column in high]
    parent = list(range(len(groups)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    for first in range(0, len(groups), REGIONS_AT_ONCE):
        here = slice(first, first + REGIONS_AT_ONCE)
        last = int(np.searchsorted(low[0], high[0][here].max()))
        meets: NDArray[np.bool_] = np.ones((len(low[0][here]), max(0, last - first)), dtype=bool)
        for lows, highs in zip(low, high, strict=True):
            meets &= lows[here][:, None] < highs[first:last][None, :]
            meets &= lows[first:last][None, :] < highs[here][:, None]
        for some, other in zip(*(side.tolist() for side in np.nonzero(meets)), strict=True):
            a, b = root(first + some), root(first + other)
            parent[max(a, b)] = min(a, b)
    found = np.empty(len(groups), dtype=np.int64)
    found[order] = [root(at) for at in range(len(groups))]
    smallest = np.full(len(groups), len(groups), dtype=np.int64)
    np.minimum.at(smallest, found, np.arange(len(groups)))
    return np.asarray(smallest[found])


def _hulls(policy: Policy, groups: Sequence[ExternalGroup]) -> tuple[list[Column], list[Column]]:
    """By attribute the hull of each group's regions."""
    low, high = [], []
    for position, attribute in enumerate(policy.attributes):
        whole = (domain_run(attribute),)
        runs = [[run for region in group.regions for run in region[position] or whole] for group in groups]
        low.append(np.array([min(run[0] for run in mine) for mine in runs]))
        high.append(np.array([max(run[1] for run in mine) for mine in runs]))
    return low, high
