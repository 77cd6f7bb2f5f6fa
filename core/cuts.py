"""Cuts: the regions of a table's shards, and which of them a person lives in.

Layout. The cuts are the top of the table's one tree: inner nodes as every tree has them, and one leaf for each shard,
numbered from left to right. They are made once, from a sample, and stay for ever. What a shard's own tree adds lies
below its leaf, so every region that is published is a node of one tree.

How they are made. A region of n shards is cut into floor(n/2) on the left and the others on the right, so that people
are divided in proportion. Each attribute offers the cut that comes nearest to this. Of the cuts that come near enough,
the most valuable one is taken, as in `core/cells/mondrian.py`. Where the sample offers no cut, the region is cut
anywhere: a shard may be empty. A cut in a float attribute is the roundest number between its neighbours, and a category
is cut between siblings.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from shoal.core.cells.cut_scale import shallowest
from shoal.core.cells.region import domain, roundest_between
from shoal.core.cells.shard import Box, Shard
from shoal.core.cells.tree import Column, NodeRecord, Rows, Tree, top_down
from shoal.core.person import Qid
from shoal.core.policy.policy import Attribute, Policy
from shoal.core.randomness import Keyed, Tags

SAMPLE: Final = 65_536  # people from whom the cuts are made: those with the smallest tags
NEAR: Final = 0.05  # of the people of a region: how far a cut may be from the share it should part off
ENDLESS: Final = 1 << 40  # regions into which a run of floats can be cut

Record = tuple[tuple[int, int, int | float, int, int], ...]  # of each inner node its number and its `NodeRecord`


class Cuts:
    """The regions of a table's shards. `shards` is how many there are, `nodes` the inner nodes of their tree."""

    def __init__(self, policy: Policy, nodes: dict[int, NodeRecord]) -> None:
        self.nodes = nodes
        self._tree = Tree(policy.attributes)
        self._tree.put(top_down(nodes))
        self._dtypes = [np.float64 if one.kind == "float" else np.int64 for one in policy.attributes]
        leaves = np.array([node for node in range(self._tree.size) if node not in nodes], dtype=np.int64)
        self._leaves = leaves[np.argsort(self._tree.depth_first(leaves), kind="stable")]
        self._shard = np.zeros(self._tree.size, dtype=np.int64)
        self._shard[self._leaves] = np.arange(len(leaves))
        self.shards = len(leaves)

    @classmethod
    def make(cls, policy: Policy, columns: Sequence[Column], tags: Tags) -> "Cuts":
        """The cuts of a table from its people; only those with the smallest tags are looked at."""
        chosen = np.argsort(tags, kind="stable")[:SAMPLE]
        nodes: dict[int, NodeRecord] = {}
        whole: Box = tuple(map(domain, policy.attributes))
        waiting = [(0, policy.shards, whole, [np.asarray(column)[chosen] for column in columns])]
        while waiting:
            node, shards, box, sample = waiting.pop()
            if shards == 1:
                continue
            cut = _best_cut(policy.attributes, box, sample, shards)
            left = 2 * len(nodes) + 1
            nodes[node] = NodeRecord(cut.attribute, cut.at, left, left + 1)
            is_left = sample[cut.attribute] < cut.at
            counts, sides = (cut.shards, shards - cut.shards), (is_left, ~is_left)
            parts = _halves(box, cut.attribute, cut.at)
            for child, count, part, is_here in zip((left, left + 1), counts, parts, sides, strict=True):
                waiting.append((child, count, part, [column[is_here] for column in sample]))
        return cls(policy, nodes)

    @classmethod
    def read(cls, policy: Policy, record: Iterable[Sequence[Any]]) -> "Cuts":
        """The inverse of `record`."""
        return cls(policy, {node: NodeRecord(*fields) for node, *fields in record})

    def record(self) -> Record:
        """The cuts as they are stored."""
        return tuple((node, *record) for node, record in sorted(self.nodes.items()))

    def shard_of(self, columns: Sequence[Column]) -> Rows:
        """The shard of each line of quasi-identifiers, given by attribute. One vectorised step per level."""
        return self._shard[self._tree.route(columns, np.arange(len(columns[0])))]

    def homes(self, qids: Sequence[Qid]) -> Rows:
        """The shard of each of these."""
        columns = zip(*qids, strict=True) if qids else repeat(())
        pairs = zip(columns, self._dtypes, strict=False)
        return self.shard_of([np.array(column, dtype=dtype) for column, dtype in pairs])

    def shards_of(self, qids: Sequence[Qid]) -> list[int]:
        """The same as numbers."""
        found: list[int] = self.homes(qids).tolist()
        return found

    def shard_of_qid(self, qid: Qid) -> int:
        """The shard of one person."""
        node = 0
        while (record := self.nodes.get(node)) is not None:
            node = record.right if qid[record.attribute] >= record.cut else record.left
        return int(self._shard[node])

    def box(self, shard: int) -> Box:
        """The region of a shard, as runs."""
        runs = (self._tree.bounds(position, self._leaves[shard]) for position in range(len(self._dtypes)))
        return tuple((low.item(), high.item()) for low, high in runs)

    def shard(self, number: int) -> Shard:
        """One of the shards."""
        return Shard(number, self.box(number))

    def regions_json(self) -> list[str]:
        """The regions of the shards in their order, as cell records have them."""
        texts = self._tree.cells_json(self._leaves)
        return [text.decode().partition('"region":')[2] for text in texts]

    def check_invariants(self) -> None:
        self._tree.check_invariants()


