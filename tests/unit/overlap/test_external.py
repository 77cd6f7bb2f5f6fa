"""Other publishers' groups: read strictly, kept once, and found again for the rows that lie in them."""

import random
from typing import Any

import numpy as np
import pytest

from shoal.core.events.event import Reason, Reject
from shoal.core.overlap.external import External, ExternalGroup, Externals, as_external, parse_external
from shoal.core.overlap.overlaps import ExternalIndex
from shoal.core.overlap.region_index import RegionIndex
from tests.support.engines.series import DISEASES, ZIPS, clinic_policy

POLICY = clinic_policy()
GROUP: dict[str, Any] = {
    "region": {"age": {"min": 15, "max": 25}, "sex": {"nodes": ["male"]}},
    "sensitive": {"flu": 2, "hiv": 1},
}


def event(*groups: Any, **changes: Any) -> dict[str, Any]:
    return {"op": "external", "publisher": "north", "groups": list(groups or (GROUP,)), **changes}


def group_of(**changes: Any) -> ExternalGroup:
    read = parse_external(event({**GROUP, **changes}), POLICY)
    assert isinstance(read, External)
    (group,) = read.groups
    return group


def test_a_region_is_half_open_runs_and_what_is_left_out_is_unrestricted() -> None:
    region = {"age": {"min": 15, "max": 25}, "weight": {"min": 50, "below": 61.5}, "zip": {"nodes": ["z22", "z1*"]}}
    (runs,) = group_of(region=region).regions
    assert runs == (((15, 26),), ((50.0, 61.5),), (), ((0, 3), (4, 5)))


def test_the_end_of_a_float_region_is_inside_if_it_is_called_max() -> None:
    (runs,) = group_of(region={"weight": {"min": 50, "max": 61.5}}).regions
    ((low, high),) = runs[1]
    assert (low, 61.5 < high < 61.50001) == (50.0, True)


def test_a_group_may_have_several_regions_and_show_nodes_and_stars() -> None:
    read = parse_external(
        event({"regions": [{}, {"sex": {"nodes": ["male"]}}], "sensitive": {"airways": 2, "*": 1}}), POLICY
    )
    assert isinstance(read, External)
    node_of = POLICY.sensitive.hierarchy.node_of
    assert read.groups[0].shown == tuple(sorted([(node_of["airways"], 2), (0, 1)]))
    assert len(read.groups[0].regions) == 2


def changed(place: str, value: Any) -> dict[str, Any]:
    region: dict[str, Any] = {**GROUP["region"], place: value}
    return event({**GROUP, "region": region})


@pytest.mark.parametrize(
    ("wrong", "reason", "field"),
    [
        ({"op": "release"}, Reason.WRONG_TOPIC, "op"),
        ({"op": "external", "publisher": "north"}, Reason.MISSING_FIELD, "groups"),
        (event(extra=1), Reason.UNKNOWN_FIELD, None),
        (event(publisher=""), Reason.EMPTY, "publisher"),
        (event(publisher=7), Reason.WRONG_TYPE, "publisher"),
        (event(at="today"), Reason.BAD_TIME, "at"),
        (event(groups=[]), Reason.EMPTY, "groups"),
        (event(groups={}), Reason.WRONG_TYPE, "groups"),
        (event("group"), Reason.WRONG_TYPE, "groups"),
        (event({**GROUP, "rows": 3}), Reason.UNKNOWN_FIELD, "groups"),
        (event({**GROUP, "regions": []}), Reason.UNKNOWN_FIELD, "groups"),
        (event({"sensitive": {"flu": 1}}), Reason.MISSING_FIELD, "groups.region"),
        (event({"region": {}}), Reason.MISSING_FIELD, "groups.sensitive"),
        (event({"regions": [], "sensitive": {"flu": 1}}), Reason.EMPTY, "groups.regions"),
        (event({"regions": {}, "sensitive": {"flu": 1}}), Reason.WRONG_TYPE, "groups.regions"),
        (event({**GROUP, "region": []}), Reason.WRONG_TYPE, "groups.region"),
        (changed("height", {"min": 1, "max": 2}), Reason.UNKNOWN_ATTRIBUTE, "groups.region"),
        (changed("age", 20), Reason.WRONG_TYPE, "groups.region.age"),
        (changed("age", {"min": 20}), Reason.MISSING_FIELD, "groups.region.age"),
        (changed("age", {"min": 20, "below": 30}), Reason.UNKNOWN_FIELD, "groups.region.age"),
        (changed("age", {"min": 20, "max": 30.5}), Reason.WRONG_TYPE, "groups.region.age"),
        (changed("age", {"min": True, "max": 30}), Reason.WRONG_TYPE, "groups.region.age"),
        (changed("age", {"min": 20, "max": 100}), Reason.OUT_OF_DOMAIN, "groups.region.age"),
        (changed("age", {"min": 30, "max": 20}), Reason.EMPTY, "groups.region.age"),
        (changed("weight", {"min": 50.0, "below": 50.0}), Reason.EMPTY, "groups.region.weight"),
        (changed("weight", {"min": 50.0, "max": float("inf")}), Reason.OUT_OF_DOMAIN, "groups.region.weight"),
        (changed("sex", {"nodes": ["x"]}), Reason.UNKNOWN_NODE, "groups.region.sex"),
        (changed("sex", {"nodes": []}), Reason.EMPTY, "groups.region.sex"),
        (changed("sex", {"nodes": "male"}), Reason.WRONG_TYPE, "groups.region.sex"),
        (changed("sex", {"nodes": [None]}), Reason.WRONG_TYPE, "groups.region.sex"),
        (event({**GROUP, "sensitive": {}}), Reason.EMPTY, "groups.sensitive"),
        (event({**GROUP, "sensitive": ["flu"]}), Reason.WRONG_TYPE, "groups.sensitive"),
        (event({**GROUP, "sensitive": {"plague": 1}}), Reason.UNKNOWN_NODE, "groups.sensitive"),
        (event({**GROUP, "sensitive": {"flu": 0}}), Reason.OUT_OF_DOMAIN, "groups.sensitive"),
        (event({**GROUP, "sensitive": {"flu": True}}), Reason.WRONG_TYPE, "groups.sensitive"),
        (event(GROUP, {**GROUP, "sensitive": {"plague": 1}}), Reason.UNKNOWN_NODE, "groups.sensitive"),
    ],
)
def test_a_wrong_publication_is_rejected_whole(wrong: Any, reason: Reason, field: str | None) -> None:
    assert parse_external(wrong, POLICY) == Reject(reason, wrong["op"], field)


