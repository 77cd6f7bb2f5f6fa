"""Step 4 of a release: bring roles, cohorts and cliques up to date, and say what they ask of the groups."""

import math
from collections.abc import Callable, Mapping, Set

from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.abundance import Abundance
from shoal.core.cohort.clique import Cohorts
from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.participation_all import ParticipationAllRoles
from shoal.core.cohort.registration import Registration
from shoal.core.cohort.roles import Roles
from shoal.core.cohort.ties import CliqueTies, people_with_role
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Ties
from shoal.core.people import People
from shoal.core.policy.policy import Policy


def clique_size(policy: Policy) -> int:
    """How many people a clique needs, which is how many cohorts a permanent value has: l, rounded up."""
    return math.ceil(policy.l)


class CohortUpdate:
    """One release's update of a table's cohorts, in place."""

    def __init__(self, cohorts: Cohorts, people: People, tree: Tree, ledger: Ledger, policy: Policy) -> None:
        self._cohorts, self._people, self._tree, self._policy = cohorts, people, tree, policy
        self._ledger = ledger

    def update(
        self,
        registration: Registration,
        touched: Rows,
        overlapping: Mapping[int, Set[int]],
        break_groups: Callable[[set[int]], None],
    ) -> Ties:
        """Update the roles, break the groups of people whose role changed, and return the ties of the pool.

        `touched` are the people of the window: the extinct ones among them have just ceased to exist. `overlapping`
        are, by value, the holders whom an external group shows with it (see `CohortDraft`).
        """
        before = self._cohorts.copy()
        participation = self._policy.participation
        draft = CohortDraft(
            cohorts=self._cohorts,
            people=self._people,
            tree=self._tree,
            ledger=self._ledger,
            registration=registration,
            has_role=people_with_role(self._cohorts, self._people),
            overlapping=overlapping,
            size=clique_size(self._policy),
            known=0 if participation == "all" else participation,
        )
        newly_extinct = touched[registration.extinct[touched]]
        if participation == "all":
            roles = self._update_all(draft, newly_extinct)
            ties = CliqueTies(draft, before, {})
            ties.show_once(roles)
            return self._tie(ties, break_groups)
        shown_in, company = self._update_known(draft, newly_extinct)
        found = self._tie(CliqueTies(draft, before, company), break_groups)
        return found._replace(least=dict.fromkeys(shown_in, participation + 1))

    def _update_all(self, draft: CohortDraft, newly_extinct: Rows) -> dict[int, ParticipationAllRoles]:
        """The roles of every value with `participation: all`."""
        values = sorted(self._policy.sensitive.permanent)
        found = {value: ParticipationAllRoles(value, draft) for value in values}
        for roles in found.values():
            roles.update(newly_extinct)
        for roles in found.values():
            roles.add_spares()
        return found

    def _update_known(self, draft: CohortDraft, newly_extinct: Rows) -> tuple[set[int], dict[int, list[int]]]:
        """Update the roles of every value; returns the cells that need more than K rows, and the company by clique."""
        shown_in: set[int] = set()
        company: dict[int, list[int]] = {}
        for value in sorted(self._policy.sensitive.permanent):
            roles = Roles(value, draft)
            roles.update(newly_extinct)
            abundance = Abundance(value, draft, roles.is_clean)
            abundance.cover_outnumbered()
            shown_in |= abundance.note_cells()
            abundance.forget_seen()
            company |= abundance.company()
        return shown_in, company

    def _tie(self, ties: CliqueTies, break_groups: Callable[[set[int]], None]) -> Ties:
        """Break the groups that the ties ask for, until all of them can be formed from the pool."""
        break_groups(ties.broken() | ties.uncovered(self._ledger))
        while isinstance(found := ties.in_pool(self._policy), int):
            break_groups({int(self._people.group[found])})
        return found