class Sample:
    """The people from whom the cuts are made, gathered little by little: how many there are, and the smallest tags."""

    def __init__(self, policy: Policy, keyed: Keyed) -> None:
        self._policy, self._keyed = policy, keyed
        self._dtypes = [np.float64 if one.kind == "float" else np.int64 for one in policy.attributes]
        self._tags: Tags = np.zeros(0, dtype=np.uint64)
        self._columns: list[Column] = [np.zeros(0, dtype=dtype) for dtype in self._dtypes]
        self.people = 0

    @property
    def needed(self) -> int:
        """How many people have to be present before the cuts are made."""
        return people_needed(self._policy)

    def add(self, people: Iterable[tuple[str, Qid]]) -> None:
        """Take in handles and quasi-identifiers of people who are present."""
        pairs = list(people)
        if not pairs:
            return
        self.people += len(pairs)
        tags = self._keyed.tags([handle for handle, _ in pairs])
        new = np.argsort(tags, kind="stable")[:SAMPLE]
        qids = [pairs[at][1] for at in new.tolist()]
        tags = np.concatenate([self._tags, tags[new]])
        kept = np.argsort(tags, kind="stable")[:SAMPLE]
        columns = zip(self._columns, zip(*qids, strict=True), self._dtypes, strict=True)
        self._columns = [np.concatenate([old, np.array(more, dtype=dtype)])[kept] for old, more, dtype in columns]
        self._tags = tags[kept]

    def cuts(self) -> Cuts | None:
        """The cuts; None while there are too few people."""
        return None if self.people < self.needed else Cuts.make(self._policy, self._columns, self._tags)


def people_needed(policy: Policy) -> int:
    """How many people have to be present before the cuts of a table are made."""
    return 4 * policy.shards * (policy.k + policy.headroom)


class _Cut(NamedTuple):
    """A place where a region may be cut: how many shards lie left of it, and how good it is, more being better."""

    attribute: int
    at: Any
    shards: int
    merit: tuple[bool, bool, float, float]


def _best_cut(attributes: Sequence[Attribute], box: Box, sample: Sequence[Column], shards: int) -> _Cut:
    """The best cut of a region into this many shards; the region has room for them."""
    offered = [*_offers(attributes, box, sample, shards)] or [*_offers(attributes, box, None, shards)]
    return max(offered, key=lambda cut: cut.merit)


