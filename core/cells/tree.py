"""The anonymization tree: one ever-refining partition of the quasi-identifier space (Pei, sections 3 and 4).

Layout. Nodes are numbered in order of creation and never removed, so a number is a cell's name for ever. Each node is
a row over parallel arrays: the attribute it is cut on (-1 for a leaf), the cut, its two children, and for each
attribute the run `[low, high)` it covers. People left of a cut have `value < cut`, right of it `value >= cut`, for
integers, floats and leaf codes alike. A node's region never changes. This makes releases monotonic: a person can only
move down the path they are already on.

The root is node 0. Only where a change of policy brought new labels beside those of a shard's region, a later node is
the root: node 0 keeps its region and lies below it (`core/change.py`).

Cost. Routing is one vectorised step per level. `core/cells/mondrian.py` decides where to cut.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.region import attribute_losses, attributes_json, domain
from shoal.core.cells.shard import Box
from shoal.core.policy.policy import Attribute

Column = NDArray[Any]  # int64 or float64, by the attribute's kind
Rows = NDArray[np.int64]

LEAF = -1
_SINGLE, _BY_ATTRIBUTE = ("attribute", "left", "right", "depth", "path"), ("cut", "low", "high")


class NodeRecord(NamedTuple):
    """An inner node as it is stored: enough, with the policy, to rebuild its children's regions."""

    attribute: int
    cut: int | float
    left: int
    right: int


def top_down(records: Mapping[int, NodeRecord]) -> Iterator[tuple[int, NodeRecord]]:
    """Records level by level, so that parents come before their children, whatever their numbers. O(records)."""
    children = {child for record in records.values() for child in (record.left, record.right)}
    level = [(node, records[node]) for node in sorted(records.keys() - children)]
    while level:
        yield from level
        below = (child for _, record in level for child in (record.left, record.right))
        level = [(child, records[child]) for child in below if child in records]


class _Splits(NamedTuple):
    """Leaves to be split, as columns; a cut is in `real` for a float attribute, in `whole` for any other."""

    nodes: Rows
    attributes: Rows
    whole: Rows
    real: NDArray[np.float64]
    left: Rows
    right: Rows


