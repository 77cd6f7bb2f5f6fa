"""The state of a table between two releases, and the change a release makes to it.

The state is exactly what its records say: `State.load` of all of them is the same state. A release is sealed as a
`Change`, which holds only the records that became different; writing those to Redis and applying them here are the same
thing done twice.
"""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from shoal.core.cells.shard import Shard
from shoal.core.cells.tree import NodeRecord, Rows, Tree, top_down
from shoal.core.cohort.clique import Clique, Cohorts
from shoal.core.groups.ledger import GroupRecord, Ledger
from shoal.core.overlap.external import ExternalGroup, Externals, as_external
from shoal.core.people import People
from shoal.core.person import AWAY, NOBODY, NOWHERE, Person
from shoal.core.policy.policy import Policy
from shoal.core.publication import ShownCells
from shoal.core.randomness import Keyed
from shoal.core.release import Tail
from shoal.core.signatures.bonds import Bond, Bonds
from shoal.core.signatures.entries import Entries
from shoal.core.signatures.group import Groups, LastingGroup
from shoal.core.signatures.signature import SignatureRecord, Signatures
from shoal.core.signatures.trail import Trail
from shoal.core.stored import Stored, read_person, write_people, write_person

ENGINE = "3.0"

__all__ = [
    "ENGINE",
    "READERS",
    "RECORDS",
    "WRITERS",
    "Change",
    "Clique",
    "ExternalGroup",
    "GroupRecord",
    "Meta",
    "NodeRecord",
    "Person",
    "State",
    "Stored",
    "WholeChange",
]


class Meta(NamedTuple):
    """What is known of the series as a whole. `manifest` is the sha256 of the last manifest, None before the first.

    `policy` is the digest of the files that the table began with, and manifests name it: a file that means the same may
    take their place (`core/policy/meaning.py`).
    """

    release: int
    manifest: str | None
    next_group: int
    max_breach: float
    engine: str
    policy: str


