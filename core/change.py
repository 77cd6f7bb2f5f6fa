"""A change of policy: the release at which it is made, and how everything stored is converted.

The release itself is planned with the leaves as they were, because its events were judged by them, and with the new
numbers (k, headroom, batch …). Then the state is translated. Leaves and nodes are stored as numbers in the order
of their hierarchy. New ones stand behind their older siblings, so old numbers keep their order and only move apart.

*Regions.* Every region is, in each hierarchy, a node or a run of siblings. A new leaf below a node belongs to every
region that names this node or one above it; their bytes stay the same. A run of siblings is parted from the new ones
beside it: a new node takes its place in the tree, with the run and a cell of the new leaves below it. That cell is
closed until k people are in it. So a person's region only ever gets finer, and a cell's id always means the same
region. A shard's region may be such a run itself. Then the new node is the root of the shard's tree, and the new leaves
belong to this shard, because the cuts keep their places between old labels.

*Signatures.* A value that was not shown by then began before the new leaves were there. Under a signature with a new
leaf that leaf could be excluded. So these entries stay "*" for their spell, whatever their value.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from shoal.core.cells.region import domain
from shoal.core.cells.shard import Box, Shard
from shoal.core.cells.tree import NodeRecord, Rows, Tree
from shoal.core.cohort.clique import Clique
from shoal.core.errors import CoreError
from shoal.core.events.guard import EMPTY, Guard
from shoal.core.groups.ledger import GroupRecord
from shoal.core.overlap.external import ExternalGroup
from shoal.core.person import Person, Qid
from shoal.core.policy.difference import differences
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.core.signatures.bonds import Bond
from shoal.core.signatures.entries import HELD, NO_SIGNATURE, STARRED, EntryRecord
from shoal.core.signatures.group import CLIQUE_GROUP, PLAIN_GROUP, LastingGroup
from shoal.core.signatures.signature import SignatureRecord
from shoal.core.signatures.trail import EVERYWHERE
from shoal.core.state import RECORDS, Change, LazyPeople, State, WholeChange

NUMBERS: Final = ("k", "batch", "strategy", "headroom", "search", "triggers", "full_every")
"""The fields that may change and need no translation."""


def interim(old: Policy, new: Policy) -> Policy:
    """What the release itself is made under: old leaves, new numbers. Raises CoreError if `new` may not follow."""
    refused = [str(difference) for difference in differences(old, new) if not difference.is_allowed]
    if refused:
        raise CoreError(f"the policy cannot be changed like this: {'; '.join(refused)}")
    return replace(old, **{name: getattr(new, name) for name in NUMBERS}, digest=new.digest)


def translated(change: Change, policy: Policy) -> Change:
    """What becomes of the state, where `policy` has taken over. Holds all records if there are new labels."""
    after = change.after
    assert after is not None
    if not has_new_labels(after.policy, policy):
        after.policy = policy
        return change
    state = Translation(after.policy, policy).state(after)
    records: dict[str, Any] = {name: dict(state.records(name)) for name in RECORDS if name != "people"}
    everyone = LazyPeople(state, np.arange(len(state.people)))
    return WholeChange(change.meta, everyone, **records, departed=change.departed, after=state)


def has_new_labels(old: Policy, new: Policy) -> bool:
    """Whether what is stored has to be translated."""
    pairs = zip(old.attributes, new.attributes, strict=True)
    return old.sensitive != new.sensitive or any(before != after for before, after in pairs)


class Translation:
    """From the numbers of one policy's hierarchies to those of another, which has more labels."""

    def __init__(self, old: Policy, new: Policy) -> None:
        self._old, self._new = old, new
        self._columns = [
            None if before.hierarchy is None or after.hierarchy is None else _codes(before.hierarchy, after.hierarchy)
            for before, after in zip(old.attributes, new.attributes, strict=True)
        ]
        was, now = old.sensitive.hierarchy, new.sensitive.hierarchy
        self._values = _codes(was, now)  # also of the blank value, which stands behind the last
        self._nodes = [now.node_of[label] for label in was.labels]
        self._is_longer = len(now.leaves) > len(was.leaves)

    def state(self, after: State) -> State:
        """The same state under the new policy, to be taken over by the state that `after` was planned from."""
        translate: Mapping[str, Callable[[Any], Any]] = {
            "people": self._person,
            "groups": self._group,
            "cliques": self._clique,
            "externals": self._external,
            "signatures": self._signature,
            "lasting_groups": self._lasting_group,
            "bonds": self._bond,
        }
        records: dict[str, Iterable[tuple[Any, Any]]] = {
            name: [(key, one(record)) for key, record in after.records(name)] for name, one in translate.items()
        }
        shard = after.shard
        if shard is not None and shard.box is not None:
            shard = Shard(shard.number, self._box(shard.box))
        whole = tuple(map(domain, self._new.attributes)) if shard is None or shard.box is None else shard.box
        nodes = self._nodes_of(after.tree, whole)
        return State.load(self._new, after.keyed, after.meta, Keyed, shard, nodes=nodes.items(), **records).instead_of(
            after
        )

    # -- regions ------------------------------------------------------------------------------------------------------

    def _box(self, box: Box) -> Box:
        return tuple(
            run if codes is None else (int(codes[int(run[0])]), int(codes[int(run[1])]))
            for run, codes in zip(box, self._columns, strict=True)
        )

    def _nodes_of(self, old: Tree, whole: Box) -> dict[int, NodeRecord]:
        """The tree's records, with a new node above each that would name new labels, which are its other child. `whole`
        is the tree's region now.
        """
        records = {node: self.node(record) for node, record in old.records()}
        size, waiting = old.size, list[tuple[int, Box]]()

        def part_off(node: int, box: Box) -> int:
            """The new nodes above one, the first of which is returned; `box` is what all of them are to cover."""
            nonlocal size
            chain, first = self._tears(box), size
            for turn, (position, cut) in enumerate(chain):
                below = node if turn == len(chain) - 1 else size + 2
                records[size] = NodeRecord(position, cut, below, size + 1)
                box = _halves(box, records[size])[0]
                size += 2
            waiting.append((node, box))
            return first if chain else node

        part_off(old.root, whole)
        while waiting:
            node, box = waiting.pop()
            record = records.get(node)
            if record is not None:
                left, right = _halves(box, record)
                records[node] = record._replace(left=part_off(record.left, left), right=part_off(record.right, right))
        return records

    def node(self, record: NodeRecord) -> NodeRecord:
        """The same cut."""
        codes = self._columns[record.attribute]
        return record if codes is None else record._replace(cut=int(codes[int(record.cut)]))

    def _tears(self, box: Box) -> list[tuple[int, int]]:
        """(attribute, cut) wherever a region would name new labels beside its old ones."""
        found = []
        for position, ((low, high), codes) in enumerate(zip(box, self._columns, strict=True)):
            was, now = self._old.attributes[position].hierarchy, self._new.attributes[position].hierarchy
            if codes is None or was is None or now is None:
                continue
            begin, end = np.searchsorted(codes[:-1], (low, high)).tolist()
            if begin < end and now.fewest_labels(int(low), int(high)) != (labels := was.fewest_labels(begin, end)):
                found.append((position, now.last[now.node_of[labels[-1]]]))
        return found

    def _qid(self, qid: Qid) -> Qid:
        return tuple(
            number if codes is None else int(codes[int(number)])
            for number, codes in zip(qid, self._columns, strict=True)
        )

    # -- records ------------------------------------------------------------------------------------------------------

    def _person(self, person: Person) -> Person:
        guard = person.guard
        if guard is not None and guard.node != EMPTY:
            guard = Guard(self._nodes[guard.node], guard.bound)
        return person._replace(
            qid=self._qid(person.qid),
            values=self._leaves(person.values),
            held=self._leaves(person.held),
            guard=guard,
            entries=tuple(self._entry(EntryRecord(*entry)) for entry in person.entries),
            trail=tuple(self._qid(tuple(qid)) if qid else EVERYWHERE for qid in person.trail),
        )

    def _entry(self, entry: EntryRecord) -> EntryRecord:
        if entry.value < 0:  # of somebody erased
            return entry
        hidden = entry.flags & HELD and entry.signature == NO_SIGNATURE
        if self._is_longer and hidden and entry.value not in self._old.sensitive.open:
            entry = entry._replace(flags=entry.flags | STARRED)
        return entry._replace(value=int(self._values[entry.value]))

    def _leaves(self, values: Iterable[int]) -> tuple[int, ...]:
        return tuple(int(self._values[value]) for value in values)

    def _shown(self, shown: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        return tuple((self._nodes[node], count) for node, count in shown)

    def _group(self, group: GroupRecord) -> GroupRecord:
        return group._replace(shown=self._shown(group.shown))

    def _clique(self, clique: Clique) -> Clique:
        return clique._replace(value=int(self._values[clique.value]))

    def _external(self, group: ExternalGroup) -> ExternalGroup:
        """What others named as a node has its new leaves too; a run of siblings takes in the new ones behind it."""
        regions = tuple(
            tuple(
                runs if codes is None else tuple((int(codes[int(low)]), int(codes[int(high)])) for low, high in runs)
                for runs, codes in zip(region, self._columns, strict=True)
            )
            for region in group.regions
        )
        return group._replace(regions=regions, shown=self._shown(group.shown))

    def _signature(self, signature: SignatureRecord) -> SignatureRecord:
        return signature._replace(values=self._leaves(signature.values))

    def _lasting_group(self, group: LastingGroup) -> LastingGroup:
        if group.kind not in (PLAIN_GROUP, CLIQUE_GROUP):
            return group
        return group._replace(value=int(self._values[group.value]))

    def _bond(self, bond: Bond) -> Bond:
        return bond._replace(value=int(self._values[bond.value]))


def _halves(box: Box, record: NodeRecord) -> tuple[Box, Box]:
    """The two regions that a cut makes of one."""
    low, high = box[record.attribute]
    before, after = box[: record.attribute], box[record.attribute + 1 :]
    return (*before, (low, record.cut), *after), (*before, (record.cut, high), *after)


def _codes(old: Hierarchy, new: Hierarchy) -> Rows:
    """By old leaf code the new one, and at the end the number of leaves."""
    return np.array([*(new.leaf_code[label] for label in old.leaves), len(new.leaves)], dtype=np.int64)
