"""Strategies: how large a group must be for what a person has paid so far, the ratio n(G) / w(s, G) (Wong, 4 to 6).

Survival P is the product of (1 - w/n) over the groups a person was in so far, for one value. The promise is
breach = 1 - P <= 1/l, so P may never fall under 1 - 1/l. Each strategy aims at a ratio that leaves something for later;
none may go under the hard minimum.

A new strategy is one class here and its name in `STRATEGIES`. The class is also its section of the policy file: its
fields are the keys that the author may write, with their types, ranges and defaults. `target` answers for one account,
`targets` for many accounts at once; a test holds the two forms against each other for every strategy there is.
"""

import math
from abc import abstractmethod
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from shoal.core.policy.section import LARGEST_COUNT, Count, Section

Floats = NDArray[np.float64]

_LARGEST_BASE = 1 - 1e-15  # rounding may bring floor / survival to 1, and 1 to any power divides by zero


class Strategy(Section):
    """How a person's budget is spent over the releases (docs/design.md, "Strategies").

    A target must not fall as survival falls, and must not rise with exposures at the same survival: `deal.py` works out
    the largest target of most accounts from a bound of their survival.
    """

    name: str

    @abstractmethod
    def target(self, l: float, survival: float, exposures: int) -> float:
        """The ratio to aim at for one account. Where the budget is spent, any number will do."""

    @abstractmethod
    def targets(self, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:
        """The ratios to aim at for many accounts."""

    @abstractmethod
    def describe(self) -> str:
        """The parameters in words, for the author of a policy."""


class Adaptive(Strategy):
    """What is left of the budget, spread evenly over what is left of the foreseen exposures."""

    name: Literal["adaptive"] = "adaptive"
    releases: Count = 10

    def target(self, l: float, survival: float, exposures: int) -> float:
        floor = 1 - 1 / l
        if survival <= floor:
            return math.inf
        spent = 1 - math.pow(floor / survival, 1 / max(1, self.releases - exposures))
        return 1 / spent if spent else math.inf  # a root of nearly 1 is 1

    def targets(self, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:
        unspent = np.where(l * survival > l - 1, survival, 1.0)
        base = np.minimum((1 - 1 / l) / unspent, _LARGEST_BASE)
        found: Floats = 1 / (1 - base ** (1 / np.maximum(1, self.releases - exposures)))
        return found

    def describe(self) -> str:
        return f"{self.releases} exposures foreseen"


class ConstantRatio(Strategy):
    """The same ratio for each of `releases` exposures: the smallest possible largest group (Wong, Theorem 3)."""

    name: Literal["constant-ratio"] = "constant-ratio"
    releases: Count = 10

    def target(self, l: float, survival: float, exposures: int) -> float:  # noqa: ARG002 - the same for everybody
        return 1 / (1 - math.pow(1 - 1 / l, 1 / self.releases))

    def targets(self, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:  # noqa: ARG002
        return np.full_like(survival, self.target(l, 1.0, 0))

    def describe(self) -> str:
        return f"{self.releases} exposures foreseen"


class Geometric(Strategy):
    """`alpha` times the hard minimum: smaller groups early, larger ones late (Wong, section 6)."""

    name: Literal["geometric"] = "geometric"
    alpha: Annotated[float, Field(gt=1, le=LARGEST_COUNT)]

    def target(self, l: float, survival: float, exposures: int) -> float:  # noqa: ARG002 - survival says it all
        return self.alpha * hard_minimum(l, survival)

    def targets(self, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:  # noqa: ARG002
        return self.alpha * hard_minima(l, survival)

    def describe(self) -> str:
        return f"alpha {self.alpha:g}"


STRATEGIES: Final[dict[str, type[Strategy]]] = {
    "adaptive": Adaptive,
    "constant-ratio": ConstantRatio,
    "geometric": Geometric,
}


def required_ratio(strategy: Strategy, l: float, survival: float, exposures: int) -> float:
    """The ratio a strategy asks for, for one person and one value or guarded set; never under the hard minimum."""
    minimum = hard_minimum(l, survival)
    return minimum if math.isinf(minimum) else max(strategy.target(l, survival, exposures), minimum)


def required_ratios(strategy: Strategy, l: float, survival: Floats, exposures: NDArray[np.int64]) -> Floats:
    """The ratios a strategy asks for, for many at once."""
    found: Floats = np.maximum(strategy.targets(l, survival, exposures), hard_minima(l, survival))
    return found


def hard_minimum(l: float, survival: float) -> float:
    """The smallest ratio that keeps the promise once more (Wong, Theorem 1); infinite when the budget is spent."""
    left = l * survival - (l - 1)
    return l * survival / left if left > 0 else math.inf


def hard_minima(l: float, survival: Floats) -> Floats:
    """The hard minima of many at once."""
    left = l * survival - (l - 1)
    is_spent = left <= 0
    found: Floats = np.where(is_spent, np.inf, l * survival / np.where(is_spent, 1.0, left))
    return found
