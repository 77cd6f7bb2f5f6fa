"""Dealing: second values first, everybody else where they fit, and "*" that tell nothing."""

from collections import Counter
from random import Random

import pytest

from shoal.core.signatures.dealing import Dealing, cover
from shoal.core.signatures.newcomers import NO_ROUND, Newcomers
from shoal.core.signatures.surplus import is_covered
from tests.support.newcomers import check_rounds, deal, draw_newcomers, draws_of, newcomers, signatures_of

M = 4
SETS = [(0, 1, 2, 3), (4, 5, 6, 7)]


def settle(dealing: Dealing, l: float = 2, seed: int = 0) -> bool:
    """What follows a dealing: company for those who are starred, and those dealt again who avoided them."""
    is_covered = cover([dealing], l, draws_of(seed))
    while is_covered and dealing.deal_again():
        is_covered = cover([dealing], l, draws_of(seed))
    return is_covered


def values_of(many: Newcomers, dealing: Dealing, place: int) -> list[int]:
    return sorted(many.value[dealing.rounds.members[place]].tolist())


# -- second values ------------------------------------------------------------------------------------------------


def test_a_second_value_has_a_round_of_exactly_its_signature_that_nobody_joins() -> None:
    many = newcomers([1, 0, 2, 3, 4, 5, 6, 7, 7], wanted={0: 0}, shunned={0: {0, 2, 3}})
    dealing = deal(many, SETS)
    place = dealing.rounds.round_of[0]
    assert values_of(many, dealing, place) == [0, 1, 2, 3]
    assert place in dealing.rounds.closed
    assert dealing.starred_seconds == []


def test_second_values_come_before_everybody_else() -> None:
    """There is one newcomer with value 0, whom three others would make a round with."""
    many = newcomers([1, 0, 1, 2, 3, 2, 3, 1, 2, 3, 4], wanted={0: 0})
    dealing = deal(many, SETS)
    (alone,) = dealing.rounds.closed
    assert sorted(dealing.rounds.members[alone])[:2] == [0, 1]


def test_without_a_newcomer_of_each_other_value_a_second_value_is_starred() -> None:
    many = newcomers([1, 0, 2, 4, 5, 6, 7], wanted={0: 0})
    dealing = deal(many, SETS)
    assert dealing.starred_seconds == [0]
    assert dealing.rounds.round_of[0] == NO_ROUND


def test_whoever_shuns_a_value_of_it_is_not_in_the_round_of_a_second_value() -> None:
    many = newcomers([1, 0, 0, 2, 3], wanted={0: 0}, shunned={1: {3}})
    assert sorted(deal(many, SETS).rounds.members[0]) == [0, 2, 3, 4]
    nobody = newcomers([1, 0, 2, 3], wanted={0: 0}, shunned={1: {3}})
    assert deal(nobody, SETS).starred_seconds == [0]


def test_two_second_values_of_one_person_are_in_two_rounds_and_so_are_their_others() -> None:
    many = newcomers([0, 1, 2, 3, 0, 1, 2, 3], wanted={0: 0, 1: 0}, people=[(0, 1)])
    dealing = deal(many, SETS)
    assert len(dealing.rounds.closed) == 2
    assert dealing.rounds.round_of[0] != dealing.rounds.round_of[1]


# -- everybody else -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_everybody_is_in_a_round_that_they_fit_or_starred(seed: int) -> None:
    random = Random(seed)
    many = draw_newcomers(random, random.choice([6, 9]), random.choice([16, 40, 120]))
    dealing = deal(many, seed=seed)
    is_shown = settle(dealing, seed=seed)
    check_rounds(many, dealing.rounds, M)
    starred = {one for one, place in enumerate(dealing.rounds.round_of) if place == NO_ROUND}
    assert starred == dealing.starred
    assert dealing.company <= dealing.starred
    if is_shown:
        assert is_covered(Counter(many.value[sorted(starred)].tolist()).values(), 2)


def test_nobody_is_starred_where_nothing_stands_in_the_way() -> None:
    for size in range(12, 60, 7):
        dealing = deal(newcomers([at % 12 for at in range(size)]))
        assert dealing.starred == set()
        assert all(M <= len(values) < 2 * M for values in signatures_of(dealing))


def test_a_value_that_one_in_m_have_is_in_every_round_and_nobody_is_starred() -> None:
    dealing = deal(newcomers([0] * 15 + [1 + at % 9 for at in range(45)]))
    assert dealing.starred == set()
    assert all(values[0] == 0 for values in signatures_of(dealing))


