"""Intake: what a window comes to, person by person, and how it is handed on."""

from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.events.intake import Intake
from shoal.core.events.window import (
    ABSENT,
    DEREGISTERED,
    DEREGISTERED_ANEW,
    DEREGISTERED_STATUS,
    ERASED,
    ERASED_STATUS,
    GONE,
    PATCH,
    PRESENT,
    PUT,
    PUT_ANEW,
    REGISTER,
    REGISTER_ANEW,
    Delta,
    overlay,
)
from tests.unit.events.test_acceptance import (
    CODES,
    DELETE,
    DEREGISTER,
    ERASE,
    INSERT,
    POLICY,
    QID,
    REGISTER_EVENT,
    UPDATE,
    UPSERT,
)  # fmt: skip

HERE = CODES
MOVE = {**UPDATE, "qid": {"age": 35}}
SICK = {"op": "update", "id": "p", "sensitive": ["flu", "ulcer"]}
NOTHING = {"op": "update", "id": "p"}
ELSEWHERE = {**REGISTER_EVENT, "qid": {**QID, "age": 1}}
KNOWN = {"p": PRESENT}


@pytest.mark.parametrize(
    ("roster", "events", "expected", "status"),
    [
        ({}, [INSERT], (PUT, HERE, (1,)), PRESENT),
        ({}, [INSERT, MOVE, SICK], (PUT, (35, *HERE[1:]), (0, 2)), PRESENT),
        ({}, [INSERT, DELETE], (REGISTER, HERE, None), ABSENT),
        ({}, [INSERT, MOVE, DELETE], (REGISTER, (35, *HERE[1:]), None), ABSENT),
        ({}, [INSERT, DELETE, DEREGISTER], (DEREGISTERED, None, None), DEREGISTERED_STATUS),
        ({}, [REGISTER_EVENT], (REGISTER, HERE, None), ABSENT),
        ({}, [REGISTER_EVENT, INSERT], (PUT, HERE, (1,)), PRESENT),
        ({}, [REGISTER_EVENT, DEREGISTER], (DEREGISTERED, None, None), DEREGISTERED_STATUS),
        ({"p": ABSENT}, [INSERT, DELETE], (REGISTER, HERE, None), ABSENT),
        ({"p": ABSENT}, [ELSEWHERE], (REGISTER, (1, *HERE[1:]), None), ABSENT),
        (KNOWN, [DELETE], (GONE, None, None), ABSENT),
        (KNOWN, [MOVE, SICK, DELETE], (GONE, None, None), ABSENT),
        (KNOWN, [DELETE, INSERT], (PUT, HERE, (1,)), PRESENT),
        (KNOWN, [DELETE, INSERT, MOVE], (PUT, (35, *HERE[1:]), (1,)), PRESENT),
        (KNOWN, [DELETE, INSERT, DELETE], (REGISTER, HERE, None), ABSENT),
        (KNOWN, [DELETE, ELSEWHERE], (REGISTER, (1, *HERE[1:]), None), ABSENT),
        (KNOWN, [DELETE, DEREGISTER], (DEREGISTERED, None, None), DEREGISTERED_STATUS),
        (KNOWN, [ERASE], (ERASED, None, None), ERASED_STATUS),
        (KNOWN, [MOVE, SICK, ERASE, ERASE], (ERASED, None, None), ERASED_STATUS),
        ({}, [INSERT, ERASE], (ERASED, None, None), ERASED_STATUS),
        (KNOWN, [ERASE, INSERT], (PUT_ANEW, HERE, (1,)), PRESENT),
        (KNOWN, [ERASE, INSERT, MOVE], (PUT_ANEW, (35, *HERE[1:]), (1,)), PRESENT),
        (KNOWN, [ERASE, INSERT, DELETE], (REGISTER_ANEW, HERE, None), ABSENT),
        (KNOWN, [ERASE, INSERT, DELETE, INSERT], (PUT_ANEW, HERE, (1,)), PRESENT),
        (KNOWN, [ERASE, ELSEWHERE], (REGISTER_ANEW, (1, *HERE[1:]), None), ABSENT),
        (KNOWN, [ERASE, ELSEWHERE, DEREGISTER], (DEREGISTERED_ANEW, None, None), DEREGISTERED_STATUS),
        (KNOWN, [DELETE, DEREGISTER, ERASE], (DEREGISTERED_ANEW, None, None), DEREGISTERED_STATUS),
        ({"p": ABSENT}, [ERASE], (ERASED, None, None), ERASED_STATUS),
        ({"p": DEREGISTERED_STATUS}, [ERASE], (DEREGISTERED_ANEW, None, None), DEREGISTERED_STATUS),
        ({"p": ERASED_STATUS}, [ERASE], (ERASED, None, None), ERASED_STATUS),
        ({"p": ERASED_STATUS}, [INSERT], (PUT, HERE, (1,)), PRESENT),
        ({}, [UPSERT], (PUT, HERE, (1,)), PRESENT),
        ({}, [INSERT, MOVE, UPSERT], (PUT, HERE, (1,)), PRESENT),
        (KNOWN, [UPSERT], (PATCH, HERE, (1,)), PRESENT),
        (KNOWN, [DELETE, UPSERT], (PUT, HERE, (1,)), PRESENT),
        (KNOWN, [ERASE, UPSERT], (PUT_ANEW, HERE, (1,)), PRESENT),
        ({"p": ERASED_STATUS}, [UPSERT], (PUT, HERE, (1,)), PRESENT),
        (KNOWN, [MOVE], (PATCH, (35, None, None, None), None), PRESENT),
        (KNOWN, [SICK], (PATCH, (None,) * 4, (0, 2)), PRESENT),
        (KNOWN, [MOVE, SICK], (PATCH, (35, None, None, None), (0, 2)), PRESENT),
        (KNOWN, [SICK, MOVE, UPDATE], (PATCH, (35, None, None, 2), (0, 2)), PRESENT),
        (KNOWN, [MOVE, {**MOVE, "qid": {"age": 7, "ward": 0}}], (PATCH, (7, None, 0, None), None), PRESENT),
        (KNOWN, [MOVE, NOTHING], (PATCH, (35, None, None, None), None), PRESENT),
    ],
)
def test_a_window_is_where_a_person_stands(
    roster: dict[str, int], events: list[dict[str, Any]], expected: tuple[Any, ...], status: int
) -> None:
    intake = Intake(POLICY, dict(roster))
    for event in events:
        assert intake.take(event) is None
    assert intake.window == {"p": (*expected, None, None)}
    assert intake.roster == {"p": status}
    intake.check_invariants()


