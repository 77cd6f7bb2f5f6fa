"""How large a group must be for what a person has paid so far: the ratio n(G) / w(s, G) (Wong, sections 4 to 6).

Survival P is the product of (1 - w/n) over the groups a person was in so far, for one value. The promise is
breach = 1 - P <= 1/l, so P may never fall under 1 - 1/l. Each strategy aims at a ratio that leaves something for later;
none may go under the hard minimum.
"""

import math

import numpy as np
from numpy.typing import NDArray

from shoal.core.policy.policy import Strategy

Floats = NDArray[np.float64]


def hard_minimum(l: float, survival: float) -> float:
    """The smallest ratio that keeps the promise once more (Wong, Theorem 1); infinite when the budget is spent."""
    left = l * survival - (l - 1)
    return l * survival / left if left > 0 else math.inf


def constant_ratio(l: float, releases: int) -> float:
    """The same ratio for each of `releases` exposures: the smallest possible largest group (Wong, Theorem 3)."""
    return 1 / (1 - math.pow(1 - 1 / l, 1 / releases))


def geometric(l: float, alpha: float, survival: float) -> float:
    """`alpha` times the hard minimum: smaller groups early, larger ones late (Wong, section 6)."""
    return alpha * hard_minimum(l, survival)


def adaptive(l: float, releases: int, survival: float, exposures: int) -> float:
    """What is left of the budget, spread evenly over what is left of the foreseen exposures (DESIGN, section 4)."""
    floor = 1 - 1 / l
    if survival <= floor:
        return math.inf
    return 1 / (1 - math.pow(floor / survival, 1 / max(1, releases - exposures)))


def required_ratio(strategy: Strategy, l: float, survival: float, exposures: int) -> float:
    """The ratio a strategy asks for, for one person and one value or guarded set; never under the hard minimum."""
    minimum = hard_minimum(l, survival)
    if math.isinf(minimum):
        return minimum
    if strategy.name == "geometric":
        assert strategy.alpha is not None
        target = geometric(l, strategy.alpha, survival)
    elif strategy.name == "constant-ratio":
        assert strategy.releases is not None
        target = constant_ratio(l, strategy.releases)
    else:
        assert strategy.releases is not None
        target = adaptive(l, strategy.releases, survival, exposures)
    return max(target, minimum)


def required_ratios(strategy: Strategy, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:
    """The same for many at once."""
    minimum = hard_minima(l, survival)
    is_spent = np.isinf(minimum)
    if strategy.name == "geometric":
        assert strategy.alpha is not None
        target = strategy.alpha * minimum
    elif strategy.name == "constant-ratio":
        assert strategy.releases is not None
        target = np.full_like(minimum, constant_ratio(l, strategy.releases))
    else:
        assert strategy.releases is not None
        again = np.maximum(1, strategy.releases - exposures)
        ratio = np.minimum((1 - 1 / l) / np.where(is_spent, 1.0, survival), 1 - 1e-15)
        target = 1 / (1 - ratio ** (1 / again))
    found: Floats = np.maximum(target, minimum)
    return found


def hard_minima(l: float, survival: Floats) -> Floats:
    """The hard minimum for many at once."""
    left = l * survival - (l - 1)
    is_spent = left <= 0
    found: Floats = np.where(is_spent, np.inf, l * survival / np.where(is_spent, 1.0, left))
    return found
