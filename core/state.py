"""The state of a table between two releases, and the change a release makes to it.

The state is exactly what its records say: `State.load` of `people_records`, `group_records`, `node_records`,
`clique_records` and `external_records` is the same state. A release is sealed as a `Change`, which holds only the
records that became different; writing those to Redis and applying them here are the same thing done twice.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from shoal.core.cells.tree import NodeRecord, Rows, Tree
from shoal.core.cohort.clique import Clique, Cohorts
from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.overlap.external import ExternalGroup, Externals
from shoal.core.people import NOBODY, NOWHERE, People, Person
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.release import Tail

ENGINE = "2.0"

__all__ = ["ENGINE", "Change", "Clique", "ExternalGroup", "GroupRecord", "Meta", "NodeRecord", "Person", "State"]


class Meta(NamedTuple):
    """What is known of the series as a whole. `manifest` is the sha256 of the last manifest, None before the first."""

    release: int
    manifest: str | None
    next_group: int
    max_breach: float
    engine: str
    policy: str


class After(NamedTuple):
    """What a plan worked on, and the state it started from: the same content as the records, ready to be taken over."""

    origin: "State"
    release: int
    people: People
    tree: Tree
    ledger: Ledger
    tails: dict[int, Tail]
    cohorts: Cohorts
    externals: Externals


class LazyPeople(Mapping[str, Person]):
    """The records of some rows, made when somebody reads them."""

    def __init__(self, people: People, rows: Rows) -> None:
        self._people, self._rows = people, rows

    @cached_property
    def _records(self) -> dict[str, Person]:
        return dict(self._people.persons(self._rows))

    def __getitem__(self, person_id: str) -> Person:
        return self._records[person_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[str, Person]:
        return self._records.items()


@dataclass(frozen=True)
class Change:
    """What one release changed: the records to be written, nothing else."""

    meta: Meta
    people: Mapping[str, Person]
    groups: dict[int, GroupRecord]
    nodes: dict[int, NodeRecord]
    cliques: dict[int, Clique] = field(default_factory=dict)
    externals: dict[int, ExternalGroup] = field(default_factory=dict)
    after: After | None = field(default=None, repr=False, compare=False)


class State:
    """People, tree, ledger and cohorts of one table, and what others have published beside it."""

    def __init__(self, policy: Policy, key: bytes, meta: Meta) -> None:
        self.policy, self.meta = policy, meta
        self.keyed = Keyed(key, policy.table)
        self.people = People(policy.attributes, self.keyed, policy.sampling)
        self.tree = Tree(policy.attributes)
        self.ledger = Ledger(policy)
        self.cohorts = Cohorts()
        self.externals = Externals()
        self.tails: dict[int, Tail] = {}  # what live groups' records looked like; empty is right too, only slower

    @classmethod
    def empty(cls, policy: Policy, key: bytes) -> "State":
        return cls(policy, key, Meta(0, None, 1, 0.0, ENGINE, policy.digest))

    @classmethod
    def load(
        cls,
        policy: Policy,
        key: bytes,
        meta: Meta,
        people: Iterable[tuple[str, Person]],
        groups: Iterable[tuple[int, GroupRecord]],
        nodes: Iterable[tuple[int, NodeRecord]],
        cliques: Iterable[tuple[int, Clique]] = (),
        externals: Iterable[tuple[int, ExternalGroup]] = (),
    ) -> "State":
        """The state these records describe, in whatever order they come."""
        state = cls(policy, key, meta)
        state._write(people, groups, nodes, cliques, externals)
        return state

    def apply(self, change: Change) -> None:
        """Take over a sealed release, in place; costs what changed, or nothing if it was planned from this state."""
        after = change.after
        if after is not None and after.origin is self and after.release == self.meta.release:
            self.people, self.tree, self.ledger, self.tails = after.people, after.tree, after.ledger, after.tails
            self.cohorts, self.externals = after.cohorts, after.externals
            self.people.merge()
            self.ledger.merge()
        else:
            self._write(
                change.people.items(),
                change.groups.items(),
                change.nodes.items(),
                change.cliques.items(),
                change.externals.items(),
            )
        self.meta = change.meta

    def _write(
        self,
        people: Iterable[tuple[str, Person]],
        groups: Iterable[tuple[int, GroupRecord]],
        nodes: Iterable[tuple[int, NodeRecord]],
        cliques: Iterable[tuple[int, Clique]],
        externals: Iterable[tuple[int, ExternalGroup]],
    ) -> None:
        self.tails = {}
        self.cohorts.put(cliques)
        self.externals.put(externals)
        self.ledger.extend(sorted(groups))
        self.ledger.merge()
        self.tree.put(sorted(nodes))  # a parent's number is always smaller than its children's
        newcomers, changed, exposed = [], [], []
        for person_id, person in people:
            row = self.people.row(person_id)
            if row is None:
                newcomers.append((person_id, person))
                continue
            if person.group not in (NOBODY, self.people.group[row]):
                exposed.append((row, person.group))
            changed.append((row, person))
        self.people.put(changed)
        self.people.expose(*np.array(exposed, dtype=np.int64).reshape(-1, 2).T)
        self.people.extend(newcomers)
        self.people.merge()
        self.people.settle(self.tree, np.arange(len(self.people)))

    def people_records(self) -> Iterator[tuple[str, Person]]:
        return self.people.persons(np.arange(len(self.people)))

    def group_records(self) -> Iterator[tuple[int, GroupRecord]]:
        return iter(self.ledger.records().items())

    def node_records(self) -> Iterator[tuple[int, NodeRecord]]:
        return iter(self.tree.records())

    def clique_records(self) -> Iterator[tuple[int, Clique]]:
        return iter(sorted(self.cohorts.cliques.items()))

    def external_records(self) -> Iterator[tuple[int, ExternalGroup]]:
        return iter(self.externals.records().items())

    def check_invariants(self) -> None:
        self.tree.check_invariants()
        self.people.check_invariants()
        for node in np.unique(self.people.coarse[self.people.coarse != NOWHERE]).tolist():
            rows = np.flatnonzero(self.people.coarse == node)
            assert not self.tree.is_leaf(node)
            assert bool(np.all(self.tree.is_inside(node, self.people.columns, rows)))
            assert bool(np.all(self.people.leaf[np.intersect1d(rows, self.people.present())] == node))
        self.cohorts.check_invariants(self.policy.participation == "all")
