"""Contrasts: that they are some, and what stands beside a release's error."""

import random
from typing import Any

import numpy as np
import pytest

from shoal.core.measure import contrast
from shoal.core.measure.contrast import RATIO, Compared, compare, draw_contrasts, place
from shoal.core.measure.count import Answers
from shoal.core.measure.query import Query, Truth, truth_of
from shoal.core.measure.release_reader import ReleaseColumns, read_columns
from shoal.core.policy.policy import Policy
from tests.support.engines.series import clinic_policy, crowd, encode, run_series

_POLICY = clinic_policy()


def _by_age(draw: random.Random, age: int) -> list[str]:
    return [draw.choice(("asthma", "flu", "cold") if age < 50 else ("gout", "ulcer", "flu"))]


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    """The young have asthma and colds, the old gout and ulcers, and both have the flu."""
    draw = random.Random(3)
    return {name: (qid, frozenset(_by_age(draw, qid["age"]))) for name, (qid, _) in crowd(2_000, 5).items()}


@pytest.fixture(scope="module")
def truth(people: dict[str, Any]) -> Truth:
    return truth_of(_POLICY, [encode(_POLICY, *person)[1:3] for person in people.values()])  # type: ignore[misc]


def published(policy: Policy, people: dict[str, Any]) -> ReleaseColumns:
    ((_, made, _),) = run_series(policy, [people])
    return read_columns(policy, made.release.records)


def counts(truth: Truth, query: Query) -> tuple[int, float]:
    """The true answer, and what it would be with the share of everywhere; counted person by person."""
    inside, there, everywhere = 0, 0, 0
    for person, leaf in zip(truth.people.tolist(), truth.leaves.tolist(), strict=True):
        is_asked = query.sensitive.low <= leaf < query.sensitive.high
        is_here = all(run.low <= truth.columns[at][person] < run.high for at, run in query.conditions)
        everywhere, there, inside = everywhere + is_asked, there + is_here, inside + (is_asked and is_here)
    return inside, there * everywhere / len(truth.leaves)


def test_in_every_contrast_a_value_is_much_more_or_much_less_common_than_everywhere(truth: Truth) -> None:
    drawn = draw_contrasts(_POLICY, truth, "seed", 60)
    assert len(set(drawn.queries)) == len(drawn.queries) == 60
    ratios = []
    for query, true in zip(drawn.queries, drawn.truths.tolist(), strict=True):
        inside, expected = counts(truth, query)
        assert inside == true
        assert expected >= drawn.sanity
        ratios.append(inside / expected)
    assert all(ratio >= RATIO or ratio <= 1 / RATIO for ratio in ratios)
    assert min(ratios) < 1 < max(ratios)
    assert draw_contrasts(_POLICY, truth, "seed", 60).queries == drawn.queries


def test_a_table_without_differences_has_no_contrasts(truth: Truth) -> None:
    alike = truth._replace(leaves=np.full_like(truth.leaves, 3))
    assert draw_contrasts(_POLICY, alike, "seed", 20).queries == ()
    nobody = truth_of(_POLICY, [])
    assert draw_contrasts(_POLICY, nobody, "seed", 20).queries == ()
    release = read_columns(_POLICY, [])
    assert compare(Answers(release), nobody, (), np.zeros(0), 10.0).kept is None


def test_true_values_in_the_regions_are_better_than_groups_and_these_better_than_shares_alone(
    people: dict[str, Any], truth: Truth
) -> None:
    drawn = draw_contrasts(_POLICY, truth, "seed", 150)
    found = compare(Answers(published(_POLICY, people)), truth, *drawn)
    assert found.true < found.error < found.alone
    assert found.kept is not None
    assert 0.5 < found.kept < 1
    plain = clinic_policy(open=["flu", "cold", "asthma", "gastritis", "hiv", "ulcer", "gout", "lupus"])
    assert compare(Answers(published(plain, people)), truth, *drawn).kept > found.kept  # type: ignore[operator]


def test_what_groups_can_tell_is_nothing_where_true_values_tell_no_more_than_shares() -> None:
    assert Compared(error=0.3, alone=0.5, true=0.1).kept == pytest.approx(0.5)
    assert Compared(error=0.3, alone=0.3, true=0.29).kept is None


def test_everybody_is_found_in_their_cell_however_few_are_looked_at_at_once(
    people: dict[str, Any], truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = published(clinic_policy(k=4), people)
    monkeypatch.setattr(contrast, "AT_ONCE", 3_000)
    cells = place(release, truth)
    assert np.bincount(cells, minlength=len(release.cell_names)).tolist() == release.cell_people.tolist()
    for column, low, high in zip(truth.columns, release.low, release.high, strict=True):
        assert (column >= low[cells]).all()
        assert (column <= high[cells]).all()