class Tree:
    """The cells of one table, or of one shard: the root is the whole space, or `box`."""

    def __init__(self, attributes: Sequence[Attribute], box: Box | None = None) -> None:
        self.attributes = tuple(attributes)
        self._dtypes = tuple(np.float64 if a.kind == "float" else np.int64 for a in self.attributes)
        self.size, self.root = 1, 0
        self._attribute = np.full(16, LEAF, dtype=np.int16)
        self._left = np.full(16, LEAF, dtype=np.int64)
        self._right = np.full(16, LEAF, dtype=np.int64)
        self._depth = np.zeros(16, dtype=np.int64)
        self._path = np.zeros(16, dtype=np.uint64)
        self._cut: list[Column] = [np.zeros(16, dtype=dtype) for dtype in self._dtypes]
        self._low: list[Column] = [np.zeros(16, dtype=dtype) for dtype in self._dtypes]
        self._high: list[Column] = [np.zeros(16, dtype=dtype) for dtype in self._dtypes]
        self._text: dict[int, bytes] = {}
        for position, attribute in enumerate(self.attributes):
            self._low[position][0], self._high[position][0] = domain(attribute) if box is None else box[position]

    def copy(self) -> "Tree":
        """A tree that can grow without changing this one."""
        twin = object.__new__(Tree)
        twin.attributes, twin._dtypes, twin._text = self.attributes, self._dtypes, self._text.copy()
        twin.size, twin.root = self.size, self.root
        twin._attribute, twin._left, twin._right = self._attribute.copy(), self._left.copy(), self._right.copy()
        twin._depth, twin._path = self._depth.copy(), self._path.copy()
        twin._cut = [column.copy() for column in self._cut]
        twin._low = [column.copy() for column in self._low]
        twin._high = [column.copy() for column in self._high]
        return twin

    def freeze(self) -> dict[str, NDArray[Any]]:
        """The columns."""
        found = {name: getattr(self, f"_{name}")[: self.size] for name in _SINGLE}
        for name in _BY_ATTRIBUTE:
            columns = enumerate(getattr(self, f"_{name}"))
            found |= {f"{name}{position}": column[: self.size] for position, column in columns}
        return found

    def thaw(self, columns: Mapping[str, NDArray[Any]], texts: Mapping[int, bytes]) -> None:
        """The inverse; `texts` are those of `cells_json` that were written before."""
        for name in _SINGLE:
            setattr(self, f"_{name}", columns[name])
        for name in _BY_ATTRIBUTE:
            setattr(self, f"_{name}", [columns[f"{name}{position}"] for position in range(len(self.attributes))])
        self.size, self._text = len(columns["depth"]), dict(texts)
        self.root = int(np.argmin(columns["depth"]))

    @property
    def texts(self) -> Mapping[int, bytes]:
        """What `cells_json` has written so far."""
        return self._text

    # -- reading ------------------------------------------------------------------------------------------------

    def is_leaf(self, node: int) -> bool:
        return bool(self._attribute[node] == LEAF)

    def record(self, node: int) -> NodeRecord:
        """An inner node as it is stored."""
        attribute = int(self._attribute[node])
        return NodeRecord(attribute, self._cut[attribute][node].item(), int(self._left[node]), int(self._right[node]))

    def records(self) -> Iterator[tuple[int, NodeRecord]]:
        """All inner nodes as they are stored."""
        nodes = np.flatnonzero(self._attribute[: self.size] != LEAF)
        attributes, cuts = self._attribute[nodes], np.empty(len(nodes), dtype=object)
        for position, column in enumerate(self._cut):
            cuts[attributes == position] = column[nodes[attributes == position]].tolist()
        columns = (attributes, cuts, self._left[nodes], self._right[nodes])
        return zip(nodes.tolist(), map(NodeRecord, *(column.tolist() for column in columns)), strict=True)

    def route(self, columns: Sequence[Column], rows: Rows, start: Rows | None = None) -> Rows:
        """The leaf of each of these rows, searched from the root or from a node above it; 0 counts as the root."""
        at = np.full(len(rows), self.root) if start is None else np.where(start == 0, self.root, start)
        moving = np.flatnonzero(self._attribute[at] != LEAF)
        while moving.size:
            nodes = at[moving]
            on = self._attribute[nodes]
            for position, column in enumerate(columns):
                here = np.flatnonzero(on == position)
                if here.size:
                    cut_at = nodes[here]
                    goes_right = column[rows[moving[here]]] >= self._cut[position][cut_at]
                    at[moving[here]] = np.where(goes_right, self._right[cut_at], self._left[cut_at])
            moving = moving[self._attribute[at[moving]] != LEAF]
        return at

    def is_inside(self, node: int, columns: Sequence[Column], rows: Rows) -> NDArray[np.bool_]:
        """Which of these rows lie in a node's region."""
        found = np.ones(len(rows), dtype=bool)
        for position, column in enumerate(columns) if node != self.root else ():
            low, high, end = self._low[position][node], self._high[position][node], self._high[position][self.root]
            values = column[rows]
            found &= values >= low
            if high != end:  # the domain's end belongs to the last run, and no value is beyond it
                found &= values < high
        return found

    def parents(self) -> Rows:
        """The parent of each node; the root is its own."""
        found = np.zeros(self.size, dtype=np.int64)
        inner = np.flatnonzero(self._attribute[: self.size] != LEAF)
        found[self._left[inner]] = found[self._right[inner]] = inner
        found[self.root] = self.root
        return found

    def smallest_over(self, nodes: Rows, low: Sequence[Column], high: Sequence[Column]) -> Rows:
        """For each of these nodes the smallest one, itself or above it, that also covers a box. One step per level."""
        at, parents, ends = nodes.copy(), self.parents(), [column[self.root] for column in self._high]
        climbing = np.arange(len(at))
        while climbing.size:
            here = at[climbing]
            short = np.zeros(len(climbing), dtype=bool)
            for position, (lows, highs) in enumerate(zip(low, high, strict=True)):
                short |= self._low[position][here] > lows[climbing]
                short |= self._high[position][here] < np.minimum(highs[climbing], ends[position])
            climbing = climbing[short & (here != self.root)]
            at[climbing] = parents[at[climbing]]
        return at

    def deepest_first(self, nodes: Rows) -> list[int]:
        found: list[int] = nodes[np.lexsort((nodes, -self._depth[nodes]))].tolist()
        return found

    def sums(self, counts: Rows) -> Rows:
        """Numbers of the leaves added up to every node above them. One step per level."""
        parents, depth = self.parents(), self._depth[: self.size]
        total = counts.copy()
        for level in range(int(depth.max()), 0, -1):
            here = np.flatnonzero(depth == level)
            np.add.at(total, parents[here], total[here])
        return total

    def depth_first(self, nodes: Rows) -> NDArray[np.uint64]:
        """A key that orders nodes as a depth-first walk does, so that neighbours in space are neighbours in a list.

        It is the path from the root as binary digits. Below the 64th level the digits run out and nodes tie: order is
        for usefulness, not for safety.
        """
        return self._path[nodes]

    def cells_json(self, nodes: Rows) -> list[bytes]:
        """Cells as releases write them (docs/contract.md, "Regions"), from the number to the region; kept for good."""
        texts, asked = self._text, nodes.tolist()
        missing = np.array([node for node in asked if node not in texts], dtype=np.int64)
        parts = [
            attributes_json(attribute, self._low[position][missing], self._high[position][missing])
            for position, attribute in enumerate(self.attributes)
        ]
        for node, *regions in zip(missing.tolist(), *parts, strict=True):
            texts[node] = f'c{node}","region":{{{",".join(regions)}}}'.encode()
        return [texts[node] for node in asked]

    def region_json(self, node: int) -> str:
        """The region of a node as releases write it."""
        return self.cells_json(np.array([node]))[0].partition(b'"region":')[2].decode()

    def losses(self, nodes: Rows) -> NDArray[np.float64]:
        """NCP of each cell: the mean over the attributes of the share of the domain it spans."""
        total = np.zeros(len(nodes))
        for position, attribute in enumerate(self.attributes):
            total += attribute_losses(attribute, self._low[position][nodes], self._high[position][nodes])
        return total / len(self.attributes)

    # -- growing ------------------------------------------------------------------------------------------------

    def put(self, records: Iterable[tuple[int, NodeRecord]]) -> None:
        """Split leaves as these records say, parents before children. Those that come level by level cost least."""
        level: list[tuple[int, NodeRecord]] = []
        children: set[int] = set()
        for node, record in records:
            if node in children:
                self._put_level(level)
                level, children = [], set()
            level.append((node, record))
            children.update((record.left, record.right))
        self._put_level(level)

    def _put_level(self, level: Sequence[tuple[int, NodeRecord]]) -> None:
        """Split leaves none of which is a child of another."""
        if not level:
            return
        if self.size == 1 and level[0][0] != 0:
            self._begin_at(level[0][0])
        is_real = [self.attributes[record.attribute].kind == "float" for _, record in level]
        cuts = [record.cut for _, record in level]
        nodes, attributes, left, right = np.array(
            [(node, record.attribute, record.left, record.right) for node, record in level], dtype=np.int64
        ).T
        whole = np.array([0 if real else cut for real, cut in zip(is_real, cuts, strict=True)], dtype=np.int64)
        real = np.array([cut if real else 0.0 for real, cut in zip(is_real, cuts, strict=True)], dtype=np.float64)
        last = int(max(left.max(), right.max()))
        self._reserve(last + 1)
        self._split(_Splits(nodes, attributes, whole, real, left, right))
        self.size = max(self.size, last + 1)

    def _begin_at(self, root: int) -> None:
        """Let another node than 0 be the root of a tree that nothing was put into yet."""
        self._reserve(root + 1)
        for columns in (self._low, self._high):
            for column in columns:
                column[root] = column[0]
        self.root = root

    def put_many(self, nodes: Rows, attributes: Rows, whole: Rows, real: NDArray[np.float64]) -> int:
        """Split many leaves at once; the children are numbered in pairs from the number returned.

        The cut of a node is in `real` for a float attribute, in `whole` for any other.
        """
        first, count = self.size, len(nodes)
        self._reserve(first + 2 * count)
        left = first + 2 * np.arange(count)
        self._split(_Splits(nodes, attributes, whole, real, left, left + 1))
        self.size += 2 * count
        return first

    def _split(self, splits: _Splits) -> None:
        nodes, attributes, whole, real, left, right = splits
        for position, attribute in enumerate(self.attributes):
            for column in (self._low[position], self._high[position]):
                column[left] = column[right] = column[nodes]
            here = np.flatnonzero(attributes == position)
            cuts = (real if attribute.kind == "float" else whole)[here]
            self._cut[position][nodes[here]] = cuts
            self._high[position][left[here]] = cuts
            self._low[position][right[here]] = cuts
        depth = self._depth[nodes]
        self._depth[left] = self._depth[right] = depth + 1
        self._path[left] = self._path[nodes]
        digit = np.where(depth < 64, np.uint64(1) << (63 - np.minimum(depth, 63)).astype(np.uint64), np.uint64(0))
        self._path[right] = self._path[nodes] | digit
        self._attribute[nodes], self._left[nodes], self._right[nodes] = attributes, left, right

    def bounds(self, attribute: int, nodes: Rows) -> tuple[Column, Column]:
        """The runs `[low, high)` these nodes cover in one attribute."""
        return self._low[attribute][nodes], self._high[attribute][nodes]

    def _reserve(self, size: int) -> None:
        capacity = len(self._attribute)
        if size <= capacity:
            return
        more = max(size, 2 * capacity) - capacity
        self._attribute = np.concatenate([self._attribute, np.full(more, LEAF, dtype=np.int16)])
        self._left = np.concatenate([self._left, np.full(more, LEAF, dtype=np.int64)])
        self._right = np.concatenate([self._right, np.full(more, LEAF, dtype=np.int64)])
        self._depth = np.concatenate([self._depth, np.zeros(more, dtype=np.int64)])
        self._path = np.concatenate([self._path, np.zeros(more, dtype=np.uint64)])
        for columns in (self._cut, self._low, self._high):
            for position, column in enumerate(columns):
                columns[position] = np.concatenate([column, np.zeros(more, dtype=self._dtypes[position])])

    def check_invariants(self) -> None:
        """Children part their parent's region exactly at the cut, and every node but the root has one parent."""
        parents = [0] * self.size
        for node, record in self.records():
            for child in (record.left, record.right):
                parents[child] += 1
            for position in range(len(self.attributes)):
                low, high = self._low[position][node], self._high[position][node]
                cut = record.cut if position == record.attribute else None
                assert self._low[position][record.left] == low
                assert self._high[position][record.right] == high
                assert self._high[position][record.left] == (high if cut is None else cut)
                assert self._low[position][record.right] == (low if cut is None else cut)
                assert cut is None or low < cut < high
        assert parents.pop(self.root) == 0
        assert all(count == 1 for count in parents)
