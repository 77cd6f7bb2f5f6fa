"""A small clinic with one permanent value: the shortest histories of a clique are told with it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.core.cohort.clique import Clique
from shoal.core.cohort.registration import Registration
from shoal.core.plan import Plan
from tests.support.engines.series import clinic_policy
from tests.support.histories.population import Series


@dataclass
class HivClinic:
    """A series of releases under a policy with one permanent value, hiv; `here` is who has a record."""

    l: int = 2
    participation: int | str = 0
    k: int = 1
    series: Series = field(init=False)
    made: Plan = field(init=False)

    def __post_init__(self) -> None:
        policy = clinic_policy(k=self.k, l=self.l, participation=self.participation, permanent=["hiv"], headroom=0)
        self.series = Series(policy)

    def release(self, *events: dict[str, Any]) -> Plan:
        self.made = self.series.release(events)
        return self.made

    @property
    def cliques(self) -> list[Clique]:
        return [clique for _, clique in self.series.state.cohorts.living()]

    @property
    def only(self) -> Clique:
        (clique,) = self.cliques
        return clique

    @property
    def decoy(self) -> str:
        return self.only.owners[1]

    @property
    def registration(self) -> Registration:
        """As the last release saw it."""
        state = self.series.state
        people = state.people.copy()
        rows = np.bincount(people.leaf[people.sampled()], minlength=state.tree.size)
        return Registration(people, state.tree, rows < self.k, state.keyed, self.series.number)

    @property
    def published(self) -> list[str]:
        return [person for person, _, _ in self.made.release.members]

    def group_of(self, person: str) -> str | None:
        return {id_: group for id_, group, _ in self.made.release.members}.get(person)


def insert(person: str, *values: str, age: int = 30) -> dict[str, Any]:
    qid = {"age": age, "weight": 70.0, "sex": "female", "zip": "z11"}
    return {"op": "insert", "id": person, "qid": qid, "sensitive": list(values) or ["flu"]}


def register(person: str, age: int = 30) -> dict[str, Any]:
    return {"op": "register", "id": person, "qid": {"age": age, "weight": 70.0, "sex": "female", "zip": "z11"}}


def delete(person: str) -> dict[str, Any]:
    return {"op": "delete", "id": person}


def deregister(person: str) -> dict[str, Any]:
    return {"op": "deregister", "id": person}


def hiv_clinic(*, people: int = 4, absent: int = 3, l: int = 2, participation: int | str = 0) -> HivClinic:
    """h holds hiv; p0, p1, … do not; a0, a1, … are registered and have no record."""
    clinic = HivClinic(l, participation)
    clinic.release(
        *(register(f"a{number}") for number in range(absent)),
        insert("h", "hiv"),
        *(insert(f"p{number}") for number in range(people)),
    )
    return clinic
