"""Are rows spread over their region as the other regions suggest?"""

import numpy as np
import pytest

from shoal.core.measure.density import spread_over


def test_a_region_alone_is_filled_evenly() -> None:
    low, high = np.array([0, 0]), np.array([10, 10])
    assert spread_over(low, high, np.array([3, 7])).share(low, high, (2, 5)).tolist() == pytest.approx([0.3, 0.3])


def test_a_wide_region_is_filled_as_the_narrow_ones_in_it_are() -> None:
    """Worked out by hand: 10 people in all of it, 30 in its first half."""
    low, high = np.array([0, 0]), np.array([10, 5])
    first = 30 + 10 * (30 + 10 / 2) / 40  # of the second round
    found = spread_over(low, high, np.array([10, 30])).share(low, high, (0, 5))
    assert found.tolist() == pytest.approx([first / 40, 1.0])


def test_shares_of_all_parts_make_up_the_whole() -> None:
    random = np.random.default_rng(5)
    low = random.integers(0, 50, 40)
    high = low + random.integers(1, 50, 40)
    spread = spread_over(low, high, random.integers(5, 15, 40))
    parts = [spread.share(low, high, ends) for ends in ((-5, 13), (13, 14), (14, 60), (60, 1000))]
    assert np.sum(parts, axis=0) == pytest.approx(np.ones(40))
