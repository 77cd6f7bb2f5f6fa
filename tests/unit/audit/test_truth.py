"""The auditor's own interpreter of events: which count, and what is true at a release."""

import json
from fractions import Fraction
from typing import Any

import pytest

from shoal.core.audit import Asked, Truth
from shoal.core.audit.reading.truth import Guard
from shoal.core.policy.policy import Policy, build_policy

QID = {"age": 30, "weight": 61.5, "zip": "z11"}


DISEASES = b"flu;lung;*\nasthma;lung;*\nulcer;belly;*\n"


def policy(every_events: int | None = None, diseases: bytes = DISEASES, **sensitive: Any) -> Policy:
    return build_policy(
        {
            "table": "clinic",
            "attributes": {
                "age": {"type": "int", "min": 0, "max": 99},
                "weight": {"type": "float", "min": 0, "max": 200},
                "zip": {"type": "category", "hierarchy": "zip.csv"},
            },
            "sensitive": {"name": "disease", "hierarchy": "disease.csv", **sensitive},
            "privacy": {"values": "redrawn", "k": 2, "l": 2},
            "release": {} if every_events is None else {"every_events": every_events},
        },
        {"zip.csv": b"z11;z1*;*\nz12;z1*;*\n7;z2*;*\n", "disease.csv": diseases},
        b"",
    )


def take(truth: Truth, *events: Any) -> list[bool]:
    """Which of these events count."""
    counted = []
    for event in events:
        before = truth.accepted
        truth.take(event if isinstance(event, bytes) else json.dumps(event).encode())
        counted.append(truth.accepted > before)
    return counted


def insert(person: str = "p", **more: Any) -> dict[str, Any]:
    return {"op": "insert", "id": person, "qid": QID, "sensitive": ["flu"], **more}


@pytest.mark.parametrize(
    "event",
    [
        b"{",
        b"\xff",
        b"[]",
        b'"insert"',
        b'{"op": "insert", "op": "insert"}',
        b'{"op": "delete", "id": "p", "id": "p"}',
        b'{"op": "update", "id": "p", "qid": {"weight": NaN}}',
        b'{"op": "update", "id": "p", "qid": {"weight": 1e999}}',
        b'{"op": "delete", "id": "\\ud800"}',
        b"[" * 100_000,
        {"op": "vanish", "id": "p"},
        {"op": 7, "id": "p"},
        {"id": "p"},
        {"op": "delete"},
        {"op": "delete", "id": ""},
        {"op": "delete", "id": 7},
        {"op": "delete", "id": "p", "why": "x"},
        {"op": "delete", "id": "p", "at": "yesterday"},
        {"op": "delete", "id": "p", "at": None},
        {"op": "delete", "id": "unknown"},
        {"op": "update", "id": "unknown"},
        {"op": "deregister", "id": "unknown"},
        {"op": "deregister", "id": "p"},
        {"op": "register", "id": "p", "qid": QID},
        insert(),
        insert("q", qid={**QID, "age": 100}),
        insert("q", qid={**QID, "age": 30.0}),
        insert("q", qid={**QID, "age": True}),
        insert("q", qid={**QID, "weight": "61.5"}),
        insert("q", qid={**QID, "zip": "z1*"}),
        insert("q", qid={**QID, "zip": "z99"}),
        insert("q", qid={"age": 30}),
        insert("q", qid={**QID, "size": 3}),
        insert("q", sensitive=[]),
        insert("q", sensitive=["lung"]),
        insert("q", sensitive="gout"),
        insert("q", sensitive=None),
        insert("q", guard="heart"),
        insert("q", guard=["lung"]),
        insert("q", guard={"node": "lung", "bound": 0.51}),
        insert("q", guard={"node": "lung", "bound": 0}),
        insert("q", guard={"node": "lung", "bound": "0.1"}),
        insert("q", guard={"node": "lung", "bound": True}),
        insert("q", guard={"node": None, "bound": 0.1}),
        insert("q", guard={"node": ""}),
        insert("q", guard={"bound": 0.1}),
        insert("q", guard={"node": "lung", "until": 7}),
        {"op": "register", "id": "q", "qid": QID, "guard": "lung"},
        {"op": "release", "why": "x"},
        {"op": "release", "at": 7},
    ],
    ids=repr,
)
def test_an_event_that_breaks_the_contract_has_no_effect(event: Any) -> None:
    truth = Truth(policy())
    assert take(truth, insert()) == [True]
    before = dict(truth.present)
    assert take(truth, event) == [False]
    assert truth.present == before
    assert truth.rejected == [2]


