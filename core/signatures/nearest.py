"""Joining the nearest group of the same kind, as far as there is room: the one search that all placing uses."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.randomness import Tags
from shoal.core.runs import narrow

NONE = -1


class Sites(NamedTuple):
    """Groups that may be joined, as columns: what kind they are, where they are, and how many more they take."""

    kind: Rows
    place: NDArray[np.float64]
    room: Rows


def join_nearest(kind: Rows, place: NDArray[np.float64], sites: Sites) -> Rows:
    """For each item the site it joins, by position, or NONE: the nearest of its kind if that has room left.

    Items that come first in order take the last places, so the order must not be that of arrival.
    """
    found = np.full(len(kind), NONE, dtype=np.int64)
    open_sites = np.flatnonzero(sites.room > 0)
    if not len(open_sites) or not len(kind):
        return found
    span = float(max(sites.place.max(initial=0.0), place.max(initial=0.0))) + 1.0
    least = min(int(kind.min()), int(sites.kind.min()))
    keys = (sites.kind[open_sites] - least) * 2 * span + sites.place[open_sites]
    order = np.argsort(keys, kind="stable")
    open_sites, keys = open_sites[order], keys[order]
    asked = (kind - least) * 2 * span + place
    after = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(keys[after] - asked) <= np.abs(keys[before] - asked), after, before)
    site = open_sites[nearest]
    turn = ranks(site, np.arange(len(kind)))
    fits = (sites.kind[site] == kind) & (turn < sites.room[site])
    found[fits] = site[fits]
    return found


def ranks(key: Rows, *order_by: Rows | Tags) -> Rows:
    """The rank of each line among those with the same key, in the order of the last column given, then the others."""
    order = np.lexsort([narrow(column) for column in (*order_by, key)])
    sorted_keys, at = key[order], np.arange(len(key))
    is_first = np.r_[True, sorted_keys[1:] != sorted_keys[:-1]][: len(key)]
    found = np.empty(len(key), dtype=np.int64)
    found[order] = at - np.maximum.accumulate(np.where(is_first, at, 0))
    return found


def means(line: Rows, values: Rows, size: int) -> NDArray[np.float64]:
    """The mean of the values of each line, 0 for a line without any."""
    counts = np.maximum(1, np.bincount(line, minlength=size))
    return np.asarray(np.bincount(line, weights=values.astype(np.float64), minlength=size) / counts)
