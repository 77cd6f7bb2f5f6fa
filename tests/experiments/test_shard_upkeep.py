"""The model by hand, and what it says of the goal for shards."""

from tests.experiments.shard_upkeep import PEOPLE, SHARDS, counterfeits


def test_no_place_stays_empty_where_newcomers_abound() -> None:
    assert counterfeits(1, 3, is_safe=False, fitting=100.0) == [0, 0, 0]


def test_more_places_stay_empty_in_every_release_where_nobody_fits() -> None:
    first, second, third = counterfeits(1, 3, fitting=0.0)
    assert 0 < first < second < third


def test_the_rule_for_offers_leaves_more_places_empty_than_offering_all_at_once() -> None:
    assert counterfeits(SHARDS, 2, fitting=1.0)[-1] > counterfeits(SHARDS, 2, is_safe=False, fitting=1.0)[-1]


def test_four_shards_cost_more_than_the_goal_even_here() -> None:
    """The goal was 1.2 times the counterfeits of one shard, of which the engine has 0.15 %."""
    one, four = (counterfeits(shards, 2)[-1] for shards in (1, SHARDS))
    assert four / one > 3
    assert four / PEOPLE > 1.2 * 0.0015
