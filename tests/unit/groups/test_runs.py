"""Ranks within a key, and the short numbers that they are sorted by."""

import numpy as np
import pytest

from shoal.core.runs import narrow, ranks


@pytest.mark.parametrize("numbers", [[], [0, 255], [-1, 5], [-1, 255], [-200, 70_000], [0, 1 << 40]])
def test_numbers_are_the_same_in_fewer_bits(numbers: list[int]) -> None:
    assert narrow(np.array(numbers, dtype=np.int64)).tolist() == numbers


def test_draws_keep_all_their_bits() -> None:
    draws = np.array([(1 << 64) - 1, 3], dtype=np.uint64)
    assert narrow(draws).tolist() == draws.tolist()


def test_a_rank_counts_those_with_the_same_key_that_come_before() -> None:
    random = np.random.default_rng(1)
    key, draw, place = random.integers(-3, 4, 50), random.integers(0, 1 << 63, 50), random.integers(0, 300, 50)
    lines = list(zip(key.tolist(), place.tolist(), draw.tolist(), strict=True))
    expected = [sum(other[0] == line[0] and other < line for other in lines) for line in lines]
    assert ranks(key, draw.astype(np.uint64), place).tolist() == expected
