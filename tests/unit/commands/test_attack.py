"""The attacker of the demo: finds what a careless series gives away, and nothing in Shoal's."""

import json
from collections import Counter
from pathlib import Path

import pytest

from shoal.core.policy.policy import Policy
from shoal.streams.cli import main
from shoal.streams.demo.attack import Group, Row, View, learn, tables, view_of
from shoal.streams.demo.clinic import Clinic, write_clinic
from shoal.streams.demo.naive import publish_naively
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.files.release_folder import read_releases
from tests.support.redrawn_clinic import redraw
from tests.support.root import ROOT

TWO_VALUES = """
table: people
attributes: {age: {type: int, min: 0, max: 99}}
sensitive: {name: disease, values: [flu, chlamydia, cough, fever], open: [flu]}
privacy: {values: redrawn, k: 2, l: 2}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.yaml").write_text(TWO_VALUES)
    return load_policy(tmp_path / "policy.yaml")


def node(policy: Policy, label: str) -> int:
    return policy.sensitive.hierarchy.node_of[label]


def view_with(
    policy: Policy, groups: dict[str, tuple[list[str], dict[str, int]]], box: tuple[int, int] = (0, 99)
) -> View:
    view = View()
    for key, (people, shown) in groups.items():
        view.groups[key] = Group(people, {node(policy, label): count for label, count in shown.items()})
        view.region.update((person, (box,)) for person in people)
    return view


def table_of(policy: Policy, people: dict[str, tuple[int, str]]) -> dict[str, Row]:
    leaf = policy.sensitive.hierarchy.leaf_code
    return {person: Row((age,), (leaf[value],)) for person, (age, value) in people.items()}


FOUR = {"o1": (20, "flu"), "o2": (21, "chlamydia"), "o3": (60, "flu"), "o4": (61, "cough")}


def test_a_value_that_stays_is_found_where_groups_are_drawn_anew(policy: Policy) -> None:
    """o2 is in two groups of two, each with one chlamydia, and nobody else is in both."""
    table = table_of(policy, FOUR)
    first = view_with(
        policy, {"a": (["o1", "o2"], {"flu": 1, "chlamydia": 1}), "b": (["o3", "o4"], {"flu": 1, "cough": 1})}
    )
    second = view_with(policy, {"c": (["o2", "o4"], {"cough": 1, "chlamydia": 1}), "d": (["o1", "o3"], {"flu": 2})})
    found = learn(policy, [table, table], [first, second]).claims
    assert found.sure == found.sure_right == 2, "o2 and o4; what is said of flu does not count, for it is open"


def test_a_group_that_is_carried_over_says_nothing_new(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    view = view_with(policy, {"a": (["o1", "o2"], {"cough": 1, "chlamydia": 1}), "b": (["o3", "o4"], {"flu": 2})})
    assert learn(policy, [table] * 5, [view] * 5).claims.over == 0


def test_a_suppressed_value_says_nothing(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    view = view_with(policy, {"a": (list(FOUR), {"*": 4})})
    assert learn(policy, [table], [view]).claims.over == 0


def test_regions_that_cross_leave_fewer_people_than_either(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    wide, young, middle = (view_with(policy, {"g": (list(FOUR), {"flu": 4})}) for _ in range(3))
    for person in ("o1", "o2"):
        young.region[person] = ((0, 50),)
    for person in ("o2", "o3"):
        middle.region[person] = ((21, 60),)
    assert learn(policy, [table] * 2, [wide, wide]).rows_below_k == 0
    assert learn(policy, [table] * 2, [wide, young]).rows_below_k == 0
    assert learn(policy, [table] * 2, [young, middle]).rows_below_k == 1, "only o2 is from 21 to 50"


def test_a_row_is_followed_only_since_its_person_last_moved(policy: Policy) -> None:
    before = table_of(policy, {**FOUR, "o2": (5, "chlamydia")})
    after = table_of(policy, FOUR)
    young, middle = (view_with(policy, {"g": (list(FOUR), {"flu": 4})}) for _ in range(2))
    young.region["o2"], middle.region["o2"] = ((0, 10),), ((21, 60),)
    assert learn(policy, [before, after], [young, middle]).rows_below_k == 0


def test_each_naive_release_is_fine_alone() -> None:
    policy = load_policy(ROOT / "streams" / "demo" / "clinic" / "policy.yaml")
    for table in tables(policy, Clinic(people=300, nights=2).events()):
        view = publish_naively(policy, table)
        assert view.region.keys() == table.keys()
        sizes = Counter(view.region.values())
        assert min(sizes.values()) >= policy.k
        for person, row in table.items():
            assert all(low <= value <= high for value, (low, high) in zip(row.qid, view.region[person], strict=True))
        found = learn(policy, [table], [view])
        assert found.rows_below_k == found.claims.sure == 0


@pytest.mark.parametrize("model", ["lasting", "redrawn"])
def test_a_naive_series_gives_people_away_and_a_lasting_one_does_not(tmp_path: Path, model: str) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=400, nights=4))
    policy_path, events = tmp_path / "clinic" / "policy.yaml", tmp_path / "clinic" / "events.jsonl"
    if model == "redrawn":
        redraw(policy_path)
    command = ["replay", str(policy_path), str(events), "--out", str(tmp_path / "out")]
    assert main([*command, "--audit", str(tmp_path / "audit"), "--seed", "s"]) == 0
    policy = load_policy(policy_path)
    series = list(tables(policy, map(json.loads, events.read_text().splitlines())))
    views = []
    for release in read_releases(tmp_path / "out"):
        lines = (tmp_path / "audit" / f"release-{release.number:04}.members.jsonl").read_text().splitlines()
        members = [json.loads(line) for line in lines]
        views.append(view_of(policy, release, [(one["id"], one["group"], one["cell"]) for one in members]))
    shoal = learn(policy, series, views)
    assert shoal.rows_below_k == 0
    if model == "lasting":
        assert shoal.claims.sure == 0
        assert shoal.claims.over_right * policy.l <= shoal.claims.over
    else:
        assert shoal.claims.over_right > 0, "nothing is promised about values that stay in a redrawn table"
    naive = learn(policy, series, [publish_naively(policy, table) for table in series])
    assert naive.rows_below_k > 0
    assert naive.claims.sure_right * policy.l > naive.claims.sure > 0