def test_publications_add_up_and_the_same_one_sent_twice_is_kept_once_in_any_order() -> None:
    one, other = group_of(), group_of(sensitive={"gout": 1})
    forwards, backwards = Externals(), Externals()
    assert list(forwards.add([one, other, one])) == [1, 2]
    assert list(backwards.add([other, one])) == [1, 2]
    assert forwards.records() == backwards.records()
    assert list(forwards.add([one])) == []
    assert list(forwards.add([group_of(sensitive={"ulcer": 1}), other])) == [3]


def test_what_is_stored_comes_back_the_same() -> None:
    group = group_of(region={"weight": {"min": 50, "max": 61.5}})
    stored = [
        group.publisher,
        [[[list(run) for run in runs] for runs in region] for region in group.regions],
        group.shown,
    ]
    assert as_external(stored) == group


@pytest.mark.parametrize("count", [0, 1, 9, 200])
def test_the_index_finds_whom_comparing_everybody_with_everything_finds(count: int) -> None:
    rng = random.Random(count)
    groups = []
    for _ in range(count):
        first = rng.randint(0, 99)
        region: dict[str, Any] = {"age": {"min": first, "max": rng.randint(first, 99)}}
        if rng.random() < 0.5:
            region["weight"] = {"min": rng.choice([0, 50, 60.5]), rng.choice(["below", "max"]): rng.choice([61.5, 200])}
        if rng.random() < 0.5:
            region["zip"] = {"nodes": rng.sample([*ZIPS, "z1*"], rng.randint(1, 3))}
        groups.append(_parsed(region))
    columns = [
        np.array([rng.randint(0, 99) for _ in range(100)]),
        np.array([rng.choice([0.0, 50.0, 61.5, 100.0, 200.0]) for _ in range(100)]),
        np.array([rng.randint(0, 1) for _ in range(100)]),
        np.array([rng.randint(0, 4) for _ in range(100)]),
    ]
    rows = np.array(sorted(rng.sample(range(100), 60)))
    positions, found = RegionIndex(POLICY.attributes, groups).find(columns, rows)
    expected = {
        (position, at)
        for position, row in enumerate(rows.tolist())
        for at, group in enumerate(groups)
        if any(
            all(not runs or any(low <= columns[j][row] < high for low, high in runs) for j, runs in enumerate(region))
            for region in group.regions
        )
    }
    assert len(positions) == len(expected)
    assert set(zip(positions.tolist(), found.tolist(), strict=True)) == expected


def _parsed(region: dict[str, Any]) -> ExternalGroup:
    read = parse_external(
        event({"regions": [region, {**region, "sex": {"nodes": ["male"]}}], "sensitive": {"flu": 1}}), POLICY
    )
    assert isinstance(read, External)
    return read.groups[0]


def test_weights_of_raised_values_can_be_compared_exactly() -> None:
    externals = Externals()
    externals.add([group_of(sensitive={"airways": 1, "flu": 1}), group_of(sensitive={"stomach": 2, "gout": 1})])
    codes = {label: code for code, label in enumerate(POLICY.sensitive.hierarchy.leaves)}
    raised, doubled = sorted(ExternalIndex(POLICY, externals).histograms, key=len, reverse=True)
    assert raised[codes["flu"]] == raised[codes["cold"]] + 1  # 4/3 and 1/3
    assert raised[codes["cold"]] == raised[codes["asthma"]]
    assert doubled[codes["ulcer"]] == doubled[codes["gastritis"]] == doubled[codes["gout"]] == 1
    assert set(DISEASES) == codes.keys()
