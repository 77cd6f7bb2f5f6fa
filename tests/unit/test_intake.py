"""Intake: each rule of what is rejected and why, and what a window comes to."""

import copy
import math
from typing import Any

import pytest

from core.event import Reason, Reject
from core.guard import EMPTY
from core.intake import (
    ABSENT,
    DEREGISTERED,
    DEREGISTERED_STATUS,
    GONE,
    PATCH,
    PRESENT,
    PUT,
    REGISTER,
    Delta,
    Intake,
    overlay,
)
from core.policy import Policy, build_policy


def _policy() -> Policy:
    document = {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": -5, "max": 120},
            "weight": {"type": "float", "min": -1, "max": 300},
            "ward": {"type": "category", "values": ["0", "1", "02", "-3", "x"]},
            "zip": {"type": "category", "hierarchy": "zip.csv"},
        },
        "sensitive": {"name": "disease", "hierarchy": "disease.csv"},
        "privacy": {"k": 2, "l": 2},
    }
    files = {
        "zip.csv": b"20433;2043*;*\n20437;2043*;*\n31000;3;*\n",
        "disease.csv": b"flu;respiratory;*\nasthma;respiratory;*\nulcer;stomach;*\n7;8;*\n",
    }
    return build_policy(document, files, b"")


POLICY = _policy()
QID: dict[str, Any] = {"age": 34, "weight": 61.5, "ward": "x", "zip": "20437"}
CODES = (34, 61.5, 4, 1)
INSERT: dict[str, Any] = {"op": "insert", "id": "p", "qid": QID, "sensitive": ["asthma"]}
UPDATE: dict[str, Any] = {"op": "update", "id": "p", "qid": {"zip": "31000"}}
DELETE: dict[str, Any] = {"op": "delete", "id": "p"}
REGISTER_EVENT: dict[str, Any] = {"op": "register", "id": "p", "qid": QID}
DEREGISTER: dict[str, Any] = {"op": "deregister", "id": "p"}
STATUSES: tuple[dict[str, int], ...] = ({}, {"p": PRESENT}, {"p": ABSENT}, {"p": DEREGISTERED_STATUS})


def _take(event: object, roster: dict[str, int] | None = None) -> Reject | None:
    """Judge one event, and see that a rejected one left no trace."""
    intake = Intake(POLICY, dict(roster or {}))
    untouched = copy.deepcopy(event)
    refused = intake.take(event, 5)
    assert repr(event) == repr(untouched)
    intake.check_invariants()
    if refused is not None:
        assert (intake.window, intake.accepted, intake.touched) == ({}, 0, {})
        assert intake.roster == (roster or {})
    else:
        assert intake.accepted == 1
    return refused


def _window(*events: dict[str, Any], roster: dict[str, int] | None = None) -> Delta | None:
    intake = Intake(POLICY, dict(roster or {}))
    for event in events:
        assert intake.take(event) is None
    intake.check_invariants()
    assert intake.accepted == len(events)
    return intake.window.get("p")


def _with_qid(**changes: object) -> dict[str, Any]:
    return {**INSERT, "qid": {**QID, **changes}}


def _without(event: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != field}


@pytest.mark.parametrize(
    ("qid", "code"),
    [
        ({"age": -5}, -5),
        ({"age": 120}, 120),
        ({"weight": 300}, 300.0),
        ({"weight": -1.0}, -1.0),
        ({"ward": "02"}, 2),
        ({"ward": 1}, 1),
        ({"ward": -3}, 3),
        ({"ward": 0}, 0),
        ({"zip": 31000}, 2),
    ],
)
def test_what_is_in_the_domain_is_taken(qid: dict[str, Any], code: float) -> None:
    delta = _window(_with_qid(**qid))
    assert delta is not None
    assert delta[1] is not None
    (name,) = qid
    position = list(QID).index(name)
    assert delta[1][position] == code
    assert delta[1][:position] + delta[1][position + 1 :] == CODES[:position] + CODES[position + 1 :]
    assert [type(value) for value in delta[1]] == [int, float, int, int]
    patch = _window({**UPDATE, "qid": qid}, roster={"p": PRESENT})
    assert patch is not None
    assert patch[1] == tuple(code if at == position else None for at in range(4))
    assert type(patch[1][position]) is type(delta[1][position])


