"""Hidden values: the share of a release's values that are shown as "*" or as something more general."""

from typing import Final

import numpy as np

from shoal.core.measure.metric import Metric
from shoal.core.measure.release_reader import ReleaseColumns


def hidden_share(release: ReleaseColumns) -> float:
    """The share of all values shown that are not leaves of the hierarchy; counterfeits count as values."""
    leaf_nodes = list(release.policy.sensitive.hierarchy.leaf_node)
    is_hidden = (release.shown_node == 0) | ~np.isin(release.shown_node, leaf_nodes)
    return float(release.shown_count[is_hidden].sum()) / int(release.shown_count.sum())


HIDDEN_SHARE: Final = Metric[ReleaseColumns](
    "hidden_share", "suppressed or raised", "%", hidden_share, "Both, as a share of all values shown."
)
