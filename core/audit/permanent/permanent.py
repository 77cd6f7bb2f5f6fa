"""G3, permanent: everything that is checked about permanent values, in the order in which it must be.

Bu; docs/design.md, "G3 Permanent". `cohorts` balances groups, `alibis` and `participation` run the linkage-exclusion
attack with full and with little participation knowledge, `holders` counts worlds where there are few, `suppressions`
explains. What a finding is and what only a figure: balance always binds. Against somebody who knows K people, ℓ must be
left whom nothing excludes. Under `participation: all` the same binds for the alibis, and, while nothing is suppressed,
for the share of holder sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from shoal.core.audit.criteria.suppressions import Suppressions
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.alibis import Alibis, count_under
from shoal.core.audit.permanent.cohorts import Balance
from shoal.core.audit.permanent.holders import Component, Drawn, HolderSets
from shoal.core.audit.permanent.participation import Exclusion
from shoal.core.audit.permanent.scarce import cohort_count, look
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

NO_VALUES = "cohorts are listed, and the policy has no permanent values"
EXCLUDED = "somebody who knows the participation of K people can exclude all but fewer than l as a holder"
OVER = "somebody is in more than 1/l of the smallest holder sets that fit everything published"


@dataclass(frozen=True)
class Attack:
    """What comes of so much participation knowledge: holders with fewer than ℓ candidates, and the fewest."""

    known: str
    under: int
    fewest: int | None


class Permanent:
    """Sees releases with their secrets and checks G3."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.least = policy, cohort_count(policy)
        self._bound = 1 / exact(policy.l)
        self.balance, self.alibis = Balance(policy), Alibis(policy)
        self.suppressions = Suppressions(policy)
        known = {0} if policy.participation == "all" else {0, policy.participation}
        self._exclusions = [Exclusion(count, self.alibis) for count in sorted(known)]
        self._sets = {leaf: HolderSets() for leaf in sorted(policy.sensitive.permanent)}
        self.risks: dict[str, Fraction] = {}  # by person, the most it ever was for a value

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        if not self._sets:
            findings.say(Promise.CONTRACT, NO_VALUES, release.number, times=int(bool(secrets.cohorts)))
            return
        scarce = look(self._policy, release, secrets)
        self.balance.see(release, scarce, secrets, findings)
        self.suppressions.see(release, scarce, secrets, self.alibis)
        self.alibis.see(release, scarce, secrets, findings)
        for exclusion in self._exclusions:
            exclusion.see(release, scarce, secrets)
        if self._policy.participation != "all":
            few = sum(count < self.least for count in self._exclusions[-1].now.values())
            findings.say(Promise.G3, EXCLUDED, release.number, times=few)
        self._count(release, secrets, findings)

    def _count(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        formed = {name: g for name, g in release.groups.items() if g.formed == release.number}
        hierarchy = self._policy.sensitive.hierarchy
        for leaf, sets in self._sets.items():
            node = hierarchy.leaf_node[leaf]
            drawn = [
                Drawn(secrets.people.get(name, ()), group.shown.get(node, 0), group.shown.get(0, 0))
                for name, group in formed.items()
            ]
            for component in sets.see(drawn):
                risks = component.risks()
                for person, risk in risks.items():
                    self.risks[person] = max(risk, self.risks.get(person, Fraction(0)))
                if self._policy.participation == "all" and not component.is_starred:
                    over = sum(risk > self._bound for risk in risks.values())
                    findings.say(Promise.G3, OVER, release.number, times=over)

    def attacks(self) -> list[Attack]:
        """The linkage-exclusion attack with no, some and full participation knowledge."""
        found = []
        for exclusion in self._exclusions:
            counts = exclusion.fewest.values()
            known = (
                "of nobody"
                if not exclusion.known
                else "of 1 person"
                if exclusion.known == 1
                else f"of {exclusion.known} people"
            )
            found.append(Attack(known, sum(c < self.least for c in counts), min(counts, default=None)))
        alibis = self.alibis.of
        fewest = min((alibi.fewest for alibi in alibis.values()), default=None)
        return [*found, Attack("of everyone", count_under(alibis, self.least), fewest)]

    @property
    def components(self) -> list[Component]:
        return [component for sets in self._sets.values() for component in sets.components]

    def over(self) -> Mapping[str, Fraction]:
        """Everyone who ever held a value in more than 1/ℓ of the holder sets counted."""
        return {person: risk for person, risk in self.risks.items() if risk > self._bound}
