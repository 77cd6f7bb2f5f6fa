"""A range that is right nine times in ten, from what is open about a count.

Four things are open. Rows of a group may have any of its values: for each group that is the variance of a 2 x 2 table
whose sides are known, r (N - r) m (N - m) / N^3 with N rows, r of them in the region, and m of its values asked for.
Rows may lie anywhere in a cell that is partly in the region. A suppressed or raised value may be any below it. And
which of a group's values its vacant places had is unknown. Each adds its variance, and, since what the model has wrong
it has wrong everywhere alike, something that grows with the count and not with its root. That part is not worked out
but measured, as are the last two: how far the model moved the count from the even estimate, and how far it is from the
share that the values have everywhere. (docs/experiments.md, "What a release answers".)

The range is worked out on the scale of log((count - low) / (high - count)). So it lies within what is certain, and is
wider on the side where there is more room.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from shoal.core.measure.entries import Numbers

CONFIDENCE: Final = 0.9
DEVIATIONS: Final = 1.645  # of a normal distribution, nine in ten lie within
# how far the model is wrong everywhere alike, in parts of the variance of each kind; measured
_VALUES: Final = 1.0
_PLACES: Final = 0.7
_HIDDEN: Final = 3.0
_FROM_EVEN: Final = 1.5
_FROM_SHARES: Final = 0.5
_LARGEST: Final = 30.0  # beyond that a range is all that is certain


Amount: TypeAlias = Numbers | np.float64


class Unsure(NamedTuple):
    """What is open about counts, in variances; `even` and `shares` are two other estimates of them."""

    values: Amount
    places: Amount
    hidden: Amount
    even: Amount
    shares: Amount
    variety: Amount  # how many values are asked for: what is wrong about one of many matters less


def likely_range(guess: Amount, low: Amount, high: Amount, unsure: Unsure) -> tuple[Amount, Amount]:
    """The ranges of counts that are certainly from `low` to `high`, both included."""
    values = unsure.values * np.minimum(1.0, (guess + 1) / (unsure.even + 1))  # rare values vary less than even ones
    alike = ((_VALUES * values) ** 2 + (_HIDDEN * unsure.hidden) ** 2) / np.maximum(1.0, unsure.variety)
    alike += (_PLACES * unsure.places) ** 2
    alike += (_FROM_EVEN * (guess - unsure.even)) ** 2 + (_FROM_SHARES * (guess - unsure.shares)) ** 2
    deviation = np.sqrt(np.maximum(0, values + unsure.places + unsure.hidden + alike))
    below, above = guess - low + 0.5, high - guess + 0.5
    step = np.minimum(DEVIATIONS * deviation * (1 / below + 1 / above), _LARGEST)
    middle, span = np.log(below / above), below + above
    ends = [low - 0.5 + span / (1 + np.exp(-(middle + side * step))) for side in (-1, 1)]
    return np.clip(ends[0], low, guess), np.clip(ends[1], guess, high)