def test_minus_zero_becomes_zero() -> None:
    for event, roster in ((_with_qid(weight=-0.0), {}), ({**UPDATE, "qid": {"weight": -0.0}}, {"p": PRESENT})):
        delta = _window(event, roster=roster)
        assert delta is not None
        assert delta[1] is not None
        assert math.copysign(1.0, delta[1][1]) == 1.0


@pytest.mark.parametrize(
    ("qid", "reason"),
    [
        ({"age": -6}, Reason.OUT_OF_DOMAIN),
        ({"age": 121}, Reason.OUT_OF_DOMAIN),
        ({"age": 10**4000}, Reason.OUT_OF_DOMAIN),
        ({"age": 34.0}, Reason.WRONG_TYPE),
        ({"age": True}, Reason.WRONG_TYPE),
        ({"age": "34"}, Reason.WRONG_TYPE),
        ({"age": None}, Reason.WRONG_TYPE),
        ({"age": math.nan}, Reason.WRONG_TYPE),
        ({"age": [34]}, Reason.WRONG_TYPE),
        ({"weight": 300.1}, Reason.OUT_OF_DOMAIN),
        ({"weight": -2}, Reason.OUT_OF_DOMAIN),
        ({"weight": 10**400}, Reason.OUT_OF_DOMAIN),
        ({"weight": math.nan}, Reason.OUT_OF_DOMAIN),
        ({"weight": math.inf}, Reason.OUT_OF_DOMAIN),
        ({"weight": -math.inf}, Reason.OUT_OF_DOMAIN),
        ({"weight": False}, Reason.WRONG_TYPE),
        ({"weight": "61"}, Reason.WRONG_TYPE),
        ({"ward": "secret"}, Reason.UNKNOWN_NODE),
        ({"ward": ""}, Reason.UNKNOWN_NODE),
        ({"ward": "X"}, Reason.UNKNOWN_NODE),
        ({"ward": "x "}, Reason.UNKNOWN_NODE),
        ({"ward": 2}, Reason.UNKNOWN_NODE),  # "02" is not "2"
        ({"ward": 1.0}, Reason.WRONG_TYPE),
        ({"ward": True}, Reason.WRONG_TYPE),  # although True == 1
        ({"ward": None}, Reason.WRONG_TYPE),
        ({"ward": ["x"]}, Reason.WRONG_TYPE),
        ({"ward": {}}, Reason.WRONG_TYPE),
        ({"zip": "2043*"}, Reason.NOT_A_LEAF),
        ({"zip": "*"}, Reason.NOT_A_LEAF),
        ({"zip": 3}, Reason.NOT_A_LEAF),
    ],
)
def test_what_is_not_in_the_domain_is_rejected_wherever_it_stands(qid: dict[str, Any], reason: Reason) -> None:
    field = f"qid.{next(iter(qid))}"
    assert _take(_with_qid(**qid)) == Reject(reason, "insert", field)
    assert _take({**UPDATE, "qid": qid}, {"p": PRESENT}) == Reject(reason, "update", field)
    assert _take({**REGISTER_EVENT, "qid": {**QID, **qid}}) == Reject(reason, "register", field)