class LazyPeople(Mapping[str, Person]):
    """The records of some people of a state that is to be, made when somebody reads them.

    Staging a release needs the records as they are stored (`stored`), and few of them one by one.
    """

    def __init__(self, state: "State", rows: Rows) -> None:
        self._state, self._rows = state, rows

    @cached_property
    def _records(self) -> dict[str, Person]:
        return dict(self._state.persons(self._rows))

    def __getitem__(self, person_id: str) -> Person:
        row = self._state.people.row(person_id)
        at = len(self._rows) if row is None else int(np.searchsorted(self._rows, row))
        if at == len(self._rows) or self._rows[at] != row:
            raise KeyError
        return next(self._state.persons(self._rows[at : at + 1]))[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[str, Person]:
        return self._records.items()

    def stored(self) -> Iterator[tuple[str, Stored]]:
        """Ids and records, as they are stored."""
        return self._state.stored_people(self._rows)

    def known_to(self, before: "State") -> Rows:
        """The rows of those whom `before`, from which this state was planned, knew."""
        known = self._rows[self._rows < len(before.people)]
        return np.asarray(known[before.people.status[known] != AWAY])

    def count_new(self, before: "State") -> int:
        """How many of them `before` did not know."""
        return len(self._rows) - len(self.known_to(before))


@dataclass(frozen=True)
class Change:
    """What one release changed: the records to be written, nothing else."""

    meta: Meta
    people: Mapping[str, Person]
    groups: dict[int, GroupRecord] = field(default_factory=dict)
    nodes: dict[int, NodeRecord] = field(default_factory=dict)
    cliques: dict[int, Clique] = field(default_factory=dict)
    externals: dict[int, ExternalGroup] = field(default_factory=dict)
    signatures: dict[int, SignatureRecord] = field(default_factory=dict)
    lasting_groups: dict[int, LastingGroup] = field(default_factory=dict)
    bonds: dict[int, Bond] = field(default_factory=dict)
    departed: tuple[str, ...] = ()
    """Who left for another shard: their records are deleted."""
    after: "State | None" = field(default=None, repr=False, compare=False)
    """What the state becomes, worked out already, for the state that the release was planned from."""


class WholeChange(Change):
    """A change that holds all records of the state, those that did not become different too."""


class State:
    """Everything about one table between two releases.

    People, the tree and what others have published are there in both models; ledger and cohorts belong to a redrawn
    table, trail, entries, signatures, groups and bonds to a lasting one. Its people are called by their ids or, with
    `KeyedByHandle`, by their handles. In a table of several shards it is the state of one `shard`.
    """

    def __init__(
        self,
        policy: Policy,
        key: bytes | Keyed,
        meta: Meta,
        keyed: type[Keyed] = Keyed,
        shard: Shard | None = None,
    ) -> None:
        self.policy, self.meta, self.shard = policy, meta, shard
        self.keyed = key if isinstance(key, Keyed) else keyed(key, policy.table)
        self.people = People(policy.attributes, self.keyed, policy.sampling)
        self.tree = Tree(policy.attributes, shard.box if shard else None)
        self.externals = Externals()
        self.ledger, self.cohorts = Ledger(policy), Cohorts()
        self.trail: Trail = {}
        self.entries, self.signatures, self.groups, self.bonds = Entries(), Signatures(), Groups(), Bonds()
        self.tails: dict[int, Tail] = {}  # what live groups' records looked like; empty is right too, only slower
        self.shown: ShownCells | None = None  # the same of cells, in a table that is not plain
        self._origin: State | None = None

    @classmethod
    def empty(
        cls, policy: Policy, key: bytes | Keyed, keyed: type[Keyed] = Keyed, shard: Shard | None = None
    ) -> "State":
        return cls(policy, key, Meta(0, None, 1, 0.0, ENGINE, policy.digest), keyed, shard)

    @classmethod
    def load(
        cls,
        policy: Policy,
        key: bytes | Keyed,
        meta: Meta,
        keyed: type[Keyed] = Keyed,
        shard: Shard | None = None,
        /,
        **records: Iterable[tuple[Any, Any]],
    ) -> "State":
        """The state that these records describe, given by the names of `Change`'s fields, in any order."""
        state = cls(policy, key, meta, keyed, shard)
        state._write(records)
        return state

    def next(self, **parts: Any) -> "State":
        """A state that differs from this one in these parts, to be taken over by `apply`."""
        twin = object.__new__(State)
        twin.__dict__.update(self.__dict__)
        twin.__dict__.update(parts)
        twin._origin = self
        return twin

    def instead_of(self, planned: "State") -> "State":
        """This state, to be taken over in the place of one that a release has planned."""
        self._origin, self.meta = planned._origin, planned.meta
        return self

    def apply(self, change: Change) -> None:
        """Take over a sealed release, in place; costs what changed, or nothing if it was planned from this state."""
        after = change.after
        if after is not None and after._origin is self and after.meta is self.meta:
            self.__dict__.update(after.__dict__)
            self._origin = None
            self.people.merge()
            self.ledger.merge()
        else:
            self._forget(change.departed)
            self._write({name: getattr(change, name).items() for name in RECORDS})
        self.meta = change.meta

    def _forget(self, departed: Sequence[str]) -> None:
        rows = np.array([row for row in self.people.rows_of(departed) if row is not None], dtype=np.int64)
        self.people.leave(rows)
        self.entries.forget(rows)
        for row in rows.tolist():
            self.trail.pop(row, None)

    def _write(self, records: Mapping[str, Iterable[tuple[Any, Any]]]) -> None:
        self.tails, self.shown = {}, None
        self.cohorts.put(records.get("cliques", ()))
        self.externals.put(records.get("externals", ()))
        self.ledger.extend(sorted(records.get("groups", ())))
        self.ledger.merge()
        self.signatures.put(records.get("signatures", ()))
        self.groups.put(records.get("lasting_groups", ()))
        self.bonds.put(records.get("bonds", ()))
        self.tree.put(top_down(dict(records.get("nodes", ()))))
        self._write_people(records.get("people", ()))

    def _write_people(self, people: Iterable[tuple[str, Person]]) -> None:
        newcomers, changed, exposed = [], [], []
        for person_id, person in people:
            row = self.people.row(person_id)
            if row is None:
                newcomers.append((person_id, person))
                continue
            if person.group not in (NOBODY, self.people.group[row]):
                exposed.append((row, person.group))
            changed.append((row, person))
        first = len(self.people)
        self.people.put(changed)
        self.people.expose(*np.array(exposed, dtype=np.int64).reshape(-1, 2).T)
        self.people.extend(newcomers)
        self.people.merge()
        self.people.settle(self.tree, np.arange(len(self.people)))
        if self.policy.values == "lasting":
            for row, person in changed:
                self.entries.put(row, person.entries)
            mine = [person.entries for _, person in newcomers]
            self.entries.put_all(range(first, len(self.people)), mine)
            everyone = [*changed, *enumerate((person for _, person in newcomers), first)]
            self.trail.update({row: person.trail for row, person in everyone if person.trail})

    def persons(self, rows: Rows) -> Iterator[tuple[str, Person]]:
        """The records of these people."""
        if self.policy.values != "lasting":
            return self.people.persons(rows)
        whole = zip(self.people.persons(rows), self.entries.records(rows), rows.tolist(), strict=True)
        return (
            (person_id, person._replace(entries=entries, trail=self.trail.get(row, ())))
            for (person_id, person), entries, row in whole
        )

    def stored_people(self, rows: Rows) -> Iterator[tuple[str, Stored]]:
        """The same as they are stored."""
        if self.policy.values == "lasting":
            return write_people(self.people, self.entries, self.trail, rows)
        return ((person_id, write_person(person)) for person_id, person in self.people.persons(rows))

    def records(self, name: str) -> Iterable[tuple[Any, Any]]:
        """All records of a kind, by the name of `Change`'s field."""
        return RECORDS[name](self)

    def check_invariants(self) -> None:
        self.tree.check_invariants()
        self.people.check_invariants()
        for node in np.unique(self.people.coarse[self.people.coarse != NOWHERE]).tolist():
            rows = np.flatnonzero(self.people.coarse == node)
            assert not self.tree.is_leaf(node)
            assert bool(np.all(self.tree.is_inside(node, self.people.columns, rows)))
            assert bool(np.all(self.people.leaf[np.intersect1d(rows, self.people.present())] == node))
        self.cohorts.check_invariants(self.policy.participation == "all")
        self.entries.check_invariants(self.signatures)


RECORDS: Final[Mapping[str, Callable[[State], Iterable[tuple[Any, Any]]]]] = {
    "people": lambda state: state.persons(state.people.here()),
    "groups": lambda state: state.ledger.records().items(),
    "nodes": lambda state: state.tree.records(),
    "cliques": lambda state: sorted(state.cohorts.cliques.items()),
    "externals": lambda state: state.externals.records().items(),
    "signatures": lambda state: state.signatures.records(),
    "lasting_groups": lambda state: state.groups.records(),
    "bonds": lambda state: sorted(state.bonds.bonds.items()),
}
"""The kinds of records that a state is made of, by the names of `Change`'s fields."""

WRITERS: Final[Mapping[str, Callable[[Any], tuple[Any, ...]]]] = {
    **dict.fromkeys(RECORDS, tuple),
    "people": write_person,
}
"""What makes the fields of a record of each kind, in the order in which they are stored."""

READERS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "people": read_person,
    "groups": lambda raw: GroupRecord(*raw),
    "nodes": lambda raw: NodeRecord(*raw),
    "cliques": lambda raw: Clique(*raw),
    "externals": as_external,
    "signatures": lambda raw: SignatureRecord(*raw),
    "lasting_groups": lambda raw: LastingGroup(*raw),
    "bonds": lambda raw: Bond(*raw),
}
"""The inverse: what makes a record of each kind from its stored fields."""
