"""A release as the bytes that are published: records of cells, groups and what is gone, and, last, the manifest.

docs/contract.md, "Releases", has the format; `core/publication.py` works out what is to be written.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shoal.core.cells.tree import Rows
from shoal.core.measure.loss import Loss
from shoal.core.measure.release_reader import SPARE
from shoal.core.policy.policy import Policy
from shoal.core.published.manifest import FORMAT, content_digest

GONE_AT_ONCE = 1000  # ids in a record of what is gone
NO_VALUE = -1  # the leaf code of a row that stands for no value


@dataclass(frozen=True)
class Members:
    """Who was published where, row by row: private, and read and put in order only when somebody asks.

    `values` are for lasting tables: the leaf code of each row's true value, or `NO_VALUE`. `prefix` is the shard's.
    """

    ids: Callable[[], Sequence[str]] = field(repr=False)
    groups: Rows = field(repr=False)
    cells: Rows = field(repr=False)
    values: Rows | None = field(default=None, repr=False)
    leaves: Sequence[str] = field(default=(), repr=False)
    prefix: str = ""

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        """(id, group, cell) of each published row, by id."""
        for person_id, group, cell in sorted(zip(self.ids(), self.groups.tolist(), self.cells.tolist(), strict=True)):
            yield person_id, f"{self.prefix}g{group}", f"{self.prefix}c{cell}"

    def lines(self) -> Iterator[str]:
        """The lines of the members file (docs/contract.md, "Private files"), by id."""
        return (line for _, line in self.named_lines())

    def named_lines(self) -> Iterator[tuple[str, str]]:
        """Ids and lines, so that those of several shards can be put in order."""
        if self.values is None:
            for person_id, group, cell in self:
                yield person_id, f'{{"id": {_quoted(person_id)}, "group": "{group}", "cell": "{cell}"}}\n'
            return
        labels = {code: _quoted(label) for code, label in enumerate(self.leaves)} | {NO_VALUE: "null"}
        rows = zip(self.ids(), self.groups.tolist(), self.cells.tolist(), self.values.tolist(), strict=True)
        for person_id, number, leaf, value in sorted(rows):
            place = f'"group": "{self.prefix}g{number}", "cell": "{self.prefix}c{leaf}"'
            yield person_id, f'{{"id": {_quoted(person_id)}, {place}, "value": {labels[value]}}}\n'


@dataclass(frozen=True)
class Release:
    """What is published under one number, and, private, who its rows are and whose cohorts stand behind them."""

    number: int
    cells: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    manifest: bytes
    members: Members
    cohorts: Mapping[str, list[list[str]]] = field(default_factory=dict, repr=False)
    gone: tuple[bytes, ...] = ()

    @property
    def records(self) -> tuple[bytes, ...]:
        """All records in the order they are published in, without the manifest."""
        return self.cells + self.groups + self.gone


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
    waiting: int
    generalized: int
    counterfeits: int
    vacant: int


Shown = tuple[tuple[int, int], ...]


class ShownGroup(NamedTuple):
    """What a group's record says beside its cells; `shown` are (node of the sensitive hierarchy, count), by node.

    `spare` is how many of the values have no row: counterfeits in a redrawn table, vacant ones in a lasting one.
    """

    formed: int
    changed: int
    shown: Shown
    spare: int


class Tail(NamedTuple):
    """A group's record from its number on, which stays the same while the group and its cells do."""

    text: bytes
    formed: int
    changed: int
    suppressed: int
    generalized: int
    spare: int
    digest: bytes = b""
    """The sha256 of the record without `release`, in a table that is not plain."""


class Part(NamedTuple):
    """What a manifest says of a shard: how many records are written, its people, and the digest of all its records."""

    shard: int
    region: str
    is_full: bool
    cells: int
    groups: int
    gone: int
    people: int
    digest: bytes

    def json(self) -> str:
        return (
            f'{{"shard":{self.shard},"region":{self.region},"full":{_compact(self.is_full)},"cells":{self.cells},'
            f'"groups":{self.groups},"gone":{self.gone},"people":{self.people},"digest":"{self.digest.hex()}"}}'
        )


class Content(NamedTuple):
    """What a manifest says of the records: their digest and, unless the release is plain, its parts as JSON."""

    digest: str
    parts: str = ""


