"""Engines that are wrong about permanent values, run through the real `replay`: `shoal audit` must say what is."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines.audited import Bench, sentences
from tests.support.engines.series import DISEASES, clinic_policy
from tests.support.engines.wrong_cohorts import crowd_and_share, crowd_holders, leave_decoys, tear_cliques
from tests.support.histories.population import Population

UNBALANCED = "G3: a group's owners of each cohort are not as many as the times it shows the value"
TWICE = "G3: a group shows a permanent value more than once, although everyone's participation may be known"
TORN = "G3: a clique that is not whole is not in one group"
UNCOVERED = 'G3: a decoy is left in a group that shows neither the value nor a "*" for it'
SHARED = 'G3: one "*" stands for the cliques of two holders'
TOO_FEW = "G3: fewer than l people could hold a value in a holder's place"


def _events(seed: int) -> Iterator[dict[str, Any]]:
    people = Population(random.Random(seed), tuple(v for v in DISEASES if v != "hiv"), ("hiv",))
    yield from people.register(10)
    yield from people.arrive(60)
    for _ in range(6):
        yield {"op": "release"}
        yield from people.churn(25, ill=0.3)
    yield {"op": "release"}


def _found(path: Path, participation: Any, seed: int = 3) -> set[str]:
    path.mkdir(exist_ok=True)
    policy = clinic_policy(k=2, l=2, permanent=["hiv"], participation=participation)
    return sentences(Bench(path, policy).replay_events(_events(seed)).audit())


@pytest.mark.parametrize("participation", [0, 1, "all"])
def test_the_real_engine_keeps_every_promise(participation: Any, tmp_path: Path) -> None:
    assert _found(tmp_path, participation) == set()


@pytest.mark.parametrize(
    ("make_wrong", "participation", "expected"),
    [
        (crowd_holders, "all", {TWICE}),
        (tear_cliques, 0, {UNBALANCED}),
        (tear_cliques, "all", {UNBALANCED, TORN, TOO_FEW}),
        (crowd_and_share, "all", {SHARED}),
        (leave_decoys, "all", {UNCOVERED}),
    ],
)
def test_an_engine_that_is_wrong_is_found_out(
    make_wrong: Callable[[pytest.MonkeyPatch], None],
    participation: Any,
    expected: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_wrong(monkeypatch)
    found: set[str] = set()
    for seed in range(40):  # not every history has holders who leave at the right moment
        found |= _found(tmp_path / str(seed), participation, seed)
        if expected <= found:
            return
    assert expected <= found
