"""What cliques ask of group formation: people who must be published together, and values that become "*" for it.

Cliques that share a person are one tie. A tie that is in one group, unchanged, is left alone and the group carried. The
groups of any other tie are broken, and the tie is grouped anew as a whole.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from shoal.core.cohort.clique import COVERED, NO_ROW, WHOLE, Clique, Cohorts
from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.participation_all import ParticipationAllRoles
from shoal.core.cohort.registration import Mask
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Ties
from shoal.core.people import People
from shoal.core.person import NOBODY
from shoal.core.policy.policy import Policy


class CliqueTies:
    """The ties of one release. `before` are the cohorts of the release before it.

    `company` are, by clique, the people outside it who must be under its "*" too (see `abundance.py`).
    """

    def __init__(self, draft: CohortDraft, before: Cohorts, company: Mapping[int, list[int]]) -> None:
        cohorts, people, registration = draft.cohorts, draft.people, draft.registration
        self._cohorts, self._before, self._people, self._company = cohorts, before, people, company
        self._registration, self._has_role = registration, draft.has_role.copy()
        for rows in company.values():
            self._has_role[rows] = True
        is_present = registration.present.tobytes()  # bytes: looked up one by one they are quicker than an array
        self._rows = {
            number: [row for row in cohorts.rows_of(number, people) if row != NO_ROW and is_present[row]]
            for number, clique in cohorts.living()
            if clique.mode in (WHOLE, COVERED)
        }
        for number, rows in company.items():
            self._rows[number] = [*self._rows.get(number, ()), *rows]
        self._united = list(self._unite())
        self._excluded: dict[int, Mask] = {}  # by the place of a tie: people who must not be in its group

    def show_once(self, roles: Mapping[int, ParticipationAllRoles]) -> None:
        """With `participation: all`: show the first of a tie's cliques of one value, and cover the others.

        A clique to be shown for the first time is covered too if a person of the tie was in a group that showed the
        value before.
        """
        for place, (cliques, rows) in enumerate(self._united):
            shown: set[int] = set()
            for number in cliques:
                clique = self._cohorts.cliques[number]
                if clique.mode != WHOLE:
                    continue
                is_first = clique.created[0] == self._registration.number
                if clique.value in shown or (is_first and roles[clique.value].was_seen[rows].any()):
                    self._cohorts.cliques[number] = self._hidden_again(number, clique, is_first=is_first)
                else:
                    shown.add(clique.value)
                    if is_first:
                        was_seen = roles[clique.value].was_seen
                        self._excluded[place] = was_seen | self._excluded.get(place, was_seen)

    def broken(self) -> set[int]:
        """Groups to be broken: those with a person whose role changed, or with only a part of a tie."""
        group = self._people.group
        found: set[int] = set()
        for number, clique in self._cohorts.changed_since(self._before).items():
            old = self._before.cliques.get(number)
            if old is not None and (old.owners, old.mode) == (clique.owners, clique.mode):
                continue  # only its containers changed
            owners = {*clique.owners, *(old.owners if old else ())}
            found.update(int(group[row]) for owner in owners if (row := self._published(owner)) is not None)
        for _, members in self._united:
            groups = {int(group[row]) for row in members}
            if len(groups) > 1:
                found |= groups
        return found - {NOBODY}

    def uncovered(self, ledger: Ledger) -> set[int]:
        """More groups to be broken: those with a clique's company and fewer "*" than cliques to be hidden there."""
        if not self._company:
            return set()
        hidden, with_company = Counter[int](), set[int]()
        for cliques, rows in self._united:
            group = int(self._people.group[rows[0]])
            hidden[group] += sum(self._cohorts.cliques[number].mode != WHOLE for number in cliques)
            if not self._company.keys().isdisjoint(cliques):
                with_company.add(group)
        stars = {group: dict(ledger.record(group).shown).get(0, 0) for group in with_company - {NOBODY}}
        return {group for group, count in stars.items() if count < hidden[group]}

    def in_pool(self, policy: Policy) -> Ties | int:
        """The ties that need a group, or the row of a person whose group must be broken first: they lend a "*"."""
        members: list[list[int]] = []
        covers, has_role = dict[int, set[int]](), self._has_role.copy()
        excluded: dict[int, Mask] = {}
        for place, (cliques, rows) in enumerate(self._united):
            if self._people.group[rows[0]] != NOBODY:
                continue
            tie = list(rows)
            if place in self._excluded:
                excluded[len(members)] = self._excluded[place]
            for number in cliques:
                clique = self._cohorts.cliques[number]
                if clique.mode == WHOLE:
                    continue
                found = self._cover(clique, self._rows[number], tie, covers, policy.sensitive.permanent)
                if found is None:
                    lender = self._lender(rows[0], has_role | self._excluded.get(place, has_role))
                    if lender is None:  # no person in the table can lend a value: all values of the tie become "*"
                        for row in tie:
                            covers.setdefault(row, set()).update(self._values(row))
                        break
                    if self._people.group[lender] != NOBODY:
                        return lender
                    has_role[lender] = True
                    tie.append(lender)
                    found = lender, self._values(lender)[0]
                covers.setdefault(found[0], set()).add(found[1])
            members.append(tie)
        # With `participation: all` a person in a group that shows a value can be in no new clique of it: few should be.
        return Ties(members, covers, excluded, are_apart=policy.participation == "all")

    # -- parts --------------------------------------------------------------------------------------------------

    def _hidden_again(self, number: int, clique: Clique, *, is_first: bool) -> Clique:
        """A clique that was to be shown, covered instead: as if never shown, or with its absent people in it again."""
        if is_first:
            return clique._replace(mode=COVERED, created=(0,) * len(clique.owners))
        before = self._before.cliques[number].owners
        away = tuple(owner for owner in before if owner not in clique.owners and self._published(owner) is None)
        owners, created = (*clique.owners, *away), clique.created[:1]
        return clique._replace(mode=COVERED, owners=owners, nodes=(0,) * len(owners), created=created * len(owners))

    def _cover(
        self,
        clique: Clique,
        own: list[int],
        tie: list[int],
        covers: Mapping[int, set[int]],
        permanent: frozenset[int],
    ) -> tuple[int, int] | None:
        """The row and value to be "*" for a clique: the holder's own, else a value that covers no other clique."""
        holder = self._published(clique.holder)
        if holder is not None:
            return holder, clique.value
        draw = self._registration.draw
        others = sorted(set(tie).difference(own), key=lambda row: int(draw[row]))
        for row in (*sorted(own, key=lambda row: int(draw[row])), *others):
            for leaf in self._values(row):
                if leaf not in permanent and leaf not in covers.get(row, ()):
                    return row, leaf
        return None

    def _lender(self, near: int, is_taken: Mask) -> int | None:
        """The nearest person who is not taken; without a role, and therefore without a permanent value."""
        rows = np.flatnonzero(self._registration.present & ~is_taken)
        return self._registration.nearest(rows, near) if rows.size else None

    def _unite(self) -> Iterator[tuple[list[int], list[int]]]:
        """The cliques, by number, and the people, by row, of each tie."""
        of_row: dict[int, int] = {}  # row -> a clique it is in
        parent = {number: number for number in self._rows}

        def root(number: int) -> int:
            while parent[number] != number:
                parent[number] = number = parent[parent[number]]
            return number

        for number, rows in self._rows.items():
            for row in rows:
                other = of_row.setdefault(row, number)
                if other != number:
                    first, second = sorted((root(number), root(other)))
                    parent[second] = first
        together: dict[int, list[int]] = {}
        for number in self._rows:
            together.setdefault(root(number), []).append(number)
        for numbers in together.values():
            yield numbers, list(dict.fromkeys(row for number in numbers for row in self._rows[number]))

    def _values(self, row: int) -> tuple[int, ...]:
        return self._people.sets.items[int(self._people.set[row])]

    def _published(self, owner: str) -> int | None:
        row = self._people.row(owner) if owner else None
        return row if row is not None and self._registration.present[row] else None


def people_with_role(cohorts: Cohorts, people: People) -> Mask:
    """Which people have a role: holders of any permanent value, and owners of any instance."""
    found: Mask = np.zeros(len(people), dtype=bool)
    found[people.holders()] = True
    owned = np.array([row for number, _ in cohorts.living() for row in cohorts.rows_of(number, people)], dtype=np.int64)
    found[owned[owned != NO_ROW]] = True
    return found
