"""Sampling: which people may be published at all (Baig's first phase; docs/design.md, "Other publishers")."""

import numpy as np
from numpy.typing import NDArray

from shoal.core.randomness import Keyed, Tags


def sampling(keyed: Keyed, tags: Tags, rho: float) -> NDArray[np.bool_]:
    """Whether each person enters publication, with probability rho (Baig, Definition 3).

    The coin is a keyed hash of table and person id. It is the same in every release, even after delete and re-insert.
    """
    return keyed.coin(tags, rho)
