"""Other publishers beside a lasting table: which people are in their groups, and what that asks of signatures.

(docs/design.md, "Values that last", other publishers.) Somebody is in a component of others' groups if their
quasi-identifiers were ever in one of its regions. Values are cut into *blocks* of at least max(m, alpha) that each of
these groups shows equally often, and that no signature given to somebody in them tells apart. Entries of these people
that were not shown before take the block of their value; if any value has no block, they are all "*".

When a publication arrives, or somebody moves into one, their signatures may be told apart by it. One stays only if each
part of it that the others show equally often has at least max(alpha, j·l) values, times the number of values the person
has. Otherwise its entries are "*" from then on. The groups of all these people take no newcomers and keep their rounds.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.overlap.external import Externals
from shoal.core.people import People
from shoal.core.policy.policy import Policy
from shoal.core.signatures.components import Components, components_of
from shoal.core.signatures.entries import BARRED, HELD, NO_GROUP, Entries
from shoal.core.signatures.signature import Signatures
from shoal.core.signatures.trail import EVERYWHERE, Trail
from shoal.core.signatures.verdict import FREE, Beside, Judge

NOWHERE = -1
MANY = -2  # in several components at once


class Neighbours:
    """What others' publications ask of each person. Without any, nobody is inside and nothing is asked."""

    def __init__(self, policy: Policy, entries: Entries, signatures: Signatures, people: int) -> None:
        self._policy, self._entries, self._signatures = policy, entries, signatures
        self._judge = Judge(policy, signatures.sets)
        self._component = np.full(people, NOWHERE, dtype=np.int64)
        self._components: Components | None = None
        self._blocks: dict[int, tuple[frozenset[int], ...] | None] = {}
        self._least = max(policy.signature, policy.overlap)
        self.affected: Rows = np.zeros(0, dtype=np.int64)

    @classmethod
    def of(
        cls,
        policy: Policy,
        people: People,
        externals: Externals,
        new: Iterable[int],
        trail: Trail,
        entries: Entries,
        signatures: Signatures,
        touched: Rows,
    ) -> "Neighbours":
        """Who is in which component; `new` are the numbers of publications that arrived since the last release."""
        found = cls(policy, entries, signatures, len(people))
        if len(externals):
            found._components = components_of(policy, externals)
            found._locate(people, trail)
            found._note_affected({number - 1 for number in new}, touched)
        return found

    @property
    def is_inside(self) -> NDArray[np.bool_]:
        """By row, whether somebody is or was in another publisher's group."""
        return np.asarray(self._component != NOWHERE)

    def beside(self, row: int) -> Beside:
        """What is asked of one person."""
        component = int(self._component[row])
        if component == NOWHERE:
            return FREE
        blocks = None if component == MANY else self._blocks_of(component)
        return Beside(blocks or (), self._least, blocks is not None)

    def pools(self, rows: Rows, values: Rows) -> Rows:
        """The pool in which entries of these people with these values are dealt: 0, or the number of a block."""
        found = np.zeros(len(rows), dtype=np.int64)
        numbers: dict[frozenset[int], int] = {}
        inside = np.flatnonzero(self._component[rows] >= 0)
        for at, component, value in zip(
            inside.tolist(), self._component[rows[inside]].tolist(), values[inside].tolist(), strict=True
        ):
            for block in self._blocks_of(component) or ():
                if value in block:
                    found[at] = numbers.setdefault(block, len(numbers) + 1)
        return found

    def judge_signatures(self) -> None:
        """Bar the signatures that a new publication, or a move into one, tells apart."""
        entries = self._entries
        for row in self.affected.tolist():
            mine = [entry for entry in entries.of_person(row) if entries.signature[entry] >= 0]
            held = sum(1 for entry in entries.of_person(row) if entries.flags[entry] & HELD)
            for signature in {int(entries.signature[entry]) for entry in mine}:
                here = [entry for entry in mine if entries.signature[entry] == signature]
                shown = len(here)
                parts = self._parts(signature, int(self._component[row]))
                if len(parts) == 1 and len(parts[0]) >= max(self._policy.overlap, shown * self._policy.l) * held:
                    continue
                least = max(self._policy.overlap, shown * self._policy.l) * max(1, held)
                # Somebody who comes back has no group to stay in, and must not share one with newcomers.
                is_back = any(entries.flags[entry] & HELD and entries.group[entry] == NO_GROUP for entry in here)
                if min(len(part) for part in parts) < least or (is_back and len(parts) > 1):
                    entries.flags[here] |= BARRED

    # -- parts --------------------------------------------------------------------------------------------------

    def _locate(self, people: People, trail: Trail) -> None:
        assert self._components is not None
        here = people.here()
        where, component = self._components.find(people.columns, here)
        self._note(here[where], component)
        former = [(row, qid) for row, places in sorted(trail.items()) for qid in places if qid != EVERYWHERE]
        if former:
            rows = np.array([row for row, _ in former], dtype=np.int64)
            columns = [np.array(column) for column in zip(*(qid for _, qid in former), strict=True)]
            where, component = self._components.find(columns, np.arange(len(former)))
            self._note(rows[where], component)
        self._component[[row for row, places in trail.items() if EVERYWHERE in places]] = MANY

    def _note(self, rows: Rows, components: Rows) -> None:
        pairs = np.unique(np.stack([rows, components]), axis=1)
        rows, components = pairs[0], pairs[1]
        is_other = (self._component[rows] != NOWHERE) & (self._component[rows] != components)
        counts = np.bincount(rows, minlength=len(self._component))
        self._component[rows[~is_other]] = components[~is_other]
        self._component[rows[is_other]] = MANY
        self._component[counts > 1] = MANY

    def _note_affected(self, new: set[int], touched: Rows) -> None:
        """People whom a publication that arrived concerns, and people who changed inside one."""
        assert self._components is not None
        grown = np.unique(self._components.of_group[sorted(new)]) if new else np.zeros(0, dtype=np.int64)
        is_affected = np.isin(self._component, grown) | ((self._component == MANY) & bool(len(grown)))
        inside = touched[self._component[touched] != NOWHERE]
        self.affected = np.union1d(np.flatnonzero(is_affected), inside)

    def _parts(self, signature: int, component: int) -> list[list[int]]:
        """A signature's values, by how often the groups of a component show them."""
        assert self._components is not None
        if component == MANY:
            return [[value] for value in self._signatures.sets[signature]]
        known = self._components.weights_of(component)
        parts: dict[object, list[int]] = {}
        for value in self._signatures.sets[signature]:
            parts.setdefault(known.get(value, ()), []).append(value)
        return list(parts.values())

    def _blocks_of(self, component: int) -> tuple[frozenset[int], ...] | None:
        """The blocks; None if any protected value has none.

        Blocks depend on the signatures of everybody beside these groups, and a shard knows only its own people. So in a
        sharded table no value has a block.
        """
        if self._policy.shards > 1:
            return None
        if component not in self._blocks:
            self._blocks[component] = self._cut(component)
        return self._blocks[component]

    def _cut(self, component: int) -> tuple[frozenset[int], ...] | None:
        assert self._components is not None
        known = self._components.weights_of(component)
        marks = self._marks(component)
        found: list[frozenset[int]] = []
        for kind in (self._judge.transient, self._judge.permanent):
            classes: dict[object, list[int]] = {}
            for value in sorted(kind):
                classes.setdefault((known.get(value, ()), marks.get(value, ())), []).append(value)
            for values in classes.values():
                if len(values) < self._least:
                    return None
                found.append(frozenset(values))
        return tuple(found)

    def _marks(self, component: int) -> Mapping[int, tuple[int, ...]]:
        """By value the signatures that people of a component were given and that hold it."""
        entries = self._entries
        signed = np.flatnonzero(entries.signature >= 0)
        mine = signed[self._component[entries.owner[signed]] == component]
        found: dict[int, list[int]] = {}
        for signature in np.unique(entries.signature[mine]).tolist():
            for value in self._signatures.sets[signature]:
                found.setdefault(value, []).append(signature)
        return {value: tuple(signatures) for value, signatures in found.items()}
