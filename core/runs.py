"""Runs: parts of an array given by where they begin and how long they are, all looked at together."""

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def each_between(begins: Places, sizes: Places) -> Places:
    """All places of these runs, one run after the other."""
    places = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    places += np.arange(len(places))
    return places