def plain_content(records: Sequence[bytes]) -> Content:
    """The content of a plain release."""
    return Content(content_digest(records))


def content_of(full_every: int, parts: Sequence[Part]) -> Content:
    """The content of a release of these parts, in the order of their shards."""
    digest = sha256(b"".join([part.digest for part in parts]))
    return Content(digest, f'"full_every":{full_every},"shards":[{",".join([part.json() for part in parts])}],')


def is_full(full_every: int, number: int, shard: int, *, is_first: bool) -> bool:
    """Whether a shard's part of a release holds all of its records; `is_first` if there is none it could differ from.

    Shards take turns, so that releases are of about the same size.
    """
    return is_first or (number + shard) % full_every == 0


class _Values(NamedTuple):
    """What a group shows, as its record says it, and how many of it are "*" or inner nodes."""

    text: str
    suppressed: int
    generalized: int


class RecordWriter:
    """Writes the records of cells and groups of one release; ids begin with the shard's `prefix`, if there is one."""

    def __init__(self, policy: Policy, number: int, prefix: str = "") -> None:
        hierarchy = policy.sensitive.hierarchy
        self._labels = [_quoted(label) + ":" for label in hierarchy.labels]
        self._leaf_nodes = frozenset(hierarchy.leaf_node)
        self._is_plain = policy.is_plain
        self._spare = SPARE[policy.values]
        self._values: dict[Shown, _Values] = {}
        bare = f'{{"table":{_quoted(policy.table)},'
        self._head = f'{bare}"release":{number},'
        cell, group = f'"cell":"{prefix}', f'"group":"{prefix}g'
        self._cell_head, self.group_head = (self._head + cell).encode(), (self._head + group).encode()
        self._bare_cell, self._bare_group = (bare + cell).encode(), (bare + group).encode()

    def cells(self, regions: Iterable[bytes], people: Iterable[int]) -> tuple[bytes, ...]:
        """The records of cells; `regions` come from `Tree.cells_json`."""
        head = self._cell_head
        return tuple([b'%b%b,"people":%d}' % (head, *one) for one in zip(regions, people, strict=True)])

    def cell_digests(self, regions: Iterable[bytes], people: Iterable[int]) -> bytes:
        """The sha256 of each such record without `release`, one after the other."""
        head, digest = self._bare_cell, hashlib.sha256
        pairs = zip(regions, people, strict=True)
        return b"".join([digest(b'%b%b,"people":%d}' % (head, *one)).digest() for one in pairs])

    def gone(self, ids: Sequence[str]) -> tuple[bytes, ...]:
        """The records of ids that are no longer there."""
        starts = range(0, len(ids), GONE_AT_ONCE)
        return tuple(f'{self._head}"gone":{_compact(ids[at : at + GONE_AT_ONCE])}}}'.encode() for at in starts)

    def tail(self, group: int, record: ShownGroup, cells: Iterable[str]) -> Tail:
        """Cells stand in the order of their numbers, values in the hierarchy's order, "*" last."""
        formed, changed, shown, spare = record
        values = self._values.get(shown) or self._write_values(shown)
        text = (
            f'{group}","formed":{formed},"changed":{changed},"cells":{{{",".join(cells)}}},'
            f'"sensitive":{{{values.text}}},"{self._spare}":{spare}}}'
        ).encode()
        digest = b"" if self._is_plain else hashlib.sha256(self._bare_group + text).digest()
        return Tail(text, formed, changed, values.suppressed, values.generalized, spare, digest)

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
    content: Content,
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
    head = _compact(
        {
            "table": policy.table,
            "release": number,
            "format": FORMAT,
            "values": policy.values,
            "previous": previous,
            "policy": policies[0],
            **changed,
            "content": content.digest,
        }
    )
    tail = _compact(
        {
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
            "waiting": tally.waiting,
            "generalized": tally.generalized,
            "counterfeits": tally.counterfeits,
            "vacant": tally.vacant,
            "max_breach": max_breach,
            "bound": 1 / policy.l,
            "loss": None if loss is None else loss._asdict(),
        }
    )
    return f"{head[:-1]},{content.parts}{tail[1:]}".encode()  # regions stand there as cells write them


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