@pytest.mark.parametrize(
    ("qid", "expected"),
    [
        (None, (Reason.WRONG_TYPE, "qid")),
        ([], (Reason.WRONG_TYPE, "qid")),
        ("x", (Reason.WRONG_TYPE, "qid")),
        ({}, (Reason.MISSING_ATTRIBUTE, "qid.age")),
        (_without(QID, "ward"), (Reason.MISSING_ATTRIBUTE, "qid.ward")),
        ({**QID, "secret": 1}, (Reason.UNKNOWN_ATTRIBUTE, "qid")),
        ({**_without(QID, "zip"), "Zip": "20437"}, (Reason.UNKNOWN_ATTRIBUTE, "qid")),
    ],
)
def test_insert_and_register_need_every_attribute_and_no_other(qid: object, expected: tuple[Reason, str]) -> None:
    reason, field = expected
    assert _take({**INSERT, "qid": qid}) == Reject(reason, "insert", field)
    assert _take({**REGISTER_EVENT, "qid": qid}) == Reject(reason, "register", field)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ("asthma", (1,)),
        (["asthma"], (1,)),
        (["ulcer", "flu"], (0, 2)),
        (["flu", "flu", "asthma", "flu"], (0, 1)),
        (["flu", "flu"], (0,)),
        (7, (3,)),
        ([7, "7"], (3,)),
    ],
)
def test_sensitive_is_one_leaf_or_a_set_of_them(values: object, codes: tuple[int, ...]) -> None:
    assert _window({**INSERT, "sensitive": values}) == (PUT, CODES, codes, None, None)
    update = {"op": "update", "id": "p", "sensitive": values}
    assert _window(update, roster={"p": PRESENT}) == (PATCH, (None,) * 4, codes, None, None)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], Reason.EMPTY),
        (None, Reason.WRONG_TYPE),
        ({}, Reason.WRONG_TYPE),
        ({"flu": 1}, Reason.WRONG_TYPE),
        (True, Reason.WRONG_TYPE),
        (7.0, Reason.WRONG_TYPE),
        ("", Reason.UNKNOWN_NODE),
        ("secret", Reason.UNKNOWN_NODE),
        (["flu", "secret"], Reason.UNKNOWN_NODE),
        (["flu", None], Reason.WRONG_TYPE),
        (["flu", ["asthma"]], Reason.WRONG_TYPE),
        ([True], Reason.WRONG_TYPE),
        ("respiratory", Reason.NOT_A_LEAF),
        (["flu", "*"], Reason.NOT_A_LEAF),
        (8, Reason.NOT_A_LEAF),
    ],
)
def test_other_sensitive_values_are_rejected(values: object, reason: Reason) -> None:
    assert _take({**INSERT, "sensitive": values}) == Reject(reason, "insert", "sensitive")
    event = {"op": "update", "id": "p", "sensitive": values}
    assert _take(event, {"p": PRESENT}) == Reject(reason, "update", "sensitive")


