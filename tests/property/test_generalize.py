"""Coarse cells on random histories: newcomers beside publishers whose regions are nodes of our tree, or near them."""

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal.core.overlap.generalize
from shoal.core.audit import Auditor, Truth
from shoal.core.cells.tree import Rows, Tree
from shoal.core.overlap.generalize import ReleaseContext
from shoal.core.people import People
from shoal.core.person import NOWHERE
from shoal.core.plan import Plan
from tests.support.engines.audited import sentences, stored
from tests.support.engines.series import DISEASES, clinic_policy
from tests.support.histories.population import Population, Series
from tests.support.regions import region_of

RELEASES = 5


class _History:
    """A random series: `run` yields each release; `events` and `others` are what led to it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.policy = clinic_policy(
            k=rng.choice([1, 2, 3]),
            headroom=rng.choice([0, 0, 1]),
            strategy={"name": "adaptive", "releases": rng.choice([1, 3])},
            sampling=rng.choice([1.0, 1.0, 0.7]),
            flat=rng.choice([False, True]),
            case_ids=rng.choice([False, True]),
            open=rng.choice([["flu", "cold"], list(DISEASES)]),
        )
        self.people = Population(rng, DISEASES, ("hiv",))
        self.series = Series(self.policy)
        self.events: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.coarse_rows = 0

    def run(self) -> Iterator[Plan]:
        self.events = list(self.people.arrive(self.rng.choice([20, 40])))
        for _ in range(RELEASES):
            made = self.series.release(self.events, self.others)
            self.coarse_rows += int(np.count_nonzero(self.series.state.people.coarse != NOWHERE))
            yield made
            self.events = [
                *self.people.churn(self.rng.choice([0, 10, 20])),
                *self.people.arrive(self.rng.choice([10, 30])),
            ]
            self.others = [self._publication() for _ in range(self.rng.choice([0, 1, 1]))]

    def _publication(self) -> dict[str, Any]:
        """Somebody's groups in places that our tree has cut, or would have if it were a little larger."""
        rng, tree = self.rng, self.series.state.tree
        lowest = [node for node, (_, _, *children) in tree.records() if all(map(tree.is_leaf, children))]
        groups = []
        for node in rng.sample(lowest, min(len(lowest), rng.choice([4, 12]))):
            region = region_of(tree, node)
            if rng.random() < 0.1:
                region["age"] = {"min": max(0, region["age"]["min"] - 2), "max": region["age"]["max"]}
            shown = dict.fromkeys(rng.sample(DISEASES, rng.choice([6, 8])), 1)
            groups.append({"region": region, "sensitive": shown})
        return {"op": "external", "publisher": "north", "groups": groups or [{"region": {}, "sensitive": {"flu": 1}}]}


def audit(history: _History) -> set[str]:
    auditor, truth = Auditor(history.policy), Truth(history.policy)
    for number, made in enumerate(history.run(), 1):
        for event in (*history.events, *history.others):
            truth.take(json.dumps(event).encode())
        truth.cut(number)
        auditor.see(stored(made.release), list(made.release.members), truth, None)
    assert truth.rejected == []
    return sentences(auditor.report(b"key"))


SEEDS, BOUNDS = st.integers(0, 10**9), st.sampled_from([1.5, 100.0])
THOROUGH = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@THOROUGH
@given(seed=SEEDS, dearer=BOUNDS)
def test_the_auditor_finds_every_promise_kept(seed: int, dearer: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shoal.core.overlap.generalize, "COARSE_LOSS", dearer)
        assert audit(_History(seed)) == set()


@THOROUGH
@given(seed=SEEDS)
def test_restarting_from_records_changes_nothing(seed: int) -> None:
    straight, restarted = _History(seed), _History(seed)
    for one, other in zip(straight.run(), restarted.run(), strict=True):
        assert (one.release.records, one.release.manifest) == (other.release.records, other.release.manifest)
        assert one.change == other.change
        restarted.series.restart(random.Random(seed))


def is_caught(sentence: str) -> bool:
    return any(sentence in audit(_History(seed)) for seed in range(25))


def test_the_histories_have_coarse_rows() -> None:
    histories = [_History(seed) for seed in range(12)]
    for history in histories:
        assert len(list(history.run())) == RELEASES
    assert sum(history.coarse_rows > 0 for history in histories) > 4


def test_an_engine_that_lets_coarse_rows_down_to_their_leaves_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = People.settle

    def forget(people: People, tree: Tree, rows: Rows) -> None:
        people.coarse[:] = NOWHERE
        settle(people, tree, np.arange(len(people)))

    monkeypatch.setattr(People, "settle", forget)
    assert is_caught("G1: two people once told apart share a region")


def test_an_engine_that_lets_published_rows_start_coarse_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseContext, "newcomers", lambda _, rows: rows)
    assert is_caught("G1: a person's region is not inside their earlier one")


def test_an_engine_that_opens_coarse_cells_for_anybody_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseContext, "smallest", 1)
    assert is_caught("G1: a region is shared by fewer than k people")
