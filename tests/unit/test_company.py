"""Others who could be the holder are kept under the "*" of a hidden clique: the shortest histories that need it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from core.cohort.abundance import Abundance
from core.cohort.clique import COVERED, DORMANT
from core.cohort.ties import Tying
from core.plan import Plan
from tests.audited import audit_plans
from tests.population import Series
from tests.series import DISEASES, clinic_policy

EXCLUDED = "G3: somebody who knows the participation of K people can exclude all but fewer than l as a holder"
OTHERS = [value for value in DISEASES if value != "hiv"]


class _Village:
    """Everyone lives in one cell; p0 holds hiv, and the decoy leaves so that a buddy takes over."""

    def __init__(self, participation: int, people: int = 8) -> None:
        strategy = {"name": "adaptive", "releases": 3}
        self.policy = clinic_policy(
            k=2, l=2, headroom=1, participation=participation, permanent=["hiv"], strategy=strategy
        )
        self.series = Series(self.policy)
        self.made: list[tuple[Plan, list[dict[str, Any]]]] = []
        self.release([self.insert(f"p{at}", OTHERS[at % len(OTHERS)]) for at in range(people)])
        self.decoy = self.owners[1]
        self.release([{"op": "delete", "id": self.decoy}])
        assert self.owners[1] != self.decoy

    @property
    def owners(self) -> tuple[str, ...]:
        return self.series.state.cohorts.cliques[1].owners

    @property
    def mode(self) -> int:
        return self.series.state.cohorts.cliques[1].mode

    def insert(self, person: str, value: str) -> dict[str, Any]:
        qid = {"age": 10, "weight": 70.0, "sex": "female", "zip": "z11"}
        return {"op": "insert", "id": person, "qid": qid, "sensitive": [value, "hiv"] if person == "p0" else value}

    def release(self, events: list[dict[str, Any]]) -> None:
        self.made.append((self.series.release(events), events))

    def findings(self) -> set[str]:
        return audit_plans(self.policy, iter(self.made))

    def under_stars(self) -> Iterator[str]:
        """Who is in a group that shows a "*"."""
        release = self.made[-1][0].release
        shown = {group["group"]: group["sensitive"] for group in map(json.loads, release.records)}
        yield from (person for person, group, _ in release.members if "*" in shown[group])


def _holder_leaves(participation: int) -> _Village:
    village = _Village(participation)
    village.release([{"op": "delete", "id": "p0"}])
    assert village.mode == COVERED
    return village


@pytest.mark.parametrize("participation", [1, 2, 3])
def test_a_holder_who_leaves_after_a_buddy_took_over_is_not_the_only_one_left(participation: int) -> None:
    village = _holder_leaves(participation)
    assert village.findings() == set()
    assert village.owners[1] in village.under_stars()


@pytest.mark.parametrize("participation", [2, 3])
def test_without_company_they_would_be(participation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Abundance, "company", lambda *_: {})
    assert EXCLUDED in _holder_leaves(participation).findings()


def test_company_that_stays_is_carried_with_its_group() -> None:
    village = _holder_leaves(2)
    village.release([])
    release = village.made[-1][0].release
    assert json.loads(release.manifest)["formed"] == 0
    assert village.findings() == set()