@pytest.mark.parametrize("event", [NOTHING, {**NOTHING, "qid": {}}, {**NOTHING, "guard": None, "at": "2024-05-01"}])
def test_an_update_of_nothing_counts_but_changes_nothing(event: dict[str, Any]) -> None:
    intake = Intake(POLICY, dict(KNOWN))
    assert intake.take(event, 3) is None
    assert (intake.accepted, intake.window, intake.drain()) == (1, {}, {})


def test_offsets_are_kept_for_people_the_roster_did_not_know() -> None:
    intake = Intake(POLICY, {"q": PRESENT, "r": ABSENT})
    people = [("p", INSERT), ("q", MOVE), ("p", MOVE), ("p", INSERT), ("r", INSERT), ("p", NOTHING), ("p", DELETE)]
    for offset, (person, event) in enumerate(people, start=10):
        intake.take({**event, "id": person}, offset)
    assert {person: delta[3] for person, delta in intake.window.items()} == {
        "p": [10, 12, 15, 16],
        "q": None,
        "r": None,
    }
    intake.cut()
    assert intake.take(INSERT, 20) is None
    assert intake.window["p"][3] is None


def test_offsets_are_kept_for_people_whose_home_is_not_settled() -> None:
    intake = Intake(POLICY, dict(KNOWN))
    intake.without_home.add("p")
    assert intake.take(NOTHING, 3) is None
    assert intake.take(MOVE, 4) is None
    assert intake.window == {"p": (PATCH, (35, None, None, None), None, [3, 4], None)}


def test_a_window_can_be_continued_by_another_intake() -> None:
    first = Intake(POLICY, {})
    first.take(INSERT, 1)
    second = Intake(POLICY, dict(first.roster), dict(first.window), first.accepted)
    assert second.take(MOVE, 2) is None
    assert second.window == {"p": (PUT, (35, *HERE[1:]), (1,), [1, 2], None)}
    assert (second.accepted, [*second.drain()]) == (2, ["p"])


def test_drain_says_who_was_touched_since_the_last_time() -> None:
    intake = Intake(POLICY, {})
    intake.take(INSERT)
    intake.take({**INSERT, "id": "q"})
    assert intake.drain() == intake.window
    intake.take({**DELETE, "id": "q"})
    assert intake.take({**DELETE, "id": "nobody"}) is not None
    assert intake.drain() == {"q": intake.window["q"]}
    assert intake.drain() == {}


def test_of_many_offsets_only_the_new_ones_are_drained_and_overlaid_they_are_all_there() -> None:
    intake, written = Intake(POLICY, {}), dict[str, Delta]()
    drained = []
    for offset, event in enumerate((INSERT, MOVE, DELETE, INSERT, MOVE, MOVE), start=7):
        assert intake.take(event, offset) is None
        if offset in (8, 9, 12):
            part = intake.drain()
            drained.append([*(part["p"][3] or ())])
            overlay(written, part)
    assert drained == [[7, 8], [9], [10, 11, 12]]
    assert written == intake.window == {"p": (PUT, (35, *HERE[1:]), (1,), [*range(7, 13)], None)}


def test_a_person_with_very_many_events_costs_as_much_as_many_people() -> None:
    intake, written = Intake(POLICY, {}), dict[str, Delta]()
    assert intake.take(INSERT, 0) is None
    drained = 0
    for offset in range(1, 100_001):
        assert intake.take(MOVE, offset) is None
        if offset % 100 == 0:
            part = intake.drain()
            drained += len(part["p"][3] or ())
            overlay(written, part)
    assert drained == 100_001, "each offset is written once"
    assert written == intake.window


def test_who_is_inserted_after_being_found_at_home_elsewhere_keeps_the_offsets_of_the_window() -> None:
    """Their events in this window are all misrouted, and each has to become a dead letter."""
    intake = Intake(POLICY, dict(KNOWN))
    intake.without_home.add("p")
    assert intake.take(MOVE, 3) is None
    del intake.roster["p"]  # as a partition does when a release says so
    intake.without_home.clear()
    assert intake.take(INSERT, 4) is None
    assert intake.window["p"][3] == [3, 4]


def test_cut_ends_the_window_and_the_roster_goes_on() -> None:
    intake = Intake(POLICY, {})
    intake.take(INSERT)
    window = intake.cut()
    assert window == {"p": (PUT, HERE, (1,), None, None)}
    assert (intake.window, intake.accepted, intake.touched) == ({}, 0, {})
    assert intake.take(INSERT) == Reject(Reason.ALREADY_PRESENT, "insert", "id")
    assert intake.take(DELETE) is None
    assert window == {"p": (PUT, HERE, (1,), None, None)}
