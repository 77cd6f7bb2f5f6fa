"""Values that are too frequent: as many rounds as there can be, and company for those who are in none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.signatures.surplus import Surplus, find_surplus, is_covered, keep

M = 4
counts_of_values = st.lists(st.integers(0, 30), min_size=4, max_size=10).map(np.array)
levels = st.sampled_from([2, 2.5, 3])


def can_have(counts: np.ndarray, rounds: int, l: float) -> bool:
    """Whether so many rounds of M leave enough others to be starred with the most frequent of what is too much."""
    over = np.maximum(counts - rounds, 0)
    company = max(0.0, l * over.max() - over.sum())
    return bool(counts.sum() - over.sum() - np.ceil(company) >= M * rounds)


@given(counts_of_values, levels)
def test_there_are_as_many_rounds_as_there_can_be(counts: np.ndarray, l: float) -> None:
    found = find_surplus(counts, M, l)
    possible = [rounds for rounds in range(counts.sum() // M + 1) if can_have(counts, rounds, l)]
    assert found.rounds == max(possible, default=0)


@given(counts_of_values, levels, st.integers(0, 1000))
def test_what_is_kept_makes_rounds_and_no_value_too_frequent_is_more_than_its_share_of_the_rest(
    counts: np.ndarray, l: float, seed: int
) -> None:
    surplus, value, draw = draw_kept(counts, l, seed)
    kept, company = keep(value, draw, surplus)
    assert len(kept) >= M * surplus.rounds
    if surplus.rounds:
        shown = np.bincount(value[kept], minlength=len(counts))
        assert shown.max() <= surplus.rounds
        starred = counts - shown
        is_top = counts > surplus.rounds
        assert not len(company) or not is_top[value[company]].any()
        if len(company) == surplus.company:  # else the others are too few, and `cover` stars whole rounds besides
            assert starred[is_top].max(initial=0) * l <= starred.sum()
    else:
        assert len(kept) == len(company) == 0


def draw_kept(counts: np.ndarray, l: float, seed: int) -> tuple[Surplus, np.ndarray, np.ndarray]:
    """Newcomers with so many of each value, in any order."""
    random = np.random.default_rng(seed)
    value = random.permutation(np.repeat(np.arange(len(counts)), counts))
    return find_surplus(counts, M, l), value, random.integers(0, 1 << 60, len(value)).astype(np.uint64)


@given(st.integers(0, 1000))
def test_the_company_is_drawn_unseen(seed: int) -> None:
    """Of those whose values are not too frequent everybody is as likely: renaming their values changes nobody."""
    counts = np.array([20, 5, 9, 7, 8])
    surplus, value, draw = draw_kept(counts, 2, seed)
    renamed = np.array([0, 2, 3, 4, 1])[value]
    again = find_surplus(np.bincount(renamed), M, 2)
    assert surplus.company == again.company > 0
    assert keep(value, draw, surplus)[1].tolist() == keep(renamed, draw, again)[1].tolist()


def test_a_value_that_is_half_of_all_newcomers_is_starred_with_as_many_others() -> None:
    counts = np.array([10, 4, 4, 4, 4])
    surplus = find_surplus(counts, M, 2)
    starred = int((counts - surplus.shown).sum()) + surplus.company
    assert starred == 2 * (10 - surplus.rounds)
    assert 26 - starred >= M * surplus.rounds > 0


@pytest.mark.parametrize(
    ("counts", "l", "expected"),
    [
        ([], 2, True),
        ([1], 2, False),
        ([1, 1], 2, True),
        ([2, 1], 2, False),
        ([2, 2], 2.5, False),
        ([2, 2, 1], 2.5, True),
    ],
)
def test_no_value_is_more_than_its_share_of_those_starred(counts: list[int], l: float, expected: bool) -> None:
    assert is_covered(counts, l) == expected
