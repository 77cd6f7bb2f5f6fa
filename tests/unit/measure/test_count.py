"""Counts with intervals, worked out by hand, and what a caller may ask."""

from dataclasses import replace
from typing import Any

import pytest

from shoal.core.errors import CoreError
from shoal.core.measure.count import Answers, Count
from shoal.core.measure.query import Range
from shoal.core.measure.question import read_question
from shoal.core.measure.release_reader import read_columns
from tests.support.engines.series import DISEASES, clinic_policy
from tests.unit.measure.test_loss import CELLS, beside_c1, group

_REDRAWN = clinic_policy()
_LASTING = replace(_REDRAWN, values="lasting")
_IN_C1 = {"age": (10, 20), "weight": (50, 100), "sex": "female", "zip": ["z11", "z12", "z13"]}


def ask(records: list[bytes], policy: Any = _LASTING, method: Any = "model", **where: object) -> Count:
    return Answers(read_columns(policy, records)).count(read_question(policy, where), method)


def count(groups: list[bytes], policy: Any = _LASTING, **where: object) -> tuple[int, int]:
    """The interval; c1 is ages 10 to 20 and more, c2 is everywhere."""
    found = ask([*CELLS, *groups], policy, **where)
    assert found.low <= found.likely[0] <= found.estimate <= found.likely[1] <= found.high
    return found.low, found.high


def test_rows_that_are_not_certainly_in_the_region_may_have_all_they_can() -> None:
    shown = [group(1, {"c1": 3, "c2": 1}, {"flu": 2, "gout": 2})]
    assert count(shown, disease="flu") == (2, 2)
    assert count(shown, disease="flu", **_IN_C1) == (1, 2)  # the row of c2 may be one of the two
    assert count(shown, disease="flu", age=(0, 9)) == (0, 1)  # only c2 meets it
    assert count(shown, disease=["flu", "gout"], **_IN_C1) == (3, 4)


def test_values_without_a_row_may_be_any_of_the_values() -> None:
    shown = [group(1, {"c1": 3}, {"flu": 2, "gout": 2}, spare=1)]
    for policy in (_LASTING, _REDRAWN):
        assert count(shown, policy, disease="flu") == (1, 2)
        assert count(shown, policy, disease="lupus") == (0, 0)
    assert count(shown, disease=["flu", "gout"]) == (3, 3)
    assert count(shown, _REDRAWN, disease=["flu", "gout"]) == (3, 4)


def test_places_that_have_no_row_any_more_are_taken_from_all_values_of_their_group_alike() -> None:
    shown = [group(1, {"c1": 5}, dict.fromkeys(("asthma", "gastritis", "gout", "ulcer"), 2), spare=3)]
    assert count(shown, disease="gout") == (0, 2)
    assert count(shown, disease=["gout", "ulcer"]) == (1, 4)
    assert count(shown, disease="*") == (5, 5)
    assert ask([*CELLS, *shown], disease="gout").estimate == pytest.approx(5 / 4)


def test_a_suppressed_value_may_be_anything_and_may_be_nothing() -> None:
    for policy in (_LASTING, _REDRAWN):
        assert count([group(1, {"c1": 4}, {"*": 4})], policy, disease="flu") == (0, 4)
        assert count([group(1, {"c1": 4}, {"*": 4})], policy, disease="*") == (0, 4)


def test_a_person_of_a_redrawn_table_may_have_several_values_but_each_once() -> None:
    shown = [group(1, {"c1": 1, "c2": 2}, {"flu": 2, "gout": 2, "ulcer": 1})]
    assert count(shown, _REDRAWN, disease=["flu", "gout"], **_IN_C1) == (0, 4)
    assert count(shown, _REDRAWN, disease=["flu", "gout"], age=(0, 9)) == (0, 4)
    assert count([group(1, {"c1": 3, "c2": 1}, {"flu": 3})], _REDRAWN, disease="flu", **_IN_C1) == (2, 3)


def test_a_node_is_certain_only_if_all_below_it_is_asked_for() -> None:
    shown = [group(1, {"c1": 3}, {"stomach": 2, "flu": 1})]
    assert count(shown, _REDRAWN, disease="ulcer") == (0, 2)
    assert count(shown, _REDRAWN, disease=["ulcer", "gastritis"]) == (2, 2)
    assert count(shown, _REDRAWN, disease="stomach") == (2, 2)


def test_the_estimate_of_several_runs_is_their_sum() -> None:
    records = [CELLS[1], group(1, {"c2": 4}, dict.fromkeys(DISEASES[:4], 1))]
    apart = ask(records, method="even", disease=["flu", "asthma"], zip=["z11", "z21"])
    assert apart.estimate == pytest.approx(4 * 2 / 5 * 2 / 4)


def test_without_values_people_are_counted() -> None:
    assert ask(CELLS) == (70, 70, 70, (70, 70))
    inside = ask(CELLS, age=(10, 20))
    assert inside.estimate == pytest.approx(30 + 40 * beside_c1(11 / 100))
    assert (inside.low, inside.high) == (30, 70)
    men = ask(CELLS, sex="male")
    assert men.estimate == pytest.approx(40 - 40 * beside_c1(1 / 2))
    assert (men.low, men.high) == (0, 40)
    assert 0 < men.likely[0] < men.estimate < men.likely[1] < 40


def test_a_float_cell_includes_the_end_of_its_domain_alone() -> None:
    assert ask(CELLS, weight=(200, 200)).high == 40
    assert ask(CELLS, weight=(100, 200)).high == 40
    assert ask(CELLS, weight=(99.9, 200)).high == 70


def test_conditions_are_read_by_the_policys_names() -> None:
    question = read_question(_LASTING, {"disease": "airways", "sex": "*", "age": (None, 30.5), "weight": 70})
    (age, weight, sex), values = question
    assert age == (0, (Range(0, 31),))
    assert weight[1][0].low == 70 < weight[1][0].high < 70.001
    assert sex == (2, (Range(0, 2),))
    assert values == (Range(0, 3),)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"height": 3}, "the table clinic has no attribute height; it has age, weight, sex, zip, disease"),
        ({"age": (50, 30)}, "the smaller number first"),
        ({"age": "canary-7f3a"}, "a number or a pair of numbers"),
        ({"age": (1, 2, 3)}, "a number or a pair of numbers"),
        ({"weight": float("nan")}, "a number or a pair of numbers"),
        ({"disease": "canary-7f3a"}, "disease has no such label"),
        ({"disease": []}, "a label or a list of labels"),
        ({"zip": 3}, "a label or a list of labels"),
    ],
)
def test_a_wrong_condition_is_one_sentence_that_quotes_no_value(where: dict[str, object], said: str) -> None:
    with pytest.raises(CoreError, match=said) as caught:
        read_question(_LASTING, where)
    assert "canary" not in str(caught.value)
