"""Cliques and cohorts: the holder and decoys of every permanent value (Bu, definitions 6 to 8).

Layout. A *container instance* is a tree node, fixed when the instance is made, and an owner. A *clique* is one instance
owned by a holder of a value and one for each of its decoys. Cohort i of a value is the i-th instance of each of its
cliques, so every cohort has as many instances as there are holders, and the first is the holders'. Cliques keep
together for good, which is more than Bu asks. Cohort balance in every group then follows from one rule that is easy to
check: a clique is published whole, in one group that shows its value once, or not at all.

Owners are ids, not rows: nothing here depends on the order in which people are read back. Cliques are numbered in order
of creation and never removed; an extinct clique stays as a record that is not looked at any more.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from shoal.core.people import People

NOBODY_OWNS: Final = ""  # an instance that waits for a buddy: its decoy became a holder
NOWHERE: Final = -1  # the container of an instance that never had an owner
NO_ROW: Final = -1  # of an instance without an owner
NEVER: Final = 0  # creation of an instance without possible buddies: no person is registered since then

WHOLE: Final = 0  # the holder and all decoys are published; the value is shown
DORMANT: Final = 1  # no owner is published
COVERED: Final = 2  # some owner is not where they should be: the published ones are together, under one "*"
EXTINCT: Final = 3  # all owners have ceased to exist


class Clique(NamedTuple):
    """A clique as it is stored: owners, nodes and the releases at which the instances were made, the holder's first.

    `cells` are the owners' cells when the value was last shown, NOWHERE before. The adversary knows where people live,
    so only people of that cell could have been the owner then: the cell is the container that counts. With
    `participation: all` there are no containers (all nodes are the root) and no buddies: owners are the holder, decoys
    and spares, and a lost owner is not replaced. `is_handed` says whether a buddy ever took over.
    """

    value: int
    owners: tuple[str, ...]
    nodes: tuple[int, ...]
    created: tuple[int, ...]
    mode: int
    cells: tuple[int, ...] = ()
    is_handed: bool = False

    @property
    def holder(self) -> str:
        return self.owners[0]

    def without_buddies(self, place: int) -> "Clique":
        """This clique with an instance that no buddy can take over any more."""
        return self._replace(created=_put(self.created, place, NEVER))

    def with_owner(self, place: int, owner: str) -> "Clique":
        return self._replace(owners=_put(self.owners, place, owner))

    def with_instance(self, place: int, owner: str, node: int, created: int) -> "Clique":
        owners, nodes = _put(self.owners, place, owner), _put(self.nodes, place, node)
        cells = _put(self.cells, place, NOWHERE)
        return self._replace(owners=owners, nodes=nodes, created=_put(self.created, place, created), cells=cells)


def _put(items: tuple, place: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:place], item, *items[place + 1 :])


class Cohorts:
    """Every clique of a table. Planning works on a `copy()`."""

    def __init__(self) -> None:
        self.cliques: dict[int, Clique] = {}
        self._rows: dict[int, tuple[tuple[str, ...], list[int]]] = {}  # by clique: owners, and their rows as looked up

    def copy(self) -> "Cohorts":
        twin = Cohorts()
        twin._rows = self._rows  # shared: a lookup is used only for the owners it was made for
        twin.cliques = dict(self.cliques)
        return twin

    def put(self, records: Iterable[tuple[int, Clique]]) -> None:
        """Write cliques as they were stored."""
        self.cliques.update(records)

    def add(self, clique: Clique) -> int:
        number = len(self.cliques) + 1
        self.cliques[number] = clique
        return number

    def living(self, value: int | None = None) -> Iterator[tuple[int, Clique]]:
        """The cliques that are not extinct, in the order of their numbers."""
        for number in sorted(self.cliques):
            clique = self.cliques[number]
            if clique.mode != EXTINCT and value in (None, clique.value):
                yield number, clique

    def rows_of(self, number: int, people: People) -> list[int]:
        """The rows of a clique's owners, NO_ROW for none; looked up again only when the owners change."""
        owners = self.cliques[number].owners
        known = self._rows.get(number)
        if known is None or known[0] is not owners:
            found = (people.row(owner) if owner else None for owner in owners)
            known = self._rows[number] = owners, [NO_ROW if row is None else row for row in found]
        return known[1]

    def changed_since(self, before: "Cohorts") -> dict[int, Clique]:
        """The cliques that have to be written to turn `before` into this."""
        return {number: clique for number, clique in self.cliques.items() if before.cliques.get(number) != clique}

    def check_invariants(self, is_everyone_known: bool) -> None:
        """Owners of a value's instances are unique, and numbers have no gaps.

        With `participation: all` a holder may stay a decoy in another clique that would be too small otherwise.
        """
        assert sorted(self.cliques) == list(range(1, len(self.cliques) + 1))
        seen: set[tuple[int, str]] = set()
        for _, clique in self.living():
            assert len(clique.owners) == len(clique.nodes) == len(clique.created)
            assert len(clique.cells) in (0, len(clique.owners))
            assert clique.holder != NOBODY_OWNS
            for owner, node in zip(clique.owners, clique.nodes, strict=True):
                assert owner == NOBODY_OWNS or node != NOWHERE
                assert is_everyone_known or (clique.value, owner) not in seen, "one person owns two instances"
                if owner != NOBODY_OWNS:
                    seen.add((clique.value, owner))


def cohorts_of(cohorts: Cohorts, labels: Mapping[int, str], size: int) -> dict[str, list[list[str]]]:
    """Each permanent value's cohorts as lists of their published owners, the holders' first.

    (docs/contract.md, "Private files", `cohorts.json`.) Only whole cliques count: where a value is hidden behind "*"
    there is nothing to balance. `size` is the number of cohorts; of a clique with spares, so many owners are listed.
    """
    found: dict[str, list[list[str]]] = {label: [[] for _ in range(size)] for _, label in sorted(labels.items())}
    for _, clique in cohorts.living():
        if clique.mode == WHOLE:
            for cohort, owner in zip(found[labels[clique.value]], clique.owners, strict=False):
                cohort.append(owner)
    return found
