"""`participation: all`: nothing can be swapped unseen, so there are no buddies (DESIGN, section 5).

A few rules instead. A group shows each permanent value at most once. A holder's clique, l people or more, is published
together in one group whenever the value is shown: who is not there then is out of it for good, which is what spares are
for. A clique that cannot be whole keeps those of it who are published in one group, under one "*". And nobody is in the
first group that shows a holder's value who was in a group that showed it before: they alone could explain both.
"""

from collections.abc import Set
from functools import cached_property

import numpy as np

from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.clique import COVERED, DORMANT, EXTINCT, WHOLE, Clique, Cohorts
from shoal.core.cohort.registration import Mask, Registration
from shoal.core.cohort.roles import Roles
from shoal.core.groups.ledger import Ledger
from shoal.core.people import People


class EveryoneKnown(Roles):
    """The roles of one value against somebody who knows who is published in every release."""

    def __init__(
        self,
        value: int,
        ledger: Ledger,
        cohorts: Cohorts,
        people: People,
        tree: Tree,
        registration: Registration,
        is_busy: Mask,
        overlapping: Set[int],
    ) -> None:
        super().__init__(value, cohorts, people, tree, registration, is_busy, overlapping, 0)
        self._ledger, self._node = ledger, ledger.node_of(value)

    @cached_property
    def was_seen(self) -> Mask:
        """Who was ever in a group that showed the value. Worked out where there is a holder who was not shown yet."""
        positions, groups = self._people.exposures(np.arange(len(self._people)))
        shown_in = self._ledger.groups_showing(self._node)
        shows = np.zeros(int(max(groups.max(initial=0), shown_in.max(initial=0))) + 1, dtype=bool)
        shows[shown_in] = True
        found: Mask = np.zeros(len(self._people), dtype=bool)
        found[positions[shows[groups]]] = True
        return found

    def update(self, size: int, newly_extinct: Rows) -> None:  # noqa: ARG002
        """Bring every clique up to date; `size` people make one whole."""
        for row in self.new_holders():
            self._is_busy[row] = True
            self.is_clean[row] = False
            self._cohorts.add(Clique(self.value, tuple(self._people.ids(np.array([row]))), (0,), (0,), COVERED))
        for number, clique in self._to_be_updated():
            self._cohorts.cliques[number] = self._update_one(clique, size)

    def _to_be_updated(self) -> list[tuple[int, Clique]]:
        """All but those that are whole and may stay so: everyone is there, as decoys or as the one holder."""
        living = list(self._cohorts.living(self.value))
        if not living:
            return living
        rows = np.array([row for number, _ in living for row in self._cohorts.rows_of(number, self._people)])
        starts = np.cumsum([0, *(len(clique.owners) for _, clique in living[:-1])])
        is_right = self._registration.present[rows] & ~self._holds[rows]
        is_right[starts] = self._registration.present[rows[starts]] & ~np.isin(rows[starts], list(self._overlapping))
        are_right = np.logical_and.reduceat(is_right, starts).tolist()
        return [
            pair
            for pair, all_right in zip(living, are_right, strict=True)
            if not (all_right and pair[1].mode == WHOLE and pair[1].created[0])
        ]

    def add_spares(self, size: int) -> None:
        """As many more people for every new clique, once all values' holders have their decoys."""
        for number, clique in self._cohorts.living(self.value):
            if clique.created[0] == self._registration.number:  # shown for the first time: nobody is excluded yet
                company = self._recruited([*clique.owners[1:]], clique.holder, 2 * size - 1)
                self._cohorts.cliques[number] = self._with_company(clique, company, clique.created[0], WHOLE)

    def _update_one(self, clique: Clique, size: int) -> Clique:
        if all(self._is_extinct(owner) for owner in clique.owners):
            return clique._replace(mode=EXTINCT)
        if not self._is_present(clique.holder):
            is_seen = any(self._is_present(owner) for owner in clique.owners)
            return clique._replace(mode=COVERED if is_seen else DORMANT)
        if self._row(clique.holder) in self._overlapping:  # not shown, so nobody who is away is out of it either
            return clique._replace(mode=COVERED)
        there = [owner for owner in clique.owners[1:] if self._is_present(owner) and not self._holds[self._row(owner)]]
        if not clique.created[0]:
            if self.was_seen[self._row(clique.holder)]:
                return clique._replace(mode=COVERED)
            there = [owner for owner in there if not self.was_seen[self._row(owner)]]
            there = self._recruited(there, clique.holder, size - 1)
        if len(there) < size - 1:
            return clique._replace(mode=COVERED)
        return self._with_company(clique, there, clique.created[0] or self._registration.number, WHOLE)

    def _recruited(self, company: list[str], holder: str, count: int) -> list[str]:
        """These people and others nearest to the holder, so many in all if there are so many without a role."""
        rows: list[int] = []
        while len(company) + len(rows) < count:
            decoy = self._nearest_clean(self._row(holder), among=self.is_clean & ~self._is_busy & ~self.was_seen)
            if decoy is None:
                break
            self.is_clean[decoy] = False
            self._is_busy[decoy] = True
            rows.append(decoy)
        return [*company, *self._people.ids(np.array(rows, dtype=np.int64))]

    def _with_company(self, clique: Clique, company: list[str], created: int, mode: int) -> Clique:
        """The clique of these people; whoever else was in it is clean again, unless they hold the value."""
        for owner in {*clique.owners[1:]}.difference(company):
            row = self._row(owner)
            self.is_clean[row] = not self._holds[row]
        count = 1 + len(company)
        return Clique(self.value, (clique.holder, *company), (0,) * count, (created,) * count, mode)
