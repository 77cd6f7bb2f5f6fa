"""Policies: what they become."""

import copy
import hashlib
import math
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from shoal.core.policy.policy import Policy, Snapshots, Triggers, build_policy, hierarchy_paths
from shoal.core.policy.strategy import Adaptive, Geometric

FILES: dict[str, bytes | None] = {
    "zip.csv": b"20433;2043*;*\n20437;2043*;*\n31000;3*;*\n",
    "disease.csv": b"flu;respiratory;*\nasthma;respiratory;*\nulcer;stomach;*\nhiv;*\n",
}
FULL: dict[str, Any] = {
    "table": "patients",
    "attributes": {
        "age": {"type": "int", "min": 0, "max": 120},
        "weight": {"type": "float", "min": 0, "max": 300.5},
        "sex": {"type": "category", "values": ["female", "male"]},
        "zip": {"type": "category", "hierarchy": "zip.csv"},
    },
    "sensitive": {"name": "disease", "hierarchy": "disease.csv", "open": ["flu"], "permanent": []},
    "privacy": {
        "k": 5,
        "l": 2,
        "values": "redrawn",
        "strategy": {"name": "geometric", "alpha": 3},
        "headroom": 0,
        "participation": "all",
        "sampling": 1.0,
        "overlap": 3,
        "search": 8,
    },
    "release": {
        "every_events": 10000,
        "every_seconds": 0.5,
        "at": "0 3 * * *",
        "timezone": "Europe/Vienna",
        "case_ids": True,
    },
}
SMALL: dict[str, Any] = {
    "table": "t",
    "attributes": {"age": {"type": "int", "min": 0, "max": 9}},
    "sensitive": {"name": "d", "values": ["a", "b"]},
    "privacy": {"k": 5, "l": 2, "values": "redrawn"},
}
LASTING: dict[str, Any] = {
    "table": "t",
    "attributes": {"age": {"type": "int", "min": 0, "max": 9}},
    "sensitive": {"name": "d", "values": ["a", "b", "c", "d", "e"]},
    "privacy": {"k": 5, "l": 2},
}
REMOVE = object()


def build(document: object, files: dict[str, bytes | None] = FILES) -> Policy:
    return build_policy(document, files, b"source")


def changed(document: dict[str, Any], *changes: tuple[str, object]) -> dict[str, Any]:
    """A copy with `a.b.c` set to something else, or removed."""
    twin: dict[str, Any] = copy.deepcopy(document)
    for place, value in changes:
        *parents, last = place.split(".")
        section = twin
        for parent in parents:
            section = section.setdefault(parent, {})
        if value is REMOVE:
            del section[last]
        else:
            section[last] = value
    return twin


def test_a_full_policy_says_what_the_file_says() -> None:
    policy = build(FULL)
    assert policy.table == "patients"
    assert [(a.name, a.kind, a.low, a.high) for a in policy.attributes] == [
        ("age", "int", 0, 120),
        ("weight", "float", 0.0, 300.5),
        ("sex", "category", 0, 1),
        ("zip", "category", 0, 2),
    ]
    assert policy.attributes[3].hierarchy is not None
    assert policy.attributes[3].hierarchy.leaves == ("20433", "20437", "31000")
    assert policy.sensitive.name == "disease"
    assert {policy.sensitive.hierarchy.leaves[code] for code in policy.sensitive.open} == {"flu"}
    assert policy.sensitive.permanent == frozenset()
    assert (policy.k, policy.l, policy.headroom, policy.participation) == (5, 2.0, 0, "all")
    assert (policy.sampling, policy.overlap, policy.search) == (1.0, 3, 8)
    assert (policy.values, policy.strategy) == ("redrawn", Geometric(alpha=3.0))
    assert (policy.triggers, policy.case_ids) == (Triggers(10000, 0.5, "0 3 * * *", "Europe/Vienna"), True)


