"""G3, cohorts: a group that shows s n times has n owners from each of the ℓ cohorts (Bu, Principles 1 and 2).

The first cohort is the holders' whose s is shown. A holder whose s is hidden behind "*" owns nothing that counts in
that release, and no more do the decoys that hide them: balance is about what is shown. Without participation knowledge
decoys may be replaced between releases, so of continuity only this can be checked: a group that is carried has the same
owners.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.scarce import Scarce, cohort_count
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

FORM = "the cohorts are not l lists of owners for each permanent value"
TWICE = "a person owns two instances of a value"
NOT_PUBLISHED = "the cohorts list somebody who is not published"
NOT_A_HOLDER = "the first cohort lists somebody who does not hold the value"
HOLDER_AS_DECOY = "a cohort of decoys lists a holder"
UNBALANCED = "a group's owners of each cohort are not as many as the times it shows the value"
OTHER_OWNERS = "a carried group has other owners"
CROWDED = "a group shows a permanent value for more than 1 in l of its people"
MORE_THAN_ONCE = "a group shows a permanent value more than once, although everyone's participation may be known"


class ScarceGroups:
    """What anyone can see of G3: ℓ people for each time a permanent value is shown; under `all`, once in a group."""

    def __init__(self, policy: Policy) -> None:
        hierarchy = policy.sensitive.hierarchy
        self.nodes = frozenset(hierarchy.leaf_node[leaf] for leaf in policy.sensitive.permanent)
        self._cohorts, self._is_all = cohort_count(policy), policy.participation == "all"
        self.shown = 0

    def see(self, release: Published, findings: Findings) -> None:
        for name, group in release.groups.items():
            for node in group.shown.keys() & self.nodes:
                count = group.shown[node]
                self.shown += count
                is_crowded = count * self._cohorts > group.rows
                findings.say(Promise.G3, CROWDED, release.number, name, int(is_crowded))
                findings.say(Promise.G3, MORE_THAN_ONCE, release.number, name, int(self._is_all and count > 1))


class Balance:
    """Checks the cohorts of every release against its groups and against who holds what."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._count = policy, cohort_count(policy)
        self._last: dict[tuple[int, str], Sequence[frozenset[str]]] = {}
        self._cohort_of: dict[tuple[int, str], int] = {}
        self.owners: set[tuple[int, str]] = set()  # (value, person), ever
        self.switches = 0  # times an owner was in another cohort of decoys in the release before

    def see(self, release: Published, scarce: Sequence[Scarce], secrets: Secrets, findings: Findings) -> None:
        number, labels = release.number, self._policy.sensitive.hierarchy.leaves
        known = {labels[leaf] for leaf in self._policy.sensitive.permanent}
        wrong = len(secrets.cohorts.keys() - known)
        wrong += sum(bool(s.cohorts or s.shown) and len(s.cohorts) != self._count for s in scarce)
        findings.say(Promise.CONTRACT, FORM, number, times=wrong)
        owners: dict[tuple[int, str], Sequence[frozenset[str]]] = {}
        for value in scarce:
            self._people(number, value, secrets, findings)
            for group in sorted(value.owners.keys() | value.shown.keys()):
                lists = value.owners.get(group, ())
                count = value.shown.get(group, 0)
                is_balanced = len(lists) == self._count and all(len(people) == count for people in lists)
                findings.say(Promise.G3, UNBALANCED, number, group, int(not is_balanced))
                owners[value.leaf, group] = lists
                before = self._last.get((value.leaf, group), lists)
                is_free = self._policy.participation == "all"  # which of a clique's spares are listed says nothing
                findings.say(Promise.G3, OTHER_OWNERS, number, group, int(not is_free and before != lists))
        self._last = owners

    def _people(self, number: int, value: Scarce, secrets: Secrets, findings: Findings) -> None:
        times = Counter(person for cohort in value.cohorts for person in cohort)
        findings.say(Promise.G3, TWICE, number, times=sum(count > 1 for count in times.values()))
        away = sum(person not in secrets.places for person in times)
        findings.say(Promise.CONTRACT, NOT_PUBLISHED, number, times=away)
        cohort_of: dict[str, int] = {}
        for at, cohort in enumerate(value.cohorts):
            for person in cohort:
                is_holder = value.leaf in secrets.held.get(person, ())
                findings.say(Promise.G3, NOT_A_HOLDER, number, times=int(at == 0 and not is_holder))
                findings.say(Promise.G3, HOLDER_AS_DECOY, number, times=int(at > 0 and is_holder))
                cohort_of[person] = at
                self.owners.add((value.leaf, person))
        for person, at in cohort_of.items():
            before = self._cohort_of.get((value.leaf, person), at)
            self.switches += 0 < at != before > 0
        self._cohort_of = {key: at for key, at in self._cohort_of.items() if key[0] != value.leaf}
        self._cohort_of.update(((value.leaf, person), at) for person, at in cohort_of.items())


def free_stars(release: Published, scarce: Sequence[Scarce]) -> Mapping[str, int]:
    """By group: the "*" that no suppressed holder of it takes."""
    free = {name: group.shown[0] for name, group in release.groups.items() if group.shown.get(0)}
    for value in scarce:
        for group, _ in value.hidden():
            free[group] = free.get(group, 0) - 1
    return free
