"""Hierarchies in ARX's format: the layout everything relies on, and every mistake with its line."""

import pickle
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import HierarchyError
from shoal.core.policy.hierarchy import Hierarchy, flat_hierarchy, parse_hierarchy

ZIP = "20433;2043*;2*;*\n31000;3*;3*;*\n20437;2043*;2*;*\n20500;205*;2*;*\n"


def _mistakes(text: str) -> list[tuple[int, str]]:
    with pytest.raises(HierarchyError) as caught:
        parse_hierarchy(text)
    return [(mistake.line, mistake.message) for mistake in caught.value.mistakes]


def test_nodes_are_numbered_depth_first_and_children_keep_the_order_of_the_file() -> None:
    hierarchy = parse_hierarchy(ZIP)
    assert hierarchy.labels == ("*", "2*", "2043*", "20433", "20437", "205*", "20500", "3*", "31000")
    assert hierarchy.parent == (-1, 0, 1, 2, 2, 1, 5, 0, 7)
    assert hierarchy.children(1) == (2, 5)


def test_every_node_covers_one_run_of_leaves_even_where_the_file_jumps_about() -> None:
    hierarchy = parse_hierarchy(ZIP)
    assert hierarchy.leaves == ("20433", "20437", "20500", "31000")
    assert [(hierarchy.first[node], hierarchy.last[node]) for node in (0, 1, 2, 7)] == [(0, 4), (0, 3), (0, 2), (3, 4)]
    assert hierarchy.leaf_code == {"20433": 0, "20437": 1, "20500": 2, "31000": 3}
    assert [hierarchy.labels[node] for node in hierarchy.leaf_node] == list(hierarchy.leaves)
    assert hierarchy.node_of["2043*"] == 2


def test_a_label_repeated_up_a_chain_is_one_step() -> None:
    assert parse_hierarchy("a;a;a;*;*\nb;c;c;*\n") == parse_hierarchy("a;*\nb;c;*")


def test_windows_line_ends_a_byte_order_mark_blank_lines_and_quotes_are_understood() -> None:
    assert parse_hierarchy('\ufeffa;x;*\r\n\r\n"b;b";x;*\r\n').leaves == ("a", "b;b")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no lines"),
        ("\n\n", 1, "no lines"),
        ("a;*\nb;c\n", 2, 'does not end in "*"'),
        ("a\n", 1, 'does not end in "*"'),
        ("a;*\n;*\n", 2, "empty"),
        ("a;;*\n", 1, "empty"),
        ("*\n", 1, "cannot be a leaf"),
        ("*;*\n", 1, "cannot be a leaf"),
        ("a;*;b;*\n", 1, "only stand at the end"),
        ("a;b;a;*\n", 1, "above itself"),
        ("a;*\nb;*\na;*\n", 3, "already on line 1"),
        ("a;x;*\nb;x;y;*\n", 2, "'x' stands under 'y' here and under '*' on line 1"),
        ("a;x;*\nx;*\n", 2, "is a leaf on line 2 and above one on 1"),
        ("x;*\na;x;*\n", 2, "is a leaf on line 1 and above one on 2"),
        (" a;*\n", 1, "begins or ends with a blank"),
        ("a\x07;*\n", 1, "control character"),
        ('"a;*\n', 1, "quotation mark"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int, words: str) -> None:
    assert any(at == line and words in message for at, message in _mistakes(text)), _mistakes(text)


def test_all_mistakes_of_a_file_are_reported_together_in_order() -> None:
    found = _mistakes("a;*\nb\n;x;*\na;*\n*;*\n")
    assert [line for line, _ in found] == [2, 3, 4, 5]


def places_to_cut(hierarchy: Hierarchy, lo: int, hi: int) -> tuple[int, ...]:
    """Where the leaf run [lo, hi) may be cut."""
    inside = hierarchy.parting_depths()[lo + 1 : hi]
    return tuple(lo + 1 + at for at, depth in enumerate(inside) if depth == min(inside))


def test_a_flat_list_has_only_leaves_and_a_star() -> None:
    hierarchy = flat_hierarchy(["b", "a", "c"])
    assert hierarchy.labels == ("*", "b", "a", "c")
    assert places_to_cut(hierarchy, 0, 3) == (1, 2)
    assert places_to_cut(hierarchy, 1, 3) == (2,)
    with pytest.raises(HierarchyError, match="already"):
        flat_hierarchy(["a", "a"])
    with pytest.raises(HierarchyError, match="no values"):
        flat_hierarchy([])


