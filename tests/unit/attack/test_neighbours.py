"""What neighbours could learn of each other: exactly where worlds are counted, and never more than the bound says."""

from fractions import Fraction

import pytest

from shoal.core.audit.attack.lasting_worlds import EntryGroup, Series, Spell
from shoal.core.audit.attack.neighbours import Insight, Neighbours, best_insiders
from shoal.core.audit.attack.worlds import Token

THIRD, QUARTER = Fraction(1, 3), Fraction(1, 4)


Group = tuple[str, dict[Token, int], list[tuple[str, int | None]]]


def signature(name: str, *people: str, each: int = 1, first: int = 0) -> Group:
    """A group of a signature of four; its people have its values in turn."""
    return (
        name,
        {(value,): each for value in range(4)},
        [(person, (first + at) % 4) for at, person in enumerate(people)],
    )


def learn(*groups: Group, insiders: int = 0) -> Insight:
    neighbours = Neighbours(2, insiders)
    neighbours.see(groups)
    return neighbours.result()


def test_of_four_a_neighbour_knows_three_and_of_eight_the_larger_group_hides_more() -> None:
    assert learn(signature("g", *"abcd")) == Insight(1, THIRD, 0, 4)
    assert learn(signature("g", *"abcdefgh", each=2)) == Insight(1, Fraction(2, 7), 0, 8)


def test_somebody_with_two_values_under_a_signature_is_known_with_two_in_three_and_ties_their_neighbours() -> None:
    found = learn(signature("g", *"abcd"), signature("h", *"aefghijk", each=2, first=1))
    assert found == Insight(1, Fraction(2, 3), 1, 11)


def test_a_group_that_comes_back_or_loses_rows_tells_neighbours_nothing_more() -> None:
    neighbours = Neighbours(2, 0)
    for rows in ("abcd", "bcd", "ab", "abcd"):
        neighbours.see([signature("g", *rows)])
    assert neighbours.result() == Insight(1, THIRD, 0, 4)


def test_somebody_who_moved_has_two_groups_and_one_value() -> None:
    found = learn(signature("s0-g1", *"abcd"), signature("s1-g1", *"aefg"))
    assert (found.largest, found.over, found.people) == (THIRD, 0, 7)


def entries(*people: str) -> list[Spell]:
    return [Spell(person, 1, 1, number) for number, person in enumerate(people)]


FOUR: dict[Token, int] = {(value,): 1 for value in range(4)}


@pytest.mark.parametrize("insiders", [1, 2])
def test_the_bound_is_what_counting_worlds_finds_where_nobody_has_two_values(insiders: int) -> None:
    rows = entries(*"abcdefgh")
    truth: dict[Spell, Token] = {spell: (at % 4,) for at, spell in enumerate(rows)}
    series = Series([[EntryGroup(rows, dict.fromkeys(FOUR, 2))]])
    exact = best_insiders(series, truth, 2, insiders)
    assert exact == learn(signature("g", *"abcdefgh", each=2), insiders=insiders)


def test_where_somebody_has_two_values_the_bound_is_no_less_than_what_worlds_tell() -> None:
    first, second = entries(*"abcd"), [Spell(person, 1, 1, 9) for person in "aefg"]
    truth: dict[Spell, Token] = {spell: (at,) for at, spell in enumerate(first)}
    truth |= {spell: ((at + 1) % 4,) for at, spell in enumerate(second)}
    series = Series([[EntryGroup(first, FOUR), EntryGroup(second, FOUR)]])
    bound = learn(signature("g", *"abcd"), signature("h", *"aefg", first=1))
    exact = best_insiders(series, truth, 2)
    assert HALF < exact.largest <= bound.largest == Fraction(2, 3)
    assert exact.over == bound.over == 1


HALF = Fraction(1, 2)
