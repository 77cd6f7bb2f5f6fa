"""Categories of very many leaves: the tree grows over them as over few, and regions stay short."""

import json
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.cells import breadth, cut_scale
from shoal.core.cells.breadth import LABELS_A_ROW, MOST_LABELS, Breadth
from shoal.core.cells.mondrian import grow
from shoal.core.cells.tree import Tree
from shoal.core.events.intake import Intake
from shoal.core.plan import Window, plan
from shoal.core.policy.hierarchy import Hierarchy, flat_hierarchy, parse_hierarchy
from shoal.core.policy.policy import Attribute, Policy, build_policy
from shoal.core.release import Release
from shoal.core.state import State


def postcodes(count: int) -> str:
    """Leaves under districts of 20, under areas of 600."""
    return "\n".join(f"{leaf:07};d{leaf // 20};a{leaf // 600};*" for leaf in range(count))


def policy_of(zips: dict[str, Any], files: dict[str, bytes]) -> Policy:
    document = {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}, "zip": {"type": "category", **zips}},
        "sensitive": {"name": "disease", "values": [f"v{number}" for number in range(12)]},
        "privacy": {"k": 5, "l": 2},
    }
    return build_policy(document, files, b"")


def releases_of(policy: Policy, people: int, releases: int = 1) -> list[Release]:
    hierarchy = policy.attributes[1].hierarchy
    assert hierarchy is not None
    rng = np.random.default_rng(7)
    intake, state = Intake(policy, {}), State.empty(policy, b"secret")
    made = []
    for number in range(1, releases + 1):
        for person in range(people):
            leaf = hierarchy.leaves[int(len(hierarchy.leaves) * rng.random() ** 2)]
            qid = {"age": int(rng.integers(100)), "zip": leaf}
            event = {"op": "insert", "id": f"{number}-{person}", "qid": qid, "sensitive": f"v{rng.integers(12)}"}
            assert intake.take(event) is None
        planned = plan(state, Window(None, {0: intake.cut()}, ()), policy, number)
        state.apply(planned.change)
        state.tree.check_invariants()
        made.append(planned.release)
    return made


def regions_of(release: Release) -> dict[str, list[str]]:
    """The labels of each cell's zip."""
    return {cell["cell"]: cell["region"]["zip"]["nodes"] for cell in map(json.loads, release.cells)}


def test_a_category_of_more_than_65536_leaves_makes_releases() -> None:
    """A release of such a table could not be planned."""
    first, second = releases_of(policy_of({"hierarchy": "zip.csv"}, {"zip.csv": postcodes(70_000).encode()}), 600, 2)
    assert max(map(len, regions_of(first).values())) <= 600 // 20
    assert len(regions_of(second)) > len(regions_of(first)) > 20


@pytest.mark.parametrize(("leaves", "people"), [(30_000, 1_000), (1_000, 1_000)])
def test_a_flat_category_makes_a_release_in_proportion_to_its_people(leaves: int, people: int) -> None:
    """30,000 zips made records of 400 kB."""
    policy = policy_of({"values": [f"{leaf:05}" for leaf in range(leaves)]}, {})
    regions = regions_of(releases_of(policy, people)[0])
    assert sum(map(len, regions.values())) <= LABELS_A_ROW * people + MOST_LABELS * len(regions)
    assert (["*"] in regions.values()) == (leaves > LABELS_A_ROW * people)


def test_without_the_rule_a_release_is_out_of_proportion() -> None:
    policy = policy_of({"values": [f"{leaf:05}" for leaf in range(30_000)]}, {})
    with patch.object(breadth, "MOST_LABELS", 1 << 20):
        regions = regions_of(releases_of(policy, 1_000)[0])
    assert sum(map(len, regions.values())) > 2 * (LABELS_A_ROW * 1_000 + MOST_LABELS * len(regions))


DEEP = parse_hierarchy("\n".join(f"{leaf};d{leaf // 3};a{leaf // 12};*" for leaf in range(60)))
FLAT = flat_hierarchy([str(leaf) for leaf in range(60)])
ODD = parse_hierarchy("a;*\nb;x;*\nc;x;*\nd;y;x;*\ne;y;x;*\nf;z;*\ng;w;z;*\nh;w;z;*\ni;*\n")


