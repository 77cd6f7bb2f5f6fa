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
        view.groups[key] = Group(len(people), {node(policy, label): count for label, count in shown.items()})
        for person in people:
            view.region[person] = (box,)
            view.rows[key].append(person)
    return view


def table_of(policy: Policy, people: dict[str, tuple[int, str]]) -> dict[str, Row]:
    leaf = policy.sensitive.hierarchy.leaf_code
    return {person: Row((age,), (leaf[value],)) for person, (age, value) in people.items()}


FOUR = {"o1": (20, "flu"), "o2": (21, "chlamydia"), "o3": (60, "flu"), "o4": (61, "cough")}


def test_two_groups_of_two_that_show_a_value_once_each_make_three_quarters(policy: Policy) -> None:
    """Wong, figure 2: o2 is in two groups of two, each with one chlamydia."""
    table = table_of(policy, FOUR)
    first = view_with(policy, {"a": (["o1", "o2"], {"flu": 1, "chlamydia": 1}), "b": (["o3", "o4"], {"flu": 2})})
    second = view_with(policy, {"c": (["o2", "o3"], {"flu": 1, "chlamydia": 1}), "d": (["o1", "o4"], {"flu": 2})})
    found = learn(policy, [table, table], [first, second])
    assert found.surest == 3 / 4
    assert found.values_above_bound == 1, "o2; what is said of flu does not count, for it is open"


def test_a_group_that_is_carried_over_says_nothing_new(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    view = view_with(policy, {"a": (["o1", "o2"], {"flu": 1, "chlamydia": 1}), "b": (["o3", "o4"], {"flu": 2})})
    assert learn(policy, [table] * 5, [view] * 5).surest == 1 / 2


def test_a_suppressed_value_sits_on_one_person_and_says_nothing_about_values(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    view = view_with(policy, {"a": (list(FOUR), {"flu": 1, "*": 1, "cough": 1, "chlamydia": 1})})
    assert learn(policy, [table], [view]).surest == pytest.approx(1 / 3)


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


def test_somebody_whose_groups_share_one_value_is_claimed_to_have_it(policy: Policy) -> None:
    table = table_of(policy, FOUR)
    first = view_with(
        policy, {"a": (["o1", "o2"], {"flu": 1, "chlamydia": 1}), "b": (["o3", "o4"], {"flu": 1, "cough": 1})}
    )
    second = view_with(policy, {"c": (["o2", "o4"], {"cough": 1, "chlamydia": 1}), "d": (["o1", "o3"], {"flu": 2})})
    for is_naive in (True, False):
        claims = learn(policy, [table, table], [first, second], is_naive=is_naive).claims
        assert (claims.over, claims.over_right) == (2, 2), "o2 and o4; flu is open"


def test_in_a_lasting_table_what_counts_is_how_many_values_were_shown_among_how_many(tmp_path: Path) -> None:
    (tmp_path / "lasting.yaml").write_text(TWO_VALUES.replace("values: redrawn", "values: lasting"))
    lasting = load_policy(tmp_path / "lasting.yaml")
    labels = ("flu", "chlamydia", "cough", "fever")
    among = view_with(lasting, {"g": (list(FOUR), dict.fromkeys(labels, 2)), "h": (["o1", "o2"], {"cough": 1})})
    table = table_of(lasting, FOUR)
    found = learn(lasting, [table] * 3, [among] * 3)
    assert found.surest == 1 / 2, "the clique"
    groups = {f"g{at}": (["o4", *(f"q{at}{mate}" for mate in range(3))], dict.fromkeys(labels, 1)) for at in range(3)}
    more = {person: (50, "flu") for people, _ in groups.values() for person in people}
    worse = learn(lasting, [table_of(lasting, FOUR | more)], [view_with(lasting, groups)])
    assert worse.surest == 3 / 4
    assert worse.values_above_bound == 1, "o4 was shown with three of four values"
    assert worse.lasted is not None


def test_each_naive_release_is_fine_alone() -> None:
    policy = load_policy(ROOT / "streams" / "demo" / "clinic" / "policy.yaml")
    for table in tables(policy, Clinic(people=300, nights=2).events()):
        view = publish_naively(policy, table)
        assert view.region.keys() == table.keys()
        sizes = Counter(view.region.values())
        assert min(sizes.values()) >= policy.k
        for person, row in table.items():
            assert all(low <= value <= high for value, (low, high) in zip(row.qid, view.region[person], strict=True))
        found = learn(policy, [table], [view], is_naive=True)
        assert found.rows_below_k == found.values_above_bound == 0


def test_a_naive_series_gives_people_away_and_shoals_does_not(tmp_path: Path) -> None:
    write_clinic(tmp_path / "clinic", Clinic(people=400, nights=4))
    policy_path, events = tmp_path / "clinic" / "policy.yaml", tmp_path / "clinic" / "events.jsonl"
    command = [
        "replay",
        str(policy_path),
        str(events),
        "--out",
        str(tmp_path / "out"),
        "--audit",
        str(tmp_path / "audit"),
    ]
    assert main([*command, "--seed", "s"]) == 0
    policy = load_policy(policy_path)
    series = list(tables(policy, map(json.loads, events.read_text().splitlines())))
    views, manifest = [], b""
    for release in read_releases(tmp_path / "out"):
        lines = (tmp_path / "audit" / f"release-{release.number:04}.members.jsonl").read_text().splitlines()
        members = [json.loads(line) for line in lines]
        views.append(
            view_of(policy, release, [(one["id"], one["group"], one["cell"], one.get("value")) for one in members])
        )
        manifest = release.manifest
    shoal = learn(policy, series, views)
    assert shoal.rows_below_k == shoal.values_above_bound == 0
    assert shoal.surest == pytest.approx(json.loads(manifest)["max_breach"]), "the release says so itself"
    naive = learn(policy, series, [publish_naively(policy, table) for table in series], is_naive=True)
    assert naive.rows_below_k > 0
    assert naive.values_above_bound > 0
