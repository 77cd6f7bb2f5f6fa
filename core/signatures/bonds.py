"""Permanent values of a lasting table that are too few for a signature: cliques that never change.

(docs/design.md, "Values that last", permanent values.) A *bond* is a clique: a holder of a permanent value and enough
others that never held it, l + insiders people in all, chosen once among those near the holder. Its group shows the
value once, in releases in which all its people are published and look alike; otherwise the value has no row, not even
"*". They look alike if each of them has another row that is not "*", or none of them has: a holder of nothing else has
a "*" besides, and would be told by it. Nobody is in two bonds of one value. A decoy who becomes a holder gets no bond
of their own. A bond that lost somebody for good is never shown again. Both would tell who the holder was.

Owners are ids, not rows: a restart reads people back in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.core.cells.tree import Rows
from shoal.core.events.window import DEREGISTERED_STATUS
from shoal.core.people import People
from shoal.core.randomness import Tags
from shoal.core.signatures.entries import NO_GROUP
from shoal.core.signatures.group import CLIQUE_GROUP, Groups


class Bond(NamedTuple):
    """A clique as it is stored: the value, the owners with the holder first, and the group it is shown in, if any.

    The owners of one that is lost are in no order.
    """

    value: int
    owners: tuple[str, ...]
    group: int = NO_GROUP
    is_lost: bool = False


class Bonds:
    """Every bond of a table, numbered in order of creation. `copy()` is what planning works on."""

    def __init__(self) -> None:
        self.bonds: dict[int, Bond] = {}

    def copy(self) -> "Bonds":
        twin = Bonds()
        twin.bonds = dict(self.bonds)
        return twin

    def put(self, records: Iterable[tuple[int, Bond]]) -> None:
        """Write bonds as they were stored."""
        for number, bond in records:
            self.bonds[number] = bond._replace(owners=tuple(bond.owners))

    def changed_since(self, before: "Bonds") -> dict[int, Bond]:
        """The bonds that have to be written to turn `before` into this."""
        return {number: bond for number, bond in self.bonds.items() if before.bonds.get(number) != bond}

    def shown(self) -> Iterator[Bond]:
        """The bonds that are published now."""
        return (bond for _, bond in sorted(self.bonds.items()) if bond.group != NO_GROUP)


class Site(NamedTuple):
    """Where bonds are made, as columns over people."""

    people: People
    may_join: NDArray[np.bool_]  # is published, and in nobody else's group
    is_told: NDArray[np.bool_]  # has a row that is not "*"
    place: Rows
    draw: Tags


def lose_bonds(bonds: Bonds, people: People, erased: Collection[int]) -> None:
    """Note which bonds lost somebody for good, for of somebody `erased` nobody knows what they held, even if they are
    back already. Nothing needs to know any more who of them was the holder.
    """
    for number, bond in bonds.bonds.items():
        rows = () if bond.is_lost else _rows(bond, people)
        if any(people.status[row] == DEREGISTERED_STATUS or row in erased for row in rows):
            bonds.bonds[number] = bond._replace(is_lost=True, owners=tuple(sorted(bond.owners)))


def lose_bonds_of(bonds: Bonds, owners: Set[str]) -> None:
    """The same for people who are lost for good wherever they are, and perhaps unknown here."""
    for number, bond in bonds.bonds.items() if owners else ():
        if not bond.is_lost and not owners.isdisjoint(bond.owners):
            bonds.bonds[number] = bond._replace(is_lost=True, owners=tuple(sorted(bond.owners)))


def make_bonds(bonds: Bonds, site: Site, values: Iterable[int], size: float) -> None:
    """Make a bond for each holder of these values who may be in one and is in none, of people who look alike."""
    for value in sorted(values):
        for is_told in (False, True):
            _bind_holders(bonds, site, value, ceil(size), site.may_join & (site.is_told == is_told))


def show_bonds(bonds: Bonds, site: Site, groups: Groups, number: int) -> None:
    """Give every bond whose people are all here and look alike a group, the one that it had if it was shown before."""
    for key, bond in sorted(bonds.bonds.items()):
        rows = _rows(bond, site.people)
        is_alike = len(np.unique(site.is_told[rows])) == 1
        is_whole = len(rows) == len(bond.owners)  # of somebody in another shard there may be no row
        is_shown = is_whole and not bond.is_lost and is_alike and bool(np.all(site.may_join[rows]))
        if is_shown and bond.group == NO_GROUP:
            group = groups.form(np.array([CLIQUE_GROUP]), np.array([bond.value]), number)
            bonds.bonds[key] = bond._replace(group=int(group[0]))
        elif not is_shown and bond.group != NO_GROUP:
            bonds.bonds[key] = bond._replace(group=NO_GROUP)


def rows_of(bonds: Bonds, people: People) -> tuple[Rows, Rows, Rows]:
    """The rows of the bonds that are shown: person, group, and the value for the holder, -1 for the others."""
    lines = [
        (row, bond.group, bond.value if turn == 0 else -1)
        for bond in bonds.shown()
        for turn, row in enumerate(_rows(bond, people))
    ]
    table = np.array(lines, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def cohorts_of(bonds: Bonds, labels: Sequence[str], values: Iterable[int], size: float) -> dict[str, list[list[str]]]:
    """For each of these values `size` cohorts: the holders of the bonds that are shown, then others, one list each."""
    found: dict[str, list[list[str]]] = {labels[value]: [[] for _ in range(ceil(size))] for value in sorted(values)}
    for bond in bonds.shown():
        for cohort, owner in zip(found[labels[bond.value]], bond.owners, strict=False):
            cohort.append(owner)
    return found


def _rows(bond: Bond, people: People) -> list[int]:
    return [row for row in people.rows_of(bond.owners) if row is not None]


def _bind_holders(bonds: Bonds, site: Site, value: int, size: int, may_join: NDArray[np.bool_]) -> None:
    people = site.people
    holds = np.array([value in values for values in people.sets.items], dtype=bool)
    is_holder = holds[people.held]
    is_bound = np.zeros(len(people), dtype=bool)
    for bond in bonds.bonds.values():
        if bond.value == value:
            is_bound[_rows(bond, people)] = True
    may_join = may_join & ~is_bound
    holders = np.flatnonzero(may_join & is_holder)
    if not len(holders):
        return
    others = np.flatnonzero(may_join & ~is_holder)
    others = others[np.lexsort((site.draw[others], site.place[others]))]
    near, is_taken = site.place[others], np.zeros(len(others), dtype=bool)
    for row in holders[np.argsort(site.draw[holders], kind="stable")].tolist():
        chosen = _nearest(near, is_taken, int(site.place[row]), size - 1)
        if chosen is None:
            return
        is_taken[chosen] = True
        owners = tuple(people.ids(np.array([row, *others[chosen].tolist()])))
        bonds.bonds[len(bonds.bonds) + 1] = Bond(value, owners)


def _nearest(near: Rows, is_taken: NDArray[np.bool_], place: int, count: int) -> list[int] | None:
    """The positions of the nearest that are not taken, by going outwards; None if there are too few."""
    found: list[int] = []
    after = int(np.searchsorted(near, place))
    before = after - 1
    while len(found) < count and (before >= 0 or after < len(near)):
        is_after = before < 0 or (after < len(near) and near[after] - place <= place - near[before])
        at = after if is_after else before
        if not is_taken[at]:
            found.append(at)
        after, before = (after + 1, before) if is_after else (after, before - 1)
    return found if len(found) == count else None
