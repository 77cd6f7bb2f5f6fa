"""Permanent values where hardly anybody is left to stand in: two hamlets, many departures, deaths and closed cells."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.cohort.clique import COVERED, EXTINCT, WHOLE
from shoal.core.plan import Plan
from tests.support.engines.audited import audit_plans
from tests.support.engines.series import DISEASES, clinic_policy
from tests.support.histories.population import Population, Series

RELEASES = 10
KINDS = "irrddddxxxxu"  # as many cease to exist as leave


class _Hamlets(Population):
    """Everyone lives in one of two places, most of them in the first."""

    def _qid(self) -> dict[str, Any]:
        return {"age": self._rng.choice([10, 10, 10, 80]), "weight": 70.0, "sex": "female", "zip": "z11"}


class _History:
    def __init__(self, seed: int, participation: Any) -> None:
        self.rng = rng = random.Random(seed)
        permanent = rng.choice([("hiv",), ("hiv", "lupus")])
        self.policy = clinic_policy(
            k=rng.choice([1, 2, 3]),
            l=rng.choice([2, 3]),
            headroom=1,
            participation=participation,
            permanent=list(permanent),
            sampling=rng.choice([1.0, 0.8]),
            strategy={"name": "adaptive", "releases": rng.choice([1, 3])},
        )
        self.people = _Hamlets(rng, tuple(v for v in DISEASES if v not in permanent), permanent)
        self.series = Series(self.policy)

    def run(self) -> Iterator[tuple[Plan, list[dict[str, Any]]]]:
        first = self.rng.choice([6, 10, 16])
        events = [*self.people.register(self.rng.choice([0, 2, first])), *self.people.arrive(first)]
        for _ in range(RELEASES):
            yield self.series.release(events), events
            events = list(self.people.churn(self.rng.choice([0, 2, 4, 6]), 0.1, KINDS))


SEEDS = st.integers(0, 10**9)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, participation=st.sampled_from([0, 1, 2, "all"]))
def test_the_auditor_finds_every_promise_kept(seed: int, participation: Any) -> None:
    history = _History(seed, participation)
    assert audit_plans(history.policy, history.run()) == set()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=SEEDS, participation=st.sampled_from([0, 1, 2, "all"]))
def test_of_a_clique_nobody_is_withheld_who_could_be_published(seed: int, participation: Any) -> None:
    history = _History(seed, participation)
    for made, _ in history.run():
        state = history.series.state
        published = {person for person, _, _ in made.release.members}
        open_cells = {cell for _, _, cell in made.release.members}
        for _, clique in state.cohorts.living():
            owners = {owner for owner in clique.owners if owner}
            if clique.mode == WHOLE:
                assert owners <= published
            for owner in owners if clique.mode == COVERED else ():
                row = state.people.row(owner)
                could = row in state.people.sampled() and f"c{state.people.leaf[row]}" in open_cells
                assert (owner in published) == could


def test_cliques_do_go_extinct_here() -> None:
    extinct = 0
    for seed in range(10):
        history = _History(seed, 0)
        assert sum(1 for _ in history.run()) == RELEASES
        extinct += sum(clique.mode == EXTINCT for clique in history.series.state.cohorts.cliques.values())
    assert extinct > 0