def test_what_is_too_frequent_is_starred_with_others_and_no_value_is_more_than_its_share() -> None:
    many = newcomers([0] * 20 + [1 + at % 6 for at in range(42)])
    dealing = deal(many)
    assert settle(dealing)
    counts = Counter(many.value[sorted(dealing.starred)].tolist())
    assert counts[0] * 2 <= counts.total()
    assert counts[0] >= 4
    assert dealing.company


def test_values_of_one_person_have_nothing_in_common() -> None:
    """Two values each: whoever holds both is shown among eight values in all."""
    people = [(2 * at, 2 * at + 1) for at in range(20)]
    values = [value for at in range(20) for value in (at % 5, 5 + (at + 2) % 5)]
    many = newcomers(values, people=people)
    dealing = deal(many)
    check_rounds(many, dealing.rounds, M)
    shown = [pair for pair in people if NO_ROUND not in (dealing.rounds.round_of[one] for one in pair)]
    assert len(shown) > 10
    for one, other in shown:
        masks = [dealing.rounds.masks[dealing.rounds.round_of[each]] for each in (one, other)]
        assert not masks[0] & masks[1]


# -- stars --------------------------------------------------------------------------------------------------------


def test_whole_rounds_are_starred_until_those_without_one_are_covered() -> None:
    many = newcomers([0, 1, 2, 3] * 5 + [4, 4], shunned={20: {0, 1, 2, 3}, 21: {0, 1, 2, 3}})
    dealing = deal(many)
    assert dealing.starred == {20, 21}
    assert cover([dealing], 2, draws_of(0))
    assert len(dealing.company) == 4
    assert len({many.value[one] for one in dealing.company}) == 4
    assert cover([deal(many)], 4, draws_of(0))


def test_if_they_cannot_be_covered_nobody_is_shown() -> None:
    many = newcomers([0, 1, 2, 3] + [4] * 8, shunned={at: {0, 1, 2, 3} for at in range(4, 12)})
    assert not settle(deal(many))


def test_rounds_of_second_values_are_no_company() -> None:
    many = newcomers([1, 0, 2, 3, 4], wanted={0: 0})
    dealing = deal(many, SETS)
    assert dealing.starred == {4}
    assert not settle(dealing)
    assert dealing.rounds.members[dealing.rounds.round_of[0]]


def test_stars_of_two_pools_cover_each_other_if_nobody_can_tell_them_apart() -> None:
    one, other = (deal(newcomers([value]), leaves=8) for value in (0, 4))
    assert cover([one, other], 2, draws_of(0))
    assert not cover([one], 2, draws_of(0))


def share_that_avoids(*, are_of_one: bool, runs: int = 160) -> float:
    """How often the round of a newcomer with value 0 does not show 4, where another one with 4 is starred.

    The other one shuns too much to be in any round. `are_of_one` says whether both are of one person.
    """
    shown = []
    for seed in range(runs):
        random = Random(seed)
        values = [0, 4, *(random.randrange(6) for _ in range(30))]
        many = newcomers(values, people=[(0, 1)] * are_of_one, shunned={1: {0, 1, 2, 3, 5}}, seed=seed)
        dealing = deal(many, seed=seed)
        if settle(dealing, seed=seed) and dealing.rounds.round_of[0] != NO_ROUND:
            assert 1 in dealing.starred
            shown.append(dealing.rounds.masks[dealing.rounds.round_of[0]])
    assert len(shown) > runs / 2
    return sum(not mask & 1 << 4 for mask in shown) / len(shown)


def test_a_value_that_is_starred_has_no_say_in_the_signature_of_another_one() -> None:
    """Else a signature that avoids it tells it."""
    assert abs(share_that_avoids(are_of_one=True) - share_that_avoids(are_of_one=False)) < 0.1


@pytest.mark.parametrize("spoil", ["nobody", "their rounds alone"])
def test_a_dealer_who_does_not_deal_again_tells_what_is_starred(monkeypatch: pytest.MonkeyPatch, spoil: str) -> None:
    if spoil == "nobody":
        monkeypatch.setattr(Dealing, "deal_again", lambda self: False)
    else:  # whose members are the same, and their values
        monkeypatch.setattr("shoal.core.signatures.dealing.DEALT_AGAIN_WITH", 0)
    assert share_that_avoids(are_of_one=True) > 0.75
