"""`participation: all`: nothing can be swapped unseen, so there are no buddies (DESIGN, section 5).

Three rules instead. A group shows each permanent value at most once. A holder's clique, l people or more, is published
together in one group whenever the value is shown: who is not there then is out of it for good, which is what spares are
for. A clique that cannot be whole keeps those of it who are published in one group, under one "*".
"""

import numpy as np

from core.cohort.clique import COVERED, DORMANT, EXTINCT, WHOLE, Clique
from core.cohort.roles import Roles
from core.tree import Rows


class EveryoneKnown(Roles):
    """The roles of one value against somebody who knows who is published in every release."""

    def update(self, size: int, newly_extinct: Rows) -> None:  # noqa: ARG002
        """Bring every clique up to date; `size` people make one whole."""
        for row in self.new_holders():
            self._is_busy[row] = True
            self._is_clean[row] = False
            self._cohorts.add(Clique(self._value, tuple(self._people.ids(np.array([row]))), (0,), (0,), COVERED))
        for number, clique in self._cohorts.living(self._value):
            self._cohorts.cliques[number] = self._update_one(clique, size)

    def add_spares(self, size: int) -> None:
        """As many more people for every new clique, once all values' holders have their decoys."""
        for number, clique in self._cohorts.living(self._value):
            if clique.created[0] == self._registration.number:  # shown for the first time: nobody is excluded yet
                company = self._recruited([*clique.owners[1:]], clique.holder, 2 * size - 1)
                self._cohorts.cliques[number] = self._with_company(clique, company, clique.created[0], WHOLE)

    def _update_one(self, clique: Clique, size: int) -> Clique:
        if all(self._is_extinct(owner) for owner in clique.owners):
            return clique._replace(mode=EXTINCT)
        if not self._is_present(clique.holder):
            is_seen = any(self._is_present(owner) for owner in clique.owners)
            return clique._replace(mode=COVERED if is_seen else DORMANT)
        there = [owner for owner in clique.owners[1:] if self._is_present(owner) and not self._holds[self._row(owner)]]
        if not clique.created[0]:
            there = self._recruited(there, clique.holder, size - 1)
        if len(there) < size - 1:
            return clique._replace(mode=COVERED)
        return self._with_company(clique, there, clique.created[0] or self._registration.number, WHOLE)

    def _recruited(self, company: list[str], holder: str, count: int) -> list[str]:
        """These people and others nearest to the holder, so many in all if there are so many without a role."""
        rows: list[int] = []
        while len(company) + len(rows) < count:
            decoy = self._nearest_clean(self._row(holder), is_idle=True)
            if decoy is None:
                break
            self._is_clean[decoy] = False
            self._is_busy[decoy] = True
            rows.append(decoy)
        return [*company, *self._people.ids(np.array(rows, dtype=np.int64))]

    def _with_company(self, clique: Clique, company: list[str], created: int, mode: int) -> Clique:
        """The clique of these people; whoever else was in it is clean again, unless they hold the value."""
        for owner in {*clique.owners[1:]}.difference(company):
            row = self._row(owner)
            self._is_clean[row] = not self._holds[row]
        count = 1 + len(company)
        return Clique(self._value, (clique.holder, *company), (0,) * count, (created,) * count, mode)
