"""One permanent value in one release: which groups show it, who holds it, and who owns which cohort's instances.

Everything that is checked about G3 looks at this. Whoever is not published counts as absent (docs/design.md, "Permanent
values").
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.truth import exact
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy


def cohort_count(policy: Policy) -> int:
    """ℓ as a number of cohorts: the fewest of which one is at most 1/ℓ."""
    return math.ceil(exact(policy.l))


@dataclass(frozen=True)
class Scarce:
    """A permanent value s, by its leaf, in a release.

    By group: `shown` is how often it shows s, `holders` are the published people who hold s, `visible` those of them
    whose s is shown, the others' being hidden behind "*". `owners` are a group's owners, a set for each cohort.
    """

    leaf: int
    shown: Mapping[str, int]
    holders: Mapping[str, frozenset[str]]
    visible: Mapping[str, frozenset[str]]
    cohorts: Sequence[Sequence[str]] = field(repr=False)
    owners: Mapping[str, Sequence[frozenset[str]]] = field(repr=False)

    def hidden(self) -> Iterator[tuple[str, str]]:
        """(group, person) for everyone whose s is suppressed."""
        for group, holders in self.holders.items():
            for person in sorted(holders - self.visible.get(group, frozenset())):
                yield group, person


def look(policy: Policy, release: Published, secrets: Secrets) -> list[Scarce]:
    """Every permanent value as a release shows it."""
    hierarchy, permanent = policy.sensitive.hierarchy, sorted(policy.sensitive.permanent)
    shown: dict[int, dict[str, int]] = {leaf: {} for leaf in permanent}
    leaf_of = {hierarchy.leaf_node[leaf]: leaf for leaf in permanent}
    for name, group in release.groups.items():
        for node in group.shown.keys() & leaf_of.keys():
            shown[leaf_of[node]][name] = group.shown[node]
    holders: dict[int, dict[str, set[str]]] = {leaf: {} for leaf in permanent}
    for person, leaves in secrets.held.items():
        if person in secrets.places:
            for leaf in leaves:
                holders[leaf].setdefault(secrets.places[person][0], set()).add(person)
    found = []
    for leaf in permanent:
        cohorts = secrets.cohorts.get(hierarchy.leaves[leaf], ())
        owners = _owners(cohorts, secrets)
        held = {group: frozenset(people) for group, people in holders[leaf].items()}
        visible = {
            group: _visible(held.get(group, frozenset()), count, owners.get(group, ()))
            for group, count in shown[leaf].items()
        }
        found.append(Scarce(leaf, shown[leaf], held, visible, cohorts, owners))
    return found


def _owners(cohorts: Sequence[Sequence[str]], secrets: Secrets) -> dict[str, list[frozenset[str]]]:
    found: dict[str, list[set[str]]] = {}
    for at, owners in enumerate(cohorts):
        for person in owners:
            if person in secrets.places:
                group = secrets.places[person][0]
                found.setdefault(group, [set() for _ in cohorts])[at].add(person)
    return {group: [frozenset(people) for people in lists] for group, lists in found.items()}


def _visible(holders: frozenset[str], count: int, owners: Sequence[frozenset[str]]) -> frozenset[str]:
    """All holders of a group if it shows s for each; else those of them that the first cohort lists."""
    if count >= len(holders) or not owners:
        return holders
    return holders & owners[0]
