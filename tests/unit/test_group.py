"""Group formation: as small as the budget allows, and what happens where it cannot be done."""

from typing import Any

from core.group import Formation, Unit, form_groups
from core.ledger import GroupRecord, Ledger
from tests.series import DISEASES, clinic_policy

FLU, COLD, ASTHMA, GASTRITIS, HIV = range(5)


def _form(values: list[int], spare: int = 0, **privacy: Any) -> Formation:
    policy = clinic_policy(k=1, **privacy)
    units = [Unit(0, (value,)) for value in values]
    return form_groups(units, Ledger(policy), policy, {0: spare})


ONCE = {"name": "adaptive", "releases": 1}  # the ratio is l itself


def test_groups_are_no_larger_than_the_ratio_asks() -> None:
    made = _form([ASTHMA, GASTRITIS, HIV, 5, 6, 7] * 4, strategy=ONCE)
    assert [len(group.members) for group in made.groups] == [2] * 12


def test_nobody_is_lost_and_nobody_is_twice() -> None:
    values = [index % len(DISEASES) for index in range(100)] + [HIV] * 30
    made = _form(values, l=3)
    seen = sorted(position for group in made.groups for position in group.members)
    assert sorted(seen + made.withheld) == list(range(130))


def test_a_value_too_frequent_to_group_is_suppressed_beside_others() -> None:
    made = _form([HIV] * 8 + [ASTHMA, GASTRITIS], strategy=ONCE)
    stars = sum(len(group.starred) for group in made.groups)
    assert (stars, made.withheld) == (6, [])


def test_someone_alone_is_withheld_where_the_cell_can_spare_the_row_and_suppressed_where_not() -> None:
    spared, needed = _form([HIV], spare=1), _form([HIV], spare=0)
    assert (spared.groups, spared.withheld) == ([], [0])
    assert needed.groups[0].starred == {0}


def test_open_values_need_no_company() -> None:
    made = _form([FLU])
    assert made.groups[0].members == [0]
    assert made.groups[0].starred == set()


def test_someone_whose_budget_for_a_value_is_spent_is_never_grouped_with_it_again() -> None:
    policy = clinic_policy(k=1, strategy=ONCE)
    ledger, node = Ledger(policy), policy.sensitive.hierarchy.leaf_node
    ledger.put(1, GroupRecord(1, 2, ((node[HIV], 1), (node[ASTHMA], 1))))
    units = [Unit(0, (ASTHMA,), (1,)), Unit(0, (HIV,)), Unit(0, (GASTRITIS,)), Unit(0, (5,))]
    made = form_groups(units, ledger, policy, {0: 0})
    with_spent = next(group for group in made.groups if 0 in group.members)
    assert 1 not in with_spent.members or 1 in with_spent.starred
    assert 0 in with_spent.starred  # asthma is spent for them as well
