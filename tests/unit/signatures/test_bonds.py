"""Bonds: cliques of permanent values that never change, and when they are shown."""

import json
import random
from typing import Any

import numpy as np
import pytest

from shoal.core.events.intake import Intake
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import build_policy
from shoal.core.signatures.settling import Settling
from shoal.core.state import State
from tests.support.histories.mixed import Event


class Ward:
    """A small table in which hiv is permanent and there are too few permanent values for a signature."""

    def __init__(self, l: int = 2, insiders: int = 0) -> None:
        values = [f"d{rank}" for rank in range(8)]
        document = {
            "table": "ward",
            "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
            "sensitive": {"name": "disease", "values": [*values, "hiv"], "permanent": ["hiv"]},
            "privacy": {"k": 2, "l": l, "batch": 2 * l + insiders, "insiders": insiders},
        }
        self.policy = build_policy(document, {}, b"")
        self.state = State.empty(self.policy, b"secret")
        self.intake = Intake(self.policy, {}, held={})

    def release(self, *events: Event) -> Plan:
        for event in events:
            assert self.intake.take(event) is None, event
        number = self.state.meta.release + 1
        made = plan(self.state, Window(None, {0: self.intake.cut()}), self.policy, number)
        self.state.apply(made.change)
        self.state.check_invariants()
        return made


def crowd(count: int = 24) -> list[Event]:
    draw = random.Random(7)
    return [
        {"op": "insert", "id": f"p{number}", "qid": {"age": draw.randrange(100)}, "sensitive": [f"d{number % 8}"]}
        for number in range(count)
    ]


def holder(person: str = "h", *values: str) -> Event:
    return {"op": "insert", "id": person, "qid": {"age": 50}, "sensitive": ["hiv", *values]}


def rows_showing(made: Plan, value: str = "hiv") -> list[tuple[str, Any]]:
    """The rows of groups that show a value by itself: who, and whether they are the holder."""
    groups = {group["group"] for group in map(json.loads, made.release.groups) if set(group["sensitive"]) == {value}}
    members = map(json.loads, made.release.members.lines())
    return sorted((row["id"], row["value"] == value) for row in members if row["group"] in groups)


def test_a_holder_is_shown_among_l_people_near_them() -> None:
    shown = rows_showing(Ward(l=3).release(*crowd(), holder()))
    assert len(shown) == 3
    assert ("h", True) in shown
    assert [is_holder for _, is_holder in shown].count(True) == 1


@pytest.mark.parametrize("insiders", [0, 1, 2])
def test_a_holder_is_shown_among_more_people_if_some_of_them_are_known(insiders: int) -> None:
    made = Ward(insiders=insiders).release(*crowd(48), holder("h", "d0"))
    assert len(rows_showing(made)) == 2 + insiders


def test_a_clique_stays_as_it_is_for_good() -> None:
    ward = Ward()
    first = rows_showing(ward.release(*crowd(), holder()))
    assert rows_showing(ward.release({"op": "update", "id": "h", "qid": {"age": 1}})) == first


def test_while_somebody_of_it_is_away_the_value_has_no_row_at_all() -> None:
    ward = Ward()
    ward.release(*crowd(), holder("h", "d0"))
    made = ward.release({"op": "delete", "id": "h"})
    assert rows_showing(made) == []
    back = ward.release(holder("h", "d0"))
    assert len(rows_showing(back)) == 2
    decoy = next(person for person, is_holder in rows_showing(back) if not is_holder)
    away = ward.release({"op": "delete", "id": decoy})
    assert rows_showing(away) == []
    assert b'"hiv"' not in b"".join(away.release.groups)


def test_a_holder_of_nothing_else_has_a_star_besides() -> None:
    made = Ward().release(*crowd(), holder())
    rows = [json.loads(line) for line in made.release.members.lines() if json.loads(line)["id"] == "h"]
    assert sorted(row["value"] is None for row in rows) == [False, True]


def test_a_clique_that_lost_somebody_for_good_is_never_shown_again() -> None:
    ward = Ward()
    shown = rows_showing(ward.release(*crowd(), holder()))
    decoy = next(person for person, is_holder in shown if not is_holder)
    ward.release({"op": "delete", "id": decoy}, {"op": "deregister", "id": decoy})
    assert rows_showing(ward.release(*[{"op": "update", "id": "p0", "qid": {"age": 3}}] if decoy != "p0" else [])) == []


def test_a_decoy_who_becomes_a_holder_gets_no_clique_of_their_own() -> None:
    ward = Ward()
    shown = rows_showing(ward.release(*crowd(), holder()))
    decoy = next(person for person, is_holder in shown if not is_holder)
    made = ward.release({"op": "update", "id": decoy, "sensitive": ["hiv", "d1"]})
    assert rows_showing(made) == shown
    assert len(ward.state.bonds.bonds) == 1


def test_without_enough_others_the_value_has_no_row() -> None:
    made = Ward(l=4).release(holder("a"), holder("b"), *crowd(2))
    assert rows_showing(made) == []
    assert b'"hiv"' not in b"".join(made.release.groups)


def marked(ward: Ward, releases: int = 4) -> tuple[int, int, int]:
    """Of all cliques shown, those in which one person alone has nothing but "*" besides; of "*" only, blank and all."""
    draw, told_apart, blank, starred = random.Random(11), 0, 0, 0
    people = crowd(80)
    for number in range(releases):
        holders = [holder(f"h{number}-{turn}", *["d1"][: draw.randrange(2)]) for turn in range(3)]
        made = ward.release(*people, *holders)
        people = [{**event, "id": f"n{number}-{event['id']}"} for event in crowd(16)]
        groups = {group["group"]: group["sensitive"] for group in map(json.loads, made.release.groups)}
        rows = [json.loads(line) for line in made.release.members.lines()]
        told = {row["id"] for row in rows if not {"*", "hiv"} & groups[row["group"]].keys()}
        only = {row["id"] for row in rows} - told
        blank += len(only & {row["id"] for row in rows if row["value"] is None and "*" in groups[row["group"]]})
        starred += len(only)
        for group, shown in groups.items():
            if shown.keys() == {"hiv"}:
                told_apart += len({row["id"] in told for row in rows if row["group"] == group}) > 1
    return told_apart, blank, starred


def test_the_people_of_a_clique_look_alike_and_a_star_does_not_tell_a_holder() -> None:
    told_apart, blank, starred = marked(Ward(l=3))
    assert told_apart == 0
    assert 0 < 3 * blank <= starred


def test_cliques_of_anybody_near_and_holders_starred_alone_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    in_company = marked(Ward(l=3))[2]
    monkeypatch.setattr(Settling, "_keep_company", lambda self, shown: None)
    monkeypatch.setattr(Settling, "is_told", lambda self: np.ones(len(self._scene.people), dtype=bool))
    told_apart, _, starred = marked(Ward(l=3))
    assert told_apart > 0
    assert starred < in_company
