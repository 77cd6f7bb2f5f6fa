"""The cases of Bu's section 3.2, for one permanent value at one release: who becomes, stays or stops being a decoy.

A clique is *active* while its holder is published. Then every instance of it wants a published owner; while it is not,
an owner who is not published. Whoever does not fit hands their instance over to a buddy, somebody clean who could have
been its owner all along: registered inside its container since it was made, and living in the very cell that the
owner's rows were shown in, because everyone can look up where people live. Against somebody who knows of K people
whether they are there, one buddy is as good as none unless there are K+1 of them (Bu, section 3.5).

Cost: one look at every clique, and O(people) numpy work for each instance that changes hands.
"""

from collections.abc import Set
from functools import cached_property

import numpy as np

from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.clique import (
    COVERED,
    DORMANT,
    EXTINCT,
    NEVER,
    NO_ROW,
    NOBODY_OWNS,
    NOWHERE,
    WHOLE,
    Clique,
    Cohorts,
)
from shoal.core.cohort.container import Containers
from shoal.core.cohort.registration import Line, Mask, Registration
from shoal.core.people import NOBODY, People


class Roles:
    """Holders, decoys and clean people of one value. `is_busy` is who has a role for any value; kept up to date."""

    def __init__(
        self,
        value: int,
        cohorts: Cohorts,
        people: People,
        tree: Tree,
        registration: Registration,
        is_busy: Mask,
        overlapping: Set[int],
        participation: int,
    ) -> None:
        self.value = value
        self._cohorts, self._people, self._tree = cohorts, people, tree
        self._registration, self._is_busy, self._participation = registration, is_busy, participation
        self._overlapping = overlapping  # holders of whom somebody else's group shows the value: it must be "*" (G5)
        self._holds = registration.holds(value)
        owned = np.array([row for n, _ in cohorts.living(value) for row in cohorts.rows_of(n, people)], dtype=np.int64)
        self.is_clean: Mask = ~self._holds
        self.is_clean[owned[owned != NO_ROW]] = False
        self._in_pool: Line | None = None
        self._everyone: Line | None = None

    def update(self, size: int, newly_extinct: Rows) -> None:
        """Bring every clique of the value up to date, and make one for every new holder; `size` is that of a clique."""
        bereaving = newly_extinct[self.is_clean[newly_extinct]]
        for number, before in self._unsettled(is_anybody_bereaved=bool(bereaving.size)):
            clique = self.clique_extinction(before, bereaving)
            if clique.mode != EXTINCT:
                clique = self.quasi_identifiers_changed(clique)
                clique = self.decoy_becomes_holder(clique)
                clique = self.holder_present(clique) if self._is_present(clique.holder) else self.holder_absent(clique)
            self._cohorts.cliques[number] = clique
        for row in self.new_holders():
            self._cohorts.add(self.introduce_holder(row, size))
        self.cover_overlapping()

    def _unsettled(self, *, is_anybody_bereaved: bool) -> list[tuple[int, Clique]]:
        """The cliques that are not as they should be: the others, nearly all, are seen at once to be left alone.

        Dormant ones are looked at, too, if somebody clean has ceased to exist, who may have been a buddy.
        """
        living = list(self._cohorts.living(self.value))
        if not living:
            return living
        rows = np.array([self._cohorts.rows_of(number, self._people) for number, _ in living])
        created = np.array([clique.created for _, clique in living])
        mode = np.array([clique.mode for _, clique in living])
        is_present = self._registration.present[rows]
        cells = np.array([clique.cells for _, clique in living])
        may_be_outside = np.where(
            created == NEVER, self._people.leaf[rows] != cells, self._people.since[rows] > created
        )
        is_wrong = (rows == NO_ROW) | may_be_outside
        is_wrong[:, 0] |= self._registration.extinct[rows[:, 0]]
        is_wrong[:, 1:] |= self._holds[rows[:, 1:]]
        as_wanted = (mode == WHOLE) & is_present.all(axis=1)
        if not is_anybody_bereaved:
            as_wanted |= (mode == DORMANT) & ~is_present.any(axis=1)
        is_settled = as_wanted & ~is_wrong.any(axis=1)
        return [pair for pair, settled in zip(living, is_settled.tolist(), strict=True) if not settled]

    # -- new holders --------------------------------------------------------------------------------------------

    def new_holders(self) -> list[int]:
        """Whoever is published with the value and has no clique, in an order that says nothing."""
        known = {clique.holder for _, clique in self._cohorts.living(self.value)}
        rows = np.flatnonzero(self._holds & self._registration.present)
        rows = rows[np.argsort(self._registration.draw[rows], kind="stable")]
        ids = self._people.ids(rows)
        return [row for row, person_id in zip(rows.tolist(), ids, strict=True) if person_id not in known]

    def introduce_holder(self, row: int, size: int) -> Clique:
        """Case M1: a new holder's instance in the first cohort; decoys for the others follow, by case M2."""
        self._is_busy[row] = True
        nowhere = (NOWHERE,) * size
        empty = Clique(self.value, (NOBODY_OWNS,) * size, nowhere, (0,) * size, COVERED, nowhere)
        clique = self._enter(empty, 0, row)
        for place in range(1, size):
            clique = self.enter_decoy(clique, place, row)
        return clique._replace(mode=COVERED if NOBODY_OWNS in clique.owners else WHOLE)

    def enter_decoy(self, clique: Clique, place: int, holder: int) -> Clique:
        """Case M2: somebody clean becomes a decoy, with an instance of their own; unchanged if nobody is clean.

        People without any role first, those of the pool before those whose group would have to be broken, and of them
        the one nearest to the holder.
        """
        decoy = self._nearest_clean(holder)
        return clique if decoy is None else self._enter(clique, place, decoy)

    def decoy_becomes_holder(self, clique: Clique) -> Clique:
        """Case M3: a buddy takes over (case M4), or the instance waits for one.

        Their own clique is made as any new holder's is.
        """
        for place, owner in enumerate(clique.owners):
            if place and owner and self._holds[self._row(owner)]:
                clique = self.buddy_takes_over(clique, place, is_present=self._is_present(clique.holder))
                if clique.owners[place] == owner:
                    clique = clique.with_owner(place, NOBODY_OWNS)
        return clique

    def buddy_takes_over(self, clique: Clique, place: int, *, is_present: bool) -> Clique:
        """Case M4: a buddy becomes the owner of an instance; unchanged where the K-buddy condition does not hold."""
        where = self._registration.present if is_present else self._registration.absent
        found = self._buddies(np.flatnonzero(self.is_clean & where), clique, place)
        if len(found) <= self._participation:
            return clique
        if is_present:
            buddy = self._registration.nearest(found, self._row(clique.holder))
        else:
            buddy = self._registration.drawn(found)
        return self._hand(clique, place, buddy)

    # -- absence ------------------------------------------------------------------------------------------------

    def holder_absent(self, clique: Clique) -> Clique:
        """Case A1: the decoys' instances go dormant, each with an owner who is absent."""
        for place in range(1, len(clique.owners)):
            if clique.nodes[place] != NOWHERE and not self._fits(clique, place, is_active=False):
                clique = self.buddy_takes_over(clique, place, is_present=False)
        is_seen = any(self._is_present(owner) for owner in clique.owners if owner)
        return clique._replace(mode=COVERED if is_seen else DORMANT)

    def holder_present(self, clique: Clique) -> Clique:
        """The reverse of case A1, and case A2: every instance gets an owner who is published with the holder."""
        is_whole = True
        for place in range(1, len(clique.owners)):
            if not self._fits(clique, place, is_active=True):
                before = clique
                if clique.nodes[place] == NOWHERE:
                    clique = self.enter_decoy(clique, place, self._row(clique.holder))
                else:
                    clique = self.decoy_absent(clique, place)
                is_whole = is_whole and clique is not before
        return clique._replace(mode=WHOLE if is_whole else COVERED)

    def decoy_absent(self, clique: Clique, place: int) -> Clique:
        """Case A2: a decoy who is not there is replaced by a buddy who is."""
        return self.buddy_takes_over(clique, place, is_present=True)

    def clique_extinction(self, clique: Clique, newly_extinct: Rows) -> Clique:
        """A holder who ceased to exist takes the clique along, once each instance has an extinct owner or buddy.

        While the holder is absent a buddy who ceases to exist becomes the owner, on the K-buddy condition, so that it
        is enough to look at the owners. Only those of this release are asked. Whoever was gone before the value was
        last shown cannot have been its holder, and whoever was seen while the others stood under a "*" may be known not
        to be.
        """
        if self._is_present(clique.holder):
            return clique
        for place in range(1, len(clique.owners)) if clique.mode != COVERED and newly_extinct.size else ():
            owner = clique.owners[place]
            if clique.nodes[place] != NOWHERE and not (owner and self._is_extinct(owner)):
                found = self._buddies(newly_extinct[self.is_clean[newly_extinct]], clique, place)
                if len(found) > self._participation:
                    clique = self._hand(clique, place, self._registration.drawn(found))
        owners = [owner for owner, node in zip(clique.owners, clique.nodes, strict=True) if node != NOWHERE]
        return clique._replace(mode=EXTINCT) if all(owner and self._is_extinct(owner) for owner in owners) else clique

    def quasi_identifiers_changed(self, clique: Clique) -> Clique:
        """Bu, section 3.5: a holder who left their container gets a new instance in place of the old one.

        A decoy who did does not fit any more, and hands over where that is looked at.
        """
        holder = self._row(clique.holder)
        if not self._has_left(clique, 0) or self._registration.extinct[holder]:
            return clique
        return clique.with_instance(0, clique.holder, self._containers.allocate(holder), self._registration.number)

    def cover_overlapping(self) -> None:
        """Hide the value of whoever overlaps somebody else's group that shows it, with their cliques as they are."""
        for number, clique in self._cohorts.living(self.value) if self._overlapping else ():
            if clique.mode == WHOLE and self._row(clique.holder) in self._overlapping:
                self._cohorts.cliques[number] = clique._replace(mode=COVERED)

    # -- parts --------------------------------------------------------------------------------------------------

    def _buddies(self, among: Rows, clique: Clique, place: int) -> Rows:
        """Those who have been registered in the container since it was made, and live where the owner does or did."""
        node, created = clique.nodes[place], clique.created[place]
        owner, cell = clique.owners[place], clique.cells[place]
        if cell == NOWHERE:  # the value was never shown with it
            return self._registration.buddies(among, node, None, created)
        if owner and not self._registration.moved_after(self._row(owner), created):
            cell = int(self._people.leaf[self._row(owner)])  # the same, or a part of it since it was split
        return self._registration.buddies(among, node, cell, created)

    def _fits(self, clique: Clique, place: int, *, is_active: bool) -> bool:
        """Whether an instance's owner is where the clique's state wants them."""
        owner = clique.owners[place]
        return bool(owner) and self._is_present(owner) == is_active and not self._has_left(clique, place)

    def _has_left(self, clique: Clique, place: int) -> bool:
        """Whether an owner is outside their container; only those who moved after it was made can be."""
        row = self._row(clique.owners[place])
        if not self._registration.moved_after(row, clique.created[place]):
            return False
        smallest = clique.nodes[place] if clique.cells[place] == NOWHERE else clique.cells[place]
        return not bool(self._registration.are_inside(smallest, np.array([row]))[0])

    def _enter(self, clique: Clique, place: int, row: int) -> Clique:
        if self.is_clean[row]:
            self._containers.take(row)
        self.is_clean[row] = False
        self._is_busy[row] = True
        node = self._containers.allocate(row)
        return clique.with_instance(place, self._people.ids(np.array([row]))[0], node, self._registration.number)

    def _hand(self, clique: Clique, place: int, buddy: int) -> Clique:
        """The old owner is clean again, unless they hold the value themselves."""
        owner = clique.owners[place]
        if owner:
            self.is_clean[self._row(owner)] = not self._holds[self._row(owner)]
        self.is_clean[buddy] = False
        self._is_busy[buddy] = True
        return clique.with_owner(place, self._people.ids(np.array([buddy]))[0])._replace(is_handed=True)

    def _nearest_clean(self, holder: int, among: Mask | None = None) -> int | None:
        """The clean person nearest to a holder, in the order of `enter_decoy`; or only one of these."""
        if among is None:
            is_clean, is_free = self.is_clean, self.is_clean & ~self._is_busy
            choices = [(self._pool_line, is_free), (self._pool_line, is_clean), (self._whole_line, is_clean)]
        else:
            choices = [(self._pool_line, among), (self._whole_line, among)]
        for line, is_wanted in choices:
            if (found := line().nearest(holder, is_wanted)) is not None:
                return found
        return None

    def _pool_line(self) -> Line:
        if self._in_pool is None:
            self._in_pool = self._registration.line(self._people.group == NOBODY)
        return self._in_pool

    def _whole_line(self) -> Line:
        if self._everyone is None:
            self._everyone = self._registration.line(self._registration.present)
        return self._everyone

    @cached_property
    def _containers(self) -> Containers:
        return Containers(self._tree, self._people, self._registration, self.is_clean, self._participation)

    def _is_present(self, owner: str) -> bool:
        return bool(self._registration.present[self._row(owner)])

    def _is_extinct(self, owner: str) -> bool:
        return bool(self._registration.extinct[self._row(owner)])

    def _row(self, owner: str) -> int:
        row = self._people.row(owner)
        assert row is not None, "an owner is somebody"
        return row
