"""Baig, tables 1 to 3: two hospitals have published, the third stands beside them (rho = 1, k = 4, alpha = 2).

The paper's third hospital has three distinct values in each group; here l = 2, one half, which asks for the same four
people around two C, as the strategy is for one release.
"""

import json
from collections import defaultdict
from typing import Any

import pytest

from shoal.core.events.window import PUT, Delta
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State

HOSPITAL_1 = [
    {"region": {"age": {"min": 15, "max": 25}, "sex": {"nodes": ["male"]}}, "sensitive": {"B": 2, "C": 1}},
    {"region": {"age": {"min": 40, "max": 50}, "sex": {"nodes": ["*"]}}, "sensitive": {"G": 1, "H": 2}},
]
HOSPITAL_2 = [
    {"region": {"age": {"min": 15, "max": 30}, "sex": {"nodes": ["male"]}}, "sensitive": {"M": 2, "Q": 1}},
    {"region": {"age": {"min": 35, "max": 45}, "sex": {"nodes": ["female"]}}, "sensitive": {"R": 1, "S": 1, "T": 1}},
]
HOSPITAL_3 = {
    "David": (20, "male", "B"),
    "Anthony": (35, "male", "C"),
    "Rick": (30, "male", "C"),
    "Stewart": (30, "male", "L"),
    "George": (28, "male", "B"),
    "Smith": (38, "male", "W"),
    "Eliza": (40, "female", "R"),
}
SEXES = ["female", "male"]


def hospital_policy() -> Policy:
    document = {
        "table": "hospital-3",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 100},
            "sex": {"type": "category", "values": SEXES},
        },
        "sensitive": {"name": "disease", "values": list("BCGHLMQRSTW")},
        "privacy": {"values": "redrawn", "k": 4, "l": 2, "overlap": 2, "strategy": {"name": "adaptive", "releases": 1}},
    }
    return build_policy(document, {}, b"hospital-3")


def release(key: bytes, *publications: Any) -> Plan:
    policy = hospital_policy()
    others: list[ExternalGroup] = []
    for number, groups in enumerate(publications, 1):
        read = parse_external({"op": "external", "publisher": f"hospital-{number}", "groups": groups}, policy)
        assert isinstance(read, External)
        others += read.groups
    codes = policy.sensitive.hierarchy.leaf_code
    deltas: dict[str, Delta] = {
        name: (PUT, (age, SEXES.index(sex)), (codes[disease],), None, None)
        for name, (age, sex, disease) in HOSPITAL_3.items()
    }
    return plan(State.empty(policy, key), Window(None, {0: deltas}, others), policy, 1)


def groups_of(made: Plan) -> dict[frozenset[str], Any]:
    people: dict[str, set[str]] = defaultdict(set)
    for person, group, _ in made.release.members:
        people[group].add(person)
    records = {record["group"]: record for record in map(json.loads, made.release.groups)}
    return {frozenset(people[name]): record for name, record in records.items()}


FIRST = frozenset({"David", "Anthony", "Rick", "Stewart"})
SECOND = frozenset({"George", "Smith", "Eliza"})


@pytest.mark.parametrize("key", [b"one", b"two", b"three"])
def test_table_3c_is_two_groups_with_one_counterfeit_in_the_second(key: bytes) -> None:
    made = release(key, HOSPITAL_1, HOSPITAL_2)
    groups = groups_of(made)
    assert groups.keys() == {FIRST, SECOND}
    assert (groups[FIRST]["sensitive"], groups[FIRST]["counterfeits"]) == ({"B": 1, "C": 2, "L": 1}, 0)
    second = groups[SECOND]
    assert second["counterfeits"] == 1
    assert second["sensitive"] in ({"B": 1, "R": 1, "S": 1, "W": 1}, {"B": 1, "R": 1, "T": 1, "W": 1})
    assert json.loads(made.release.manifest)["counterfeits"] == 1


def test_beside_the_first_hospital_david_has_b_and_c_three_times_each() -> None:
    shown = groups_of(release(b"one", HOSPITAL_1, HOSPITAL_2))[FIRST]["sensitive"]
    theirs = HOSPITAL_1[0]["sensitive"]
    assert (shown["B"] + theirs["B"], shown["C"] + theirs["C"]) == (3, 3)  # type: ignore[index]


def test_a_counterfeit_is_nobody_and_counts_in_w_but_not_among_the_people() -> None:
    made = release(b"one", HOSPITAL_1, HOSPITAL_2)
    record = groups_of(made)[SECOND]
    assert sum(record["cells"].values()) == 3
    assert sum(record["sensitive"].values()) == 4
    manifest = json.loads(made.release.manifest)
    assert (manifest["people"], manifest["withheld"], manifest["suppressed"]) == (7, 0, 0)
    assert manifest["max_breach"] == 0.5  # two C among four people; in the second group one in three


def test_without_other_publications_nothing_is_counterfeited() -> None:
    assert json.loads(release(b"one").release.manifest)["counterfeits"] == 0


def test_beside_the_first_hospital_alone_eliza_needs_no_company() -> None:
    assert json.loads(release(b"one", HOSPITAL_1).release.manifest)["counterfeits"] == 0
