"""What a group says about one row of it: how probable each of its values is."""

import numpy as np
from numpy.typing import NDArray

from shoal.core.measure.release_reader import ReleaseColumns


def shares(release: ReleaseColumns) -> NDArray[np.float64]:
    """For each value that a group shows, the probability that a row of the group has it.

    Counterfeits and vacant values are among those shown and belong to no row.
    """
    shown = np.bincount(release.shown_group, release.shown_count, len(release.group_names))
    of_rows = (shown - release.spare) / np.maximum(1, shown * release.group_rows)
    return np.asarray(release.shown_count * of_rows[release.shown_group], dtype=np.float64)


def largest_share(release: ReleaseColumns) -> float:
    """The best guess about any row: the largest share of a protected value in a group, 0 if none is shown.

    Open values are nobody's secret, and "*" says nothing.
    """
    hierarchy = release.policy.sensitive.hierarchy
    free = np.array([0, *(hierarchy.leaf_node[leaf] for leaf in release.policy.sensitive.open)])
    return float(shares(release)[~np.isin(release.shown_node, free)].max(initial=0.0))
