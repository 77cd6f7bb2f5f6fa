"""Numbers of Wong et al. that the ledger and the strategies must reproduce."""

from fractions import Fraction

import pytest

from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.policy.strategy import Adaptive, ConstantRatio, Geometric, hard_minimum
from tests.support.engines.series import clinic_policy


@pytest.mark.parametrize(
    ("l", "releases", "ratio"),
    [
        (2, 2, 3.414),
        (2, 5, 7.725),
        (2, 10, 14.93),
        (2, 20, 29.36),
        (5, 10, 45.32),
        (5, 20, 90.13),
        (10, 10, 95.41),
        (10, 20, 190.32),
    ],
)
def test_the_constant_ratio_is_that_of_table_1(l: int, releases: int, ratio: float) -> None:
    assert ConstantRatio(releases=releases).target(l, 1.0, 0) == pytest.approx(ratio, abs=0.005)


def test_adaptive_equals_constant_ratio_while_every_group_was_exactly_full() -> None:
    ratio = ConstantRatio(releases=5).target(2, 1.0, 0)
    for exposures in range(5):
        assert Adaptive(releases=5).target(2, (1 - 1 / ratio) ** exposures, exposures) == pytest.approx(ratio)


def test_adaptive_asks_for_less_after_a_luckier_group() -> None:
    assert Adaptive(releases=5).target(2, 0.95, 1) < ConstantRatio(releases=5).target(2, 1.0, 0)


def test_geometric_starts_at_alpha_times_l() -> None:
    assert Geometric(alpha=3).target(2, 1.0, 0) == 6


def test_after_two_exposures_in_groups_of_four_the_third_needs_a_ratio_of_nine() -> None:
    assert hard_minimum(2, (3 / 4) ** 2) == pytest.approx(9)


def test_a_spent_budget_needs_an_infinite_ratio() -> None:
    assert hard_minimum(2, 0.5) == float("inf")


@pytest.mark.parametrize(("people", "breach"), [(2, Fraction(3, 4)), (4, Fraction(7, 16))])
def test_two_releases_add_up_as_in_figures_2_and_4(people: int, breach: Fraction) -> None:
    policy = clinic_policy()
    ledger, hiv = Ledger(policy), policy.sensitive.hierarchy.leaf_code["hiv"]
    node = policy.sensitive.hierarchy.leaf_node[hiv]
    ledger.extend([(group, GroupRecord(group, people, ((node, 1),))) for group in (1, 2)])
    assert ledger.breach((1, 2), hiv, hiv + 1) == breach


def test_a_group_carried_over_is_charged_once() -> None:
    policy = clinic_policy()
    ledger, hiv = Ledger(policy), policy.sensitive.hierarchy.leaf_code["hiv"]
    ledger.extend([(1, GroupRecord(1, 4, ((policy.sensitive.hierarchy.leaf_node[hiv], 1),)))])
    assert ledger.breach((1,), hiv, hiv + 1) == Fraction(1, 4)


def test_exactly_the_bound_can_be_afforded_and_a_hair_more_cannot() -> None:
    policy = clinic_policy(l=3)
    ledger, hiv = Ledger(policy), policy.sensitive.hierarchy.leaf_code["hiv"]
    node = policy.sensitive.hierarchy.leaf_node[hiv]
    ledger.extend(
        [(1, GroupRecord(1, 5, ((node, 1),)))]
    )  # survival 4/5; 2/3 is the floor, so 5/6 is exactly affordable
    assert ledger.can_afford((1,), (hiv, hiv + 1), 0.8, 1, 6, Fraction(1, 3))
    assert not ledger.can_afford((1,), (hiv, hiv + 1), 0.8, 1 + Fraction(1, 10**14), 6, Fraction(1, 3))


def test_suppressed_values_weigh_nothing_and_take_their_person_out_of_n() -> None:
    policy = clinic_policy()
    ledger, hiv = Ledger(policy), policy.sensitive.hierarchy.leaf_code["hiv"]
    node = policy.sensitive.hierarchy.leaf_node[hiv]
    ledger.extend([(1, GroupRecord(1, 6, ((0, 2), (node, 1))))])
    assert ledger.breach((1,), hiv, hiv + 1) == Fraction(1, 4)
