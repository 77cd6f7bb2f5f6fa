"""Baig's first phase: who may be published at all."""

import numpy as np
from numpy.typing import NDArray

from shoal.core.randomness import Keyed, Tags


def sampling(keyed: Keyed, tags: Tags, rho: float) -> NDArray[np.bool_]:
    """Whether each person enters publication, with probability rho (Baig, Definition 3).

    The coin is a keyed hash of table and person id: nobody's is ever tossed again, not even after delete and re-insert.
    """
    return keyed.coin(tags, rho)
