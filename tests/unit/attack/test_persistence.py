"""The persistence attack: exact where it can be enumerated, sure of bad publishers' people, helpless against S1-S5."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from random import Random

import pytest

from shoal.core.audit.attack.chance import is_beyond_chance, tail
from shoal.core.audit.attack.persistence import STAYS, Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup
from shoal.core.audit.attack.worlds import Token
from tests.support.histories.staying import (
    Blocks,
    Table,
    group_of,
    live,
    publish_naively,
    publish_redrawn,
    truth,
)

HALF = Fraction(1, 2)
Series = Sequence[tuple[Sequence[Sequence[str]], Table]]  # groups of people, and the truth


def attack(series: Series, leaves: int) -> PersistenceAttack:
    found = PersistenceAttack(leaves, is_by_person=True)
    for groups, table in series:
        found.see([group_of(at, people, table) for at, people in enumerate(groups)], truth(table))
    return found


def enumerate_beliefs(series: Series, person: str, leaves: int, stay: float) -> list[list[float]]:
    """P(value) of a person at each release, from all paths of all people, given only the groups the person was in."""
    shown = Counter(table[one] for groups, table in series for people in groups for one in people)
    prior = [shown[value] / shown.total() for value in range(leaves)]
    groups = [next(people for people in groups if person in people) for groups, _ in series]
    everyone = sorted({one for people in groups for one in people})
    wanted = [Counter(table[one] for one in people) for people, (_, table) in zip(groups, series, strict=True)]

    def chance(path: Sequence[int]) -> float:
        found = prior[path[0]]
        for one, other in pairwise(path):
            found *= stay * (one == other) + (1 - stay) * prior[other]
        return found

    paths = [(path, chance(path)) for path in product(range(leaves), repeat=len(series))]
    paths = [(path, weight) for path, weight in paths if weight]
    found = [[0.0] * leaves for _ in series]
    for world in product(paths, repeat=len(everyone)):
        of = dict(zip(everyone, (path for path, _ in world), strict=True))
        if any(Counter(of[one][at] for one in groups[at]) != wanted[at] for at in range(len(series))):
            continue
        weight = 1.0
        for _, each in world:
            weight *= each
        for at in range(len(series)):
            found[at][of[person][at]] += weight
    return [[value / sum(row) for value in row] for row in found]


def surest(series: Series, leaves: int, stay: float) -> dict[str, tuple[int, int, float]]:
    return {
        belief.person: (belief.release, belief.leaf, belief.belief)
        for _, belief in attack(series, leaves).beliefs((), (stay,))
    }


STRANGERS: Series = [
    ([["a", "b"], ["c", "d"]], {"a": 0, "b": 1, "c": 2, "d": 1}),
    ([["a", "c"], ["b", "d"]], {"a": 0, "c": 2, "b": 1, "d": 1}),
]
THREE: Series = [
    ([["a", "b"]], {"a": 0, "b": 1}),
    ([["a", "c"]], {"a": 1, "c": 0}),
    ([["a", "d", "e"]], {"a": 1, "d": 0, "e": 1}),
]


@pytest.mark.parametrize("stay", STAYS)
@pytest.mark.parametrize(("series", "leaves", "people"), [(STRANGERS, 3, "abcd"), (THREE, 2, "a")])
def test_among_strangers_beliefs_are_exactly_those_of_all_possible_histories(
    series: Series, leaves: int, people: str, stay: float
) -> None:
    found = surest(series, leaves, stay)
    for person in people:
        release, leaf, belief = found[person]
        exact = enumerate_beliefs(series, person, leaves, stay)
        assert belief == pytest.approx(exact[release - 1][leaf], abs=1e-12)
        assert belief == pytest.approx(max(map(max, exact)), abs=1e-12)


@pytest.mark.parametrize("stay", [0.8, 0.95, 1.0])
def test_among_the_same_people_beliefs_are_near_those_of_all_possible_histories(stay: float) -> None:
    """Two of three stay together, and one value goes with the third: it was the third's."""
    series: Series = [
        ([["a", "b", "c"]], {"a": 0, "b": 1, "c": 2}),
        ([["a", "b", "d"]], {"a": 0, "b": 1, "d": 1}),
    ]
    release, leaf, belief = surest(series, 3, stay)["a"]
    exact = enumerate_beliefs(series, "a", 3, stay)
    assert belief == pytest.approx(exact[release - 1][leaf], abs=0.12)
    unaware = [series[0], ([["a", "e", "d"]], {"a": 0, "e": 1, "d": 1})]
    assert surest(unaware, 3, stay)["a"] != (release, leaf, belief), "who came along makes a difference"


