"""The JSON Schemas agree with what is accepted, what is refused and what is published."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shoal.core.errors import PolicyError
from shoal.core.events.intake import Intake
from shoal.core.plan import plan
from shoal.core.policy.policy import build_policy
from shoal.core.schema import event_schema, policy_schema, release_schema
from shoal.core.state import State
from tests.support.engines.series import clinic_policy, window_between

POLICY: dict[str, Any] = {
    "table": "patients",
    "attributes": {
        "age": {"type": "int", "min": 0, "max": 120},
        "weight": {"type": "float", "min": 0, "max": 300},
        "sex": {"type": "category", "values": ["female", "male", 3]},
        "zip": {"type": "category", "hierarchy": "zip.csv"},
    },
    "sensitive": {"name": "disease", "values": ["flu", "hiv", "cold"], "permanent": [], "open": ["flu", "cold"]},
    "privacy": {
        "values": "redrawn",
        "k": 5,
        "l": 2,
        "strategy": {"name": "adaptive", "releases": 10},
        "headroom": 3,
        "participation": 0,
        "sampling": 1.0,
        "overlap": 2,
        "search": 32,
    },
    "release": {"every_events": 10000, "every_seconds": 3600, "at": "0 3 * * *", "timezone": "UTC", "case_ids": False},
}
QID = {"age": 34, "weight": 61.5, "sex": "female", "zip": "z11"}


@pytest.mark.parametrize("schema", [policy_schema, event_schema, release_schema])
def test_the_schemas_are_schemas_and_can_be_written_down(schema: Callable[[], dict[str, Any]]) -> None:
    Draft202012Validator.check_schema(schema())
    assert json.loads(json.dumps(schema())) == schema()


def _policy_fits(document: object) -> bool:
    return Draft202012Validator(policy_schema()).is_valid(document)


def _policy_is_built(document: object) -> bool:
    try:
        build_policy(document, {"zip.csv": b"a;*\nb;*\n"}, b"")
    except PolicyError:
        return False
    return True


def test_the_contracts_example_is_a_policy() -> None:
    assert _policy_fits(POLICY)
    assert _policy_is_built(POLICY)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("privacy.strategy", {"name": "constant-ratio", "releases": 3}),
        ("privacy.strategy", {"name": "geometric", "alpha": 1.5}),
        ("privacy.participation", "all"),
        ("privacy.l", 2.5),
        ("sensitive.open", []),
        ("release", {}),
    ],
)
def test_schema_and_policy_agree_on_what_is_right(place: str, value: object) -> None:
    document = _changed(place, value)
    assert _policy_fits(document)
    assert _policy_is_built(document)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("tabel", "x"),
        ("table", "Patients"),
        ("table", None),
        ("table", "a" * 101),
        ("attributes", {}),
        ("attributes", []),
        ("attributes.age", {"type": "int", "min": 0}),
        ("attributes.age", {"type": "int", "min": 0, "max": 3.5}),
        ("attributes.age", {"type": "int", "min": 0, "max": True}),
        ("attributes.age", {"type": "date"}),
        ("attributes.age", {"min": 0, "max": 9}),
        ("attributes.sex", {"type": "category"}),
        ("attributes.sex", {"type": "category", "values": []}),
        ("attributes.sex", {"type": "category", "values": ["*", "a"]}),
        ("attributes.sex", {"type": "category", "values": ["a", "a"]}),
        ("attributes.sex", {"type": "category", "values": ["a", None]}),
        ("attributes.sex", {"type": "category", "values": ["a", True]}),
        ("attributes.sex", {"type": "category", "values": ["a"], "hierarchy": "zip.csv"}),
        ("attributes.sex", {"type": "category", "values": ["a", "b"], "min": 3}),
        ("sensitive", {"name": "d"}),
        ("sensitive", {"values": ["a", "b"]}),
        ("privacy.k", 0),
        ("privacy.k", None),
        ("privacy.k", "5"),
        ("privacy.l", 1),
        ("privacy.kk", 1),
        ("privacy.strategy", None),
        ("privacy.strategy", {"name": "geometric"}),
        ("privacy.strategy", {"name": "geometric", "alpha": 2, "releases": 3}),
        ("privacy.strategy", {"name": "adaptive", "alpha": 2}),
        ("privacy.strategy", {"name": "adaptive", "releases": None}),
        ("privacy.participation", "some"),
        ("privacy.participation", -1),
        ("privacy.sampling", 0),
        ("release", None),
        ("release.every_events", 0),
        ("release.every_seconds", 0),
        ("release.case_ids", "no"),
    ],
)
def test_schema_and_policy_agree_on_what_is_wrong(place: str, value: object) -> None:
    document = _changed(place, value)
    assert not _policy_is_built(document)
    assert not _policy_fits(document)


def _changed(place: str, value: object) -> dict[str, Any]:
    document = copy.deepcopy(POLICY)
    *parents, last = place.split(".")
    section = document
    for parent in parents:
        section = section[parent]
    section[last] = value
    return document


def _event_fits(event: object) -> bool:
    return Draft202012Validator(event_schema()).is_valid(event)


@pytest.mark.parametrize(
    "event",
    [
        {"op": "insert", "id": "n", "qid": QID, "sensitive": ["asthma"]},
        {"op": "insert", "id": "n", "qid": QID, "sensitive": "asthma", "guard": None, "at": "2024-05-01"},
        {"op": "update", "id": "p", "qid": {"zip": "z12"}},
        {"op": "update", "id": "p"},
        {"op": "update", "id": "p", "sensitive": ["asthma", "hiv"], "guard": None},
        {"op": "delete", "id": "p"},
        {"op": "register", "id": "n", "qid": QID},
        {"op": "deregister", "id": "a"},
    ],
)
def test_schema_and_intake_agree_on_what_is_right(event: dict[str, Any]) -> None:
    assert _event_fits(event)
    assert Intake(clinic_policy(), {"p": 1, "a": 2}).take(event) is None


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        {"op": "upsert", "id": "p"},
        {"op": "delete"},
        {"op": "delete", "id": ""},
        {"op": "delete", "id": 5},
        {"op": "delete", "id": "p", "qid": {}},
        {"op": "delete", "id": "p", "extra": 1},
        {"op": "delete", "id": "p", "at": 5},
        {"op": "insert", "id": "n", "qid": QID},
        {"op": "insert", "id": "n", "sensitive": ["asthma"]},
        {"op": "insert", "id": "n", "qid": QID, "sensitive": []},
        {"op": "insert", "id": "n", "qid": QID, "sensitive": None},
        {"op": "insert", "id": "n", "qid": {**QID, "age": None}, "sensitive": "asthma"},
        {"op": "insert", "id": "n", "qid": {**QID, "age": True}, "sensitive": "asthma"},
        {"op": "update", "id": "p", "guard": {"bound": 0.5}},
        {"op": "register", "id": "n", "qid": QID, "sensitive": ["asthma"]},
    ],
)
def test_schema_and_intake_agree_on_what_is_wrong(event: object) -> None:
    assert not _event_fits(event)
    assert Intake(clinic_policy(), {"p": 1, "a": 2}).take(event) is not None


@pytest.mark.parametrize(
    "event",
    [
        {"op": "release"},
        {"op": "release", "at": "2024-05-01T10:00:00Z"},
        {"op": "update", "id": "p17", "sensitive": ["asthma", "hiv"], "guard": "respiratory-infection"},
        {"op": "update", "id": "p17", "guard": {"node": "hiv", "bound": 0.25}},
        {
            "op": "external",
            "publisher": "hospital-1",
            "groups": [
                {
                    "region": {"age": {"min": 15, "max": 25}, "sex": {"nodes": ["male"]}},
                    "sensitive": {"B": 2, "C": 1},
                }
            ],
        },
    ],
)
def test_the_contracts_other_events_fit_too(event: dict[str, Any]) -> None:
    assert _event_fits(event)


@pytest.mark.parametrize("case_ids", [False, True])
def test_what_the_engine_publishes_fits_and_a_spoiled_record_does_not(case_ids: bool) -> None:
    policy = clinic_policy(k=2, case_ids=case_ids)
    people = {
        f"p{n}": ({"age": n, "weight": float(n), "sex": "male", "zip": "z11"}, frozenset({disease}))
        for n, disease in enumerate(["asthma", "gastritis", "hiv", "ulcer", "gout", "lupus"] * 3)
    }
    release = plan(State.empty(policy, b"key"), window_between(policy, {}, people), policy, 1).release
    fits = Draft202012Validator(release_schema()).is_valid
    cell, group = json.loads(release.cells[0]), json.loads(release.groups[0])
    manifest = json.loads(release.manifest)
    assert all(fits(json.loads(record)) for record in release.records)
    assert fits(manifest)
    for record in (cell, group, manifest):
        for field in record:
            assert not fits({key: value for key, value in record.items() if key != field}), field
            assert not fits({**record, field: object}), field
    assert not fits({**manifest, "max_breach": 1.5})
    assert not fits({**group, "cells": {}})
    assert not fits({**group, "cells": {"c1": 0}})
    assert not fits({**group, "cells": {"c1": []}})
    assert not fits({**manifest, "format": 2})


def test_a_manifest_of_nothing_fits() -> None:
    policy = clinic_policy()
    release = plan(State.empty(policy, b"key"), window_between(policy, {}, {}), policy, 1).release
    manifest = json.loads(release.manifest)
    assert manifest["loss"] is None
    assert Draft202012Validator(release_schema()).is_valid(manifest)
