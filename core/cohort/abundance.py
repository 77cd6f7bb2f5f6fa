"""The K-buddy condition in every release, not only when a buddy takes over (Bu, section 3.5 and Assumption 1).

A buddy who takes over could have been the owner all along only if no release since the instance was made rules it out.
An adversary who knows of K people whether they are published can rule it out in two ways: the value is shown in a cell
of no more than K rows, or no more than K other people are left who could be the owner. So:

- A clique in which a buddy took over is shown only while there are more.
- In a clique as it was first made, no buddy takes over any more once it was shown where there were not more.
- Where a clique is shown, its cells publish more than K rows, whichever rows are withheld.
- While the value is hidden, a person seen beside it where no more than K people are absent is known not to be the
  holder. Then no buddy takes over any more; or, if one has, other people who could be the owner stay under the same
  "*".
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.cohort.clique import COVERED, NEVER, NOWHERE, WHOLE, Clique
from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.registration import Mask


class Abundance:
    """Whether there are enough buddies for the cliques of one value. `is_clean` marks people without a role for it."""

    def __init__(self, value: int, draft: CohortDraft, is_clean: Mask) -> None:
        self._value, self._is_clean, self._known, self._size = value, is_clean, draft.known, draft.size
        self._cohorts, self._people, self._tree = draft.cohorts, draft.people, draft.tree
        self._registration = draft.registration

    def cover_outnumbered(self) -> None:
        """Hide the value of cliques in which a buddy took over, where too few people could be this buddy."""
        if not self._known:
            return
        taken_over = [(number, clique) for number, clique in self._shown() if clique.is_handed]
        cells_of = {number: self._cells_of(number) for number, _ in taken_over}
        clean_in = self._clean_in({cell for cells in cells_of.values() for cell in cells[1:]})
        for number, clique in taken_over:
            cells = cells_of[number]
            are_few = any(
                np.count_nonzero(self._people.since[clean_in[cells[place]]] <= created) < self._known
                for place, created in enumerate(clique.created)
                if place and created != NEVER
            )
            if are_few or self._outnumbered(cells):
                self._cohorts.cliques[number] = clique._replace(mode=COVERED)

    def note_cells(self) -> set[int]:
        """Remember the cells in which whole cliques are shown: from now on only people there could be their owners.

        An instance shown where no more than K rows are has no buddies from then on. Returns the cells that need more
        than K rows.
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
        """Where a person who could take over is seen beside a hidden value, no buddy takes over any more.

        With K = 0 this covers every hidden clique; otherwise `company` covers those in which a buddy took over.
        """
        hidden = [(number, clique) for number, clique in self._hidden() if not (self._known and clique.is_handed)]
        if not hidden:
            return
        exposed, leaf = self._exposed, self._people.leaf
        in_leaf = np.bincount(leaf[exposed], minlength=self._tree.size)
        for number, clique in hidden:
            forgotten = clique
            for place, (node, cell, created) in enumerate(zip(clique.nodes, clique.cells, clique.created, strict=True)):
                if not place or created == NEVER or cell == NOWHERE or (self._tree.is_leaf(cell) and not in_leaf[cell]):
                    continue
                if self._registration.buddies(exposed, node, cell, created).size:
                    forgotten = forgotten.without_buddies(place)
            self._cohorts.cliques[number] = forgotten

    def company(self) -> dict[int, list[int]]:
        """By clique, the rows of the people who must be under its "*" so that enough people could still be its holder.

        They are the first of the people who could be, in an order that never changes. So in every release each of them
        is absent or under the "*", and K people and as many more as a clique has are never excluded.
        """
        hidden = [(number, clique) for number, clique in self._hidden() if self._known and clique.is_handed]
        if not hidden:
            return {}
        exposed = self._exposed[np.argsort(self._people.tag[self._exposed], kind="stable")]
        found: dict[int, list[int]] = {}
        for number, clique in hidden:
            rows = set[int]()
            for place, created in enumerate(clique.created):
                if place and created != NEVER and clique.cells[place] != NOWHERE:
                    node, cell = clique.nodes[place], clique.cells[place]
                    buddies = self._registration.buddies(exposed, node, cell, created)
                    rows.update(buddies[: self._known + self._size].tolist())
            if rows:
                found[number] = sorted(rows)
        return found

    # -- parts --------------------------------------------------------------------------------------------------

    def _shown(self) -> list[tuple[int, Clique]]:
        return [(number, clique) for number, clique in self._cohorts.living(self._value) if clique.mode == WHOLE]

    def _hidden(self) -> list[tuple[int, Clique]]:
        return [(number, clique) for number, clique in self._cohorts.living(self._value) if clique.mode != WHOLE]

    @cached_property
    def _exposed(self) -> Rows:
        """The clean people who are seen in a leaf where no more people are absent than may be known."""
        registration, leaf = self._registration, self._people.leaf
        absent = np.bincount(leaf[registration.absent], minlength=self._tree.size)
        return np.flatnonzero(self._is_clean & registration.present & (absent[leaf] <= self._known))

    def _cells_of(self, number: int) -> tuple[int, ...]:
        """The cells of a whole clique's people."""
        return tuple(self._people.leaf[self._cohorts.rows_of(number, self._people)].tolist())

    def _outnumbered(self, cells: Iterable[int]) -> list[int]:
        """The places of decoys in cells with no more rows than people who may be known."""
        rows, known = self._registration.rows, self._known
        return [place for place, cell in enumerate(cells) if place and rows[cell] <= known]

    def _clean_in(self, cells: set[int]) -> dict[int, Rows]:
        """The clean people who are registered in these cells, by cell."""
        is_meant = np.zeros(self._tree.size, dtype=bool)
        is_meant[list(cells)] = True
        rows = np.flatnonzero(self._is_clean & is_meant[self._people.leaf] & ~self._registration.extinct)
        rows = rows[np.argsort(self._people.leaf[rows], kind="stable")]
        leaf = self._people.leaf[rows]
        return {cell: rows[slice(*np.searchsorted(leaf, [cell, cell + 1]).tolist())] for cell in cells}
