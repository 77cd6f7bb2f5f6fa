"""Permanent values are held for good: what intake and fold make of inserts, updates, deletes and registrations."""

from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.events.intake import Intake
from shoal.core.events.window import ABSENT, DEREGISTERED, GONE, PRESENT, PUT, REGISTER
from shoal.core.fold import Window, fold
from shoal.core.people import People
from shoal.core.person import Person
from shoal.core.randomness import Keyed
from tests.support.engines.series import clinic_policy

POLICY = clinic_policy(permanent=["hiv", "lupus"])
CODES = POLICY.sensitive.hierarchy.leaf_code
FLU, HIV, LUPUS, GOUT = (CODES[label] for label in ("flu", "hiv", "lupus", "gout"))
QID = {"age": 30, "weight": 70.0, "sex": "female", "zip": "z11"}
QID_CODES = (30, 70.0, 0, 0)


def _insert(*values: str, person: str = "p") -> dict[str, Any]:
    return {"op": "insert", "id": person, "qid": QID, "sensitive": list(values)}


def _update(*values: str) -> dict[str, Any]:
    return {"op": "update", "id": "p", "sensitive": list(values)}


DELETE = {"op": "delete", "id": "p"}


class _Clinic:
    """Events in windows, and the record they come to."""

    def __init__(self) -> None:
        self.people = People(POLICY.attributes, Keyed(b"test", "clinic"))
        self.intake = Intake(POLICY, {})
        self.number = 0

    def window(self, *events: dict[str, Any]) -> Person:
        for event in events:
            assert self.intake.take(event) is None
        self.intake.check_invariants()
        self.number += 1
        fold(self.people, Window(None, {0: self.intake.cut()}), self.number, POLICY.sensitive.permanent)
        self.people.merge()
        assert self.people.holdings() == self.intake.held
        row = self.people.row("p")
        assert row is not None
        return self.people.person(row)


def test_an_update_cannot_take_a_permanent_value_away() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv", "flu"))
    assert clinic.intake.take(_update("flu")) == Reject(Reason.PERMANENT, "update", "sensitive")
    assert clinic.window(_update("gout", "hiv")).values == tuple(sorted((GOUT, HIV)))


def test_an_upsert_without_it_keeps_it_and_changes_the_rest() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv", "flu"))
    after = clinic.window({**_insert("gout"), "op": "upsert"})
    assert (after.status, after.values, after.held) == (PRESENT, tuple(sorted((GOUT, HIV))), (HIV,))


def test_nor_within_the_window_that_brought_it() -> None:
    intake = Intake(POLICY, {})
    assert intake.take(_insert("flu")) is None
    assert intake.take(_update("hiv")) is None
    assert intake.take(_update("flu")) == Reject(Reason.PERMANENT, "update", "sensitive")
    assert intake.window["p"][2] == (HIV,)


def test_a_delete_makes_absent_and_cures_nobody() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv", "flu"))
    gone = clinic.window(DELETE)
    assert (gone.status, gone.values, gone.held) == (ABSENT, (), (HIV,))
    back = clinic.window(_insert("gout"))
    assert (back.status, back.values, back.held) == (PRESENT, tuple(sorted((GOUT, HIV))), (HIV,))


def test_it_survives_insert_and_delete_in_one_window() -> None:
    clinic = _Clinic()
    gone = clinic.window(_insert("hiv"), DELETE)
    assert (gone.status, gone.held) == (ABSENT, (HIV,))
    assert clinic.window(_insert("flu")).values == tuple(sorted((FLU, HIV)))


def test_it_survives_an_update_and_a_delete_in_one_window() -> None:
    clinic = _Clinic()
    clinic.window(_insert("flu"))
    assert clinic.window(_update("flu", "lupus"), DELETE).held == (LUPUS,)


def test_it_survives_leaving_and_returning_in_one_window() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv"))
    assert clinic.window(DELETE, _insert("flu"), DELETE, _insert("gout")).values == tuple(sorted((GOUT, HIV)))


def test_it_survives_being_registered_elsewhere() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv"))
    moved = {"op": "register", "id": "p", "qid": {**QID, "age": 31}}
    assert clinic.window(DELETE, moved).held == (HIV,)
    assert clinic.window({"op": "deregister", "id": "p"}).held == (HIV,)


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        ([_insert("hiv", "flu"), DELETE], (REGISTER, QID_CODES, (HIV,), None, None)),
        ([_insert("flu"), DELETE], (REGISTER, QID_CODES, None, None, None)),
        ([_insert("hiv"), DELETE, {"op": "deregister", "id": "p"}], (DEREGISTERED, None, (HIV,), None, None)),
        ([_insert("hiv"), DELETE, _insert("flu")], (PUT, QID_CODES, tuple(sorted((FLU, HIV))), None, None)),
    ],
)
def test_a_delta_says_what_somebody_holds_wherever_they_are(events: list[dict[str, Any]], delta: Any) -> None:
    intake = Intake(POLICY, {})
    for event in events:
        assert intake.take(event) is None
    assert intake.window == {"p": delta}


def test_a_delta_names_what_was_held_before_the_window() -> None:
    intake = Intake(POLICY, {"p": PRESENT}, held={"p": (HIV,)})
    assert intake.take(DELETE) is None
    assert intake.window == {"p": (GONE, None, (HIV,), None, None)}


def test_who_is_at_home_elsewhere_is_forgotten_altogether() -> None:
    intake = Intake(POLICY, {"p": PRESENT}, held={"p": (HIV,)})
    intake.forget("p")
    intake.forget("q")
    assert (intake.roster, intake.held) == ({}, {})


def test_there_and_back_again_is_no_change_for_a_holder_who_says_nothing() -> None:
    clinic = _Clinic()
    clinic.window(_insert("hiv"))
    window = Intake(POLICY, {"p": PRESENT}, held={"p": (HIV,)})
    assert window.take(DELETE) is None
    assert window.take({**_insert("hiv")}) is None
    folded = fold(clinic.people, Window(None, {0: window.cut()}), 2, POLICY.sensitive.permanent)
    assert folded.touched == []
