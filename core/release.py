"""A release as the bytes that are published: group records and, last, the manifest (docs/contract.md, "Releases")."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.groups.ledger import GroupRecord
from shoal.core.measure.loss import Loss
from shoal.core.policy.policy import Policy


@dataclass(frozen=True)
class Members:
    """Who was published where. Private, and sorted only when it is read."""

    ids: Sequence[str] = field(repr=False)
    groups: Sequence[int] = field(repr=False)
    cells: Sequence[int] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """(id, group, cell) of each published person, by id."""
        for person_id, group, cell in sorted(zip(self.ids, self.groups, self.cells, strict=True)):
            yield person_id, f"g{group}", f"c{cell}"


@dataclass(frozen=True)
class Release:
    """What is published under one number, and, private, who its rows are and whose cohorts stand behind them."""

    number: int
    records: tuple[bytes, ...]
    manifest: bytes
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Tally:
    """The counts of a manifest."""

    rows: int
    groups: int
    formed: int
    withheld: int
    unsampled: int
    suppressed: int
    generalized: int
    counterfeits: int


class Tail(NamedTuple):
    """A group's record from its number on, which stays the same while the group is carried and its cells are whole."""

    text: bytes
    suppressed: int
    generalized: int
    counterfeits: int


class GroupWriter:
    """Writes group records."""

    def __init__(self, policy: Policy) -> None:
        hierarchy = policy.sensitive.hierarchy
        self._labels = [json.dumps(label, ensure_ascii=False) + ":" for label in hierarchy.labels]
        self._leaf_nodes = frozenset(hierarchy.leaf_node)
        self._table = json.dumps(policy.table)

    def head(self, number: int) -> bytes:
        """What every record of a release begins with; a tail follows."""
        return f'{{"table":{self._table},"release":{number},"group":"g'.encode()

    def tail(self, group: int, record: GroupRecord, cells: Sequence[str]) -> Tail:
        """Cells stand in the order of their numbers, values in the hierarchy's order, "*" last."""
        labels, shown = self._labels, record.shown
        suppressed = shown[0][1] if shown[0][0] == 0 else 0
        if suppressed:
            shown = (*shown[1:], shown[0])
        values = ",".join([labels[node] + str(count) for node, count in shown])
        text = (
            f'{group}","formed":{record.formed},"cells":[{",".join(cells)}],'
            f'"sensitive":{{{values}}},"counterfeits":{record.counterfeits}}}'
        ).encode()
        raised = [count for node, count in shown if node and node not in self._leaf_nodes]
        return Tail(text, suppressed, sum(raised), record.counterfeits)


def case_ids_json(case_ids: Iterable[str]) -> str:
    """The case ids of a cell, in an order that says nothing: they are hashes."""
    return f',"case_ids":{_compact(sorted(case_ids))}'


def write_manifest(
    policy: Policy,
    number: int,
    previous: str | None,
    records: Sequence[bytes],
    engine: str,
    at: str | None,
    tally: Tally,
    max_breach: float,
    loss: Loss | None,
) -> bytes:
    """The manifest of a release, chained to the one before by its sha256."""
    return _compact(
        {
            "table": policy.table,
            "release": number,
            "previous": previous,
            "policy": policy.digest,
            "content": sha256(b"".join([record + b"\n" for record in records])),
            "engine": engine,
            "published_at": at,
            "rows": tally.rows,
            "groups": tally.groups,
            "formed": tally.formed,
            "carried": tally.groups - tally.formed,
            "withheld": tally.withheld,
            "unsampled": tally.unsampled,
            "suppressed": tally.suppressed,
            "generalized": tally.generalized,
            "counterfeits": tally.counterfeits,
            "max_breach": max_breach,
            "bound": 1 / policy.l,
            "loss": None if loss is None else loss._asdict(),
        }
    ).encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
