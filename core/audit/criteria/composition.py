"""G5: everyone published is safe beside what others have released; and the attack.

Baig; docs/design.md, "G5 Composition". Which rows a group shows as "*" is no secret that is kept anywhere; a row that
is not balanced must be one of them, so a group must show as many "*" as it has such rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from shoal.core.audit.criteria.others import Atlas, Other, weigh
from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.published import COUNTERFEITS, Group, Published
from shoal.core.audit.reading.truth import Record
from shoal.core.audit.reading.view import Secrets
from shoal.core.policy.policy import Policy

UNBALANCED = "a group leaves more rows unbalanced beside another publication than it suppresses"

Weights = Mapping[int, Fraction]


def is_balanced(own: int, ours: Weights, theirs: Weights, alpha: int) -> bool:
    """Whether alpha values in common, one's own among them, add up to the same in both groups."""
    if own not in ours:
        return False
    total = ours[own] + theirs[own]
    return sum(leaf in theirs and weight + theirs[leaf] == total for leaf, weight in ours.items()) >= alpha


class Exposed(NamedTuple):
    """People of the last release who overlap something: with one candidate left, or fewer than alpha, beside it."""

    overlapping: int
    exposed: int
    few: int


class Composition:
    """Checks each release beside everything others have released by then, and runs the attack on it."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._hierarchy = policy, policy.sensitive.hierarchy
        self._others: Sequence[Other] = ()
        self._atlas = Atlas(policy.attributes, ())
        self._known = self._checked = 0
        self.is_asked = False

    def is_unsafe(self, group: Group, people: Iterable[str], secrets: Secrets) -> bool:
        """Whether somebody of a group, shown with their value, is not balanced: then it must not be carried."""
        self.look(secrets.others)
        ours = weigh(self._hierarchy, group.shown)
        return any(self._wanting(secrets.table[person], ours, shown_only=True) for person in people)

    def look(self, others: Sequence[Other]) -> None:
        """Take in what others have published since."""
        if len(others) > self._known:
            self._others, self._known = list(others), len(others)
            self._atlas = Atlas(self._policy.attributes, self._others)
            self.is_asked = True

    def see(self, release: Published, secrets: Secrets, findings: Findings) -> None:
        self.look(secrets.others)
        is_new, self._checked = self._known > self._checked, self._known
        for name, group in release.groups.items():
            if group.formed != release.number and not is_new:
                continue
            if group.counterfeits and not self._known:
                findings.say(Promise.CONTRACT, COUNTERFEITS, release.number, name)
            ours, wanting = weigh(self._hierarchy, group.shown), 0
            for person in secrets.people.get(name, ()):
                wanting += self._wanting(secrets.table[person], ours)
            if wanting > group.shown.get(0, 0):
                findings.say(Promise.G5, UNBALANCED, release.number, name)

    def _wanting(self, record: Record, ours: Weights, *, shown_only: bool = False) -> int:
        """How many of somebody's values, or of those that their group shows, are not balanced beside something."""
        alpha = self._policy.overlap
        near = [self._others[at].weights for at in self._atlas.groups_at(record.qid)]
        return sum(
            any(value in theirs and not is_balanced(value, ours, theirs, alpha) for theirs in near)
            for value in record.values
            if value in ours or not shown_only
        )

    def attack(self, groups: Iterable[tuple[Iterable[str], Iterable[int]]], table: Mapping[str, Record]) -> Exposed:
        """Intersects what each person's group shows (nodes) with what every e they overlap shows (Baig, section 1.1).

        An e that alone leaves one candidate tells nothing that this release could hide, and is passed over.
        """
        overlapping = exposed = few = 0
        everything = range(len(self._hierarchy.leaves))
        for people, shown in groups:
            nodes = set(shown)
            ours = set(everything) if 0 in nodes else set(weigh(self._hierarchy, dict.fromkeys(nodes, 1)))
            for person in people:
                least = self._least_candidates(table[person], ours)
                if least is not None:
                    overlapping += 1
                    exposed += least <= 1
                    few += least < self._policy.overlap
        return Exposed(overlapping, exposed, few)

    def _least_candidates(self, record: Record, ours: set[int]) -> int | None:
        """The fewest values that somebody may have who is known to be in both; None if they overlap nothing."""
        least: int | None = None
        for at in self._atlas.groups_at(record.qid):
            other = self._others[at]
            if not record.values & other.weights.keys():
                continue
            theirs = None if other.has_star else other.weights.keys()
            if theirs is not None and len(theirs) < 2:
                continue
            count = len(ours) if theirs is None else len(ours & theirs)
            least = count if least is None else min(least, count)
        return least
