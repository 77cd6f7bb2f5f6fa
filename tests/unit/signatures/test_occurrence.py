"""Is what values have in common with neighbourhoods told from chance?"""

import numpy as np

from shoal.core.signatures.occurrence import occurrences

_RANDOM = np.random.default_rng(3)


def test_values_that_prefer_a_neighbourhood_are_counted_by_neighbourhood() -> None:
    place = np.arange(1_000)
    value = np.where(place < 500, place % 4, 4 + place % 4)
    near = occurrences(value, place, 8)
    assert len(near) == -(-1_000 // 64)
    assert near.sum(axis=0).tolist() == [125] * 8
    assert (near[:7, 4:] == 0).all()
    assert (near[8:, :4] == 0).all()


def test_what_chance_explains_is_one_neighbourhood() -> None:
    value = _RANDOM.integers(0, 40, 2_000)
    near = occurrences(value, _RANDOM.integers(0, 300, 2_000), 40)
    assert near.tolist() == [np.bincount(value, minlength=40).tolist()]


def test_people_of_one_cell_are_in_one_neighbourhood() -> None:
    place = np.repeat([0, 1], 500)
    near = occurrences(np.repeat([0, 1], 500), place, 2)
    assert near[near.sum(axis=1) > 0].tolist() == [[500, 0], [0, 500]]


def test_few_or_no_newcomers_are_one_neighbourhood() -> None:
    nobody = np.zeros(0, dtype=np.int64)
    assert occurrences(nobody, nobody, 3).tolist() == [[0, 0, 0]]
    assert occurrences(np.array([0, 1, 1]), np.array([0, 5, 5]), 3).tolist() == [[1, 2, 0]]
