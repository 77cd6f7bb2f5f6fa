"""G3 in a lasting table: a permanent value too rare for a signature is shown for a clique, once, and never otherwise.

docs/design.md, "Values that last". A clique's group shows the value once for at least ℓ + c people, one of whom holds
it; each of them has another row in that release. Nobody is ever in two cliques of one value, and nobody of a clique
ever has an entry whose signature holds it. A clique is the same people whenever it is shown: no spares are used up.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shoal.core.audit.criteria.lasting.history import History
from shoal.core.audit.criteria.lasting.terms import Kind
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.permanent.cohorts import FORM, NOT_A_HOLDER, NOT_PUBLISHED, UNBALANCED
from shoal.core.audit.permanent.cohorts import TWICE as OWNER_TWICE
from shoal.core.audit.reading.published import Published
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

NO_HOLDER: Final = "a clique's group does not have one row that stands for its value and is its holder's"
ROW_TWICE: Final = "a person has two rows in a clique"
ALONE: Final = "a person of a clique has no other row"
TWO_CLIQUES: Final = "a person is in two cliques of one value"
OTHER_HOLDER: Final = "a clique shows its value for another holder than before"
SIGNED: Final = "a person of a clique has an entry whose signature holds its value"


@dataclass(frozen=True)
class Clique:
    """People among whom a holder of a value hides."""

    leaf: int
    people: frozenset[str] = field(repr=False)
    holder: str = field(repr=False)


class Cliques:
    """Checks every clique that is shown, and what the file of cohorts says of it."""

    def __init__(self, policy: Policy, history: History) -> None:
        self._history, self._terms = history, history.terms
        self._hierarchy = policy.sensitive.hierarchy
        self._of: dict[tuple[int, str], Clique] = {}  # by value and person, the first
        self._values: dict[str, set[int]] = defaultdict(set)  # by person: the values of their cliques
        self._accused: set[tuple[int, str]] = set()
        self.shown: dict[Clique, int] = {}  # in how many releases
        self.hidden = 0  # holders of the last release whose value is not shown

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        others: dict[str, int] = defaultdict(int)  # rows of a person that are not of a clique
        groups: dict[str, Clique] = {}
        for name, entries in secrets.entries.items():
            if self._terms.kind(release.groups[name]) is not Kind.CLIQUE:
                for entry in entries:
                    others[entry.person] += 1
        for name, entries in secrets.entries.items():
            group = release.groups[name]
            if self._terms.kind(group) is not Kind.CLIQUE:
                continue
            leaf = self._hierarchy.first[next(iter(group.shown))]
            people = [entry.person for entry in entries]
            holders = [entry.person for entry in entries if entry.leaf is not None]
            is_one = len(holders) == 1 and all(entry.leaf in (None, leaf) for entry in entries)
            say = findings.say
            say(Promise.G3, NO_HOLDER, release.number, name, int(not is_one))
            say(Promise.G3, ROW_TWICE, release.number, name, len(people) - len(set(people)))
            say(Promise.G3, ALONE, release.number, name, sum(not others[person] for person in set(people)))
            if is_one:
                clique = groups[name] = Clique(leaf, frozenset(people), holders[0])
                self._keep(release.number, name, clique, findings)
        self._signed(release.number, findings)
        self._cohorts(release.number, groups, secrets, findings)
        shown = {(clique.leaf, clique.holder) for clique in groups.values()}
        held = ((leaf, person) for person, leaves in secrets.held.items() for leaf in leaves if person in secrets.homes)
        self.hidden = sum(one not in shown for one in held) if self._terms.has_cliques else 0

    def _keep(self, number: int, name: str, clique: Clique, findings: Findings) -> None:
        """Remembers a clique; whoever was in another one of its value is in two."""
        self.shown[clique] = self.shown.get(clique, 0) + 1
        torn = holders = 0
        for person in clique.people:
            before = self._of.setdefault((clique.leaf, person), clique)
            torn += before.people != clique.people
            holders += before.people == clique.people and before.holder != clique.holder
            self._values[person].add(clique.leaf)
        findings.say(Promise.G3, TWO_CLIQUES, number, name, torn)
        findings.say(Promise.G3, OTHER_HOLDER, number, name, int(holders > 0))

    def _signed(self, number: int, findings: Findings) -> None:
        """No one of a clique ever has a signature that holds its value: neither before it, with it, nor after."""
        for person, values in self._values.items():
            known = {*self._history.of(person).values}
            known |= {one.signature for one in self._history.now.get(person, ()) if one.signature is not None}
            for leaf in values:
                if (leaf, person) not in self._accused and any(leaf in one for one in known):
                    self._accused.add((leaf, person))
                    findings.say(Promise.G3, SIGNED, number)

    def _cohorts(self, number: int, groups: Mapping[str, Clique], secrets: Secrets, findings: Findings) -> None:
        """The file of cohorts: of each clique shown its holder in the first list, one of the others in each other."""
        labels = {self._hierarchy.leaves[leaf]: leaf for leaf in self._terms.permanent}
        wrong = len(secrets.cohorts.keys() - labels.keys())
        for label, leaf in labels.items():
            lists = secrets.cohorts.get(label, ())
            cliques = [clique for clique in groups.values() if clique.leaf == leaf]
            if (lists and len(lists) != self._terms.cohorts) or (cliques and not lists):
                wrong += 1
                continue
            listed = [person for cohort in lists for person in cohort]
            say = findings.say
            say(Promise.G3, OWNER_TWICE, number, times=len(listed) - len(set(listed)))
            say(Promise.CONTRACT, NOT_PUBLISHED, number, times=sum(person not in secrets.homes for person in listed))
            holders = lists[0] if lists else ()
            say(Promise.G3, NOT_A_HOLDER, number, times=sum(leaf not in secrets.held.get(p, ()) for p in holders))
            for name, clique in groups.items():
                if clique.leaf == leaf:
                    owners = [clique.people & set(cohort) for cohort in lists]
                    is_balanced = owners[0] == {clique.holder} and all(len(one) == 1 for one in owners)
                    say(Promise.G3, UNBALANCED, number, name, int(not is_balanced))
        findings.say(Promise.CONTRACT, FORM, number, times=wrong)
