"""Strategies: the registry, the policy file and the two forms of every strategy agree."""

import math
from typing import Any

import numpy as np
import pytest

from shoal.core.policy.policy import build_policy
from shoal.core.policy.strategy import STRATEGIES, Adaptive, hard_minimum, required_ratio, required_ratios

# One choice of parameters for each strategy there is; a new strategy needs a line here.
EXAMPLES: dict[str, dict[str, Any]] = {
    "adaptive": {"releases": 5},
    "constant-ratio": {"releases": 3},
    "geometric": {"alpha": 1.5},
}


def test_every_strategy_has_an_example_and_its_own_name() -> None:
    assert EXAMPLES.keys() == STRATEGIES.keys()
    for name, kind in STRATEGIES.items():
        assert kind(**EXAMPLES[name]).name == name


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_policy_file_can_name_every_strategy(name: str) -> None:
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 9}},
        "sensitive": {"name": "d", "values": ["a", "b", "c"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2, "strategy": {"name": name, **EXAMPLES[name]}},
    }
    assert build_policy(document, {}, b"").strategy == STRATEGIES[name](**EXAMPLES[name])


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("l", [1.5, 2.0, 7.0])
def test_the_scalar_and_the_vector_form_ask_for_the_same(name: str, l: float) -> None:
    strategy = STRATEGIES[name](**EXAMPLES[name])
    floor = 1 - 1 / l
    survival = np.array([1.0, 0.999, floor + 0.5 / l, floor * 1.01, floor, floor * 0.9, 0.0])
    exposures = np.arange(len(survival))
    many = required_ratios(strategy, l, survival, exposures)
    one_by_one = [required_ratio(strategy, l, *account) for account in zip(survival.tolist(), range(7), strict=True)]
    assert many == pytest.approx(one_by_one)
    assert np.isinf(many[4:]).all()


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_goes_under_the_hard_minimum(name: str) -> None:
    strategy = STRATEGIES[name](**EXAMPLES[name])
    for survival in (1.0, 0.8, 0.51):
        minimum = hard_minimum(2, survival)
        assert math.isfinite(minimum)
        assert required_ratio(strategy, 2, survival, 9) >= minimum


@pytest.mark.parametrize("name", STRATEGIES)
def test_targets_rise_as_survival_falls_and_do_not_rise_with_exposures(name: str) -> None:
    """The dealer relies on it to bound the ratio of an account that it has not looked at."""
    strategy = STRATEGIES[name](**EXAMPLES[name])
    survival = np.linspace(1.0, 0.55, 20)
    for exposures in range(1, 9):
        ratios = required_ratios(strategy, 2, survival, np.full(20, exposures))
        later = required_ratios(strategy, 2, survival, np.full(20, exposures + 1))
        assert (np.diff(ratios) >= 0).all()
        assert (later <= ratios).all()


def test_a_budget_that_is_spent_but_for_rounding_asks_for_a_group_without_end() -> None:
    assert Adaptive().target(2, math.nextafter(0.5, 1), 0) == math.inf