@pytest.mark.parametrize(
    ("event", "roster"),
    [
        (INSERT, {}),
        (UPDATE, {"p": PRESENT}),
        (DELETE, {"p": PRESENT}),
        (REGISTER_EVENT, {}),
        (DEREGISTER, {"p": ABSENT}),
    ],
    ids=lambda case: case.get("op", "") if isinstance(case, dict) else "",
)
class TestEveryOp:
    def test_is_accepted_with_and_without_a_time(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        assert _take(event, roster) is None
        assert _take({**event, "at": "2024-05-01T10:00:00Z"}, roster) is None

    def test_has_a_sound_time(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        assert _take({**event, "at": "secret"}, roster) == Reject(Reason.BAD_TIME, event["op"], "at")
        assert _take({**event, "at": None}, roster) == Reject(Reason.WRONG_TYPE, event["op"], "at")
        assert _take({**event, "at": 1714557600}, roster) == Reject(Reason.WRONG_TYPE, event["op"], "at")

    def test_has_no_unknown_field(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        unknown: tuple[Any, ...] = ("secret", "Id", "publisher", "groups", 5, b"id", None)
        for field in unknown:
            assert _take({**event, field: 1}, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])

    def test_has_an_id(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        op = event["op"]
        assert _take(_without(event, "id"), roster) == Reject(Reason.MISSING_FIELD, op, "id")
        assert _take({**event, "id": ""}, roster) == Reject(Reason.EMPTY, op, "id")
        assert _take({**event, "id": "p\ud800"}, roster) == Reject(Reason.BAD_TEXT, op, "id")
        for wrong in (17, None, True, ["p"], {"p": 1}, b"p"):
            assert _take({**event, "id": wrong}, roster) == Reject(Reason.WRONG_TYPE, op, "id")

    def test_may_be_about_anyone_with_a_name(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        for person in ("é", "😀", " ", "p\x00"):
            twin = dict.fromkeys([person], *roster.values()) if roster else {}
            assert _take({**event, "id": person}, twin) is None

    def test_misses_nothing_it_needs(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        needed = {"insert": ("qid", "sensitive"), "register": ("qid",)}.get(event["op"], ())
        for field in needed:
            assert _take(_without(event, field), roster) == Reject(Reason.MISSING_FIELD, event["op"], field)

    def test_names_an_unknown_field_before_a_missing_one(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        wrong = {"op": event["op"], "secret": 1}
        assert _take(wrong, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])


@pytest.mark.parametrize("event", [DELETE, DEREGISTER])
@pytest.mark.parametrize("field", ["qid", "sensitive", "guard"])
def test_delete_and_deregister_carry_nothing(event: dict[str, Any], field: str) -> None:
    for value in (None, {}, QID, "flu"):
        roster = {"p": PRESENT if event is DELETE else ABSENT}
        assert _take({**event, field: value}, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])


@pytest.mark.parametrize("field", ["sensitive", "guard"])
def test_register_carries_no_record(field: str) -> None:
    assert _take({**REGISTER_EVENT, field: None}) == Reject(Reason.UNKNOWN_FIELD, "register")


@pytest.mark.parametrize(
    ("guard", "wish"),
    [
        ("respiratory", (POLICY.sensitive.hierarchy.node_of["respiratory"], None)),
        ("flu", (POLICY.sensitive.hierarchy.node_of["flu"], None)),
        ("*", (0, None)),
        (7, (POLICY.sensitive.hierarchy.node_of["7"], None)),
        ("", (EMPTY, None)),
        ({"node": "flu"}, (POLICY.sensitive.hierarchy.node_of["flu"], None)),
        ({"node": "flu", "bound": 0.25}, (POLICY.sensitive.hierarchy.node_of["flu"], 0.25)),
        ({"node": "flu", "bound": 0.5}, (POLICY.sensitive.hierarchy.node_of["flu"], 0.5)),
        ({"node": None}, ()),
        (None, None),
    ],
)
def test_a_guard_is_a_node_a_bound_nothing_at_all_or_taken_back(guard: object, wish: object) -> None:
    assert _window({**INSERT, "guard": guard}) == (PUT, CODES, (1,), None, wish)
    assert _window({**UPDATE, "guard": guard}, roster={"p": PRESENT}) == (
        PATCH,
        (None, None, None, 2),
        None,
        None,
        wish,
    )


@pytest.mark.parametrize(
    ("guard", "reason", "field"),
    [
        ("secret", Reason.UNKNOWN_NODE, "guard"),
        (0, Reason.UNKNOWN_NODE, "guard"),
        (False, Reason.WRONG_TYPE, "guard"),
        ([], Reason.WRONG_TYPE, "guard"),
        (0.5, Reason.WRONG_TYPE, "guard"),
        ({}, Reason.MISSING_FIELD, "guard"),
        ({"bound": 0.25}, Reason.MISSING_FIELD, "guard"),
        ({"node": "flu", "secret": 1}, Reason.UNKNOWN_FIELD, "guard"),
        ({"node": ""}, Reason.UNKNOWN_NODE, "guard"),
        ({"node": None, "bound": 0.25}, Reason.UNKNOWN_FIELD, "guard.bound"),
        ({"node": "flu", "bound": 0}, Reason.OUT_OF_DOMAIN, "guard.bound"),
        ({"node": "flu", "bound": 0.51}, Reason.OUT_OF_DOMAIN, "guard.bound"),
        ({"node": "flu", "bound": float("nan")}, Reason.OUT_OF_DOMAIN, "guard.bound"),
        ({"node": "flu", "bound": None}, Reason.WRONG_TYPE, "guard.bound"),
        ({"node": "flu", "bound": True}, Reason.WRONG_TYPE, "guard.bound"),
    ],
)
def test_a_wrong_guard_is_refused(guard: object, reason: Reason, field: str) -> None:
    assert _take({**INSERT, "guard": guard}) == Reject(reason, "insert", field)
    assert _take({**UPDATE, "guard": guard}, {"p": PRESENT}) == Reject(reason, "update", field)


def test_the_last_wish_of_a_window_stands_through_delete_and_insert() -> None:
    wish = (POLICY.sensitive.hierarchy.node_of["flu"], None)
    window = _window({**UPDATE, "guard": "ulcer"}, {**UPDATE, "guard": "flu"}, DELETE, INSERT, roster={"p": PRESENT})
    assert window == (PUT, CODES, (1,), None, wish)


def test_no_guard_is_no_guard() -> None:
    assert _take({**INSERT, "guard": None}) is None
    assert _take({**UPDATE, "guard": None, "at": "2024-05-01"}, {"p": PRESENT}) is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (None, Reject(Reason.NOT_AN_OBJECT)),
        ([INSERT], Reject(Reason.NOT_AN_OBJECT)),
        ("insert", Reject(Reason.NOT_AN_OBJECT)),
        ({}, Reject(Reason.MISSING_FIELD, None, "op")),
        (_without(INSERT, "op"), Reject(Reason.MISSING_FIELD, None, "op")),
        ({**INSERT, "op": None}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({**INSERT, "op": ["insert"]}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({**INSERT, "op": "secret"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({**INSERT, "op": "INSERT"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({"op": "release"}, Reject(Reason.WRONG_TOPIC, "release", "op")),
        ({"op": "external", "publisher": "h"}, Reject(Reason.WRONG_TOPIC, "external", "op")),
    ],
)
def test_what_is_no_event_about_a_person_is_rejected(event: object, expected: Reject) -> None:
    assert _take(event) == expected


@pytest.mark.parametrize(
    ("event", "reasons"),
    [
        (INSERT, (None, Reason.ALREADY_PRESENT, None, Reason.DEREGISTERED)),
        (UPDATE, (Reason.UNKNOWN_ID, None, Reason.NOT_PRESENT, Reason.DEREGISTERED)),
        (DELETE, (Reason.UNKNOWN_ID, None, Reason.NOT_PRESENT, Reason.DEREGISTERED)),
        (REGISTER_EVENT, (None, Reason.ALREADY_PRESENT, None, Reason.DEREGISTERED)),
        (DEREGISTER, (Reason.UNKNOWN_ID, Reason.NOT_ABSENT, None, Reason.DEREGISTERED)),
    ],
)
def test_who_a_person_is_decides(event: dict[str, Any], reasons: tuple[Reason | None, ...]) -> None:
    """For someone unknown, present, absent and deregistered, in that order."""
    for roster, reason in zip(STATUSES, reasons, strict=True):
        expected = None if reason is None else Reject(reason, event["op"], "id")
        assert _take(event, roster) == expected


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
    intake.unsettled.add("p")
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
    intake.unsettled.add("p")
    assert intake.take(MOVE, 3) is None
    del intake.roster["p"]  # as a partition does when a release says so
    intake.unsettled.clear()
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


def test_no_reject_ever_shows_what_the_sender_wrote() -> None:
    secret = "canary"
    events: list[object] = [
        {**INSERT, "op": secret},
        {**INSERT, secret: 1},
        {**INSERT, "qid": {**QID, secret: 1}},
        _with_qid(ward=secret),
        _with_qid(age=secret),
        {**INSERT, "sensitive": secret},
        {**INSERT, "guard": secret},
        {**INSERT, "at": secret},
        {**UPDATE, "id": secret},
    ]
    for event in events:
        assert secret not in repr(_take(event))