def test_cuts_fall_between_the_children_of_the_smallest_node_around_the_run() -> None:
    hierarchy = parse_hierarchy(ZIP)
    assert places_to_cut(hierarchy, 0, 4) == (3,)
    assert places_to_cut(hierarchy, 0, 3) == (2,)
    assert places_to_cut(hierarchy, 0, 2) == (1,)
    assert places_to_cut(hierarchy, 2, 3) == ()


def test_cuts_go_down_through_nodes_with_one_child() -> None:
    hierarchy = parse_hierarchy("a;x;y;z;*\nb;x;y;z;*\n")
    assert places_to_cut(hierarchy, 0, 2) == (1,)


def test_the_fewest_labels_are_taken_from_the_top() -> None:
    hierarchy = parse_hierarchy(ZIP)
    assert hierarchy.fewest_labels(0, 4) == ("*",)
    assert hierarchy.fewest_labels(0, 3) == ("2*",)
    assert hierarchy.fewest_labels(0, 2) == ("2043*",)
    assert hierarchy.fewest_labels(1, 4) == ("20437", "205*", "3*")
    assert parse_hierarchy("only;*").fewest_labels(0, 1) == ("*",)


def test_a_hierarchy_survives_being_sent_to_another_process() -> None:
    hierarchy = parse_hierarchy(ZIP)
    hierarchy.parting_depths()
    assert pickle.loads(pickle.dumps(hierarchy)) == hierarchy


def test_a_chain_as_long_as_a_line_can_be_is_no_problem() -> None:
    hierarchy = parse_hierarchy("leaf;" + ";".join(f"n{at}" for at in range(5000)) + ";*\n")
    hierarchy.check_invariants()
    assert hierarchy.covering(0, 1) == 5001


@st.composite
def _hierarchies(draw: st.DrawFn) -> tuple[str, Hierarchy]:
    """Random trees, with the leaves' lines in random order."""
    size = draw(st.integers(1, 24))
    above = [draw(st.integers(-1, at - 1)) for at in range(size)]
    inner = set(above)
    lines = []
    for leaf in (at for at in range(size) if at not in inner):
        chain, at = [], leaf
        while at >= 0:
            chain.append(f"n{at}")
            at = above[at]
        lines.append(";".join([*chain, "*"]))
    text = "\n".join(draw(st.permutations(lines)))
    return text, parse_hierarchy(text)


@given(_hierarchies())
def test_any_tree_is_laid_out_as_promised(case: tuple[str, Hierarchy]) -> None:
    text, hierarchy = case
    hierarchy.check_invariants()
    chains = [line.split(";") for line in text.split("\n")]
    assert sorted(hierarchy.leaves) == sorted(chain[0] for chain in chains)
    for chain in chains:
        for low, high in pairwise(chain):
            assert hierarchy.labels[hierarchy.parent[hierarchy.node_of[low]]] == high


@given(_hierarchies())
def test_whatever_is_cut_from_the_top_down_is_a_node_or_a_run_of_siblings(case: tuple[str, Hierarchy]) -> None:
    _, hierarchy = case
    waiting, seen = {(0, len(hierarchy.leaves))}, set()
    while waiting:
        lo, hi = waiting.pop()
        seen.add((lo, hi))
        labels = hierarchy.fewest_labels(lo, hi)
        assert len({hierarchy.parent[hierarchy.node_of[label]] for label in labels}) == 1
        covered = [leaf for label in labels for leaf in _under(hierarchy, label)]
        assert covered == list(range(lo, hi))
        cuts = places_to_cut(hierarchy, lo, hi)
        assert (hi - lo > 1) == bool(cuts)
        assert all(lo < cut < hi for cut in cuts)
        around = hierarchy.children(hierarchy.covering(lo, hi))
        assert cuts == tuple(hierarchy.first[child] for child in around if lo < hierarchy.first[child] < hi)
        waiting |= {part for cut in cuts for part in ((lo, cut), (cut, hi))} - seen


@given(_hierarchies(), st.data())
def test_no_shorter_list_of_labels_says_the_same(case: tuple[str, Hierarchy], data: st.DataObject) -> None:
    _, hierarchy = case
    lo = data.draw(st.integers(0, len(hierarchy.leaves) - 1))
    hi = data.draw(st.integers(lo + 1, len(hierarchy.leaves)))
    # dynamic programme over all ways to tile [lo, hi) with nodes
    fewest = {hi: 0}
    for at in reversed(range(lo, hi)):
        ends = {hierarchy.last[n] for n in range(len(hierarchy.labels)) if hierarchy.first[n] == at}
        fewest[at] = 1 + min(fewest[end] for end in ends if end in fewest)
    assert len(hierarchy.fewest_labels(lo, hi)) == fewest[lo]


def _under(hierarchy: Hierarchy, label: str) -> range:
    node = hierarchy.node_of[label]
    return range(hierarchy.first[node], hierarchy.last[node])
