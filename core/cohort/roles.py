"""The cases of Bu's section 3.2, for one permanent value at one release: who becomes, stays or stops being a decoy.

A clique is *active* while its holder is published. In an active clique every instance needs a published owner, in any
other an owner who is not published. An owner who does not fit hands their instance over to a buddy: a clean person who
could have been its owner all along. A buddy has been registered inside the container since the instance was made, and
lives in the very cell in which the owner's rows were shown, because everyone can look up where people live. Against an
adversary who knows of K people whether they are published, one buddy is not enough: there must be K+1 (Bu, section
3.5).

Cost: one look at every clique, and O(people) numpy work for each instance that changes hands.
"""

from functools import cached_property

import numpy as np

from shoal.core.cells.tree import Rows
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
)
from shoal.core.cohort.container import Containers
from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.registration import Mask, TreeOrder
from shoal.core.person import NOBODY


class Roles:
    """Holders, decoys and clean people of one value; the draft's `has_role` is kept up to date."""

    def __init__(self, value: int, draft: CohortDraft) -> None:
        self.value = value
        self._draft, self._registration = draft, draft.registration
        self._cohorts, self._people = draft.cohorts, draft.people
        self._has_role, self._known, self._size = draft.has_role, draft.known, draft.size
        self._overlapping = draft.overlapping.get(value, frozenset())
        self._holds = draft.registration.holds(value)
        living = self._cohorts.living(value)
        owned = np.array([row for number, _ in living for row in self._rows_of(number)], dtype=np.int64)
        self.is_clean: Mask = ~self._holds
        self.is_clean[owned[owned != NO_ROW]] = False

    def update(self, newly_extinct: Rows) -> None:
        """Bring every clique of the value up to date, and make one for every new holder."""
        lost_buddies = newly_extinct[self.is_clean[newly_extinct]]
        for number, before in self._to_be_updated(has_lost_buddies=bool(lost_buddies.size)):
            clique = self.clique_extinction(before, lost_buddies)
            if clique.mode != EXTINCT:
                clique = self.quasi_identifiers_changed(clique)
                clique = self.decoy_becomes_holder(clique)
                clique = self.holder_present(clique) if self._is_present(clique.holder) else self.holder_absent(clique)
            self._cohorts.cliques[number] = clique
        for row in self.new_holders():
            self._cohorts.add(self.introduce_holder(row))
        self.cover_overlapping()

    def _to_be_updated(self, *, has_lost_buddies: bool) -> list[tuple[int, Clique]]:
        """The cliques that are not as they should be. All others, nearly all, are found in one numpy pass.

        If clean people have ceased to exist, dormant cliques are included: one of these people may have been a buddy.
        """
        living = list(self._cohorts.living(self.value))
        if not living:
            return living
        rows = np.array([self._rows_of(number) for number, _ in living])
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
        is_right = (mode == WHOLE) & is_present.all(axis=1)
        if not has_lost_buddies:
            is_right |= (mode == DORMANT) & ~is_present.any(axis=1)
        is_right &= ~is_wrong.any(axis=1)
        return [pair for pair, stays in zip(living, is_right.tolist(), strict=True) if not stays]

    # -- new holders --------------------------------------------------------------------------------------------

    def new_holders(self) -> list[int]:
        """The rows of people who are published with the value and have no clique, in the order of the keyed draw."""
        known = {clique.holder for _, clique in self._cohorts.living(self.value)}
        rows = np.flatnonzero(self._holds & self._registration.present)
        rows = rows[np.argsort(self._registration.draw[rows], kind="stable")]
        ids = self._people.ids(rows)
        return [row for row, person_id in zip(rows.tolist(), ids, strict=True) if person_id not in known]

    def introduce_holder(self, row: int) -> Clique:
        """Case M1: a new holder's instance in the first cohort; decoys for the others follow, by case M2."""
        self._has_role[row] = True
        size = self._size
        nowhere = (NOWHERE,) * size
        empty = Clique(self.value, (NOBODY_OWNS,) * size, nowhere, (0,) * size, COVERED, nowhere)
        clique = self._enter(empty, 0, row)
        for place in range(1, size):
            clique = self.enter_decoy(clique, place, row)
        return clique._replace(mode=COVERED if NOBODY_OWNS in clique.owners else WHOLE)

    def enter_decoy(self, clique: Clique, place: int, holder: int) -> Clique:
        """Case M2: a clean person becomes a decoy, with an instance of their own; unchanged if there is none.

        People without any role come first, then people of the pool before people whose group would have to be broken,
        and of equals the one nearest to the holder.
        """
        decoy = self._nearest_clean(holder)
        return clique if decoy is None else self._enter(clique, place, decoy)

    def decoy_becomes_holder(self, clique: Clique) -> Clique:
        """Case M3: a buddy takes over from a decoy who became a holder (case M4), or the instance waits for one.

        The clique of the new holder is made like any other.
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
        if len(found) <= self._known:
            return clique
        if is_present:
            buddy = self._registration.nearest(found, self._row(clique.holder))
        else:
            buddy = self._registration.drawn(found)
        return self._hand_over(clique, place, buddy)

    # -- absence ------------------------------------------------------------------------------------------------

    def holder_absent(self, clique: Clique) -> Clique:
        """Case A1: the decoys' instances go dormant, each with an absent owner."""
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
        """Case A2: an absent decoy is replaced by a present buddy."""
        return self.buddy_takes_over(clique, place, is_present=True)

    def clique_extinction(self, clique: Clique, newly_extinct: Rows) -> Clique:
        """After its holder ceased to exist, a clique goes extinct once each instance has an extinct owner or buddy.

        While the holder is absent, a buddy who ceases to exist becomes the owner, on the K-buddy condition; so it is
        enough to look at the owners. Only people who ceased to exist in this release count as such buddies. A person
        who was gone before the value was last shown cannot have been its holder, and a person who was seen while the
        others were under a "*" may be known not to be.
        """
        if self._is_present(clique.holder):
            return clique
        for place in range(1, len(clique.owners)) if clique.mode != COVERED and newly_extinct.size else ():
            owner = clique.owners[place]
            if clique.nodes[place] != NOWHERE and not (owner and self._is_extinct(owner)):
                found = self._buddies(newly_extinct[self.is_clean[newly_extinct]], clique, place)
                if len(found) > self._known:
                    clique = self._hand_over(clique, place, self._registration.drawn(found))
        owners = [owner for owner, node in zip(clique.owners, clique.nodes, strict=True) if node != NOWHERE]
        return clique._replace(mode=EXTINCT) if all(owner and self._is_extinct(owner) for owner in owners) else clique

    def quasi_identifiers_changed(self, clique: Clique) -> Clique:
        """Bu, section 3.5: a holder who left their container gets a new instance in place of the old one.

        A decoy who left does not fit any more; `holder_present` and `holder_absent` find a buddy.
        """
        holder = self._row(clique.holder)
        is_gone = self._registration.extinct[holder] or self._registration.erased[holder]
        if is_gone or not self._has_left(clique, 0):
            return clique
        return clique.with_instance(0, clique.holder, self._containers.allocate(holder), self._registration.number)

    def cover_overlapping(self) -> None:
        """Hide the value of holders who overlap an external group that shows it; their cliques stay as they are."""
        for number, clique in self._cohorts.living(self.value) if self._overlapping else ():
            if clique.mode == WHOLE and self._row(clique.holder) in self._overlapping:
                self._cohorts.cliques[number] = clique._replace(mode=COVERED)

    # -- parts --------------------------------------------------------------------------------------------------

    def _buddies(self, among: Rows, clique: Clique, place: int) -> Rows:
        """The people registered in the container since it was made who live where the owner lives or lived."""
        node, created = clique.nodes[place], clique.created[place]
        owner, cell = clique.owners[place], clique.cells[place]
        if cell == NOWHERE:  # the value was never shown with this instance
            return self._registration.buddies(among, node, None, created)
        if owner and not self._registration.moved_after(self._row(owner), created):
            cell = int(self._people.leaf[self._row(owner)])  # that cell, or a part of it since it was split
        return self._registration.buddies(among, node, cell, created)

    def _fits(self, clique: Clique, place: int, *, is_active: bool) -> bool:
        """Whether an instance's owner is present exactly if the clique is active, and inside the container."""
        owner = clique.owners[place]
        return bool(owner) and self._is_present(owner) == is_active and not self._has_left(clique, place)

    def _has_left(self, clique: Clique, place: int) -> bool:
        """Whether an owner is outside their container; only an owner who moved after it was made can be.

        Nobody knows where somebody erased was.
        """
        row = self._row(clique.owners[place])
        if self._registration.erased[row]:
            return True
        if not self._registration.moved_after(row, clique.created[place]):
            return False
        smallest = clique.nodes[place] if clique.cells[place] == NOWHERE else clique.cells[place]
        return not bool(self._registration.are_inside(smallest, np.array([row]))[0])

    def _enter(self, clique: Clique, place: int, row: int) -> Clique:
        if self.is_clean[row]:
            self._containers.take(row)
        self.is_clean[row] = False
        self._has_role[row] = True
        node = self._containers.allocate(row)
        return clique.with_instance(place, self._people.ids(np.array([row]))[0], node, self._registration.number)

    def _hand_over(self, clique: Clique, place: int, buddy: int) -> Clique:
        """Give an instance to a buddy; the old owner is clean again, unless they hold the value themselves."""
        owner = clique.owners[place]
        if owner:
            self.is_clean[self._row(owner)] = not self._holds[self._row(owner)]
        self.is_clean[buddy] = False
        self._has_role[buddy] = True
        return clique.with_owner(place, self._people.ids(np.array([buddy]))[0])._replace(is_handed=True)

    def _nearest_clean(self, holder: int, among: Mask | None = None) -> int | None:
        """The clean person nearest to a holder, in the order of `enter_decoy`; or one `among` these people."""
        if among is None:
            is_clean, is_free = self.is_clean, self.is_clean & ~self._has_role
            wanted = [is_free, is_clean]
        else:
            wanted = [among]
        for is_wanted in wanted:
            if (found := self._pool_order.nearest(holder, is_wanted)) is not None:
                return found
        return self._present_order.nearest(holder, wanted[-1])

    @cached_property
    def _pool_order(self) -> TreeOrder:
        return self._registration.in_tree_order(self._people.group == NOBODY)

    @cached_property
    def _present_order(self) -> TreeOrder:
        return self._registration.in_tree_order(self._registration.present)

    @cached_property
    def _containers(self) -> Containers:
        return Containers(self._draft, self.is_clean)

    def _is_present(self, owner: str) -> bool:
        return bool(self._registration.present[self._row(owner)])

    def _is_extinct(self, owner: str) -> bool:
        return bool(self._registration.extinct[self._row(owner)])

    def _row(self, owner: str) -> int:
        row = self._people.row(owner)
        assert row is not None, "an owner is a person"
        return row

    def _rows_of(self, number: int) -> list[int]:
        return self._cohorts.rows_of(number, self._people)
