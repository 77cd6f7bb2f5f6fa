"""Others who could be the holder are kept under the "*" of a hidden clique: the shortest histories that need it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.core.cohort.abundance import Abundance
from shoal.core.cohort.clique import COVERED, DORMANT
from shoal.core.cohort.ties import CliqueTies
from shoal.core.plan import Plan
from tests.support.engines.audited import audit_plans
from tests.support.engines.series import DISEASES, clinic_policy
from tests.support.histories.population import Series

EXCLUDED = "G3: somebody who knows the participation of K people can exclude all but fewer than l as a holder"
OTHERS = [value for value in DISEASES if value != "hiv"]


class _Village:
    """Everyone lives in one cell; p0 holds hiv, and the decoy leaves so that a buddy takes over."""

    def __init__(self, participation: int, people: int) -> None:
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
        shown = {group["group"]: group["sensitive"] for group in map(json.loads, release.groups)}
        yield from (person for person, group, _ in release.members if "*" in shown[group])


def _holder_leaves(participation: int) -> _Village:
    village = _Village(participation, 8)
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


def _absent_ones_die_while_nobody_of_the_clique_is_there() -> _Village:
    """Of who could be the holder only those are left who stand in one group, in which nobody changed."""
    village = _Village(2, 11)
    buddies = [f"p{at}" for at in range(1, 11) if f"p{at}" not in (village.decoy, village.owners[1])]
    away = buddies[:3]
    village.release([{"op": "delete", "id": person} for person in ("p0", *away)])
    dying = [person for person in (village.decoy, *away) if person != village.owners[1]]
    village.release([{"op": "deregister", "id": person} for person in dying])
    assert village.mode == DORMANT
    return village


def test_company_gets_a_star_although_nobody_of_the_clique_is_there() -> None:
    village = _absent_ones_die_while_nobody_of_the_clique_is_there()
    assert len(list(village.under_stars())) >= 4
    assert village.findings() == set()


def test_a_group_that_has_no_star_for_its_company_would_stay_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliqueTies, "uncovered", lambda *_: set())
    assert list(_absent_ones_die_while_nobody_of_the_clique_is_there().under_stars()) == []


def test_company_that_stays_is_carried_with_its_group() -> None:
    village = _holder_leaves(2)
    village.release([])
    release = village.made[-1][0].release
    assert json.loads(release.manifest)["formed"] == 0
    assert village.findings() == set()
