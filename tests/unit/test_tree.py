"""The anonymization tree: strict, sized, and only ever finer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tree import Column, NodeRecord, Tree
from tests.series import clinic_policy

ATTRIBUTES = clinic_policy().attributes


def _columns(rows: list[tuple[int, float, int, int]]) -> list[Column]:
    return [
        np.array([row[position] for row in rows], dtype=np.float64 if position == 1 else np.int64)
        for position in range(4)
    ]


ROWS = st.lists(
    st.tuples(st.integers(0, 99), st.sampled_from([0.0, 50.5, 61.5, 200.0]), st.integers(0, 1), st.integers(0, 4)),
    min_size=1,
    max_size=80,
)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, smallest=st.integers(1, 6))
def test_every_leaf_keeps_enough_rows_and_equal_people_never_part(
    rows: list[tuple[int, float, int, int]], smallest: int
) -> None:
    tree, columns, everyone = Tree(ATTRIBUTES), _columns(rows), np.arange(len(rows))
    tree.grow(columns, [(0, everyone)], smallest)
    tree.check_invariants()
    leaves = tree.route(columns, everyone)
    counts = np.bincount(leaves)
    assert tree.size == 1 or counts[counts > 0].min() >= smallest
    assert all(tree.is_leaf(leaf) for leaf in leaves.tolist())
    by_record: dict[tuple[int, float, int, int], int] = {}
    for row, leaf in zip(rows, leaves.tolist(), strict=True):
        assert by_record.setdefault(row, leaf) == leaf


@settings(max_examples=50, deadline=None)
@given(rows=ROWS)
def test_the_order_of_rows_does_not_matter(rows: list[tuple[int, float, int, int]]) -> None:
    trees = []
    for order in (rows, rows[::-1]):
        tree = Tree(ATTRIBUTES)
        tree.grow(_columns(order), [(0, np.arange(len(order)))], 2)
        trees.append(list(tree.records()))
    assert trees[0] == trees[1]


def test_a_copy_grows_without_the_original() -> None:
    tree = Tree(ATTRIBUTES)
    twin = tree.copy()
    twin.put(0, NodeRecord(0, 50, 1, 2))
    assert tree.is_leaf(0)
    assert not twin.is_leaf(0)
    assert tree.size == 1


def test_records_rebuild_the_same_regions() -> None:
    rng = np.random.default_rng(5)
    rows = list(zip(*(rng.integers(0, high, 200).tolist() for high in (100, 200, 2, 5)), strict=True))
    tree = Tree(ATTRIBUTES)
    tree.grow(_columns(rows), [(0, np.arange(200))], 4)
    again = Tree(ATTRIBUTES)
    for node, record in tree.records():
        again.put(node, record)
    assert [again.region_json(node) for node in range(again.size)] == [tree.region_json(n) for n in range(tree.size)]
    assert again.size == tree.size > 20


def test_neighbours_in_space_are_neighbours_in_depth_first_order() -> None:
    tree = Tree(ATTRIBUTES)
    tree.put(0, NodeRecord(0, 50, 1, 2))
    tree.put(1, NodeRecord(0, 25, 3, 4))
    assert tree.depth_first().tolist() == [0, 1, 4, 2, 3]
