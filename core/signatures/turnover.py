"""Which values stay and which pass, estimated from what everybody can see.

A signature of values that stay and values that pass does not last: those that stay lose their partners and become "*".
So newcomers make rounds among values of one class. How often the entries of a value end is not looked up, because what
then follows would tell whose ended. It is estimated from what the adversary is assumed to know: how many rows each
signature had, and how many of them ended. A group shows each of its values equally often, so a row is each of the m
values of its signature equally often, and expectation maximization finds the rates that explain the ends best.
"""

from math import fsum, log

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import COUNTED_EACH_TIME, COUNTED_EVERY, PASSING, PRIOR_ENDS, RATE_STEPS


def weight_of(number: int) -> int:
    """How often the rows that stood before this release are counted: each time at first, later every eighth time.

    To count is to write every signature anew. Rows that end are counted in every release.
    """
    if number <= COUNTED_EACH_TIME:
        return 1
    return 0 if number % COUNTED_EVERY else COUNTED_EVERY


def classes_of(values: Rows, known: Signatures, m: int) -> list[Rows]:
    """These values, those that stay apart from those that pass; all together while the releases do not tell them apart.

    A class has at least m values, or it could make no signature.
    """
    seen = known.within(np.arange(len(known)), values)
    seen = seen[known.rows[seen] > 0]
    members, rows, ended = known.members[seen], known.rows[seen], known.ended[seen]
    if not ended.any():
        return [values]
    rates = end_rates(members, rows, ended, int(values.max()) + 1)
    passes = rates[values] > PASSING * int(ended.sum()) / int(rows.sum())
    classes = [values[~passes], values[passes]]
    in_use = len(np.unique(members[members >= 0]))
    is_told = min(map(len, classes)) >= m and _evidence(members, rows, ended, rates) > in_use
    return classes if is_told else [values]


def end_rates(members: Rows, rows: Rows, ended: Rows, leaves: int) -> NDArray[np.float64]:
    """By value, the share of its rows that end from one release to the next.

    `rows` and `ended` are by signature, over all releases. Sums are made in the order of the lines, so that they are
    the same on every machine.
    """
    sizes = np.count_nonzero(members >= 0, axis=1)
    value, mean = members[members >= 0], int(ended.sum()) / int(rows.sum())
    seen = np.bincount(value, weights=np.repeat(rows / sizes, sizes), minlength=leaves)
    members, ended, sizes = members[ended > 0], ended[ended > 0], sizes[ended > 0]  # the others say no more than `seen`
    line, value = np.repeat(np.arange(len(members)), sizes), members[members >= 0]
    rates, ends = np.full(leaves, mean), np.repeat(ended, sizes)
    for _ in range(RATE_STEPS):
        mine = rates[value]
        theirs = np.bincount(value, weights=mine / np.bincount(line, weights=mine)[line] * ends, minlength=leaves)
        rates = (theirs + PRIOR_ENDS) / (seen + PRIOR_ENDS / mean)
    return rates


def _evidence(members: Rows, rows: Rows, ended: Rows, rates: NDArray[np.float64]) -> float:
    """How much likelier these rates make what ended than one rate for all values would: the logarithm of the ratio.

    Rates that are fitted to mere chance reach about half a point for each value.
    """
    sizes = np.count_nonzero(members >= 0, axis=1)
    line = np.repeat(np.arange(len(members)), sizes)
    expected = rows * np.bincount(line, weights=rates[members[members >= 0]]) / sizes
    alike = rows * (int(ended.sum()) / int(rows.sum()))
    has_ends = ended > 0  # where none ended, the logarithm counts for nothing
    some = (column[has_ends].tolist() for column in (ended, expected, alike))
    logs = [count * log(mine / other) - mine + other for count, mine, other in zip(*some, strict=True)]
    return fsum([*logs, *(alike - expected)[~has_ends].tolist()])
