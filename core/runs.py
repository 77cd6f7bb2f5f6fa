"""Runs: parts of an array, given by their starts and lengths; and lines that share a key."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def each_between(begins: Places, sizes: Places) -> Places:
    """All places of these runs, one run after the other."""
    places = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    places += np.arange(len(places))
    return places


def numbered(keys: Places) -> tuple[Places, Places]:
    """The different keys in order, and for each line the position of its key among them.

    As `np.unique` with its inverse, but by counting: quicker than sorting where keys are about as many as lines.
    """
    found = np.flatnonzero(np.bincount(keys))
    position = np.zeros(int(keys.max(initial=-1)) + 1, dtype=np.int64)
    position[found] = np.arange(len(found))
    return found, position[keys]


def narrow(keys: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in as few bits as they need: numpy sorts those of 16 bits several times faster."""
    least, most = (np.min_scalar_type(int(end)) for end in (keys.min(initial=0), keys.max(initial=0)))
    return keys.astype(np.result_type(least, most))


def ranks(key: Places, *order_by: NDArray[Any]) -> Places:
    """The rank of each line among those with the same key, in the order of the last column given, then the others."""
    order = np.lexsort([narrow(column) for column in (*order_by, key)])
    sorted_keys, at = key[order], np.arange(len(key))
    is_first = np.r_[True, sorted_keys[1:] != sorted_keys[:-1]][: len(key)]
    found = np.empty(len(key), dtype=np.int64)
    found[order] = at - np.maximum.accumulate(np.where(is_first, at, 0))
    return found
