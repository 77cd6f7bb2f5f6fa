"""What Bu's section V compares with: two publishers that promise something of each release, or of each record.

`LDiversity` publishes every release by itself: Mondrian classes of at least k people in which nobody's value is held by
more than one in l. `MInvariance` is Xiao and Tao's (2007): every group shows at least m different values, each once,
and a record is shown with the same values, its *signature*, for as long as it is there without a break; counterfeits
stand in where nobody has a value. A record is one value of one person. It is record-based (Bu, section III): a value
that changes is another record, and so is one that comes back. Neither knows of permanent values.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy
from tests.experiments.mondrian import Points, cut
from tests.experiments.series import Table
from tests.experiments.sheet import Sheet, boxes_of, number_of

Record: TypeAlias = tuple[int, int]  # person and value
Signature: TypeAlias = tuple[int, ...]  # values, in order
Bucket: TypeAlias = dict[int, list[Record | None]]  # by value of the signature: records, None for a counterfeit


class LDiversity:
    """Publishes each table without a thought for the others."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def publish(self, table: Table) -> Sheet:
        people = np.array([number_of(person) for person in table], dtype=np.int64)
        points = np.array([qid for qid, _ in table.values()], dtype=np.int64)
        held = np.full((len(table), max(len(values) for _, values in table.values())), -1, dtype=np.int64)
        for row, (_, values) in enumerate(table.values()):
            held[row, : len(values)] = values

        def is_diverse(rows: Rows) -> bool:
            values = held[rows]
            _, counts = np.unique(values[values >= 0], return_counts=True)
            return bool(counts.max() * self._policy.l <= len(rows))

        everyone = np.arange(len(table))
        width = np.maximum(1, points.max(axis=0) - points.min(axis=0))
        group = np.empty(len(table), dtype=np.int64)
        count = 0
        for count, rows in enumerate(cut(points, everyone, self._policy.k, width, is_diverse), start=1):
            group[rows] = count - 1
        holder, place = np.nonzero(held >= 0)
        none = np.zeros(count, dtype=np.int64)
        published = _published(self._policy, points, group, none, group[holder], held[holder, place])
        return Sheet(published, people, group, group)


