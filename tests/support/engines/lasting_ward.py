"""A ward of a lasting table whose releases are written by hand, row by row, and audited."""

from collections.abc import Sequence
from typing import Any

from shoal.core.policy.policy import Policy
from tests.support.engines.lasting_desk import LastingDesk, Row, Shown, lasting_policy

BLOCK = ("asthma", "copd", "ulcer", "gastritis")
REST = ("gout", "lupus", "acne", "eczema")
FOUR = ("p0", "p1", "p2", "p3")

QUARTER, HALF = 0.25, 0.5


class Ward(LastingDesk):
    """One cell, everyone of the same age, and groups given by their rows."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy or lasting_policy(k=1), {"c1": (0, 99)})

    def admit(self, **values: str | Sequence[str]) -> "Ward":
        for person, held in values.items():
            self.tell({"op": "insert", "id": person, "qid": {"age": 50}, "sensitive": held})
        return self

    def update(self, person: str, **more: Any) -> None:
        self.tell({"op": "update", "id": person, **more})

    def leave(self, *people: str) -> None:
        for person in people:
            self.tell({"op": "delete", "id": person})

    def show(self, max_breach: Any = QUARTER, cohorts: Any = None, waiting: Any = 0, **groups: Shown) -> set[str]:
        """A release of these groups; returns what is found wrong in all so far."""
        self.publish(groups, max_breach, cohorts, waiting)
        return self.found()


def rows(*people: tuple[str, str | None]) -> list[Row]:
    return [Row(person, value, "c1") for person, value in people]


def signature(people: Sequence[tuple[str, str]], labels: Sequence[str] = BLOCK, q: int = 1) -> Shown:
    """A group that shows each of these labels q times; what has no row is vacant."""
    return Shown(rows(*people), dict.fromkeys(labels, q), q * len(labels) - len(people))


def stars(*people: tuple[str, str | None]) -> Shown:
    return Shown(rows(*people), {"*": len(people)})


def full(block: Sequence[str] = BLOCK, people: Sequence[str] = FOUR) -> list[tuple[str, str]]:
    return list(zip(people, block, strict=True))


def ward_of_four(policy: Policy | None = None) -> Ward:
    return Ward(policy).admit(**dict(full()))
