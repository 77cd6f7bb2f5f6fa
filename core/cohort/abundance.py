"""The K-buddy condition in every release, not only when a buddy takes over (Bu, section 3.5 and Assumption 1).

Whoever takes over could have been the owner all along only if nobody could see, in any release since the instance was
made, that they were not. Somebody who knows of K people whether they are there sees it where no more than K rows have
the cell that is shown, or where no more than K people are left who could be the owner. So:

- a clique in which a buddy took over is shown only while there are more;
- in one that is as it was made, nobody takes over any more once it was shown where there were not;
- where there are, more than K rows of the cell are published, whoever is withheld;
- while the value is hidden, whoever is seen beside it where no more than K people are absent is known not to be the
  holder: nobody takes over any more, or, once somebody has, others who could be the owner stay under the same "*".
"""

from collections.abc import Iterable

import numpy as np

from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.clique import COVERED, NEVER, NOWHERE, WHOLE, Clique, Cohorts
from shoal.core.cohort.registration import Mask, Registration
from shoal.core.people import People


class Abundance:
    """Whether there are buddies enough for what one value's cliques show. `is_clean` is who has no role for it."""

    def __init__(
        self,
        value: int,
        cohorts: Cohorts,
        people: People,
        tree: Tree,
        registration: Registration,
        is_clean: Mask,
        participation: int,
    ) -> None:
        self._value, self._cohorts, self._people, self._tree = value, cohorts, people, tree
        self._registration, self._is_clean, self._known = registration, is_clean, participation

    def cover_outnumbered(self) -> None:
        """Hide the value of cliques in which a buddy took over, where too few could be that buddy."""
        if not self._known:
            return
        handed = [(number, clique) for number, clique in self._shown() if clique.is_handed]
        cells_of = {number: self._cells_of(number) for number, _ in handed}
        clean_in = self._clean_in({cell for cells in cells_of.values() for cell in cells[1:]})
        for number, clique in handed:
            cells = cells_of[number]
            are_few = any(
                np.count_nonzero(self._people.since[clean_in[cells[place]]] <= created) < self._known
                for place, created in enumerate(clique.created)
                if place and created != NEVER
            )
            if are_few or self._outnumbered(cells):
                self._cohorts.cliques[number] = clique._replace(mode=COVERED)

    def note_cells(self) -> set[int]:
        """Remember where whole cliques are shown: from now on only people of these cells could be their owners.

        Where nobody but those who are there could be, it stays so. Returns the cells that need more than K rows.
        """
        shown = self._shown()
        if not shown:
            return set()
        stand = self._people.leaf[np.array([self._cohorts.rows_of(number, self._people) for number, _ in shown])]
        for (number, clique), cells in zip(shown, map(tuple, stand.tolist()), strict=True):
            noted = clique if cells == clique.cells else clique._replace(cells=cells)
            for place in self._outnumbered(cells):
                noted = noted.without_buddies(place)
            self._cohorts.cliques[number] = noted
        return set(stand[:, 1:].ravel().tolist())

    def forget_seen(self) -> None:
        """Where somebody who could take over is seen beside a hidden value, nobody does any more.

        With nobody known this is all; against K known people those in whom a buddy took over have `company`.
        """
        hidden = [(number, clique) for number, clique in self._hidden() if not (self._known and clique.is_handed)]
        if not hidden:
            return
        exposed, leaf = self._exposed(), self._people.leaf
        in_leaf = np.bincount(leaf[exposed], minlength=self._tree.size)
        for number, clique in hidden:
            forgotten = clique
            for place, (node, cell, created) in enumerate(zip(clique.nodes, clique.cells, clique.created, strict=True)):
                if not place or created == NEVER or cell == NOWHERE or (self._tree.is_leaf(cell) and not in_leaf[cell]):
                    continue
                if self._registration.buddies(exposed, node, cell, created).size:
                    forgotten = forgotten.without_buddies(place)
            self._cohorts.cliques[number] = forgotten

    def company(self, size: int) -> dict[int, list[int]]:
        """By clique, the rows of those who must be under its "*" so that enough people could still be its holder.

        Always the first of those who could be, in an order that never changes: each of them is absent or among the
        first of those who are there, in every release, so that K and a clique's `size` more are never excluded.
        """
        hidden = [(number, clique) for number, clique in self._hidden() if self._known and clique.is_handed]
        if not hidden:
            return {}
        exposed, registration = self._exposed(), self._registration
        exposed = exposed[np.argsort(self._people.tag[exposed], kind="stable")]
        found: dict[int, list[int]] = {}
        for number, clique in hidden:
            rows = set[int]()
            for place, created in enumerate(clique.created):
                if place and created != NEVER and clique.cells[place] != NOWHERE:
                    buddies = registration.buddies(exposed, clique.nodes[place], clique.cells[place], created)
                    rows.update(buddies[: self._known + size].tolist())
            if rows:
                found[number] = sorted(rows)
        return found

    # -- parts --------------------------------------------------------------------------------------------------

    def _shown(self) -> list[tuple[int, Clique]]:
        return [(number, clique) for number, clique in self._cohorts.living(self._value) if clique.mode == WHOLE]

    def _hidden(self) -> list[tuple[int, Clique]]:
        return [(number, clique) for number, clique in self._cohorts.living(self._value) if clique.mode != WHOLE]

    def _exposed(self) -> Rows:
        """Everyone clean who is seen where no more people are absent than may be known."""
        registration, leaf = self._registration, self._people.leaf
        absent = np.bincount(leaf[registration.absent], minlength=self._tree.size)
        return np.flatnonzero(self._is_clean & registration.present & (absent[leaf] <= self._known))

    def _cells_of(self, number: int) -> tuple[int, ...]:
        """The cells that a whole clique's people stand in."""
        return tuple(self._people.leaf[self._cohorts.rows_of(number, self._people)].tolist())

    def _outnumbered(self, cells: Iterable[int]) -> list[int]:
        """The places of decoys in whose cells there are no more rows than people who may be known."""
        rows, known = self._registration.rows, self._known
        return [place for place, cell in enumerate(cells) if place and rows[cell] <= known]

    def _clean_in(self, cells: set[int]) -> dict[int, Rows]:
        """Everyone clean who is registered in these cells, by cell."""
        is_meant = np.zeros(self._tree.size, dtype=bool)
        is_meant[list(cells)] = True
        rows = np.flatnonzero(self._is_clean & is_meant[self._people.leaf] & ~self._registration.extinct)
        rows = rows[np.argsort(self._people.leaf[rows], kind="stable")]
        leaf = self._people.leaf[rows]
        return {cell: rows[slice(*np.searchsorted(leaf, [cell, cell + 1]).tolist())] for cell in cells}
