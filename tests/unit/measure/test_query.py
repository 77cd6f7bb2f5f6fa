"""Random COUNT queries: what is asked, what a release answers, and how wrong that is."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from shoal.core.measure.query import (
    Query,
    Range,
    count_true,
    draw_queries,
    estimate,
    query_error,
    truth_of,
)
from shoal.core.measure.release_reader import read_columns
from tests.support.engines.series import DISEASES, clinic_policy, crowd, encode, run_series
from tests.unit.measure.test_loss import CELLS, beside_c1, cell, group

_POLICY = clinic_policy()
_ANY = Range(0, len(DISEASES))


def only(disease: str) -> Range:
    code = _POLICY.sensitive.hierarchy.leaf_code[disease]
    return Range(code, code + 1)


def one_answer(groups: list[bytes], query: Query, cells: list[bytes] = CELLS) -> float:
    return float(estimate(read_columns(_POLICY, [*cells, *groups]), [query])[0])


def test_rows_are_taken_to_lie_as_the_regions_suggest_and_values_to_be_anyones() -> None:
    shown = group(1, {"c1": 3, "c2": 1}, {"flu": 2, "gout": 2})
    # ages 10 to 14 are 5 of the 11 in the first cell, which is 11 of the 100 in the second; half the values are flu
    query = Query(((0, Range(10, 15)),), only("flu"))
    age = 5 / 11 * beside_c1(11 / 100)
    assert one_answer([shown], query) == pytest.approx((3 * 5 / 11 + age) * 2 / 4)
    # 50 to 75 kilograms are half of the first cell, which is a quarter of the second
    query = Query(((0, Range(10, 15)), (1, Range(50.0, 75.0))), _ANY)
    assert one_answer([shown], query) == pytest.approx(3 * 5 / 11 * 1 / 2 + age * 1 / 2 * beside_c1(1 / 4))


def test_a_suppressed_value_may_be_any_leaf() -> None:
    assert one_answer([group(1, {"c1": 4}, {"*": 4})], Query((), only("flu"))) == pytest.approx(4 / 8)


def test_a_suppressed_value_is_a_leaf_as_often_as_the_release_shows_it_elsewhere() -> None:
    groups = [group(1, {"c1": 4}, {"*": 4}), group(2, {"c1": 4}, {"flu": 3, "gout": 1})]
    assert one_answer(groups, Query((), only("flu"))) == pytest.approx(4 * 3 / 4 + 3)
    assert one_answer(groups, Query((), only("lupus"))) == 0


def test_several_values_of_a_person_count_each() -> None:
    assert one_answer([group(1, {"c1": 2}, {"flu": 2, "gout": 1})], Query((), _ANY)) == pytest.approx(3)


def test_spare_values_have_no_row() -> None:
    shown = group(1, {"c1": 3}, {"flu": 3, "gout": 1}, spare=1)
    assert one_answer([shown], Query((), _ANY)) == pytest.approx(3)


def test_in_a_lasting_table_a_row_is_each_value_of_its_group_by_its_share() -> None:
    signature = group(1, {"c1": 3, "c2": 4}, {"asthma": 2, "gastritis": 2, "gout": 2, "ulcer": 2}, spare=1)
    clique = group(2, {"c1": 1, "c2": 1}, {"hiv": 1})
    ages = (0, Range(10, 15))
    age = 5 / 11 * beside_c1(11 / 100)
    rows = 3 * 5 / 11 + 4 * age
    assert one_answer([signature, clique], Query((ages,), only("gout"))) == pytest.approx(rows * 2 / 8)
    assert one_answer([signature, clique], Query((ages,), only("hiv"))) == pytest.approx((5 / 11 + age) / 2)


def test_a_release_without_rows_answers_zero() -> None:
    assert one_answer([], Query((), _ANY)) == 0


def test_the_error_is_relative_to_the_truth_but_never_to_less_than_the_sanity_bound() -> None:
    error = query_error(np.array([110.0, 2.0]), np.array([100.0, 0.0]), values=10_000, sanity=0.001)
    assert error.mean == pytest.approx((10 / 100 + 2 / 10) / 2)
    assert error.queries == 2


def some_people(count: int, seed: int) -> dict[str, tuple[dict[str, Any], frozenset[str]]]:
    return crowd(count, seed, diseases=lambda rng: rng.sample(DISEASES, rng.choice([1, 1, 2])))


def accepts(query: Query, qid: tuple[Any, ...], value: int) -> bool:
    """A query, read naively."""
    ranges = [(qid[position], condition) for position, condition in query.conditions]
    return all(condition.low <= code < condition.high for code, condition in [*ranges, (value, query.sensitive)])


def test_the_truth_is_what_a_naive_count_says() -> None:
    people = some_people(300, 1)
    codes = [encode(_POLICY, *person)[1:3] for person in people.values()]
    truth = truth_of(_POLICY, codes)  # type: ignore[arg-type]
    queries = draw_queries(_POLICY, count=60)
    naive = [
        sum(accepts(query, qid, value) for qid, values in codes for value in values)  # type: ignore[arg-type, union-attr]
        for query in queries
    ]
    assert count_true(truth, queries).tolist() == naive
    assert any(naive)


def test_a_release_that_hides_nothing_answers_exactly() -> None:
    exact = {"age": {"min": 30, "max": 30}, "weight": {"min": 0.0, "max": 200.0}}
    labels = {"sex": {"nodes": ["male"]}, "zip": {"nodes": ["z12"]}}
    cells, groups = [cell("c1", {**exact, **labels})], [group(1, {"c1": 5}, {"flu": 5})]
    sex = _POLICY.attributes[2].hierarchy
    assert sex is not None
    male = Range(sex.leaf_code["male"], sex.leaf_code["male"] + 1)
    assert one_answer(groups, Query(((0, Range(30, 31)), (2, male)), only("flu")), cells) == 5
    assert one_answer(groups, Query(((0, Range(31, 100)), (2, male)), only("flu")), cells) == 0


def test_a_finer_release_answers_better_and_the_query_everyone_passes_is_answered_exactly() -> None:
    people = some_people(3000, 2)
    codes = [encode(_POLICY, *person)[1:3] for person in people.values()]
    truth = truth_of(_POLICY, codes)  # type: ignore[arg-type]
    queries = draw_queries(_POLICY, count=200)
    errors = {}
    for k in (2, 200):
        policy = clinic_policy(k=k, open=list(DISEASES))
        ((_, made, _),) = run_series(policy, [people])
        published = read_columns(policy, made.release.records)
        errors[k] = query_error(estimate(published, queries), count_true(truth, queries), len(truth.leaves))
        assert estimate(published, [Query((), _ANY)])[0] == pytest.approx(len(truth.leaves))
    assert errors[2].mean < errors[200].mean


def test_the_same_seed_asks_the_same_queries() -> None:
    assert draw_queries(_POLICY, "a", 20) == draw_queries(_POLICY, "a", 20) != draw_queries(_POLICY, "b", 20)


def test_a_workload_has_one_to_all_attributes_and_ranges_of_the_share_they_should_have() -> None:
    sizes = {0: 100, 1: 200, 2: 2, 3: 5}
    queries = draw_queries(_POLICY, count=1000, selectivity=0.05)
    widths = Counter(len(query.conditions) for query in queries)
    assert sorted(widths) == [1, 2, 3, 4]
    assert min(widths.values()) > 180
    used = Counter(position for query in queries for position, _ in query.conditions)
    assert max(used.values()) < 1.2 * min(used.values())
    for query in queries:
        share = 0.05 ** (1 / (len(query.conditions) + 1))
        assert query.sensitive.high - query.sensitive.low == round(8 * share)
        for position, (low, high) in query.conditions:
            assert high - low == pytest.approx(max(1, sizes[position] * share), abs=0.51)
            assert 0 <= low < high <= sizes[position] + 1e-9


def test_every_place_of_a_domain_is_asked_for() -> None:
    asked = Counter(
        code
        for query in draw_queries(_POLICY, count=500)
        for position, (low, high) in query.conditions
        if position == 3
        for code in range(int(low), int(high))
    )
    assert sorted(asked) == [0, 1, 2, 3, 4]
