"""A shard's steps: those of a lasting table, with people who move between shards.

A person who leaves is forgotten here. Their entries end as if their spells had ended, so that their places count as
fallen free. Then nothing of them is left. A person who arrives brings their entries along (`moves.py`). From then on
they are treated like everybody else whose record changed.

A clique that a person left is not whole, and not shown while they are away. Nobody is ever in two cliques of one value:
a person who was in one elsewhere is recorded here as a lost clique of one, which is never shown.
"""

from collections.abc import Mapping, Set

import numpy as np

from shoal.core.draft import Draft
from shoal.core.fold import Folded
from shoal.core.lasting import Lasting
from shoal.core.shards.moves import SignedEntry, Traveller
from shoal.core.signatures.bonds import Bond, lose_bonds_of
from shoal.core.signatures.entries import NO_GROUP, EntryRecord
from shoal.core.signatures.trail import EVERYWHERE


class LastingShard(Lasting):
    """A release of one shard being made.

    `travellers` are by row, and known from step 1 on; `lost` are people of the whole table who are lost for good.
    """

    def __init__(self, draft: Draft, travellers: Mapping[int, Traveller], lost: Set[str]) -> None:
        super().__init__(draft)
        self._travellers, self._lost = travellers, lost

    def break_groups(self, folded: Folded) -> None:
        """Step 2, with those who came and those who left."""
        self._receive_entries()
        self._receive_bonds()
        super().break_groups(folded)
        self._entries.forget(np.array(folded.departed, dtype=np.int64))
        self._follow_travellers(folded)
        was_erased = (row for row, traveller in self._travellers.items() if EVERYWHERE in traveller.person.trail)
        self._erased = self._erased.union(was_erased)

    def update_cohorts(self) -> None:
        """Step 4, where somebody of a clique may be lost in another shard."""
        super().update_cohorts()
        lose_bonds_of(self._bonds, self._lost)

    def _receive_entries(self) -> None:
        """Entries as they were elsewhere, under this shard's numbers of their signatures."""
        brought = {entry.signature for traveller in self._travellers.values() for entry in traveller.entries}
        for values in sorted(brought - {()}):
            self._signatures.number(values)  # in an order that does not depend on who brings them
        for row, traveller in self._travellers.items():
            self._entries.put(row, map(self._entry, traveller.entries))

    def _entry(self, brought: SignedEntry) -> EntryRecord:
        signature = self._signatures.number(brought.signature) if brought.signature else brought.plain
        return EntryRecord(brought.value, signature, NO_GROUP, brought.flags)

    def _receive_bonds(self) -> None:
        bound = {(row, value) for row, traveller in self._travellers.items() for value in traveller.bound}
        if not bound:
            return
        known = {(owner, bond.value) for bond in self._bonds.bonds.values() for owner in bond.owners}
        owners = dict(zip(self._travellers, self._people.ids(np.array([*self._travellers])), strict=True))
        for owner, value in sorted({(owners[row], value) for row, value in bound} - known):
            self._bonds.bonds[len(self._bonds.bonds) + 1] = Bond(value, (owner,), is_lost=True)

    def _follow_travellers(self, folded: Folded) -> None:
        """The trails of those who came are what they brought, and of those who left there are none."""
        if self._travellers or folded.departed:
            kept = {row: trail for row, trail in self._trail.items() if row not in self._travellers}
            for row in folded.departed:
                kept.pop(row, None)
            brought = {row: traveller.person.trail for row, traveller in self._travellers.items()}
            self._trail = kept | {row: trail for row, trail in brought.items() if trail}
