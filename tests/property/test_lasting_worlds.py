"""Enumerated worlds of small series: rules S1 to S4 make every spell exactly 1/m, and without any one of them not."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from shoal.core.audit.attack.insider import Insight, best_insider
from shoal.core.audit.attack.lasting_worlds import (
    EntryGroup,
    Series,
    Spell,
    TooManyWorlds,
    Uneven,
    count_holders,
)
from shoal.core.audit.attack.worlds import Token
from tests.support.histories.spells import (
    M,
    by_block,
    draw_history,
    drawn_each_time,
    drawn_once,
    few,
    publish,
    spell_out,
)

VALUES, L = 8, 2
RUNS = 200


def judge(releases: Sequence[Sequence[EntryGroup]], is_sticky: bool = True) -> Uneven:
    series = Series(releases, L, is_sticky)
    counted = series.count()
    assert counted.worlds, "what is true must be possible"
    return series.check(counted)


def test_under_s1_to_s4_every_spell_is_each_value_of_its_signature_equally_often() -> None:
    for seed in range(RUNS):
        random = Random(seed)
        history = few(spell_out(draw_history(random, VALUES)), M // L)
        found = judge(publish(history, by_block, random))
        assert (found.spells, found.pairs) == (0, 0)
        assert found.largest <= Fraction(1, L)


@pytest.mark.parametrize("rule", ["S1", "S2", "S3", "S4"])
def test_leaving_out_any_one_rule_breaks_many_histories(rule: str) -> None:
    broken = 0
    for seed in range(RUNS):
        random = Random(seed)
        history = spell_out(draw_history(random, VALUES))
        sign = {"S1": drawn_each_time(VALUES, seed), "S2": drawn_once(VALUES, seed)}.get(rule, by_block)
        kept = history if rule in ("S2", "S3") else few(history, M // L)
        # An adversary who believed in the rule that is broken would exclude the truth, so they do not here.
        found = judge(publish(kept, sign, random, is_even=rule != "S4"), is_sticky=False)
        broken += found.largest > Fraction(1, L)
    assert broken > RUNS // 4


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
    for seed in range(60):
        random = Random(1000 + seed)
        history = few(spell_out(draw_history(random, VALUES, most=1)), M)
        releases = publish(history, by_block, random, is_even=seed % 2 == 0)
        if len({spell for entries in history for spell in entries}) > 7:
            continue
        compared += 1
        counted = Series(releases, L, is_sticky=False).count()
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
    series = Series(releases, L)
    assert series.check(series.count()) == Uneven(0, 0, Fraction(1, 4))
    same = series.count({spell("a"): (2,)})
    assert same.spells[spell("e", 2, 2)] == {(2,): 1}, "but the two have the same"


def test_a_plain_value_is_known_and_takes_nothing_from_others() -> None:
    releases = [[EntryGroup([spell("a")], {(9,): 1}), EntryGroup([spell(p) for p in "bc"], FOUR)]]
    counted = Series(releases, L).count()
    assert counted.spells[spell("a")] == {(9,): 1}
    assert counted.spells[spell("b")] == dict.fromkeys(FOUR, Fraction(1, 4))


def test_an_insider_who_takes_a_single_leavers_place_knows_the_leavers_value() -> None:
    stay = [spell(person, 1, 2) for person in "bcd"]
    releases = [[EntryGroup([spell("a"), *stay], FOUR)], [EntryGroup([spell("e", 2, 2), *stay], FOUR)]]
    truth: dict[Spell, Token] = {spell("a"): (0,), spell("e", 2, 2): (0,)}
    truth |= {one: (value,) for value, one in enumerate(stay, start=1)}
    found = best_insider(Series(releases, L), truth, L)
    assert found == Insight(Fraction(1), 2, 5)
    alone = best_insider(Series(releases[:1], L), truth, L)
    assert (alone.largest, alone.over) == (Fraction(1, 3), 0), "of one group: one of the three other values"


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
        Series([groups], L, limit=20).count()
