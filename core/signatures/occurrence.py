"""Where values occur: how many newcomers have each value in each neighbourhood, if that is more than chance.

Count queries about a region are answered from the rows of a signature that lie there, each of which is any of its
values. So values that occur near each other answer best. Where no value prefers any neighbourhood, apparent nearness is
chance, and following it costs signatures of equally frequent values. Pearson's test tells the two apart.
"""

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.signatures.tuning import NEAR_ENTRIES, NEARNESS_SURE, NEIGHBOURHOODS_COMPARED


def occurrences(value: Rows, place: Rows, leaves: int) -> Rows:
    """By neighbourhood and value, how many there are; one neighbourhood for all if chance explains the differences."""
    found = _by_neighbourhood(value, place, leaves)
    return found if _is_telling(found) else found.sum(axis=0, keepdims=True)


def _by_neighbourhood(value: Rows, place: Rows, leaves: int) -> Rows:
    size = max(NEAR_ENTRIES, -(-len(value) // NEIGHBOURHOODS_COMPARED))
    last = np.cumsum(np.bincount(place, minlength=1)) - 1  # by place, so that equal places stay together
    block = np.maximum(0, last) // size
    blocks = int(block[-1]) + 1
    return np.bincount(block[place] * leaves + value, minlength=blocks * leaves).reshape(blocks, leaves)


def _is_telling(found: Rows) -> bool:
    """Whether the counts differ more than independent ones would: Pearson's statistic, in standard deviations."""
    rows, columns = found.sum(axis=1), found.sum(axis=0)
    table = found[rows > 0][:, columns > 0]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom <= 0:
        return False
    expected = np.outer(rows[rows > 0], columns[columns > 0]) / found.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return bool(statistic - freedom > NEARNESS_SURE * np.sqrt(2 * freedom))
