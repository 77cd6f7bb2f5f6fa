"""The state of a table between two releases, and the change a release makes to it.

The state is exactly what its records say: `State.load` of `people_records`, `group_records` and `node_records` is the
same state. A release is sealed as a `Change`, which holds only the records that became different; writing those to
Redis and applying them here are the same thing done twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from core.keyed import Keyed
from core.ledger import GroupRecord, Ledger
from core.people import People, Person
from core.policy import Policy
from core.tree import NodeRecord, Tree

ENGINE = "1.0"

__all__ = ["ENGINE", "Change", "GroupRecord", "Meta", "NodeRecord", "Person", "State"]


class Meta(NamedTuple):
    """What is known of the series as a whole. `manifest` is the sha256 of the last manifest, None before the first."""

    release: int
    manifest: str | None
    next_group: int
    max_breach: float
    engine: str
    policy: str


@dataclass(frozen=True)
class Change:
    """What one release changed: the records to be written, nothing else."""

    meta: Meta
    people: dict[str, Person]
    groups: dict[int, GroupRecord]
    nodes: dict[int, NodeRecord]


class State:
    """People, tree and ledger of one table."""

    def __init__(self, policy: Policy, key: bytes, meta: Meta) -> None:
        self.policy, self.meta = policy, meta
        self.keyed = Keyed(key, policy.table)
        self.people = People(policy.attributes, self.keyed)
        self.tree = Tree(policy.attributes)
        self.ledger = Ledger(policy)

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
    ) -> "State":
        """The state these records describe, in whatever order they come."""
        state = cls(policy, key, meta)
        for group, record in groups:
            state.ledger.put(group, record)
        for node, split in sorted(nodes):  # a parent's number is always smaller than its children's
            state.tree.put(node, split)
        state.people.extend(people)
        state.settle()
        return state

    def apply(self, change: Change) -> None:
        """Take over a sealed release, in place; costs what changed."""
        for group, record in change.groups.items():
            self.ledger.put(group, record)
        for node, split in sorted(change.nodes.items()):
            self.tree.put(node, split)
        newcomers = []
        for person_id, person in change.people.items():
            if person_id in self.people.rows:
                self.people.put(person_id, person)
            else:
                newcomers.append((person_id, person))
        self.people.extend(newcomers)
        self.settle()
        self.meta = change.meta

    def settle(self) -> None:
        """Bring everyone's leaf up to date, from wherever in the tree they were last."""
        rows = np.arange(len(self.people))
        self.people.leaf[:] = self.tree.route(self.people.columns, rows, self.people.leaf)

    def people_records(self) -> Iterator[tuple[str, Person]]:
        return self.people.persons(np.arange(len(self.people)))

    def group_records(self) -> Iterator[tuple[int, GroupRecord]]:
        return iter(self.ledger.records().items())

    def node_records(self) -> Iterator[tuple[int, NodeRecord]]:
        return iter(self.tree.records())

    def check_invariants(self) -> None:
        self.tree.check_invariants()
        self.people.check_invariants()
