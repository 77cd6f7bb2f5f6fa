"""Rounds newcomer by newcomer: who fits where, and what is mended around those who found none."""

from random import Random

import pytest

from shoal.core.signatures.newcomers import NO_ROUND, mask_of
from shoal.core.signatures.rounds import Rounds
from tests.support.newcomers import check_rounds, draw_newcomers, newcomers, rounds_of

M = 4


@pytest.mark.parametrize("seed", range(30))
def test_everybody_fits_their_round_and_is_in_one_or_left(seed: int) -> None:
    random = Random(seed)
    many = draw_newcomers(random, random.choice([5, 8, 12]), random.choice([8, 20, 60]))
    rounds = rounds_of(many, M, seed)
    left = rounds.mend(rounds.build(range(len(many.value))))
    check_rounds(many, rounds, M)
    assert sorted(left) == [one for one, place in enumerate(rounds.round_of) if place == NO_ROUND]


def test_a_round_shows_neither_what_somebody_shuns_nor_anybody_twice() -> None:
    many = newcomers([0, 1, 2, 3, 4, 1], shunned={0: {1}}, people=[(2, 4)])
    rounds = rounds_of(many)
    assert rounds.add([0, 2, 3]) == 0
    assert rounds.shuns(0) == mask_of({1})
    assert rounds.shuns(4) == mask_of({0, 2, 3}), "the round of another value of theirs"
    assert rounds.shuns(2) == mask_of({4}), "which is to be shown elsewhere"
    assert not rounds.may_enter(4, mask_of({0, 3, 4}), [])
    assert rounds._join(1, [0]) is False, "the first shuns its value"
    assert rounds._join(4, [0]) is False


def test_what_is_starred_has_no_say() -> None:
    many = newcomers([0, 1, 2, 3], people=[(0, 3)])
    rounds = rounds_of(many, 3)
    assert rounds.shuns(0) == mask_of({3})
    rounds.unseen.add(3)
    assert rounds.shuns(0) == 0


def test_closed_rounds_stay_as_they_are() -> None:
    """Everybody else would have to be in one of them."""
    many = newcomers([0, 1, 2, 3, 4, 5, 0])
    rounds = rounds_of(many)
    rounds.closed.add(rounds.add([0, 1, 2, 3]))
    assert sorted(rounds.mend([4, 5, 6])) == [4, 5, 6]
    assert rounds.members[0] == [0, 1, 2, 3]


def test_who_is_left_joins_a_round_that_has_room() -> None:
    rounds = rounds_of(newcomers([0, 1, 2, 3, 4]))
    assert rounds.build(range(5)) == []
    assert sorted(rounds.members[0]) == [0, 1, 2, 3, 4]


def test_a_value_that_nearly_one_in_m_have_is_in_every_round() -> None:
    values = [0] * 20 + [1 + at % 12 for at in range(60)]
    rounds = rounds_of(newcomers(values))
    assert rounds.mend(rounds.build(range(80))) == []
    assert all(mask & 1 for mask in rounds.masks if mask)


@pytest.mark.parametrize("seed", range(20))
def test_mending_never_leaves_more_than_before(seed: int) -> None:
    random = Random(100 + seed)
    many = draw_newcomers(random, 7, 50)
    rounds = rounds_of(many, M, seed)
    rounds.closed.update(place for place in range(2) if place < len(rounds.members))
    left = rounds.build(range(50))
    before = len(left)
    assert len(rounds.mend(left)) <= before
    check_rounds(many, rounds, M)


def test_mending_finds_rounds_where_building_did_not() -> None:
    mended = 0
    for seed in range(40):
        many = draw_newcomers(Random(seed), 8, 40)
        rounds = rounds_of(many, M, seed)
        left = rounds.build(range(40))
        mended += len(left) - len(rounds.mend(list(left)))
    assert mended > 10


def test_two_of_one_value_change_places_if_both_fit_then() -> None:
    values = [0, 1, 2, 3, 0, 4, 5, 6]
    for shunned, expected in (({0: {1}}, True), ({0: {1}, 4: {2}}, False), ({0: {1, 5}}, False)):
        rounds: Rounds = rounds_of(newcomers(values, shunned=shunned))
        rounds.add([0, 1, 2, 3])
        rounds.add([4, 5, 6, 7])
        assert rounds.swap(0, [4]) == expected
        assert rounds.round_of[0] == int(expected)
        assert sorted(rounds.members[0]) == ([1, 2, 3, 4] if expected else [0, 1, 2, 3])
