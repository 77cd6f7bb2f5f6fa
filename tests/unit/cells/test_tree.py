"""The anonymization tree: strict, sized, and cut where it takes most off NCP."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.cells import breadth, mondrian
from shoal.core.cells.mondrian import NEARLY, grow
from shoal.core.cells.region import roundest_between
from shoal.core.cells.tree import Column, NodeRecord, Rows, Tree
from shoal.core.policy.policy import build_policy
from tests.support.engines.series import clinic_policy
from tests.support.regions import region_of

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


class _Blackboard:
    """The tree's way to cut as one would write it on a blackboard: leaf by leaf, place by place."""

    def __init__(self, rows: list[Row], smallest: int) -> None:
        self._smallest = smallest
        self._weights = sorted({row[1] for row in rows})
        rank = {weight: code for code, weight in enumerate(self._weights)}  # a float's code
        self._rows = [(age, rank[weight], sex, town) for age, weight, sex, town in rows]
        self._ends = [100, len(self._weights), 2, 5]

    def leaves(self) -> list[list[int]]:
        return sorted(self._cut(list(range(len(self._rows))), [0] * 4, self._ends))

    def _cut(self, rows: list[int], low: list[int], high: list[int]) -> Iterator[list[int]]:
        size = len(rows)
        found = []
        for position in range(4):
            for cut in self._places(position, [self._rows[row][position] for row in rows], low, high):
                left = [row for row in rows if self._rows[row][position] < cut]
                if self._smallest <= len(left) <= size - self._smallest:
                    worth = self._worth(position, cut, low[position], high[position], len(left), size - len(left))
                    found.append((worth, abs(size - 2 * len(left)), position, cut, left))
        if not found:
            yield rows
            return
        enough = NEARLY * max(worth for worth, *_ in found)
        _, _, position, cut, left = min((place for place in found if place[0] >= enough), key=lambda place: place[1])
        yield from self._cut(left, low, [*high[:position], cut, *high[position + 1 :]])
        right = [row for row in rows if row not in left]
        yield from self._cut(right, [*low[:position], cut, *low[position + 1 :]], high)

    def _places(self, position: int, codes: list[int], low: list[int], high: list[int]) -> Iterator[int]:
        """Between every two neighbouring steps that hold rows, in the middle of the empty ones."""
        hierarchy = ATTRIBUTES[position].hierarchy
        starts: Sequence[int] = range(low[position], high[position])
        if hierarchy is not None:
            around = hierarchy.children(hierarchy.covering(low[position], high[position]))
            inside = (hierarchy.first[child] for child in around)
            starts = [low[position], *(first for first in inside if low[position] < first < high[position])]
        held = sorted({bisect_right(starts, code) - 1 for code in codes})
        for below, above in pairwise(held):
            cut = starts[(below + above) // 2 + 1]
            if position != 1 or roundest_between(*self._weights[cut - 1 : cut + 1]) is not None:
                yield cut

    def _worth(self, position: int, cut: int, low: int, high: int, left: int, right: int) -> float:
        """The gain in NCP squared, over the product of the sides."""
        alone = 1 / self._ends[position] if ATTRIBUTES[position].hierarchy is not None else 0.0
        cut_left = self._place(position, cut) - self._place(position, low)
        cut_right = self._place(position, high) - self._place(position, cut)
        gain_left = cut_right + (alone if cut - low == 1 else 0.0)
        gain_right = cut_left + (alone if high - cut == 1 else 0.0)
        gain = left * gain_left + right * gain_right
        return gain * gain / (left * right)

    def _place(self, position: int, code: int) -> float:
        """The share of the domain below a code."""
        if position != 1:
            return code / (99, 1, 2, 5)[position]
        if code in (0, len(self._weights)):
            return float(code > 0)
        below, above = self._weights[code - 1 : code + 1]
        return (below + (above - below) / 2) / 200


@settings(max_examples=300, deadline=None)
@given(rows=ROWS, smallest=st.integers(1, 6))
def test_leaves_are_those_found_on_a_blackboard(rows: list[Row], smallest: int) -> None:
    with patch.object(mondrian, "FEWEST_BINS", 256):  # one for every value
        _, leaf = _grown(rows, smallest)
    found = sorted(np.flatnonzero(leaf == node).tolist() for node in np.unique(leaf))
    assert found == _Blackboard(rows, smallest).leaves()


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


WIDE = build_policy(
    {
        "table": "wide",
        "attributes": {
            "income": {"type": "int", "min": 0, "max": 60_000},
            "account": {"type": "int", "min": -(10**12), "max": 10**12},
            "level": {"type": "float", "min": 0, "max": 1},
            "code": {"type": "category", "values": [f"v{code}" for code in range(3_000)]},
        },
        "sensitive": {"name": "s", "values": ["x", "y"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    },
    {},
    b"wide",
).attributes
HEAPS = st.sampled_from([0, 1, 2, 1_000, 1_001, 2_999])
WIDE_ROWS = st.lists(
    st.tuples(
        HEAPS | st.integers(0, 60_000),
        HEAPS | st.integers(-(10**12), 10**12),
        HEAPS.map(lambda value: value / 10_000) | st.floats(0, 1, allow_nan=False).map(abs),
        HEAPS,
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(rows=WIDE_ROWS, more=WIDE_ROWS, smallest=st.integers(1, 6))
def test_a_tree_goes_on_growing_where_people_arrive_and_nobody_leaves_their_region(
    rows: list[Row], more: list[Row], smallest: int
) -> None:
    tree, columns = Tree(WIDE), _columns(rows + more)
    leaf = np.zeros(len(rows + more), dtype=np.int64)
    first = np.arange(len(rows))
    grow(tree, columns, leaf, [(0, first)], smallest)
    before, records = leaf[first].copy(), list(tree.records())
    leaf[:] = tree.route(columns, np.arange(len(leaf)))
    crowds = [(int(node), np.flatnonzero(leaf == node)) for node in np.unique(leaf)]
    grow(tree, columns, leaf, crowds, smallest)
    tree.check_invariants()
    assert dict(records).items() <= dict(tree.records()).items()
    assert leaf.tolist() == tree.route(columns, np.arange(len(leaf))).tolist()
    for position in range(4):
        (low, high), (inner_low, inner_high) = tree.bounds(position, before), tree.bounds(position, leaf[first])
        assert (inner_low >= low).all()
        assert (inner_high <= high).all()
    for _, crowd in crowds:
        parted = np.bincount(leaf[crowd])
        assert len(crowd) < 2 * smallest or parted[parted > 0].min() >= smallest


@settings(max_examples=200, deadline=None)
@given(rows=WIDE_ROWS, smallest=st.integers(1, 6), bins=st.sampled_from([2, 32]))
def test_no_leaf_is_left_that_can_be_cut_however_wide_the_domains(rows: list[Row], smallest: int, bins: int) -> None:
    tree, columns, leaf = Tree(WIDE), _columns(rows), np.zeros(len(rows), dtype=np.int64)
    with patch.object(mondrian, "FEWEST_BINS", bins), patch.object(breadth, "MOST_LABELS", 1 << 20):
        grow(tree, columns, leaf, [(0, np.arange(len(rows)))], smallest)
    assert leaf.tolist() == tree.route(columns, np.arange(len(rows))).tolist()
    tree.check_invariants()
    for node in np.unique(leaf):
        for position, column in enumerate(columns):
            values = np.sort(column[leaf == node])
            below, above = values[smallest - 1 : -smallest], values[smallest : len(values) - smallest + 1]
            is_able = below < (np.nextafter(above, -np.inf) if position == 2 else above)
            assert not is_able.any()


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
    assert [region_of(again, node) for node in range(again.size)] == [region_of(tree, n) for n in range(tree.size)]
    assert again.size == tree.size > 20


def test_neighbours_in_space_are_neighbours_in_depth_first_order() -> None:
    tree = Tree(ATTRIBUTES)
    tree.put([(0, NodeRecord(0, 50, 1, 2)), (1, NodeRecord(0, 25, 3, 4)), (2, NodeRecord(2, 1, 5, 6))])
    leaves = np.array([6, 4, 5, 3])
    assert leaves[np.argsort(tree.depth_first(leaves))].tolist() == [3, 4, 5, 6]
