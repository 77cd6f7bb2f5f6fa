"""Intake: each rule of what is rejected and why; what a window comes to is in test_window.py."""

import copy
import math
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.events.guard import EMPTY
from shoal.core.events.intake import Intake
from shoal.core.events.window import ABSENT, DEREGISTERED_STATUS, ERASED_STATUS, PATCH, PRESENT, PUT, Delta
from shoal.core.policy.policy import Policy, build_policy


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
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
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
UPSERT: dict[str, Any] = {**INSERT, "op": "upsert"}
UPDATE: dict[str, Any] = {"op": "update", "id": "p", "qid": {"zip": "31000"}}
DELETE: dict[str, Any] = {"op": "delete", "id": "p"}
REGISTER_EVENT: dict[str, Any] = {"op": "register", "id": "p", "qid": QID}
DEREGISTER: dict[str, Any] = {"op": "deregister", "id": "p"}
ERASE: dict[str, Any] = {"op": "erase", "id": "p"}
STATUSES: tuple[dict[str, int], ...] = tuple(
    {} if status is None else {"p": status} for status in (None, PRESENT, ABSENT, DEREGISTERED_STATUS, ERASED_STATUS)
)


def take(event: object, roster: dict[str, int] | None = None) -> Reject | None:
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


def window_of(*events: dict[str, Any], roster: dict[str, int] | None = None) -> Delta | None:
    intake = Intake(POLICY, dict(roster or {}))
    for event in events:
        assert intake.take(event) is None
    intake.check_invariants()
    assert intake.accepted == len(events)
    return intake.window.get("p")


def with_qid(**changes: object) -> dict[str, Any]:
    return {**INSERT, "qid": {**QID, **changes}}


def without(event: dict[str, Any], field: str) -> dict[str, Any]:
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
    delta = window_of(with_qid(**qid))
    assert delta is not None
    assert delta[1] is not None
    (name,) = qid
    position = list(QID).index(name)
    assert delta[1][position] == code
    assert delta[1][:position] + delta[1][position + 1 :] == CODES[:position] + CODES[position + 1 :]
    assert [type(value) for value in delta[1]] == [int, float, int, int]
    patch = window_of({**UPDATE, "qid": qid}, roster={"p": PRESENT})
    assert patch is not None
    assert patch[1] == tuple(code if at == position else None for at in range(4))
    assert type(patch[1][position]) is type(delta[1][position])


def test_minus_zero_becomes_zero() -> None:
    for event, roster in ((with_qid(weight=-0.0), {}), ({**UPDATE, "qid": {"weight": -0.0}}, {"p": PRESENT})):
        delta = window_of(event, roster=roster)
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
    assert take(with_qid(**qid)) == Reject(reason, "insert", field)
    assert take({**UPDATE, "qid": qid}, {"p": PRESENT}) == Reject(reason, "update", field)
    assert take({**REGISTER_EVENT, "qid": {**QID, **qid}}) == Reject(reason, "register", field)


