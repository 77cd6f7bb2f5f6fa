"""Permanent values beside other publishers' tables, with and without sampling: random histories and the auditor."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import shoal.core.groups.requirement
from shoal.core.plan import Plan
from tests.support.engines.audited import audit_plans
from tests.support.engines.series import DISEASES, ZIPS, clinic_policy
from tests.support.histories.population import Population, Series

RELEASES = 6


class _History:
    """A random series: `run` yields each release; `events` are those that led to it."""

    def __init__(self, seed: int, participation: Any, sampling: float) -> None:
        self.rng = rng = random.Random(seed)
        permanent = rng.choice([("hiv",), ("hiv", "lupus")])
        self.policy = clinic_policy(
            k=rng.choice([1, 2, 3]),
            l=rng.choice([2, 3]),
            headroom=1,
            participation=participation,
            permanent=list(permanent),
            strategy={"name": "adaptive", "releases": rng.choice([1, 3])},
            overlap=rng.choice([2, 3]),
            sampling=sampling,
            flat=rng.choice([False, True]),
            case_ids=participation == "all" and rng.choice([False, True]),
        )
        self.people = Population(rng, tuple(v for v in DISEASES if v not in permanent), permanent)
        self.series = Series(self.policy)
        self.events: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []

    def run(self) -> Iterator[Plan]:
        first = self.rng.choice([5, 15, 40])
        self.events = [*self.people.register(self.rng.choice([0, first])), *self.people.arrive(first)]
        for _ in range(RELEASES):
            self.others = [self._publication() for _ in range(self.rng.choice([0, 0, 1, 2]))]
            yield self.series.release(self.events, self.others)
            self.events = list(self.people.churn(self.rng.choice([0, 3, 8]), ill=0.3))

    def _publication(self) -> dict[str, Any]:
        rng = self.rng
        groups = []
        for _ in range(rng.randint(1, 3)):
            age = sorted((rng.randrange(100), rng.randrange(100)))
            region = {"age": {"min": age[0], "max": age[1]}, "zip": {"nodes": sorted(rng.sample(sorted(ZIPS), 3))}}
            shown = {value: rng.randint(1, 2) for value in rng.sample(DISEASES, rng.randint(2, 5))}
            groups.append({"region": rng.choice([region, {}]), "sensitive": shown})
        return {"op": "external", "publisher": rng.choice(["north", "south"]), "groups": groups}


def _audit(history: _History) -> set[str]:
    return audit_plans(history.policy, ((made, [*history.events, *history.others]) for made in history.run()))


SEEDS, KNOWN, SAMPLING = st.integers(0, 10**9), st.sampled_from([0, 1, "all"]), st.sampled_from([1.0, 0.7])


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, participation=KNOWN, sampling=SAMPLING)
@example(seed=3369, participation=0, sampling=0.7)  # a buddy took over who had been seen while the holder was away
def test_the_auditor_finds_every_promise_kept(seed: int, participation: Any, sampling: float) -> None:
    assert _audit(_History(seed, participation, sampling)) == set()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, participation=KNOWN, sampling=SAMPLING)
def test_restarting_from_records_changes_nothing(seed: int, participation: Any, sampling: float) -> None:
    straight, restarted = (_History(seed, participation, sampling) for _ in range(2))
    for one, other in zip(straight.run(), restarted.run(), strict=True):
        assert (one.release.records, one.release.manifest) == (other.release.records, other.release.manifest)
        assert one.release.cohorts == other.release.cohorts
        assert one.change == other.change
        restarted.series.restart(random.Random(seed))


def _caught(participation: Any) -> set[str]:
    return {found for seed in range(25) for found in _audit(_History(seed, participation, 1.0))}


@pytest.mark.parametrize("participation", [0, "all"])
def test_rows_of_cliques_that_are_shown_beside_others_are_found_out(
    participation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.core.redrawn.overlapping_holders", lambda *_: {})
    monkeypatch.setattr(shoal.core.groups.requirement, "with_barred", lambda requirement, _: requirement)
    unbalanced = "G5: a group leaves more rows unbalanced beside another publication than it suppresses"
    assert unbalanced in _caught(participation)


def test_a_whole_clique_whose_value_is_hidden_beside_others_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.core.redrawn.overlapping_holders", lambda *_: {})
    assert "G3: a group's owners of each cohort are not as many as the times it shows the value" in _caught(0)
