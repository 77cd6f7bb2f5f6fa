"""The bounds by hand."""

from tests.experiments.least import least_by_person, least_of_value


def test_who_gets_two_new_values_at_once_after_the_first_hides_one_of_them_for_a_year() -> None:
    years = [frozenset({0}), frozenset({0, 1, 2}), frozenset({0, 1, 2})]
    assert least_by_person(years) == 1
    assert least_by_person(years[1:]) == 0, "at first everything is shown"
    assert least_by_person([frozenset({0}), frozenset({1, 2, 3}), frozenset({1, 2, 3})]) == 1, "or 0 waits for them"


def test_a_value_that_everybody_has_is_shown_as_often_as_others_can_stand_beside_it() -> None:
    table = {f"p{number}": ((), (0,)) for number in range(10)} | {f"q{number}": ((), (1,)) for number in range(6)}
    assert least_of_value(table, 0, frozenset({0, 1})) == 8
    assert least_of_value({"p": ((), (0, 1, 2))}, 0, frozenset({0, 1, 2})) == 1
