"""Settled groups beside other publishers, in enumerated worlds: a budget of rounds keeps the promise, others do not."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random

import pytest

from shoal.core.policy.policy import Policy, build_policy
from shoal.core.signatures.budget import Budget
from tests.support.beside.budget import ABSENT, ALL, BETWEEN, INVERSE, REST, SOME, WEIGHT, Counts, Signature, may_stand
from tests.support.beside.parts import Late, deal_before, deal_parts
from tests.support.beside.tables import Rule, Ward, deal, draw_ward, each_alone, together, untied
from tests.support.beside.worlds import Person, Table, Told, count_worlds, judge, knowing

RUNS = 1500
NOTHING = Told(frozenset(), frozenset())


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


def test_even_parts_tell_nothing_where_external_groups_are_tied() -> None:
    broken = Counter[str]()
    tables = 0
    for seed in range(2 * RUNS):
        ward = even_out(Random(seed))
        if sum(map(sum, (e.values() for e in ward.others))) > 11:
            continue  # many strangers have many worlds
        for name, how in {"rule": {}, "stars": {"is_all": False}, "crossing": {"is_cut": False}}.items():
            table = deal_parts(Random(seed), ward, 2, **how)
            if table.groups:
                tables += name == "rule"
                broken[name] += judge(table, 2, 2) != NOTHING
    assert tables > 100
    assert (broken["rule"], broken["stars"] > 20, broken["crossing"] > 20) == (0, True, True)


def even_out(random: Random) -> Ward:
    """A ward in which strangers make the others' counts alike for half of the values, or for all."""
    ward = draw_ward(random, others=2, moving=True)
    held = {one: [at % ward.values] for at, one in enumerate(ward.held)}
    others = []
    for e in range(2):
        counts = Counter(held[one][0] for one, which in ward.inside.items() if e in which)
        values = range(random.choice([0, ward.values // 2]), ward.values)
        top = max((counts[value] for value in values), default=0)
        others.append(dict(+(counts | Counter(dict.fromkeys(values, top)))))
    return ward._replace(held=held, others=others)


def test_who_may_stay_when_a_publication_arrives_later() -> None:
    stay, broken = Counter[str](), Counter[str]()
    for seed in range(2 * RUNS):
        random = Random(seed)
        ward = draw_ward(random, random.choice([1, 1, 2]), moving=True)
        if random.random() < 0.3:
            ward = even_out(random)
        table = deal_before(random, ward)
        if not table.groups:
            continue
        late, told = Late(ward, table), judge(table, 2, 2)
        for person in late.shown():
            for name, stays in {
                "rule": late.by_rule(person, 2),
                "counts": late.by_counts(person, 2, through_groups=True),
                "own counts": late.by_counts(person, 2, through_groups=False),
                "all": True,
            }.items():
                stay[name] += stays
                broken[name] += stays and person in told.over | told.few
    assert stay["rule"] > 200
    assert broken["rule"] == 0
    assert min(broken[name] / stay[name] for name in ("counts", "own counts", "all")) > 0.02


def test_a_budget_for_insiders_holds_whomever_the_adversary_knows() -> None:
    policy, broken = build_policy(DOCUMENT, {}, b""), Counter[int]()
    tables = 0
    for seed in range(RUNS):
        for insiders in (0, 1):
            random = Random(seed)
            ward = draw_ward(random)
            table = deal(random, ward._replace(m=max(3, ward.m)), each_alone(ward), by_engine(policy, insiders))
            if not table.groups or len(table.people) < 2:
                continue
            tables += insiders
            known = [judge(knowing(table, one, ward.held[one][0]), 2, 2) for one in table.people]
            broken[insiders] += any(told != NOTHING for told in known)
    assert (broken[1], broken[0] > 50, tables > 20) == (0, True, True)


DOCUMENT = {
    "table": "ward",
    "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
    "sensitive": {"name": "disease", "values": [f"d{rank}" for rank in range(8)]},
    "privacy": {"k": 2, "l": 2, "signature": 4, "overlap": 2},
}


def by_engine(policy: Policy, insiders: int) -> Rule:
    """The engine's own budget."""

    def may_stand(e: Counts, rounds: Counter[Signature]) -> bool:
        budget = Budget(policy, dict(e), insiders)
        for signature in rounds.elements():
            budget.add(signature)
        return budget.holds()

    return may_stand


def test_somebody_whose_mates_are_elsewhere_is_found_by_intersecting_both() -> None:
    table = Table(5, [dict.fromkeys(range(4), 1)], [{0: 1, 4: 1}], {"a": Person([0], inside={0: [0]})})
    assert count_worlds(table, set()).share(("a", 0), 0) == 1
    assert judge(table, 2, 2).few == {"a"}
    assert not may_stand({0: 1, 4: 1}, Counter([(0, 1, 2, 3)]), 2, 2)


def test_worlds_weigh_each_value_as_often_as_the_others_show_it() -> None:
    table = Table(5, [dict.fromkeys(range(4), 1)], [{0: 3, 1: 2, 4: 1}], {"a": Person([0], inside={0: [0]})})
    counted = count_worlds(table, set())
    assert [counted.share(("a", 0), value) for value in range(5)] == [Fraction(3, 5), Fraction(2, 5), 0, 0, 0]
