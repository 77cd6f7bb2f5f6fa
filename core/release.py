"""A release as the bytes that are published: records of cells, records of groups and, last, the manifest.

docs/contract.md, "Releases", has the format; `core/publication.py` works out what is to be written.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.cells.tree import Rows
from shoal.core.measure.loss import Loss
from shoal.core.policy.policy import Policy
from shoal.core.schema import FORMAT

HASHED_AT_ONCE = 1000  # records: one buffer for all would be as large as the release
NO_VALUE = -1  # the leaf code of a row that stands for no value


@dataclass(frozen=True)
class Members:
    """Who was published where, row by row: private, and read and put in order only when somebody asks.

    `values` are for lasting tables: the leaf code of each row's true value, or `NO_VALUE`.
    """

    ids: Callable[[], Sequence[str]] = field(repr=False)
    groups: Rows = field(repr=False)
    cells: Rows = field(repr=False)
    values: Rows | None = field(default=None, repr=False)
    leaves: Sequence[str] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """(id, group, cell) of each published row, by id."""
        for person_id, group, cell in sorted(zip(self.ids(), self.groups.tolist(), self.cells.tolist(), strict=True)):
            yield person_id, f"g{group}", f"c{cell}"

    def lines(self) -> Iterator[str]:
        """The lines of the members file (docs/contract.md, "Private files"), by id."""
        if self.values is None:
            for person_id, group, cell in self:
                yield f'{{"id": {_quoted(person_id)}, "group": "{group}", "cell": "{cell}"}}\n'
            return
        labels = {code: _quoted(label) for code, label in enumerate(self.leaves)} | {NO_VALUE: "null"}
        rows = zip(self.ids(), self.groups.tolist(), self.cells.tolist(), self.values.tolist(), strict=True)
        for person_id, number, leaf, value in sorted(rows):
            place = f'"group": "g{number}", "cell": "c{leaf}"'
            yield f'{{"id": {_quoted(person_id)}, {place}, "value": {labels[value]}}}\n'


@dataclass(frozen=True)
class Release:
    """What is published under one number, and, private, who its rows are and whose cohorts stand behind them."""

    number: int
    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    manifest: bytes
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(default_factory=dict, repr=False)

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records in the order they are published in, without the manifest."""
        return self.cells + self.groups


@dataclass(frozen=True)
class Tally:
    """The counts of a manifest. A row is a person in a redrawn table and an entry in a lasting one."""

    people: int
    rows: int
    cells: int
    groups: int
    formed: int
    carried: int
    withheld: int
    unsampled: int
    suppressed: int
    generalized: int
    counterfeits: int


Shown = tuple[tuple[int, int], ...]


class ShownGroup(NamedTuple):
    """What a group's record says beside its cells; `shown` are (node of the sensitive hierarchy, count), by node."""

    formed: int
    changed: int
    shown: Shown
    counterfeits: int


class Tail(NamedTuple):
    """A group's record from its number on, which stays the same while the group and its cells do."""

    text: bytes
    formed: int
    changed: int
    suppressed: int
    generalized: int
    counterfeits: int


class _Values(NamedTuple):
    """What a group shows, as its record says it, and how many of it are "*" or inner nodes."""

    text: str
    suppressed: int
    generalized: int


class RecordWriter:
    """Writes the records of cells and groups of one release."""

    def __init__(self, policy: Policy, number: int) -> None:
        hierarchy = policy.sensitive.hierarchy
        self._labels = [_quoted(label) + ":" for label in hierarchy.labels]
        self._leaf_nodes = frozenset(hierarchy.leaf_node)
        head = f'{{"table":{_quoted(policy.table)},"release":{number}'
        self._values: dict[Shown, _Values] = {}
        self._cell_head, self.group_head = f'{head},"cell":"'.encode(), f'{head},"group":"g'.encode()

    def cells(self, regions: Iterable[bytes], people: Iterable[int]) -> tuple[bytes, ...]:
        """The records of cells; `regions` come from `Tree.cells_json`."""
        head = self._cell_head
        return tuple([b'%b%b,"people":%d}' % (head, *one) for one in zip(regions, people, strict=True)])

    def tail(self, group: int, record: ShownGroup, cells: Iterable[str]) -> Tail:
        """Cells stand in the order of their numbers, values in the hierarchy's order, "*" last."""
        formed, changed, shown, counterfeits = record
        values = self._values.get(shown) or self._write_values(shown)
        text = (
            f'{group}","formed":{formed},"changed":{changed},"cells":{{{",".join(cells)}}},'
            f'"sensitive":{{{values.text}}},"counterfeits":{counterfeits}}}'
        ).encode()
        return Tail(text, formed, changed, values.suppressed, values.generalized, counterfeits)

    def _write_values(self, shown: Shown) -> "_Values":
        """Many groups show the same, so what is written is kept."""
        suppressed = shown[0][1] if shown[0][0] == 0 else 0
        in_order = (*shown[1:], shown[0]) if suppressed else shown
        text = ",".join([self._labels[node] + str(count) for node, count in in_order])
        generalized = sum([count for node, count in shown if node and node not in self._leaf_nodes])
        written = self._values[shown] = _Values(text, suppressed, generalized)
        return written


def case_ids_json(case_ids: Iterable[str]) -> str:
    """The case ids of a group's rows in one cell, in an order that says nothing: they are hashes."""
    return _compact(sorted(case_ids))


def write_manifest(
    policy: Policy,
    policies: tuple[str, str | None],
    number: int,
    previous: str | None,
    records: Sequence[bytes],
    engine: str,
    at: str | None,
    tally: Tally,
    max_breach: float,
    loss: Loss | None,
) -> bytes:
    """The manifest of a release, chained to the one before by its sha256.

    `policies` are the digest of the policy's files and, where they changed with this release, that of those before.
    """
    changed = {} if policies[1] is None else {"previous_policy": policies[1]}
    return _compact(
        {
            "table": policy.table,
            "release": number,
            "format": FORMAT,
            "values": policy.values,
            "previous": previous,
            "policy": policies[0],
            **changed,
            "content": content_digest(records),
            "engine": engine,
            "published_at": at,
            "people": tally.people,
            "rows": tally.rows,
            "cells": tally.cells,
            "groups": tally.groups,
            "formed": tally.formed,
            "carried": tally.carried,
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


def content_digest(records: Sequence[bytes]) -> str:
    """The sha256 of records, each followed by a newline."""
    digest = hashlib.sha256()
    for start in range(0, len(records), HASHED_AT_ONCE):
        digest.update(b"\n".join([*records[start : start + HASHED_AT_ONCE], b""]))
    return digest.hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
