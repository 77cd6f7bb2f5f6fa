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
        for number, clique in self._cohorts.living(self._value):
            self._cohorts.cliques[number] = self._update_one(clique, size)
        for row in self.new_holders():
            self._is_busy[row] = True
            self._is_clean[row] = False
            clique = Clique(self._value, tuple(self._people.ids(np.array([row]))), (0,), (0,), COVERED)
            self._cohorts.add(self._update_one(clique, size))

    def _update_one(self, clique: Clique, size: int) -> Clique:
        if all(self._is_extinct(owner) for owner in clique.owners):
            return clique._replace(mode=EXTINCT)
        if not self._is_present(clique.holder):
            is_seen = any(self._is_present(owner) for owner in clique.owners)
            return clique._replace(mode=COVERED if is_seen else DORMANT)
        if not clique.created[0]:
            clique = self._recruit(clique, size)
        there = [owner for owner in clique.owners[1:] if self._is_present(owner) and not self._holds[self._row(owner)]]
        if len(there) < size - 1:
            return clique._replace(mode=COVERED)
        return self._with_company(clique, there, clique.created[0] or self._registration.number, WHOLE)

    def _recruit(self, clique: Clique, size: int) -> Clique:
        """Decoys and as many spares again, for a clique whose value was never shown: nobody is excluded from it yet."""
        holder = self._row(clique.holder)
        company = [self._row(owner) for owner in clique.owners[1:] if self._is_present(owner)]
        while len(company) < 2 * size - 1:
            decoy = self._nearest_clean(holder, is_idle=True)
            if decoy is None:
                break
            self._is_clean[decoy] = False
            self._is_busy[decoy] = True
            company.append(decoy)
        if len(company) < size - 1:
            company = []
        return self._with_company(clique, self._people.ids(np.array(company, dtype=np.int64)), 0, clique.mode)

    def _with_company(self, clique: Clique, company: list[str], created: int, mode: int) -> Clique:
        """The clique of these people; whoever else was in it is clean again, unless they hold the value."""
        for owner in {*clique.owners[1:]}.difference(company):
            row = self._row(owner)
            self._is_clean[row] = not self._holds[row]
        count = 1 + len(company)
        return Clique(self._value, (clique.holder, *company), (0,) * count, (created,) * count, mode)
