"""Hidden values: the share of a release's values that are shown as "*" or as something more general."""

import numpy as np

from shoal.core.measure.release_reader import ReleaseColumns


def hidden_share(release: ReleaseColumns) -> float:
    """The share of all values shown that are not leaves of the hierarchy.

    Counterfeits count as values, and what is vacant in a lasting table does not.
    """
    leaf_nodes = list(release.policy.sensitive.hierarchy.leaf_node)
    is_hidden = (release.shown_node == 0) | ~np.isin(release.shown_node, leaf_nodes)
    vacant = int(release.spare.sum()) if release.policy.values == "lasting" else 0
    return float(release.shown_count[is_hidden].sum()) / (int(release.shown_count.sum()) - vacant)