@pytest.mark.parametrize(
    "event",
    [
        {"op": "update", "id": "p"},
        {"op": "update", "id": "p", "qid": {}},
        {"op": "update", "id": "p", "qid": {"weight": 80}, "at": "2026-01-02T03:04:05Z"},
        {"op": "update", "id": "p", "sensitive": "ulcer"},
        {"op": "update", "id": "p", "sensitive": ["ulcer", "ulcer"]},
        {"op": "update", "id": "p", "guard": None},
        {"op": "update", "id": "p", "guard": {"node": None}},
        {"op": "update", "id": "p", "guard": {"node": "*", "bound": 0.5}},
        {"op": "delete", "id": "p"},
        {"op": "register", "id": "q", "qid": QID},
        insert("q", qid={**QID, "zip": 7}),
        insert("q", guard=""),
    ],
    ids=repr,
)
def test_an_event_that_keeps_the_contract_counts(event: Any) -> None:
    truth = Truth(policy())
    assert take(truth, insert(), event) == [True, True]


def test_blank_lines_are_no_events_but_lines() -> None:
    truth = Truth(policy())
    assert take(truth, b"", b"  \r", b"nonsense") == [False] * 3
    assert truth.rejected == [3]


def test_a_life_from_registration_to_the_end() -> None:
    truth = Truth(policy())
    events = [
        {"op": "register", "id": "p", "qid": QID},
        {"op": "register", "id": "p", "qid": {**QID, "age": 31}},
        insert(),
        {"op": "deregister", "id": "p"},
        {"op": "delete", "id": "p"},
        insert(),
        {"op": "delete", "id": "p"},
        {"op": "deregister", "id": "p"},
        insert(),
        {"op": "register", "id": "p", "qid": QID},
    ]
    assert take(truth, *events) == [True, True, True, False, True, True, True, True, False, False]
    assert truth.present == {}


def test_an_upsert_is_true_whether_or_not_somebody_is_there() -> None:
    truth = Truth(policy())
    upsert = {**insert(), "op": "upsert"}
    moved = {**upsert, "qid": {**QID, "age": 31}}
    assert take(truth, upsert, moved, {"op": "delete", "id": "p"}, upsert) == [True] * 4
    assert take(truth, {"op": "delete", "id": "p"}, {"op": "deregister", "id": "p"}, upsert) == [True, True, False]


def test_releases_are_made_on_request_and_every_so_many_events_that_count() -> None:
    truth, asked = Truth(policy(every_events=2)), []
    lines = [insert("a"), insert("a"), insert("b"), insert("c"), {"op": "release", "at": "2026-01-01"}, insert("d")]
    for number, event in enumerate([*lines, insert("e"), insert("f")], start=1):
        due = truth.take(json.dumps(event).encode())
        if due is not None:
            asked.append((number, due))
            truth.cut(len(asked))
    assert asked == [(3, Asked(None)), (5, Asked("2026-01-01")), (7, Asked(None))]


def test_there_and_back_within_a_window_is_no_change() -> None:
    truth = Truth(policy())
    take(truth, insert())
    truth.cut(1)
    before = truth.present["p"]
    take(
        truth,
        {"op": "update", "id": "p", "qid": {"age": 99}, "guard": "lung"},
        {"op": "delete", "id": "p"},
        insert(guard={"node": None}),
    )
    truth.cut(2)
    assert truth.present["p"] == before
    assert (truth.since["p"], truth.guarded_since.get("p")) == (1, None)


def test_quasi_identifiers_change_when_a_release_can_see_it() -> None:
    truth = Truth(policy())
    take(truth, insert("moved"), insert("gone"), insert("back"))
    truth.cut(1)
    take(truth, {"op": "update", "id": "moved", "qid": {"age": 31}})
    take(truth, {"op": "update", "id": "gone", "qid": {"age": 31}}, {"op": "delete", "id": "gone"})
    take(truth, {"op": "delete", "id": "back"}, {"op": "register", "id": "back", "qid": {**QID, "age": 31}})
    truth.cut(2)
    take(truth, insert("gone"), insert("back"))
    truth.cut(3)
    assert truth.since == {"moved": 2, "gone": 1, "back": 3}


