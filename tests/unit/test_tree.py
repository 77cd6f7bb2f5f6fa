"""The anonymization tree: strict, sized, and cut exactly where a plain recursive Mondrian would cut."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.mondrian import grow
from core.region import roundest_between
from core.tree import Column, NodeRecord, Rows, Tree
from tests.series import clinic_policy

ATTRIBUTES = clinic_policy().attributes


Row = tuple[int, float, int, int]


def _columns(rows: list[Row]) -> list[Column]:
    return [
        np.array([row[position] for row in rows], dtype=np.float64 if position == 1 else np.int64)
        for position in range(4)
    ]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.sampled_from([0.0, 50.5, 61.5, 200.0]) | st.floats(0, 200, allow_nan=False).map(abs),
        st.integers(0, 1),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=80,
)


def _grown(rows: list[Row], smallest: int) -> tuple[Tree, Rows]:
    tree, columns, leaf = Tree(ATTRIBUTES), _columns(rows), np.zeros(len(rows), dtype=np.int64)
    grow(tree, columns, leaf, [(0, np.arange(len(rows)))], smallest)
    assert leaf.tolist() == tree.route(columns, np.arange(len(rows))).tolist()
    return tree, leaf


def _naive(rows: list[tuple[int, Row]], low: list[int], high: list[int], smallest: int) -> Iterator[list[int]]:
    """Mondrian as one would write it on a blackboard: the rows of each leaf."""
    size = len(rows)
    spread = []
    for position, attribute in enumerate(ATTRIBUTES):
        values = [row[position] for _, row in rows]
        width = attribute.high - attribute.low + (attribute.kind != "float")
        spread.append((-(max(values) - min(values)) / width, position))
    for wide, position in sorted(spread):
        if wide == 0 or size < 2 * smallest:
            continue
        attribute, values = ATTRIBUTES[position], sorted(row[position] for _, row in rows)
        places: list[tuple[float, int]]
        if attribute.hierarchy is not None:
            places = [
                (cut, sum(v < cut for v in values)) for cut in attribute.hierarchy.cuts(low[position], high[position])
            ]
        elif attribute.kind == "int":
            places = [(values[i], i) for i in range(1, size) if values[i - 1] < values[i]]
        else:
            between = (
                (roundest_between(values[i - 1], values[i]), i) for i in range(1, size) if values[i - 1] < values[i]
            )
            places = [(cut, left) for cut, left in between if cut is not None]
        able = [place for place in places if smallest <= place[1] <= size - smallest]
        if attribute.hierarchy is None:  # only the two cuts beside the median's value: others leave one side smaller
            middle = values[size // 2]
            able = [p for p in able if values[p[1]] == middle or values[p[1] - 1] == middle]
        if able:
            cut, _ = min(able, key=lambda place: (abs(2 * place[1] - size), place[1]))
            yield from _naive(
                [r for r in rows if r[1][position] < cut],
                low,
                [*high[:position], int(cut), *high[position + 1 :]],
                smallest,
            )
            yield from _naive(
                [r for r in rows if r[1][position] >= cut],
                [*low[:position], int(cut), *low[position + 1 :]],
                high,
                smallest,
            )
            return
    yield [index for index, _ in rows]


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, smallest=st.integers(1, 6))
def test_leaves_are_those_of_a_plain_recursive_mondrian(rows: list[Row], smallest: int) -> None:
    _, leaf = _grown(rows, smallest)
    found = sorted(np.flatnonzero(leaf == node).tolist() for node in np.unique(leaf))
    assert found == sorted(_naive(list(enumerate(rows)), [0] * 4, [100, 200, 2, 5], smallest))


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, smallest=st.integers(1, 6))
def test_every_leaf_keeps_enough_rows_and_equal_people_never_part(rows: list[Row], smallest: int) -> None:
    tree, leaf = _grown(rows, smallest)
    tree.check_invariants()
    counts = np.bincount(leaf)
    assert tree.size == 1 or counts[counts > 0].min() >= smallest
    assert all(tree.is_leaf(node) for node in leaf.tolist())
    by_record: dict[Row, int] = {}
    for row, node in zip(rows, leaf.tolist(), strict=True):
        assert by_record.setdefault(row, node) == node


@settings(max_examples=50, deadline=None)
@given(rows=ROWS)
def test_the_order_of_rows_does_not_matter(rows: list[Row]) -> None:
    there, back = (list(_grown(order, 2)[0].records()) for order in (rows, rows[::-1]))
    assert there == back


def test_a_copy_grows_without_the_original() -> None:
    tree = Tree(ATTRIBUTES)
    twin = tree.copy()
    twin.put([(0, NodeRecord(0, 50, 1, 2))])
    assert tree.is_leaf(0)
    assert not twin.is_leaf(0)
    assert tree.size == 1


def test_records_rebuild_the_same_regions() -> None:
    rng = np.random.default_rng(5)
    rows = list(zip(*(rng.integers(0, high, 200).tolist() for high in (100, 200, 2, 5)), strict=True))
    tree, _ = _grown(rows, 4)
    again = Tree(ATTRIBUTES)
    again.put(tree.records())
    assert [again.region_json(node) for node in range(again.size)] == [tree.region_json(n) for n in range(tree.size)]
    assert again.size == tree.size > 20


def test_neighbours_in_space_are_neighbours_in_depth_first_order() -> None:
    tree = Tree(ATTRIBUTES)
    tree.put([(0, NodeRecord(0, 50, 1, 2)), (1, NodeRecord(0, 25, 3, 4)), (2, NodeRecord(2, 1, 5, 6))])
    leaves = np.array([6, 4, 5, 3])
    assert leaves[np.argsort(tree.depth_first(leaves))].tolist() == [3, 4, 5, 6]
