"""Settled groups beside other publishers, in enumerated worlds: a budget of rounds keeps the promise, others do not."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random

import pytest

from tests.support.beside.budget import ABSENT, ALL, BETWEEN, INVERSE, REST, SOME, WEIGHT, may_stand
from tests.support.beside.tables import Rule, Ward, deal, draw_ward, each_alone, together, untied
from tests.support.beside.worlds import Person, Table, Told, count_worlds, judge

RUNS = 1500
NOTHING = Told(0, 0)


def budget(l: int = 2, alpha: int = 2, parts: frozenset[str] = ALL) -> Rule:
    return lambda e, rounds: may_stand(e, rounds, l, alpha, parts)


def count_broken(
    rule: Rule,
    pools: Callable[[Ward], Sequence[Sequence[str]]] = each_alone,
    runs: int = RUNS,
    l: int = 2,
    alpha: int = 2,
    most: int = 1,
    others: int = 1,
    several: bool = False,
) -> tuple[int, int]:
    """In how many of the tables that show anybody the promise is broken, and how many these are."""
    broken = tables = 0
    for seed in range(runs):
        random = Random(seed)
        ward = draw_ward(random, others, moving=others > 1, several=several)
        table = deal(random, ward, pools(ward), rule, most)
        if table.groups and any(person.inside for person in table.people.values()):
            tables += 1
            broken += judge(table, l, alpha) != NOTHING
    return broken, tables


@pytest.mark.parametrize(("l", "alpha"), [(2, 2), (2, 3), (3, 3)])
def test_rounds_within_the_budget_of_an_external_group_tell_no_more_than_promised(l: int, alpha: int) -> None:
    broken, tables = count_broken(budget(l, alpha), l=l, alpha=alpha)
    assert (broken, tables > 60) == (0, True)


@pytest.mark.parametrize("part", [REST, WEIGHT, ABSENT, INVERSE, BETWEEN, SOME])
def test_each_part_of_the_budget_is_needed(part: str) -> None:
    broken, _ = count_broken(budget(parts=ALL - {part}), runs=6 * RUNS if part == INVERSE else 2 * RUNS)
    assert broken > 3


def test_pools_without_a_budget_break_many_tables() -> None:
    broken, tables = count_broken(lambda e, rounds: True)
    assert broken > tables // 4


def test_several_external_groups_are_safe_if_they_share_nobody_and_no_group() -> None:
    broken, tables = count_broken(budget(), others=2, runs=2 * RUNS)
    assert (broken, tables > 200) == (0, True)


@pytest.mark.parametrize("pools", [untied, together])
def test_people_or_groups_inside_two_external_groups_tie_them(pools: Callable[[Ward], Sequence[Sequence[str]]]) -> None:
    assert count_broken(budget(), pools, others=2, runs=2 * RUNS)[0] > 3


def test_only_people_with_one_value_may_be_shown_inside() -> None:
    broken, tables = count_broken(budget(), several=True)
    assert (broken, tables > 100) == (0, True)
    assert count_broken(budget(), several=True, most=2, runs=2 * RUNS)[0] > 10


def test_somebody_whose_mates_are_elsewhere_is_found_by_intersecting_both() -> None:
    table = Table(5, [dict.fromkeys(range(4), 1)], [{0: 1, 4: 1}], {"a": Person([0], inside={0: [0]})})
    assert count_worlds(table, set()).share(("a", 0), 0) == 1
    assert judge(table, 2, 2).few == 1
    assert not may_stand({0: 1, 4: 1}, Counter([(0, 1, 2, 3)]), 2, 2)


def test_worlds_weigh_each_value_as_often_as_the_others_show_it() -> None:
    table = Table(5, [dict.fromkeys(range(4), 1)], [{0: 3, 1: 2, 4: 1}], {"a": Person([0], inside={0: [0]})})
    counted = count_worlds(table, set())
    assert [counted.share(("a", 0), value) for value in range(5)] == [Fraction(3, 5), Fraction(2, 5), 0, 0, 0]
