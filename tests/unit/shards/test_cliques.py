"""Cliques whose people go to other shards: never shown without one of them, and lost when one is lost anywhere."""

import json
from typing import Any

from shoal.core.policy.policy import build_policy
from shoal.core.randomness import Keyed
from shoal.core.shards.table import Table
from shoal.core.signatures.bonds import Bond
from shoal.core.state import RECORDS, State
from tests.support.engines.sharded import KEY, Ward

LABELS = [f"d{rank}" for rank in range(9)]


def open_ward() -> Ward:
    """Two shards of twenty people; one person on the left holds a permanent value, and is in a clique of two."""
    document = {
        "table": "cliques",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": LABELS, "permanent": ["d8"]},
        "privacy": {"k": 2, "l": 2, "signature": 4, "batch": 4},
        "scale": {"shards": 2},
    }
    ward = Ward(build_policy(document, {}, b"cliques"))
    people = [
        {"op": "insert", "id": f"p{at}", "qid": {"age": at * 2}, "sensitive": [LABELS[at % 4], *["d8"] * (at == 3)]}
        for at in range(40)
    ]
    return ward.live([*people, {"op": "release"}])


def clique_groups(ward: Ward) -> list[dict[str, Any]]:
    groups = map(json.loads, ward.made[-1].groups)
    return [group for group in groups if "d8" in group["sensitive"]]


def the_bond(ward: Ward) -> Bond:
    (bond,) = ward.table.states[0].bonds.bonds.values()
    return bond


def move(person: str, age: int) -> list[dict[str, Any]]:
    return [{"op": "update", "id": person, "qid": {"age": age}}, {"op": "release"}]


def newcomers() -> list[dict[str, Any]]:
    return [{"op": "insert", "id": f"r{at}", "qid": {"age": 2 + at}, "sensitive": [LABELS[at % 4]]} for at in range(8)]


def reload(ward: Ward) -> None:
    """As after a restart: nothing is left in memory of people who are in another shard."""
    states = [
        State.load(ward.policy, KEY, state.meta, Keyed, state.shard, **{name: state.records(name) for name in RECORDS})
        for state in ward.table.states
    ]
    ward.table = Table(ward.policy, states, ward.table.cuts, ward.table.meta)


def test_a_clique_is_not_shown_while_one_of_its_people_is_in_another_shard() -> None:
    for is_reloaded in (False, True):
        ward = open_ward()
        assert len(clique_groups(ward)) == 1
        _, decoy = the_bond(ward).owners
        ward.live(move(decoy, 99))
        assert clique_groups(ward) == []
        if is_reloaded:
            reload(ward)
        ward.live([{"op": "release"}])
        assert clique_groups(ward) == []
        ward.live([*newcomers(), *move(decoy, 5)])  # who make a group with the decoy, so that all look alike
        assert len(clique_groups(ward)) == 1
        assert ward.findings() == set()


def test_somebody_who_was_in_a_clique_is_in_no_other_wherever_they_go() -> None:
    ward = open_ward()
    holder, decoy = the_bond(ward).owners
    ward.live(move(holder, 98)).live(move(decoy, 99))
    assert clique_groups(ward) == []
    elsewhere = ward.table.states[1].bonds.bonds.values()
    assert sorted(elsewhere) == sorted(Bond(8, (person,), is_lost=True) for person in (holder, decoy))
    more = [
        {"op": "insert", "id": f"q{at}", "qid": {"age": 90 + at}, "sensitive": [LABELS[at % 4], *["d8"] * (at == 3)]}
        for at in range(8)
    ]
    ward.live([*more, {"op": "release"}])
    (group,) = clique_groups(ward)
    assert sum(group["cells"].values()) == 2
    assert ward.findings() == set()


def test_a_clique_that_lost_somebody_in_another_shard_for_good_forgets_who_its_holder_was() -> None:
    for loss in ({"op": "erase"}, {"op": "deregister"}):
        ward = open_ward()
        holder, decoy = the_bond(ward).owners
        ward.live(move(holder, 99))
        reload(ward)
        if loss["op"] == "deregister":
            ward.live([{"op": "delete", "id": holder}])
        ward.live([{**loss, "id": holder}, {"op": "release"}])
        assert the_bond(ward) == Bond(8, tuple(sorted((holder, decoy))), is_lost=True)
        assert ward.findings() == set()
