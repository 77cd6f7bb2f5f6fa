"""Rounds laid by counts alone: everybody is in one, no value twice, few signatures, and the rows of one near each other."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.signatures.layout import Layout, lay_rounds
from shoal.core.signatures.newcomers import values_in

M = 4
counts_of_values = st.lists(st.integers(0, 12), min_size=4, max_size=14).filter(
    lambda counts: sum(counts) >= M * max(counts) > 0
)


def lay(counts: list[int], seed: int = 0, rounds: int | None = None) -> tuple[np.ndarray, np.ndarray, Layout]:
    """Values, places and rounds of newcomers with so many of each value, in any order."""
    random = Random(seed)
    values = [value for value, count in enumerate(counts) for _ in range(count)]
    random.shuffle(values)
    value, size = np.array(values), len(values)
    place = np.array([random.randrange(100_000) for _ in values])
    draw = np.array([random.getrandbits(60) for _ in values], dtype=np.uint64)
    order = sorted(range(len(counts)), key=lambda one: -counts[one])
    return value, place, lay_rounds(value, place, draw, order, rounds or max(max(counts), size // M))


@given(counts_of_values, st.integers(0, 1000))
def test_everybody_is_in_a_round_and_no_round_has_a_value_twice(counts: list[int], seed: int) -> None:
    value, _, laid = lay(counts, seed)
    shown = [value[laid.round == number].tolist() for number in range(len(laid.masks))]
    assert sum(map(len, shown)) == len(value)
    for values, mask in zip(shown, laid.masks, strict=True):
        assert tuple(sorted(values)) == values_in(mask)
        assert M <= len(values) < 2 * M


@given(counts_of_values)
def test_there_are_hardly_more_signatures_than_values(counts: list[int]) -> None:
    assert len(set(lay(counts)[2].masks)) <= np.count_nonzero(counts) + 1


def test_values_that_stand_next_to_each_other_share_signatures() -> None:
    laid = lay([50, 50, 50, 50, 10, 10, 10, 10])[2]
    assert set(map(values_in, laid.masks)) == {(0, 1, 2, 3), (4, 5, 6, 7)}


@pytest.mark.parametrize("counts", [[400] * 4, [400, 300, 200, 150, 150, 100, 50, 50, 40, 40, 30, 20]])
def test_the_rows_of_a_round_are_near_each_other(counts: list[int]) -> None:
    """As near as so few of its rarest value allow; dealt anywhere, its rows would lie all over the table."""
    value, place, laid = lay(counts)
    spread = [np.ptp(place[laid.round == number]) for number in range(len(laid.masks))]
    anywhere = [np.ptp(place[np.roll(laid.round, 7 * M)][laid.round == number]) for number in range(len(laid.masks))]
    assert len(value) == sum(counts)
    assert np.median(spread) * 4 < np.median(anywhere)


def test_who_has_which_draw_decides_only_between_neighbours() -> None:
    """Whoever shares a value and a place is told apart by the draw alone: nothing else of a row has a say."""
    counts = [3, 3, 3, 3]
    value = np.repeat(np.arange(4), 3)
    place, draw = np.zeros(12, dtype=np.int64), np.arange(12, dtype=np.uint64)
    first = lay_rounds(value, place, draw, [0, 1, 2, 3], 3).round
    turned = lay_rounds(value, place, draw[::-1].copy(), [0, 1, 2, 3], 3).round
    assert first.reshape(4, 3).tolist() == turned.reshape(4, 3)[:, ::-1].tolist()
    assert sum(counts) == len(value)
