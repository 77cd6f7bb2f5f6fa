"""Enumerated worlds of small series: settled groups make every spell exactly 1/m, and without any one rule not."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell, TooManyWorlds, Uneven, count_holders
from shoal.core.audit.attack.neighbours import best_insiders
from shoal.core.audit.attack.worlds import Token
from tests.support.histories.spells import Settled, draw_history, spell_out

HALF = Fraction(1, 2)
RUNS = 150


def publish(seed: int, insiders: int = 0, without: str = "", rounds: int = 2) -> tuple[list[list[EntryGroup]], Settled]:
    """A random history of people with two values of four and more, published by all rules but one."""
    random, m = Random(seed), 4 + insiders
    values = 2 * m if without == "S2" else m
    people = values + random.randint(2, m + 2)
    history = spell_out(draw_history(random, values, people, most=3 if without == "S3" else 2))
    settled = Settled(m, values, (m - insiders) // 2, random.randint(1, rounds), without)
    return settled.publish(history, random), settled


@pytest.mark.parametrize("insiders", [0, 1])
def test_in_settled_groups_every_spell_is_each_value_of_its_signature_equally_often(insiders: int) -> None:
    shown = 0
    for seed in range(RUNS):
        releases, _ = publish(seed, insiders)
        series = Series(releases)
        counted = series.count()
        found = series.check(counted, insiders)
        assert counted.worlds, "what is true must be possible"
        assert (found.spells, found.pairs) == (0, 0)
        assert found.largest <= HALF
        shown += found.largest > 0
    assert shown > RUNS // 2


def test_one_insider_learns_at_most_half_where_the_policy_has_one_and_may_learn_more_where_it_has_none() -> None:
    for insiders in (0, 1):
        largest = Fraction(0)
        for seed in range(RUNS // 3):
            releases, settled = publish(seed, insiders, rounds=1)
            largest = max(largest, best_insiders(Series(releases), settled.truth, 2).largest)
        assert (largest <= HALF) == (insiders == 1)


@pytest.mark.parametrize("rule", ["S2", "S3", "S4"])
def test_leaving_out_any_one_rule_breaks_many_histories(rule: str) -> None:
    broken = 0
    for seed in range(RUNS):
        releases, _ = publish(seed, without=rule)
        series = Series(releases)
        broken += series.check(series.count()).largest > HALF
    assert broken > RUNS // 15


def test_who_takes_a_leavers_place_learns_more_than_any_neighbour_in_a_settled_group() -> None:
    """Of somebody with two values under a signature of four a neighbour gets at most two thirds."""
    told = {"": 0, "places": 0}
    for without in told:
        for seed in range(RUNS // 3):
            releases, settled = publish(seed, without=without, rounds=1)
            told[without] += best_insiders(Series(releases), settled.truth, 2).largest > Fraction(2, 3)
    assert told[""] == 0
    assert told["places"] > RUNS // 20


def brute_force(releases: Sequence[Sequence[EntryGroup]]) -> tuple[int, dict[tuple[Spell, Token], int]]:
    """All worlds, by trying every value for every spell."""
    groups = [group for release in releases for group in release]
    spells = sorted({spell for group in groups for spell in group.rows})
    under = {spell: [set(group.shown) for group in groups if spell in group.rows] for spell in spells}
    worlds, found = 0, dict[tuple[Spell, Token], int]()
    for values in product(*(sorted(set.intersection(*under[spell])) for spell in spells)):
        world = dict(zip(spells, values, strict=True))
        is_possible = all(
            sum(world[spell] == token for spell in group.rows) <= count
            for group in groups
            for token, count in group.shown.items()
        ) and not any(
            one.person == other.person and world[one] == world[other]
            and one.first <= other.last + 1 and other.first <= one.last + 1
            for one in spells for other in spells if one < other
        )  # fmt: skip
        if is_possible:
            worlds += 1
            for pair in world.items():
                found[pair] = found.get(pair, 0) + 1
    return worlds, found


def test_counting_person_by_person_finds_the_worlds_that_trying_everything_finds() -> None:
    compared = 0
    for seed in range(80):
        releases, _ = publish(1000 + seed, without="S4" if seed % 2 else "", rounds=1)
        if not 0 < len({spell for release in releases for group in release for spell in group.rows}) <= 8:
            continue
        compared += 1
        counted = Series(releases, is_settled=False).count()
        worlds, found = brute_force(releases)
        assert counted.worlds == worlds
        shares = {(spell, token): n for spell, each in counted.spells.items() for token, n in each.items()}
        assert shares == {pair: Fraction(n, worlds) for pair, n in found.items()}
    assert compared > 20


def spell(person: str, first: int = 1, last: int = 1) -> Spell:
    return Spell(person, first, last)


FOUR: dict[Token, int] = {(value,): 1 for value in range(4)}


def test_who_takes_a_leavers_place_has_the_leavers_value_and_nobody_knows_which() -> None:
    stay = [spell(person, 1, 2) for person in "bcd"]
    releases = [[EntryGroup([spell("a"), *stay], FOUR)], [EntryGroup([spell("e", 2, 2), *stay], FOUR)]]
    series = Series(releases)
    assert series.check(series.count()) == Uneven(0, 0, Fraction(1, 4))
    same = series.count({spell("a"): (2,)})
    assert same.spells[spell("e", 2, 2)] == {(2,): 1}, "but the two have the same"


def test_a_plain_value_is_known_and_takes_nothing_from_others() -> None:
    releases = [[EntryGroup([spell("a")], {(9,): 1}), EntryGroup([spell(p) for p in "bc"], FOUR)]]
    counted = Series(releases).count()
    assert counted.spells[spell("a")] == {(9,): 1}
    assert counted.spells[spell("b")] == dict.fromkeys(FOUR, Fraction(1, 4))


def test_an_insider_who_took_a_single_leavers_place_would_know_the_leavers_value() -> None:
    stay = [spell(person, 1, 2) for person in "bcd"]
    releases = [[EntryGroup([spell("a"), *stay], FOUR)], [EntryGroup([spell("e", 2, 2), *stay], FOUR)]]
    truth: dict[Spell, Token] = {spell("a"): (0,), spell("e", 2, 2): (0,)}
    truth |= {one: (value,) for value, one in enumerate(stay, start=1)}
    found = best_insiders(Series(releases), truth, 2)
    assert (found.largest, found.over, found.people) == (Fraction(1), 2, 5)
    alone = best_insiders(Series(releases[:1]), truth, 2)
    assert (alone.largest, alone.over) == (Fraction(1, 3), 0), "of one group: one of the three other values"


def test_two_values_of_a_person_in_groups_of_one_signature_are_different_values() -> None:
    """Without S1 they could be the same, since the second came when the first had ended for a while."""
    first = [spell(person) for person in "abcd"]
    second = [Spell("a", 3, 3, 1), *(spell(person, 3, 3) for person in "efg")]
    releases = [[EntryGroup(first, FOUR)], [EntryGroup(second, FOUR)]]
    settled, loose = Series(releases).count(), Series(releases, is_settled=False).count()
    assert (settled.worlds, loose.worlds) == (24 * 18, 24 * 24)
    assert settled.people["a", (0,)] == HALF


def test_a_clique_hides_its_holder_among_its_people_unless_somebody_is_in_two() -> None:
    assert count_holders([["a", "b"], ["a", "b"], ["c", "d", "e"]]) == {
        "a": Fraction(1, 2), "b": Fraction(1, 2), "c": Fraction(1, 3), "d": Fraction(1, 3), "e": Fraction(1, 3),
    }  # fmt: skip
    shared = count_holders([["a", "b"], ["b", "c"], ["c", "a", "d"]])
    assert max(shared.values()) > Fraction(1, 2)


def test_a_table_that_is_too_large_is_not_guessed_at() -> None:
    rows = [spell(f"p{n}") for n in range(16)]
    groups = [EntryGroup(rows, {(value,): 4 for value in range(4)})]
    with pytest.raises(TooManyWorlds):
        Series([groups], limit=20).count()
