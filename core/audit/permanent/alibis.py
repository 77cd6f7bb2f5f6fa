"""Alibis: A(h) is the set of people c for whom "c holds s, h does not" fits everything published.

docs/design.md, "What the auditor computes". For somebody who knows who is in which group. From the first release that
shows s for h: c leaves A(h) if s is shown for h and c is not in h's group, or holds s too and both are shown; or if s
is not shown for h, and c, who does not hold s, is in another group than h that has no "*" to spare; one "*" covers one
holder. h itself is in A(h): at least ℓ people who cannot be excluded are h and ℓ−1 others. Under `participation: all`
|A(h)| ≥ ℓ is promised, and of each clique, as the cohorts list it, what is to be shown when it is whole and when it is
not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.cohorts import free_stars
from shoal.core.audit.permanent.scarce import Scarce, cohort_count
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

TOO_FEW = "fewer than l people could hold a value in a holder's place"
EXCLUDED_MATE = "a clique lists somebody who can be excluded"
TORN = "a clique that is not whole is not in one group"
UNCOVERED = 'a decoy is left in a group that shows neither the value nor a "*" for it'
SHARED_STAR = 'one "*" stands for the cliques of two holders'

Key = tuple[int, str]  # (value, holder)


@dataclass
class Alibi:
    """What is known about one holder: since which release, who could be it, and the clique last listed for them."""

    first: int
    left: set[str] = field(repr=False)
    clique: frozenset[str] = field(repr=False)
    fewest: int = 0
    last_shown: int = 0


class Alibis:
    """A(h) for every holder h of every permanent value, kept up to date."""

    def __init__(self, policy: Policy) -> None:
        self._least, self._is_all = cohort_count(policy), policy.participation == "all"
        self.of: dict[Key, Alibi] = {}

    def see(self, release: Published, scarce: Sequence[Scarce], secrets: Secrets, findings: Findings) -> None:
        number, free = release.number, dict(free_stars(release, scarce))
        waiting: list[tuple[Key, Alibi]] = []  # those whose s is not shown now
        for value in scarce:
            place = {person: group for group, people in value.visible.items() for person in people}
            for holder, group in place.items():
                self._shown(number, (value.leaf, holder), group, value, secrets, findings)
            waiting += [(key, a) for key, a in self.of.items() if key[0] == value.leaf and key[1] not in place]
        if waiting:
            self._not_shown(number, waiting, scarce, free, secrets, findings)
        for alibi in self.of.values():
            alibi.fewest = min(alibi.fewest, len(alibi.left))
            if self._is_all and len(alibi.left) < self._least:
                findings.say(Promise.G3, TOO_FEW, number)

    def _shown(self, number: int, key: Key, group: str, value: Scarce, secrets: Secrets, findings: Findings) -> None:
        people, holder = set(secrets.people[group]), key[1]
        alibi = self.of.get(key)
        if alibi is None:
            alibi = self.of[key] = Alibi(number, set(people), frozenset(), len(people))
        alibi.left &= people
        # Whoever holds s as well cannot stand in for h where s is shown for both.
        if len(value.holders[group]) <= value.shown[group]:
            alibi.left -= value.holders[group] - {holder}
        listed = frozenset[str]().union(*value.owners.get(group, ()))
        if self._is_all:
            findings.say(Promise.G3, EXCLUDED_MATE, number, group, len(listed - alibi.left - value.holders[group]))
        alibi.clique, alibi.last_shown = listed | {holder}, number

    def _not_shown(
        self,
        number: int,
        waiting: list[tuple[Key, Alibi]],
        scarce: Sequence[Scarce],
        free: dict[str, int],
        secrets: Secrets,
        findings: Findings,
    ) -> None:
        """Covers whoever could be a holder whose s is not shown, with the "*" there are, cliques first."""
        values = {value.leaf: value for value in scarce}
        claims: dict[str, list[tuple[bool, int, Key]]] = {}  # by group: who asks for a "*"
        for (leaf, holder), alibi in waiting:
            home = secrets.places[holder][0] if holder in secrets.places else None
            groups: dict[str, bool] = {}
            for person in alibi.left - {holder}:
                if person not in secrets.places or leaf in secrets.held.get(person, ()):
                    continue  # away as well, or holding s anyway: what is shown of them is what would be
                if (group := secrets.places[person][0]) != home:
                    groups[group] = groups.get(group, False) or person in alibi.clique
            for group, has_mate in groups.items():
                claims.setdefault(group, []).append((not has_mate, len(alibi.left), (leaf, holder)))
            if self._is_all:
                members = (person for person in alibi.clique & alibi.left if person in secrets.places)
                where = {secrets.places[person][0] for person in members}
                findings.say(Promise.G3, TORN, number, times=int(len(where) > 1))
        for group, asking in claims.items():
            there = set(secrets.people[group])
            stars = free.get(group, 0)
            for at, (is_by_chance, _, key) in enumerate(sorted(asking)):
                if at < stars:
                    continue
                self.of[key].left -= there - values[key[0]].holders.get(group, frozenset())
                if self._is_all and not is_by_chance:
                    findings.say(Promise.G3, SHARED_STAR if stars > 0 else UNCOVERED, number, group)


def count_under(alibis: Mapping[Key, Alibi], least: int) -> int:
    """How many holders somebody who knows who is where could ever pin down to fewer than so many people."""
    return sum(alibi.fewest < least for alibi in alibis.values())