def test_a_group_that_is_carried_tells_nothing_new() -> None:
    series: Series = [([["a", "b", "c"]], {"a": 0, "b": 1, "c": 1})]
    for stay in STAYS:
        assert surest([*series] * 9, 2, stay) == surest(series, 2, stay)
        assert surest(series, 2, stay)["a"][2] == pytest.approx(2 / 3)


def test_where_no_value_can_have_stayed_it_has_changed() -> None:
    series: Series = [
        ([["a", "b"]], {"a": 0, "b": 1}),
        ([["a", "c"]], {"a": 2, "c": 3}),
        ([["a", "d"]], {"a": 2, "d": 4}),
    ]
    release, leaf, belief = surest(series, 5, 1.0)["a"]
    assert (release, leaf) == (2, 2)
    assert belief == pytest.approx(1)


def test_a_star_says_nothing_and_an_inner_node_what_its_leaves_have_in_common() -> None:
    hidden = PersistenceAttack(4, is_by_person=True)
    table = {"a": 0, "b": 1, "c": 2, "d": 3}
    hidden.see([group_of("g", list(table), table)], truth(table))
    hidden.see([ShownGroup("h", ["a", "b"], {(): 2}), ShownGroup("i", ["c", "d"], {(2, 3): 2})], truth(table))
    found = {belief.person: belief.belief for _, belief in hidden.beliefs((), (1.0,))}
    assert found["a"] == pytest.approx(1 / 4)
    assert found["c"] == pytest.approx(1 / 2)


def test_where_nothing_is_shown_there_are_no_claims() -> None:
    empty = PersistenceAttack(4, is_by_person=False)
    empty.see([], {})
    assert empty.claims(0.5, (), (1.0,)) == (Claims(1.0, 0, 0, 0, 0, 0),)
    empty.see([ShownGroup("g", ["a", "b"], {(): 2})], truth({"a": 0, "b": 1}))
    empty.see([ShownGroup("h", ["a"], {(): 1})], truth({"a": 0, "b": 1}))
    assert empty.claims(0.5, (), (0.5, 1.0)) == (Claims(0.5, 2, 0, 0, 0, 0), Claims(1.0, 2, 0, 0, 0, 0))


def test_somebody_with_two_rows_under_one_signature_is_believed_twice_as_much() -> None:
    both = PersistenceAttack(4, is_by_person=False)
    held = {"a": frozenset((0, 1)), "b": frozenset((2,)), "c": frozenset((3,))}
    signature: dict[Token, int] = {(value,): 1 for value in range(4)}
    both.see([ShownGroup("g", ["a", "a", "b", "c"], signature)], held)
    found = {belief.person: belief.belief for _, belief in both.beliefs((), (0.8,))}
    assert found == pytest.approx({"a": 1 / 2, "b": 1 / 4, "c": 1 / 4})


def test_rows_of_a_clique_that_hold_nothing_are_nobodys_value() -> None:
    clique = PersistenceAttack(2, is_by_person=False)
    held = {"a": frozenset((0,)), "b": frozenset((1,))}
    clique.see([ShownGroup("c", ["a", "b"], {(0,): 1})], held)
    assert {belief.belief for _, belief in clique.beliefs((), (1.0,))} == {0.5}


def test_values_that_nobody_hides_are_no_claims() -> None:
    table = {"a": 0, "b": 0}
    plain = PersistenceAttack(2, is_by_person=True)
    plain.see([group_of("g", ["a", "b"], table)._replace(is_plain=True)], truth(table))
    assert plain.claims(0.5, (), (1.0,)) == (Claims(1.0, 2, 0, 0, 0, 0),)
    open_value = attack([([["a", "b"]], table)], 2)
    assert open_value.claims(0.5, (), (1.0,)) == (Claims(1.0, 2, 2, 2, 2, 2),)
    assert open_value.claims(0.5, (0,), (1.0,)) == (Claims(1.0, 2, 0, 0, 0, 0),)


