"""The auditor's parts by themselves: what it may import, regions and trees, shown values, naive publishers, worlds."""

import ast
import json
from fractions import Fraction

import pytest

from shoal.core.audit.attack.attacks import LocalAttack, Persistence
from shoal.core.audit.attack.naive import bucketize, mondrian
from shoal.core.audit.attack.worlds import Draw, Owners, count_worlds, reconstructions
from shoal.core.audit.criteria.values import can_be_shown_as
from shoal.core.audit.finding import Broken, Findings, Promise
from shoal.core.audit.permanent.learned import pseudonym
from shoal.core.audit.reading.onetree import find_crossing, find_knots
from shoal.core.audit.reading.regions import NOT_CANONICAL, NOT_SIBLINGS, OUTSIDE, UNREADABLE, Region, RegionReader
from shoal.core.audit.reading.strictjson import parse
from shoal.core.audit.reading.truth import Record
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import build_policy
from tests.support.root import ROOT

_MAY_IMPORT = {"shoal.core.policy.policy", "shoal.core.policy.hierarchy", "shoal.core.errors"}


def test_of_core_the_auditor_imports_only_the_policy_hierarchies_and_errors() -> None:
    modules = sorted((ROOT / "core" / "audit").rglob("*.py"))
    assert len(modules) > 10
    for module in modules:
        for node in ast.walk(ast.parse(module.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                is_own = f"{name}.".startswith("shoal.core.audit.")
                assert not name.startswith("shoal") or is_own or name in _MAY_IMPORT, f"{module.name} imports {name}"


POLICY = build_policy(
    {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 99},
            "weight": {"type": "float", "min": 0, "max": 200},
            "zip": {"type": "category", "hierarchy": "zip.csv"},
        },
        "sensitive": {"name": "s", "values": ["a", "b", "c", "d"], "open": ["d"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    },
    {"zip.csv": b"z11;z1*;*\nz12;z1*;*\nz13;z1*;*\nz21;z2*;*\nz22;z2*;*\n"},
    b"",
)


def read(age: str, weight: str, nodes: str) -> tuple[Region | None, tuple[str, ...]]:
    text = f'{{"age": {{{age}}}, "weight": {{{weight}}}, "zip": {{"nodes": {nodes}}}}}'
    return RegionReader(POLICY).read(parse(text.encode(), written=True))


AGE, WEIGHT, ZIP = '"min": 20, "max": 29', '"min": 50.0, "below": 72.5', '["z1*"]'


def test_a_region_is_read_as_a_half_open_box() -> None:
    region, wrong = read(AGE, WEIGHT, ZIP)
    assert region is not None
    assert (region, wrong) == (Region((20, 50.0, 0), (30, 72.5, 3)), ())
    assert region.holds((29, 50.0, 2))
    assert not region.holds((30, 50.0, 2))
    assert not region.holds((29, 72.5, 2))


def test_the_last_float_region_holds_the_end_of_the_domain() -> None:
    region, wrong = read(AGE, '"min": 50.0, "max": 200.0', ZIP)
    assert region is not None
    assert not wrong
    assert region.holds((20, 200.0, 0))


@pytest.mark.parametrize(
    ("age", "weight", "nodes", "expected"),
    [
        ('"max": 29, "min": 20', WEIGHT, ZIP, NOT_CANONICAL),
        ('"min": 20, "max": 100', WEIGHT, ZIP, OUTSIDE),
        ('"min": -1, "max": 29', WEIGHT, ZIP, OUTSIDE),
        ('"min": 30, "max": 29', WEIGHT, ZIP, UNREADABLE),
        ('"min": 20.0, "max": 29', WEIGHT, ZIP, UNREADABLE),
        ('"min": 20, "below": 29', WEIGHT, ZIP, UNREADABLE),
        (AGE, '"min": 50, "below": 72.5', ZIP, NOT_CANONICAL),
        (AGE, '"min": 50.00, "below": 72.5', ZIP, NOT_CANONICAL),
        (AGE, '"min": 5e1, "below": 72.5', ZIP, NOT_CANONICAL),
        (AGE, '"min": 50.0, "max": 72.5', ZIP, NOT_CANONICAL),
        (AGE, '"min": 50.0, "below": 200.0', ZIP, NOT_CANONICAL),
        (AGE, '"min": 50.0, "below": 200.5', ZIP, OUTSIDE),
        (AGE, '"min": 50.0, "below": 50.0', ZIP, UNREADABLE),
        (AGE, WEIGHT, '["z11", "z12", "z13"]', NOT_CANONICAL),
        (AGE, WEIGHT, '["z12", "z11"]', NOT_CANONICAL),
        (AGE, WEIGHT, '["z1*", "z2*"]', NOT_CANONICAL),
        (AGE, WEIGHT, '["z11", "z13"]', NOT_SIBLINGS),
        (AGE, WEIGHT, '["z13", "z21"]', NOT_SIBLINGS),
        (AGE, WEIGHT, "[]", UNREADABLE),
        (AGE, WEIGHT, '["z3*"]', UNREADABLE),
        (AGE, WEIGHT, '"z1*"', UNREADABLE),
    ],
)
def test_a_region_is_written_in_one_way_only(age: str, weight: str, nodes: str, expected: str) -> None:
    assert expected in read(age, weight, nodes)[1]


@pytest.mark.parametrize("nodes", ['["*"]', '["z1*"]', '["z11"]', '["z11", "z12"]', '["z12", "z13"]', '["z22"]'])
def test_a_node_or_a_run_of_siblings_is_a_region(nodes: str) -> None:
    assert read(AGE, WEIGHT, nodes)[1] == ()


def boxes(*corners: tuple[int, int, int, int]) -> list[Region]:
    return [Region((left, low), (right, high)) for left, right, low, high in corners]


def test_nested_and_disjoint_regions_that_no_tree_cuts_are_found() -> None:
    # Four boxes around a fifth, each reaching past the next: nothing overlaps, and still no first cut is possible.
    pinwheel = boxes((0, 2, 0, 1), (2, 3, 0, 2), (1, 3, 2, 3), (0, 1, 1, 3), (1, 2, 1, 2))
    assert [len(knot) for knot in find_knots(pinwheel)] == [5]
    assert find_crossing(pinwheel) == set()
    assert find_knots(pinwheel[1:]) == []  # with one of them gone there is a cut


def test_a_tree_of_regions_is_one_whatever_part_of_it_was_published() -> None:
    tree = boxes((0, 4, 0, 4), (0, 2, 0, 4), (2, 4, 0, 4), (2, 4, 0, 1), (2, 4, 1, 4), (2, 3, 1, 4))
    for hidden in range(1 << len(tree)):
        assert find_knots([box for place, box in enumerate(tree) if hidden >> place & 1]) == []


def test_a_box_that_crosses_the_tree_is_found() -> None:
    family = boxes((0, 2, 0, 4), (2, 4, 0, 4), (1, 3, 1, 2))
    (knot,) = find_knots(family)
    assert find_crossing(knot) == set(family)


HIERARCHY = parse_hierarchy("a;x;u;*\nb;x;u;*\nc;y;u;*\nd;z;v;*\n")


@pytest.mark.parametrize(
    ("true", "shown", "is_possible"),
    [
        ("aab", {"a": 2, "b": 1}, True),
        ("aab", {"x": 3}, True),
        ("aab", {"a": 1, "x": 1, "*": 1}, True),
        ("abc", {"x": 1, "u": 2}, True),
        ("abc", {"x": 2, "y": 1}, True),
        ("abc", {"u": 1, "*": 2}, True),
        ("abd", {"u": 2, "z": 1}, True),
        ("abd", {"u": 3}, False),
        ("abc", {"y": 2, "*": 1}, False),
        ("aab", {"a": 3}, False),
        ("aab", {"x": 2}, False),
        ("aab", {"x": 4}, False),
        ("d", {"x": 1}, False),
    ],
)
def test_values_may_be_shown_as_themselves_or_as_what_stands_above_them(
    true: str, shown: dict[str, int], is_possible: bool
) -> None:
    leaves = {HIERARCHY.leaf_code[leaf]: true.count(leaf) for leaf in set(true)}
    nodes = {HIERARCHY.node_of[label]: count for label, count in shown.items()}
    assert can_be_shown_as(HIERARCHY, leaves, nodes) is is_possible


def people(count: int, values: str = "abcd") -> dict[str, Record]:
    return {
        f"p{i}": Record((i * 37 % 100, i * 7.5 % 200, i % 5), frozenset({"abcd".index(values[i % len(values)])}), None)
        for i in range(count)
    }


def test_naive_mondrian_keeps_k_in_each_release() -> None:
    qids = {person: record.qid for person, record in people(101).items()}
    regions = mondrian(POLICY.attributes, 4, qids)
    assert regions.keys() == qids.keys()
    assert all(regions[person].holds(qid) for person, qid in qids.items())
    shared = [list(regions.values()).count(region) for region in set(regions.values())]
    assert len(shared) > 5
    assert min(shared) >= 4
    assert mondrian(POLICY.attributes, 4, dict(list(qids.items())[:3])) == {}


@pytest.mark.parametrize("values", ["abcd", "aaab", "aaaaaaab", "d", "dddda"])
def test_naive_groups_are_diverse_in_each_release_and_redrawn_for_the_next(values: str) -> None:
    table = people(60, values)
    first, second = (bucketize(POLICY, table, number) for number in (1, 2))
    for groups in (first, second):
        for group in groups:
            assert len(group) >= 2
            shown = [leaf for person in group for leaf in table[person].values - POLICY.sensitive.open]
            assert all(2 * shown.count(leaf) <= len(group) for leaf in shown)
        placed = [person for group in groups for person in group]
        assert len(placed) == len(set(placed))
    assert {frozenset(group) for group in first} != {frozenset(group) for group in second}


def test_what_each_release_keeps_two_releases_break() -> None:
    attack, table = LocalAttack(POLICY), people(40, "ab")
    attack.see(1, table)
    assert (attack.result().over, attack.result().largest) == (0, Fraction(1, 2))
    attack.see(2, table)
    result = attack.result()
    assert (result.pairs, result.over, result.true, result.people) == (80, 80, 40, 40)
    assert result.largest == Fraction(3, 4)


def test_candidates_are_what_all_of_somebodys_groups_show_until_their_values_change() -> None:
    persistence = Persistence(POLICY)
    a, b = frozenset({0}), frozenset({1})
    table = {"one": Record((), a, None), "two": Record((), b, None)}
    persistence.see([(["one", "two"], 0b0011)], table)
    persistence.see([(["one"], 0b0101), (["two"], 0b1010)], table)
    assert (persistence.size("one"), persistence.size("two")) == (1, 1)
    result = persistence.result()
    assert (result.people, result.pinned, result.pinned_protected) == (2, 2, 2)
    table = {"one": Record((), b, None), "two": Record((), b, None)}
    persistence.see([(["one", "two"], 0b0111)], table)
    assert (persistence.size("one"), persistence.size("two")) == (3, 1)
    persistence.see([], {})
    assert persistence.size("one") is None


def test_sets_of_values_are_owned_by_different_people_each() -> None:
    draw = Draw(3, ((0,), (0,), (1,)), 0, Owners.SETS)
    worlds = list(reconstructions(draw))
    assert len(worlds) == count_worlds(draw) == 9
    assert all(world[0][0] != world[1][0] for world in worlds)


def test_a_finding_says_how_often_and_where_and_never_who() -> None:
    findings = Findings()
    for release, place in ((2, "g1"), (2, "g2"), (3, "g1"), (3, "g3"), (4, "g4")):
        findings.say(Promise.G2, "something is so", release, place)
    findings.say(Promise.G2, "nothing is so", 2, times=0)
    (found,) = findings
    assert str(found) == "something is so: 5 times in 3 releases, first in release 2 (g1, g2, g3, …)"
    assert str(Broken(Promise.G1, "it is so", 1, [7])) == "it is so: once in release 7"


def test_a_pseudonym_needs_the_key() -> None:
    assert pseudonym(b"a", "p1") != pseudonym(b"b", "p1")
    assert pseudonym(b"a", "p1") != pseudonym(b"a", "p2")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', "NaN", '{"a": "\\ud800"}', "{", "\ud800"])
def test_json_is_read_strictly(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds; their texts are not to be looked at
        parse(text.encode("utf-8", "surrogatepass"))


def test_a_report_without_releases_seen_is_still_one() -> None:
    from shoal.core.audit import Auditor, write_report

    report = Auditor(POLICY).report(b"key")
    assert report.is_kept
    assert list(write_report(report))
    json.dumps(report.as_json())