class MInvariance:
    """Publishes a table after the other, and remembers the signature of every record that was in the last one."""

    def __init__(self, policy: Policy, seed: int = 2007, m: int | None = None) -> None:
        """m is l unless it is given."""
        self._policy, self._m = policy, int(policy.l) if m is None else m
        self._random = np.random.default_rng(seed)
        self.signatures: dict[Record, Signature] = {}

    def publish(self, table: Table) -> Sheet:
        """Divides, balances, assigns and splits (Xiao and Tao, section 5)."""
        qids = {number_of(person): qid for person, (qid, _) in table.items()}
        records = [(number_of(person), value) for person, (_, values) in table.items() for value in values]
        buckets: defaultdict[Signature, Bucket] = defaultdict(lambda: defaultdict(list))
        fresh: defaultdict[int, list[Record]] = defaultdict(list)
        for place in self._random.permutation(len(records)).tolist():
            record = records[place]
            signature = self.signatures.get(record)
            if signature is None:
                fresh[record[1]].append(record)
            else:
                buckets[signature][record[1]].append(record)
        self._balance(buckets, fresh)
        for signature, bucket in self._assign(fresh):
            for value in signature:
                buckets[signature][value] += bucket[value]
        self.signatures = {
            record: signature
            for signature, bucket in buckets.items()
            for column in bucket.values()
            for record in column
            if record is not None
        }
        widths = [float(attribute.high - attribute.low) for attribute in self._policy.attributes]
        groups = [group for bucket in buckets.values() for group in _split(bucket, qids, widths)]
        return self._sheet(groups, qids)

    @staticmethod
    def _balance(buckets: dict[Signature, Bucket], fresh: dict[int, list[Record]]) -> None:
        """Makes the values of each bucket equally frequent: with new records, or else with counterfeits."""
        for signature, bucket in buckets.items():
            most = max(map(len, bucket.values()))
            for value in signature:
                column, spare = bucket[value], fresh.get(value, [])
                while len(column) < most:
                    column.append(spare.pop() if spare else None)

    def _assign(self, fresh: dict[int, list[Record]]) -> Iterator[tuple[Signature, Bucket]]:
        """New buckets for the other new records; counterfeits where fewer than m values are left."""
        left = sum(map(len, fresh.values()))
        heap = [(-len(records), value) for value, records in fresh.items() if records]
        heapify(heap)
        while heap:
            taken, each = self._take(heap, left)
            bucket: Bucket = {}
            for count, value in taken:
                bucket[value] = [fresh[value].pop() for _ in range(each)]
                if -count > each:
                    heappush(heap, (count + each, value))
            left -= each * len(taken)
            for value in range(self._m):  # any other values will do
                if len(bucket) < self._m and value not in bucket:
                    bucket[value] = [None] * each
            yield tuple(sorted(bucket)), bucket

    def _take(self, heap: list[tuple[int, int]], left: int) -> tuple[list[tuple[int, int]], int]:
        """The b most frequent values off the heap, and how many records a bucket takes of each.

        b is m, or more if need be; a bucket takes as many as leave no value with more than one in m of the rest.
        """
        m = self._m
        taken = [heappop(heap) for _ in range(min(m, len(heap)))]
        while len(taken) >= m:
            fullest, b, following = -taken[0][0], len(taken), -heap[0][0] if heap else 0
            each = min(-taken[-1][0], (left - m * following) // b)
            if b > m:
                each = min(each, (left - m * fullest) // (b - m))
            if each >= 1:
                return taken, each
            if not heap:
                break
            taken.append(heappop(heap))
        return taken, 1

    def _sheet(
        self, groups: Sequence[Sequence[tuple[int, Record | None]]], qids: Mapping[int, Sequence[float]]
    ) -> Sheet:
        rows = [(record[0], at) for at, columns in enumerate(groups) for _, record in columns if record is not None]
        person, group = np.array(rows, dtype=np.int64).T
        counterfeits = np.array([sum(record is None for _, record in columns) for columns in groups], dtype=np.int64)
        shown = [(at, value) for at, columns in enumerate(groups) for value, _ in columns]
        shown_group, shown_value = np.array(shown, dtype=np.int64).T
        points = np.array([qids[who] for who in person.tolist()], dtype=np.int64)
        published = _published(self._policy, points, group, counterfeits, shown_group, shown_value)
        return Sheet(published, person, group, group, is_by_person=False)


def _split(
    bucket: Bucket, qids: Mapping[int, Sequence[float]], widths: Sequence[float]
) -> Iterator[list[tuple[int, Record | None]]]:
    """Groups with one record of each value, neighbours in space; one of counterfeits alone is not published."""
    waiting = [bucket]
    while waiting:
        part = waiting.pop()
        size = len(next(iter(part.values())))
        if size == 1:
            group = [(value, column[0]) for value, column in part.items()]
            if any(record is not None for _, record in group):
                yield group
            continue
        points = [qids[record[0]] for column in part.values() for record in column if record is not None]
        axis = _widest(points, widths) if points else 0

        def along(record: Record | None, axis: int = axis) -> float:
            return -1.0 if record is None else qids[record[0]][axis]

        columns = {value: sorted(column, key=along) for value, column in part.items()}
        half = size // 2
        waiting.append({value: column[:half] for value, column in columns.items()})
        waiting.append({value: column[half:] for value, column in columns.items()})


def _widest(points: Sequence[Sequence[float]], widths: Sequence[float]) -> int:
    columns = list(zip(*points, strict=True))
    return max(range(len(columns)), key=lambda axis: (max(columns[axis]) - min(columns[axis])) / widths[axis])


def _published(
    policy: Policy, points: Points, group: Rows, counterfeits: Rows, shown_group: Rows, shown_value: Rows
) -> ReleaseColumns:
    """A release of groups, each with the bounding box of its rows as its only cell."""
    groups = len(counterfeits)
    names = tuple(f"g{at}" for at in range(groups))
    low, high = boxes_of(points, group, groups)
    rows = np.bincount(group, minlength=groups)
    nodes = np.array(policy.sensitive.hierarchy.leaf_node, dtype=np.int64)[shown_value]
    shown = Counter(zip(shown_group.tolist(), nodes.tolist(), strict=True))
    pairs = np.array(list(shown), dtype=np.int64)
    return ReleaseColumns(
        policy=policy,
        group_names=names,
        formed=np.ones(groups, dtype=np.int64),
        group_rows=rows,
        spare=counterfeits,
        cell_names=names,
        cell_people=rows,
        low=tuple(low.T),
        high=tuple(high.T),
        cell_rows_group=np.arange(groups),
        cell_rows_cell=np.arange(groups),
        cell_rows_count=rows,
        shown_group=pairs[:, 0],
        shown_node=pairs[:, 1],
        shown_count=np.array(list(shown.values())),
    )