@pytest.mark.parametrize(
    ("qid", "expected"),
    [
        (None, (Reason.WRONG_TYPE, "qid")),
        ([], (Reason.WRONG_TYPE, "qid")),
        ("x", (Reason.WRONG_TYPE, "qid")),
        ({}, (Reason.MISSING_ATTRIBUTE, "qid.age")),
        (without(QID, "ward"), (Reason.MISSING_ATTRIBUTE, "qid.ward")),
        ({**QID, "secret": 1}, (Reason.UNKNOWN_ATTRIBUTE, "qid")),
        ({**without(QID, "zip"), "Zip": "20437"}, (Reason.UNKNOWN_ATTRIBUTE, "qid")),
    ],
)
def test_insert_and_register_need_every_attribute_and_no_other(qid: object, expected: tuple[Reason, str]) -> None:
    reason, field = expected
    assert take({**INSERT, "qid": qid}) == Reject(reason, "insert", field)
    assert take({**REGISTER_EVENT, "qid": qid}) == Reject(reason, "register", field)


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
    assert window_of({**INSERT, "sensitive": values}) == (PUT, CODES, codes, None, None)
    update = {"op": "update", "id": "p", "sensitive": values}
    assert window_of(update, roster={"p": PRESENT}) == (PATCH, (None,) * 4, codes, None, None)


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
    assert take({**INSERT, "sensitive": values}) == Reject(reason, "insert", "sensitive")
    event = {"op": "update", "id": "p", "sensitive": values}
    assert take(event, {"p": PRESENT}) == Reject(reason, "update", "sensitive")


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
        assert take(event, roster) is None
        assert take({**event, "at": "2024-05-01T10:00:00Z"}, roster) is None

    def test_has_a_sound_time(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        assert take({**event, "at": "secret"}, roster) == Reject(Reason.BAD_TIME, event["op"], "at")
        assert take({**event, "at": None}, roster) == Reject(Reason.WRONG_TYPE, event["op"], "at")
        assert take({**event, "at": 1714557600}, roster) == Reject(Reason.WRONG_TYPE, event["op"], "at")

    def test_has_no_unknown_field(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        unknown: tuple[Any, ...] = ("secret", "Id", "publisher", "groups", 5, b"id", None)
        for field in unknown:
            assert take({**event, field: 1}, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])

    def test_has_an_id(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        op = event["op"]
        assert take(without(event, "id"), roster) == Reject(Reason.MISSING_FIELD, op, "id")
        assert take({**event, "id": ""}, roster) == Reject(Reason.EMPTY, op, "id")
        assert take({**event, "id": "p\ud800"}, roster) == Reject(Reason.BAD_TEXT, op, "id")
        for wrong in (17, None, True, ["p"], {"p": 1}, b"p"):
            assert take({**event, "id": wrong}, roster) == Reject(Reason.WRONG_TYPE, op, "id")

    def test_may_be_about_anyone_with_a_name(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        for person in ("é", "😀", " ", "p" * 512, "é" * 256):
            twin = dict.fromkeys([person], *roster.values()) if roster else {}
            assert take({**event, "id": person}, twin) is None

    def test_misses_nothing_it_needs(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        needed = {"insert": ("qid", "sensitive"), "register": ("qid",)}.get(event["op"], ())
        for field in needed:
            assert take(without(event, field), roster) == Reject(Reason.MISSING_FIELD, event["op"], field)

    def test_names_an_unknown_field_before_a_missing_one(self, event: dict[str, Any], roster: dict[str, int]) -> None:
        wrong = {"op": event["op"], "secret": 1}
        assert take(wrong, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])


@pytest.mark.parametrize("event", [DELETE, DEREGISTER])
@pytest.mark.parametrize("field", ["qid", "sensitive", "guard"])
def test_delete_and_deregister_carry_nothing(event: dict[str, Any], field: str) -> None:
    for value in (None, {}, QID, "flu"):
        roster = {"p": PRESENT if event is DELETE else ABSENT}
        assert take({**event, field: value}, roster) == Reject(Reason.UNKNOWN_FIELD, event["op"])


@pytest.mark.parametrize("field", ["sensitive", "guard"])
def test_register_carries_no_record(field: str) -> None:
    assert take({**REGISTER_EVENT, field: None}) == Reject(Reason.UNKNOWN_FIELD, "register")


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
    assert window_of({**INSERT, "guard": guard}) == (PUT, CODES, (1,), None, wish)
    assert window_of({**UPDATE, "guard": guard}, roster={"p": PRESENT}) == (
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
    assert take({**INSERT, "guard": guard}) == Reject(reason, "insert", field)
    assert take({**UPDATE, "guard": guard}, {"p": PRESENT}) == Reject(reason, "update", field)


def test_the_last_wish_of_a_window_stands_through_delete_and_insert() -> None:
    wish = (POLICY.sensitive.hierarchy.node_of["flu"], None)
    window = window_of({**UPDATE, "guard": "ulcer"}, {**UPDATE, "guard": "flu"}, DELETE, INSERT, roster={"p": PRESENT})
    assert window == (PUT, CODES, (1,), None, wish)


def test_no_guard_is_no_guard() -> None:
    assert take({**INSERT, "guard": None}) is None
    assert take({**UPDATE, "guard": None, "at": "2024-05-01"}, {"p": PRESENT}) is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (None, Reject(Reason.NOT_AN_OBJECT)),
        ([INSERT], Reject(Reason.NOT_AN_OBJECT)),
        ("insert", Reject(Reason.NOT_AN_OBJECT)),
        ({}, Reject(Reason.MISSING_FIELD, None, "op")),
        (without(INSERT, "op"), Reject(Reason.MISSING_FIELD, None, "op")),
        ({**INSERT, "op": None}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({**INSERT, "op": ["insert"]}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({**INSERT, "op": "secret"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({**INSERT, "op": "INSERT"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({"op": "release"}, Reject(Reason.WRONG_TOPIC, "release", "op")),
        ({"op": "external", "publisher": "h"}, Reject(Reason.WRONG_TOPIC, "external", "op")),
    ],
)
def test_what_is_no_event_about_a_person_is_rejected(event: object, expected: Reject) -> None:
    assert take(event) == expected


@pytest.mark.parametrize(
    ("event", "reasons"),
    [
        (INSERT, (None, Reason.ALREADY_PRESENT, None, Reason.DEREGISTERED, None)),
        (UPSERT, (None, None, None, Reason.DEREGISTERED, None)),
        (UPDATE, (Reason.UNKNOWN_ID, None, Reason.NOT_PRESENT, Reason.DEREGISTERED, Reason.UNKNOWN_ID)),
        (DELETE, (Reason.UNKNOWN_ID, None, Reason.NOT_PRESENT, Reason.DEREGISTERED, Reason.UNKNOWN_ID)),
        (REGISTER_EVENT, (None, Reason.ALREADY_PRESENT, None, Reason.DEREGISTERED, None)),
        (DEREGISTER, (Reason.UNKNOWN_ID, Reason.NOT_ABSENT, None, Reason.DEREGISTERED, Reason.UNKNOWN_ID)),
        (ERASE, (Reason.UNKNOWN_ID, None, None, None, None)),
    ],
)
def test_who_a_person_is_decides(event: dict[str, Any], reasons: tuple[Reason | None, ...]) -> None:
    """For someone unknown, present, absent, deregistered and erased, in that order."""
    for roster, reason in zip(STATUSES, reasons, strict=True):
        expected = None if reason is None else Reject(reason, event["op"], "id")
        assert take(event, roster) == expected


def test_no_reject_ever_shows_what_the_sender_wrote() -> None:
    secret = "canary"
    events: list[object] = [
        {**INSERT, "op": secret},
        {**INSERT, secret: 1},
        {**INSERT, "qid": {**QID, secret: 1}},
        with_qid(ward=secret),
        with_qid(age=secret),
        {**INSERT, "sensitive": secret},
        {**INSERT, "guard": secret},
        {**INSERT, "at": secret},
        {**UPDATE, "id": secret},
    ]
    for event in events:
        assert secret not in repr(take(event))
