"""Which values stay and which pass, estimated from what everybody can see.

Each row counts as any value of its signature, so the total of a value is right for as long as the values of a signature
last alike; and whoever knows how long values last learns least then. So rounds are laid among values of one kind. How
often the entries of a value end is not looked up, because what then follows would tell whose ended. It is estimated
from what the adversary is assumed to know: how many rows each group had when it was formed, and how many it has now. A
group shows each of its values equally often, and expectation maximization finds the rates that explain the ends best.
"""

from math import fsum, log

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.signatures.group import Groups
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.tuning import PASSING, PRIOR_ENDS, RATE_STEPS

STAYS, PASSES = 0, 1


def kinds_of(groups: Groups, signatures: Signatures, rows: Rows, number: int, leaves: int) -> Rows:
    """By value, whether it stays or passes; all stay while the releases do not tell them apart.

    `rows` are those that each group has in the last release, the one before `number`. Costs one step for each group.
    """
    found = np.full(leaves, STAYS, dtype=np.int64)
    seen, ended = _by_signature(groups, signatures, rows, number)
    is_seen = seen > 0
    members, seen, ended = signatures.members[is_seen], seen[is_seen], ended[is_seen]
    if not ended.any():
        return found
    rates = end_rates(members, seen, ended, leaves)
    in_use = np.unique(members[members >= 0])
    if _evidence(members, seen, ended, rates) > len(in_use):
        found[in_use] = np.where(rates[in_use] > PASSING * int(ended.sum()) / int(seen.sum()), PASSES, STAYS)
    return found


def _by_signature(groups: Groups, signatures: Signatures, rows: Rows, number: int) -> tuple[Rows, Rows]:
    """By signature, how many rows there were, summed over releases, and how many of them ended.

    Rows are taken to have ended at an even rate since their group was formed. The mean of such a curve lies between its
    ends and their geometric mean, by Simpson's rule.
    """
    signed = np.flatnonzero((groups.kind >= 0) & (groups.formed < number - 1))
    kind = groups.kind[signed]
    first, now = groups.rounds[signed] * signatures.sizes[kind], rows[signed]
    mean = (first + 4 * np.sqrt(first * now) + now) / 6
    times = np.floor((number - 1 - groups.formed[signed]) * mean)
    found = (np.bincount(kind, weights=column, minlength=len(signatures)) for column in (times, first - now))
    seen, ended = (column.astype(np.int64) for column in found)
    return seen, ended


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
