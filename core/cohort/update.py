"""Step 4 of a release: roles, cohorts and cliques brought up to date, and what they ask of the groups."""

import math
from collections.abc import Callable, Mapping, Set

from shoal.core.cells.tree import Rows, Tree
from shoal.core.cohort.abundance import Abundance
from shoal.core.cohort.clique import Cohorts
from shoal.core.cohort.participation_all import EveryoneKnown
from shoal.core.cohort.registration import Registration
from shoal.core.cohort.roles import Roles
from shoal.core.cohort.ties import Tying, busy
from shoal.core.groups.ledger import Ledger
from shoal.core.groups.pool import Ties
from shoal.core.people import People
from shoal.core.policy.policy import Policy


def clique_size(policy: Policy) -> int:
    """How many people a clique needs, which is how many cohorts a permanent value has: l, rounded up."""
    return math.ceil(policy.l)


class CohortUpdate:
    """One release's update of a draft's cohorts, in place."""

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
        """Update the roles, have groups broken whose people they changed, and say which of the pool are tied.

        `touched` are the people of the window: of those who do not exist any more, they are the new ones. `overlapping`
        are, by value, the holders of whom somebody else shows it, and who must not be shown with it beside that (G5).
        """
        before = self._cohorts.copy()
        is_busy = busy(self._cohorts, self._people)
        newly_extinct = touched[registration.extinct[touched]]
        participation, size = self._policy.participation, clique_size(self._policy)
        known = self._cohorts, self._people, self._tree, registration, is_busy
        values = sorted(self._policy.sensitive.permanent)
        everyone: list[EveryoneKnown] = []
        shown_in: set[int] = set()
        company: dict[int, list[int]] = {}
        if participation == "all":
            everyone = [EveryoneKnown(value, self._ledger, *known, overlapping.get(value, set())) for value in values]
            for known_to_all in everyone:
                known_to_all.update(size, newly_extinct)
            for known_to_all in everyone:
                known_to_all.add_spares(size)
        else:
            for value in values:
                roles = Roles(value, *known, overlapping.get(value, set()), participation)
                roles.update(size, newly_extinct)
                abundance = Abundance(value, *known[:-1], roles.is_clean, participation)
                abundance.cover_outnumbered()
                shown_in |= abundance.note_cells()
                abundance.forget_seen()
                company |= abundance.company(size)
        tying = Tying(self._cohorts, before, self._people, registration, is_busy, company)
        if participation == "all":
            tying.show_once({roles.value: roles for roles in everyone})
        break_groups(tying.broken() | tying.uncovered(self._ledger))
        while isinstance(ties := tying.in_pool(self._policy), int):
            break_groups({int(self._people.group[ties])})
        return ties if participation == "all" else ties._replace(least=dict.fromkeys(shown_in, participation + 1))
