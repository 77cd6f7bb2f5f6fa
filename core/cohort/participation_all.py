"""`participation: all`: no swap goes unseen, so there are no buddies (docs/design.md, "Participation all").

There are a few rules instead. A group shows each permanent value at most once. A holder's clique, l people or more, is
published together in one group whenever the value is shown. A person who is not published then is out of the clique for
good, which is why it has spares. A clique that cannot be whole keeps its published people in one group, under one "*".
And a person who was in a group that showed the value before is not in the first group that shows a holder's value:
this person alone could explain both.
"""

from functools import cached_property
from typing import Final

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.cohort.clique import COVERED, DORMANT, EXTINCT, WHOLE, Clique
from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.registration import Mask
from shoal.core.cohort.roles import Roles

SPARES: Final = 1  # spares of a new clique for each person it needs: it then survives the loss of half its people


class ParticipationAllRoles(Roles):
    """The roles of one value against an adversary who knows which people are published in every release."""

    def __init__(self, value: int, draft: CohortDraft) -> None:
        super().__init__(value, draft)
        self._ledger, self._node = draft.ledger, draft.ledger.node_of(value)

    @cached_property
    def was_seen(self) -> Mask:
        """The people who were ever in a group that showed the value. Worked out if a holder was not shown yet."""
        positions, groups = self._people.exposures(np.arange(len(self._people)))
        shown_in = self._ledger.groups_showing(self._node)
        shows = np.zeros(int(max(groups.max(initial=0), shown_in.max(initial=0))) + 1, dtype=bool)
        shows[shown_in] = True
        found: Mask = np.zeros(len(self._people), dtype=bool)
        found[positions[shows[groups]]] = True
        return found

    def update(self, newly_extinct: Rows) -> None:  # noqa: ARG002, there are no buddies who could cease to exist
        """Bring every clique up to date."""
        for row in self.new_holders():
            self._has_role[row] = True
            self.is_clean[row] = False
            self._cohorts.add(Clique(self.value, tuple(self._people.ids(np.array([row]))), (0,), (0,), COVERED))
        for number, clique in self._not_whole():
            self._cohorts.cliques[number] = self._update_one(clique)

    def _not_whole(self) -> list[tuple[int, Clique]]:
        """All cliques but the whole ones that may stay so: every owner is present, and only the first is a holder."""
        living = list(self._cohorts.living(self.value))
        if not living:
            return living
        rows = np.array([row for number, _ in living for row in self._rows_of(number)])
        starts = np.cumsum([0, *(len(clique.owners) for _, clique in living[:-1])])
        is_right = self._registration.present[rows] & ~self._holds[rows]
        is_right[starts] = self._registration.present[rows[starts]] & ~np.isin(rows[starts], list(self._overlapping))
        are_right = np.logical_and.reduceat(is_right, starts).tolist()
        return [
            pair
            for pair, all_right in zip(living, are_right, strict=True)
            if not (all_right and pair[1].mode == WHOLE and pair[1].created[0])
        ]

    def add_spares(self) -> None:
        """Add spares to every new clique, once the holders of all values have their decoys."""
        for number, clique in self._cohorts.living(self.value):
            if clique.created[0] == self._registration.number:  # shown for the first time: no person is excluded yet
                others = self._recruited([*clique.owners[1:]], clique.holder, (1 + SPARES) * self._size - 1)
                self._cohorts.cliques[number] = self._with_others(clique, others, clique.created[0], WHOLE)

    def _update_one(self, clique: Clique) -> Clique:
        if all(self._is_extinct(owner) for owner in clique.owners):
            return clique._replace(mode=EXTINCT)
        if not self._is_present(clique.holder):
            is_seen = any(self._is_present(owner) for owner in clique.owners)
            return clique._replace(mode=COVERED if is_seen else DORMANT)
        if self._row(clique.holder) in self._overlapping:  # not shown, so an absent owner is not out of it
            return clique._replace(mode=COVERED)
        there = [owner for owner in clique.owners[1:] if self._is_present(owner) and not self._holds[self._row(owner)]]
        if not clique.created[0]:
            if self.was_seen[self._row(clique.holder)]:
                return clique._replace(mode=COVERED)
            there = [owner for owner in there if not self.was_seen[self._row(owner)]]
            there = self._recruited(there, clique.holder, self._size - 1)
        if len(there) < self._size - 1:
            return clique._replace(mode=COVERED)
        return self._with_others(clique, there, clique.created[0] or self._registration.number, WHOLE)

    def _recruited(self, others: list[str], holder: str, count: int) -> list[str]:
        """These people and the people without a role nearest to the holder: `count` in all, or as many as there are."""
        rows: list[int] = []
        while len(others) + len(rows) < count:
            decoy = self._nearest_clean(self._row(holder), among=self.is_clean & ~self._has_role & ~self.was_seen)
            if decoy is None:
                break
            self.is_clean[decoy] = False
            self._has_role[decoy] = True
            rows.append(decoy)
        return [*others, *self._people.ids(np.array(rows, dtype=np.int64))]

    def _with_others(self, clique: Clique, others: list[str], created: int, mode: int) -> Clique:
        """The clique of its holder and these people; all other owners are clean again, unless they hold the value."""
        for owner in {*clique.owners[1:]}.difference(others):
            row = self._row(owner)
            self.is_clean[row] = not self._holds[row]
        count = 1 + len(others)
        return Clique(self.value, (clique.holder, *others), (0,) * count, (created,) * count, mode)