def tree_over(hierarchy: Hierarchy, leaves: list[int], ages: list[int], smallest: int, turns: int) -> tuple[Tree, Any]:
    """A tree, grown over these people in some turns as they arrive."""
    zips = Attribute("zip", "category", 0, len(hierarchy.leaves) - 1, hierarchy)
    tree = Tree([zips, Attribute("age", "int", 0, 9, None)])
    columns = [np.array(leaves, dtype=np.int64), np.array(ages, dtype=np.int64)]
    leaf = np.zeros(len(leaves), dtype=np.int64)
    for turn in range(1, turns + 1):
        here = np.arange(len(leaves) * turn // turns)
        leaf[here] = tree.route(columns, here)
        crowds = [(int(node), here[leaf[here] == node]) for node in np.unique(leaf[here])]
        grow(tree, columns, leaf, crowds, smallest)
    tree.check_invariants()
    assert leaf.tolist() == tree.route(columns, np.arange(len(leaves))).tolist()
    return tree, leaf


def run_of(tree: Tree, node: int) -> tuple[int, int]:
    low, high = tree.bounds(0, np.array([node]))
    return int(low[0]), int(high[0])


PEOPLE = st.lists(st.tuples(st.integers(0, 59), st.integers(0, 9)), min_size=1, max_size=60)


@settings(max_examples=150, deadline=None)
@given(people=PEOPLE, smallest=st.integers(1, 4), turns=st.integers(1, 3), which=st.sampled_from([DEEP, FLAT, ODD]))
def test_a_sparse_category_is_cut_like_any_other(
    people: list[tuple[int, int]], smallest: int, turns: int, which: Hierarchy
) -> None:
    """Between siblings only, each part with enough rows, and nothing is left that could be cut."""
    leaves = [leaf % len(which.leaves) for leaf, _ in people]
    with patch.object(cut_scale, "SMALL_SPAN", 1):
        tree, leaf = tree_over(which, leaves, [age for _, age in people], smallest, turns)
    for node, record in tree.records():
        if record.attribute == 0:
            low, high = run_of(tree, node)
            parting = which.parting_depths()
            assert parting[int(record.cut)] == parting[low + 1 : high].min()
    counts = np.bincount(leaf)
    assert len(people) < 2 * smallest or counts[counts > 0].min() >= min(smallest, len(people))
    for node in np.unique(leaf) if turns == 1 else ():
        here, (low, high) = np.flatnonzero(leaf == node), run_of(tree, node)
        depth = which.parting_depths()[low + 1 : high].min(initial=99)
        steps = np.sort(
            np.searchsorted(np.flatnonzero(which.parting_depths() <= depth), np.array(leaves)[here], "right")
        )
        can_cut = any(
            at >= smallest and len(here) - at >= smallest and one != other
            for at, (one, other) in enumerate(pairwise(steps.tolist()), 1)
        )
        assert not can_cut


@settings(max_examples=150, deadline=None)
@given(people=PEOPLE, most=st.integers(2, 12), turns=st.integers(1, 3), which=st.sampled_from([DEEP, FLAT, ODD]))
def test_no_cut_leaves_a_region_longer_than_its_rows_allow(
    people: list[tuple[int, int]], most: int, turns: int, which: Hierarchy
) -> None:
    leaves = [leaf % len(which.leaves) for leaf, _ in people]
    with patch.object(breadth, "MOST_LABELS", most), patch.object(breadth, "LABELS_A_ROW", 1):
        tree, leaf = tree_over(which, leaves, [age for _, age in people], 1, turns)
    for node in np.unique(leaf).tolist():
        labels = len(which.fewest_labels(*run_of(tree, node)))
        assert labels <= max(most, len(leaf))
        if turns == 1:
            assert labels <= max(most, int(np.count_nonzero(leaf == node)))


@pytest.mark.parametrize("hierarchy", [DEEP, FLAT, ODD])
def test_breadth_counts_the_labels_that_are_published(hierarchy: Hierarchy) -> None:
    """Over every run that cutting between siblings can leave."""
    waiting, seen = [(0, len(hierarchy.leaves))], set()
    while waiting:
        low, high = waiting.pop()
        if (low, high) in seen:
            continue
        seen.add((low, high))
        found = Breadth(hierarchy, np.array([low]), np.array([high]))
        assert found.labels.tolist() == [len(hierarchy.fewest_labels(low, high))]
        inside = hierarchy.parting_depths()[low + 1 : high]
        for cut in (low + 1 + np.flatnonzero(inside == inside.min(initial=99))).tolist():
            left, right = found.sides(np.array([0]), np.array([cut]))
            assert left.tolist() == [len(hierarchy.fewest_labels(low, cut))]
            assert right.tolist() == [len(hierarchy.fewest_labels(cut, high))]
            waiting += [(low, cut), (cut, high)]