def play(publish: Callable[[Table], Sequence[ShownGroup]], tables: Sequence[Table]) -> tuple[Claims, ...]:
    found = PersistenceAttack(24, is_by_person=False)
    for table in tables:
        found.see(publish(table), truth(table))
    return found.claims(0.5)


def test_on_redrawn_and_on_naive_groups_of_values_that_stay_most_sure_claims_are_right() -> None:
    tables = live(600, 12, 24, stay=0.95, seed=1, leave=0.05)
    random = Random(2)
    for publish in (lambda table: publish_redrawn(table, 8, random), lambda table: publish_naively(table, 8)):
        for claims in play(publish, tables)[1:3]:
            assert claims.sure > 90
            assert claims.sure_right > 0.75 * claims.sure
            assert not claims.is_within(HALF)


@pytest.mark.parametrize(("stay", "seed"), [(0.95, 3), (0.8, 4), (1.0, 5)])
def test_on_a_table_published_by_s1_to_s5_no_more_than_half_of_the_claims_are_right(stay: float, seed: int) -> None:
    tables = live(600, 12, 24, stay, seed, leave=0.05)
    blocks = Blocks(4, 16)
    for claims in play(lambda table: list(blocks.publish(table)), tables):
        assert claims.is_within(HALF)
        assert claims.over < 6, "a signature of four leaves one in four, and few are believed to have more"


def test_a_table_whose_signatures_are_given_anew_is_found_out() -> None:
    """Without S1: the same groups, but another cut into blocks every other release."""
    tables = live(600, 12, 24, 0.95, 3, leave=0.05)
    publishers = Blocks(4, 16), Blocks(4, 16)
    other = [value % 4 * 6 + value // 4 for value in range(24)]
    back: dict[Token, Token] = {(shown,): (value,) for value, shown in enumerate(other)}
    found = PersistenceAttack(24, is_by_person=False)
    for number, table in enumerate(tables):
        if number % 2:
            groups = publishers[1].publish({person: other[value] for person, value in table.items()})
            listed = [
                group._replace(shown={back.get(token, ()): count for token, count in group.shown.items()})
                for group in groups
            ]
        else:
            listed = list(publishers[0].publish(table))
        found.see(listed, truth(table))
    claims = found.claims(0.5, (), (0.95,))[0]
    assert claims.sure > 100
    assert not claims.is_within(HALF)


def test_the_tail_is_that_of_the_binomial() -> None:
    assert tail(4, 3, HALF) == Fraction(5, 16)
    assert tail(5, 0, HALF) == 1
    assert tail(5, 6, HALF) == 0
    assert tail(3, 3, Fraction(1, 3)) == Fraction(1, 27)
    assert sum(tail(9, right, Fraction(2, 5)) for right in range(1, 10)) == Fraction(18, 5), "its sum is the mean"


def test_what_chance_does_now_and_then_is_not_beyond_it() -> None:
    assert not is_beyond_chance(100, 70, HALF)
    assert is_beyond_chance(100, 75, HALF)
    assert not is_beyond_chance(3, 3, HALF)
    assert not is_beyond_chance(0, 0, HALF)


def test_a_settled_group_whose_rows_leave_and_come_back_is_no_new_evidence() -> None:
    """One that somebody joined is. Of the four values one is frequent elsewhere, so the others seem likelier here."""
    rare: dict[tuple[int, ...], int] = {(value,): 1 for value in range(4)}

    def surest(*releases: str) -> float:
        found = PersistenceAttack(8, is_by_person=False)
        for rows in releases:
            groups = [ShownGroup("g", list(rows), rare), ShownGroup("h", ["x"] * 20, {(0,): 20}, is_plain=True)]
            found.see(groups, dict.fromkeys([*rows, "x"], frozenset((0,))))
        return max(belief.belief for _, belief in found.beliefs((), (0.95,)) if belief.person in "bcd")

    alone = surest("abcd")
    assert surest("abcd", "bcd", "bc", "abcd", "bcd") == pytest.approx(alone)
    assert surest("abcd", "ebcd", "fbcd", "gbcd") != pytest.approx(alone)