def _offers(attributes: Sequence[Attribute], box: Box, sample: Sequence[Column] | None, shards: int) -> Iterator[_Cut]:
    """For each attribute the cut that parts the people in proportion; without a sample, one somewhere."""
    room = [_room(attribute, *run) for attribute, run in zip(attributes, box, strict=True)]
    for position, (attribute, run) in enumerate(zip(attributes, box, strict=True)):
        if room[position] < 2:
            continue
        values = None if sample is None else np.sort(sample[position])
        others = 1
        for at, count in enumerate(room):
            others = min(ENDLESS, others * count) if at != position else others
        for at in _places(attribute, run, values, (shards // 2) / shards):
            rooms = [others * _room(attribute, *side) for side in ((run[0], at), (at, run[1]))]
            left = max(1, shards - rooms[1], min(shards // 2, shards - 1, rooms[0]))
            yield _Cut(position, at, left, _merit(attribute, run, at, values, left, shards))


def _merit(
    attribute: Attribute, run: tuple[Any, Any], at: Any, values: Column | None, left: int, shards: int
) -> tuple[bool, bool, float, float]:
    """Whether the shards part evenly, whether people part in proportion, and then worth or, where not, nearness."""
    is_even = left == shards // 2
    if values is None:
        return is_even, False, 0.0, 0.0
    count = int(np.searchsorted(values, at))
    miss = abs(count / len(values) - left / shards)
    low, high = domain(attribute)
    on_left, on_right = (at - run[0]) / (high - low), (run[1] - at) / (high - low)
    gain = count * on_right + (len(values) - count) * on_left
    worth = gain * gain / (count * (len(values) - count)) if 0 < count < len(values) else 0.0
    return (is_even, True, worth, -miss) if miss <= NEAR else (is_even, False, -miss, worth)


def _places(attribute: Attribute, run: tuple[Any, Any], values: Column | None, share: float) -> Iterator[Any]:
    """Where one attribute of a region may be cut: on either side of the person who stands at a share of them."""
    low, high = run
    if attribute.hierarchy is not None:
        parting = attribute.hierarchy.parting_depths()
        depth = shallowest(parting, np.array([low]), np.array([high]))[0]
        starts = low + 1 + np.flatnonzero(parting[low + 1 : high] == depth)
        if values is None:
            yield int(starts[0])
            return
        counts = np.searchsorted(values, starts)
        starts = starts[(counts > 0) & (counts < len(values))]
        counts = np.searchsorted(values, starts)
        if len(starts):
            yield int(starts[np.argmin(np.abs(counts - share * len(values)))])
        return
    if values is None:
        at = roundest_between(low, high) if attribute.kind == "float" else low + (high - low) // 2
        if at is not None:
            yield at
        return
    ends = np.flatnonzero(values[1:] != values[:-1]) + 1  # where another value begins
    if not len(ends):
        return
    after = int(np.searchsorted(ends, share * len(values)))
    for place in ends[max(0, after - 1) : after + 1].tolist():
        below, above = values[place - 1].item(), values[place].item()
        at = roundest_between(below, above) if attribute.kind == "float" else below + (above - below) // 2 + 1
        if at is not None:
            yield min(at, above)


def _room(attribute: Attribute, low: Any, high: Any) -> int:
    """Into how many regions a run can be cut, as far as anybody needs to know."""
    if attribute.kind == "float":
        return ENDLESS if roundest_between(low, high) is not None else 1
    return min(ENDLESS, int(high) - int(low))


def _halves(box: Box, attribute: int, at: Any) -> tuple[Box, Box]:
    low, high = box[attribute]
    before, after = box[:attribute], box[attribute + 1 :]
    return (*before, (low, at), *after), (*before, (at, high), *after)
