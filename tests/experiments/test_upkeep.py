"""The bound by hand, and against a publisher that is simulated."""

import numpy as np
import pytest

from tests.experiments.upkeep import EXACT, least_upkeep, uneven


def test_what_makes_a_signature_even() -> None:
    assert uneven((3, 3, 3, 3)) == 0
    assert uneven((2, 3, 3, 3)) == 1, "a counterfeit"
    assert uneven((2, 2, 2, 3)) == 1, "a star"
    assert uneven((0, 0, 1, 1)) == 2, "two stars: half of a group must not be counterfeit"


def test_a_signature_that_nobody_joins_costs_until_its_last_entry_has_ended() -> None:
    alone = (1 / 3 + 2 / 2 + 1) / 0.02  # one counterfeit with three entries left, two stars with two, one with one
    assert least_upkeep(m=4, coming=0.0, ending=0.02, rounds=1) == pytest.approx(alone / 4, abs=EXACT)


def test_a_pair_takes_whoever_fills_its_place() -> None:
    """It costs 1 until the last ends, and takes a newcomer as often as one comes before that."""
    assert least_upkeep(m=2, coming=0.172, ending=0.02, rounds=1) == pytest.approx(1 / (0.172 + 2 * 0.02), abs=EXACT)


def test_signatures_that_take_every_newcomer_cost_more_than_the_bound() -> None:
    random, coming, ending = np.random.default_rng(7), 0.172, 0.02
    counts, cost, taken = random.poisson(coming / ending, (30, 4)), 0, 0
    for _ in range(200):
        counts -= random.binomial(counts, ending)
        newcomers = random.poisson(coming, counts.shape)
        counts += newcomers
        taken += int(newcomers.sum())
        cost += sum(uneven(tuple(line)) for line in counts.tolist())
    least = least_upkeep(m=4, coming=coming, ending=ending)
    assert least == pytest.approx(5.68, abs=0.01)
    assert cost / taken == pytest.approx(11, abs=0.5), "one fixed signature for each value"
    assert cost / taken > least