def test_a_guard_is_kept_changed_and_taken_back() -> None:
    truth, half = Truth(policy()), Fraction(1, 2)
    lung, root = (policy().sensitive.hierarchy.node_of[label] for label in ("lung", "*"))

    def guard_after(*events: dict[str, Any]) -> Guard | None:
        assert all(take(truth, *events))
        return truth.present["p"].guard

    update = {"op": "update", "id": "p"}
    assert guard_after(insert()) is None
    truth.cut(1)
    assert guard_after({**update, "guard": "lung"}) == Guard(lung, half)
    truth.cut(2)
    assert guard_after({**update, "guard": {"node": "lung", "bound": 0.1}}) == Guard(
        lung, Fraction(1, 10), is_own_bound=True
    )
    truth.cut(3)
    assert truth.guarded_since == {"p": 3}
    assert guard_after({"op": "delete", "id": "p"}, insert()) == Guard(lung, Fraction(1, 10), is_own_bound=True)
    truth.cut(4)
    assert truth.guarded_since == {"p": 3}
    assert guard_after({**update, "guard": ""}) == Guard(None, half)
    assert guard_after({**update, "guard": "*"}) == Guard(root, half)
    assert guard_after({**update, "guard": {"node": None}}) is None
    truth.cut(5)
    assert truth.guarded_since == {"p": 5}


@pytest.mark.parametrize("groups", ["[]", '[{"region": {"age": {"min": 5, "max": 4}}, "sensitive": {}}]'])
def test_a_wrong_external_event_has_no_effect(groups: str) -> None:
    truth = Truth(policy())
    truth.take(f'{{"op": "external", "publisher": "h", "groups": {groups}}}'.encode())
    assert (truth.others, truth.rejected, truth.accepted) == ([], [1], 0)


def permanent_policy() -> Policy:
    from dataclasses import replace

    rules = policy()
    asthma = rules.sensitive.hierarchy.leaf_code["asthma"]
    return replace(rules, sensitive=rules.sensitive._replace(permanent=frozenset({asthma})))


def test_a_permanent_value_survives_absence_and_an_insert_that_does_not_name_it() -> None:
    truth = Truth(permanent_policy())
    flu, asthma = (permanent_policy().sensitive.hierarchy.leaf_code[label] for label in ("flu", "asthma"))
    assert all(take(truth, insert(sensitive=["asthma"]), {"op": "delete", "id": "p"}))  # both in one window
    truth.cut(1)
    assert truth.present == {}
    assert truth.held == {"p": {asthma}}
    assert take(truth, insert()) == [True]
    assert truth.present["p"].values == {flu, asthma}
    assert take(truth, {"op": "update", "id": "p", "sensitive": ["flu"]}) == [False]
    assert take(truth, {"op": "update", "id": "p", "sensitive": ["asthma"]}) == [True]


def test_who_is_registered_absent_or_extinct_is_known_at_every_release() -> None:
    truth = Truth(permanent_policy())
    moved = {**QID, "age": 31}
    assert all(take(truth, insert("a"), insert("b", sensitive=["asthma"]), {"op": "register", "id": "c", "qid": QID}))
    assert all(take(truth, {"op": "delete", "id": "a"}, {"op": "register", "id": "a", "qid": moved}))
    assert all(take(truth, {"op": "delete", "id": "b"}, {"op": "deregister", "id": "b"}))
    truth.cut(1)
    assert truth.registered == {"a": (31, 61.5, 0), "c": (30, 61.5, 0)}
    assert truth.extinct == {"b"}
    assert truth.held.keys() == {"b"}  # what is known of somebody does not end with them


def test_what_others_published_is_judged_by_the_labels_of_its_time() -> None:
    new = policy(diseases=DISEASES + b"colitis;belly;*\n")
    truth, event = Truth(new, policy()), {"op": "external", "publisher": "h"}
    group = {"region": {}, "sensitive": {"colitis": 1}}
    assert take(truth, {**event, "groups": [group]}) == [False]
    assert take(truth, {**event, "groups": [{**group, "sensitive": {"flu": 1}}]}) == [True]
    truth.known = new
    assert take(truth, {**event, "groups": [group]}) == [True]
    assert len(truth.others) == 2