def test_defaults_are_those_of_the_contract() -> None:
    policy = build(SMALL)
    assert policy.strategy == Adaptive(releases=10)
    assert policy.headroom == 3  # k = 5, halved and rounded up
    assert (policy.participation, policy.sampling, policy.overlap, policy.search) == (0, 1.0, 2, 32)
    assert (policy.triggers, policy.case_ids) == (Triggers(None, None, None, "UTC"), False)
    assert policy.triggers.next_at(datetime(2024, 1, 1, tzinfo=UTC)) is None


def test_snapshots_are_written_where_the_policy_wants_them_and_three_stay() -> None:
    assert build(SMALL).snapshot is None
    wanted = build(changed(SMALL, ("snapshot", {"every_releases": 24, "to": "kept"}))).snapshot
    assert wanted == Snapshots(every_releases=24, keep=3, to="kept")


def test_values_last_unless_the_policy_says_otherwise() -> None:
    policy = build(LASTING)
    assert (policy.values, policy.insiders, policy.signature, policy.batch) == ("lasting", 0, 4, 16)
    document = changed(LASTING, ("privacy.signature", 5), ("privacy.batch", 5), ("privacy.values", "lasting"))
    policy = build(document)
    assert (policy.values, policy.insiders, policy.signature, policy.batch) == ("lasting", 0, 5, 5)


def test_an_insider_more_asks_for_a_value_more_in_every_signature() -> None:
    policy = build(changed(LASTING, ("privacy.insiders", 1)))
    assert (policy.insiders, policy.signature, policy.batch) == (1, 5, 20)


def test_a_signature_has_twice_l_values_rounded_up() -> None:
    assert build(changed(LASTING, ("privacy.l", 2.2))).signature == 5
    assert build(changed(LASTING, ("privacy.l", 2.5))).signature == 5


def test_what_is_not_built_yet_may_be_written_as_it_is() -> None:
    document = changed(LASTING, ("scale", {"shards": 1}), ("release", {"full_every": 1, "case_ids": False}))
    assert build(document) == build(LASTING)
    assert build(changed(SMALL, ("scale.shards", 1))) == build(SMALL)


def test_next_at_follows_the_time_zone() -> None:
    when = datetime(2024, 7, 1, tzinfo=UTC)
    assert build(FULL).triggers.next_at(when) == datetime(2024, 7, 1, 1, tzinfo=UTC)


def test_the_digest_is_over_the_file_and_its_hierarchies_in_order() -> None:
    expected = hashlib.sha256(b"source" + (FILES["zip.csv"] or b"") + (FILES["disease.csv"] or b"")).hexdigest()
    assert build(FULL).digest == expected
    assert build(SMALL).digest == hashlib.sha256(b"source").hexdigest()


def test_a_hierarchy_used_twice_is_in_the_digest_twice() -> None:
    document = changed(FULL, ("attributes.home", {"type": "category", "hierarchy": "zip.csv"}))
    assert hierarchy_paths(document) == ["zip.csv", "zip.csv", "disease.csv"]
    content = b"source" + (FILES["zip.csv"] or b"") * 2 + (FILES["disease.csv"] or b"")
    assert build(document).digest == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("document", [None, 3, [], {}, {"attributes": 3, "sensitive": []}, {"attributes": {"a": 3}}])
def test_hierarchy_paths_of_anything_at_all_are_a_list(document: object) -> None:
    assert hierarchy_paths(document) == []


def test_a_policy_survives_being_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(build(FULL))) == build(FULL)


def test_whole_numbers_as_labels_are_their_text() -> None:
    policy = build(changed(SMALL, ("sensitive.values", [1, "02", -3]), ("sensitive.open", [1])))
    assert policy.sensitive.hierarchy.leaves == ("1", "02", "-3")
    assert policy.sensitive.open == {0}


def test_minus_zero_is_zero() -> None:
    policy = build(changed(SMALL, ("attributes.age", {"type": "float", "min": -0.0, "max": 1})))
    assert math.copysign(1, policy.attributes[0].low) == 1.0
