"""Exposures, as fractions: what each group formed says about its people (Wong, Lemma 4; docs/design.md, "G2 Global").

    breach(o, A) = 1 − Π (1 − min(1, w(A, G) / n(G)))      over the groups G that o was in, once for each formation

w(A, G) is the sum over the leaves s in A of the times G shows s, plus 1/leaves(v) for each node v above s that it
shows; "*" weighs nothing. n(G) is the people of G less the "*" (and permanent values) it shows, at least 1.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from shoal.core.audit.reading.published import Group
from shoal.core.policy.policy import Sensitive

ONE = Fraction(1)


def shares_of(people: int, shown: Mapping[int, int], sensitive: Sensitive) -> dict[int, Fraction]:
    """w(s, G) / n(G), not yet capped, for every leaf s that a group may show."""
    hierarchy = sensitive.hierarchy
    n = people - shown.get(0, 0)
    weights: dict[int, Fraction] = defaultdict(Fraction)
    for node, count in shown.items():
        first, last = hierarchy.first[node], hierarchy.last[node]
        if node == 0:
            continue
        if last - first == 1 and first in sensitive.permanent:
            n -= count
        for leaf in range(first, last):
            weights[leaf] += Fraction(count, last - first)
    return {leaf: weight / max(1, n) for leaf, weight in weights.items()}


def breach_of(draws: Iterable[Mapping[int, Fraction]], leaves: Iterable[int]) -> Fraction:
    """breach(o, A) over independent draws, each given by its shares. Whole numbers until the end: it is asked often."""
    asked = tuple(leaves)
    survival = total = 1
    for shares in draws:
        found = [shares[leaf] for leaf in asked if leaf in shares]
        if not found:
            continue
        share = found[0] if len(found) == 1 else sum(found, Fraction(0))
        survival *= max(0, share.denominator - share.numerator)
        total *= share.denominator
    return Fraction(total - survival, total)


@dataclass(frozen=True)
class Standing:
    """How near somebody has come to their bound, for which leaves, which stay inside the auditor, and in which groups.

    `is_earlier` if all of it was before they asked for that bound.
    """

    breach: Fraction
    bound: Fraction
    leaves: tuple[int, ...] = field(repr=False)
    groups: tuple[str, ...] = field(repr=False)
    is_guarded: bool = False
    is_earlier: bool = False


@dataclass
class Exposures:
    """Every group ever formed and who was in it; `worst` is the nearest that each person came to their bound."""

    sensitive: Sensitive
    published: dict[str, Group] = field(default_factory=dict)  # as it was when formed
    shares: dict[str, dict[int, Fraction]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)  # by person, in order
    worst: dict[str, Standing] = field(default_factory=dict)

    def add(self, group: Group, people: Sequence[str]) -> dict[int, Fraction]:
        """Charges a formed group to its people, once, and returns its shares."""
        shares = self.shares[group.name] = shares_of(group.rows, group.shown, self.sensitive)
        self.published[group.name] = group
        for person in people:
            self.groups.setdefault(person, []).append(group.name)
        return shares

    def breach(self, person: str, leaves: Iterable[int], before: int | None = None) -> Fraction:
        """breach(o, A), over groups formed before a release only if one is given."""
        return breach_of((self.shares[name] for name in self.groups_of(person, before)), leaves)

    def groups_of(self, person: str, before: int | None = None) -> tuple[str, ...]:
        """The groups somebody was in, all or those formed before a release."""
        groups = self.groups.get(person, ())
        return tuple(name for name in groups if before is None or self.published[name].formed < before)

    def note(self, person: str, standing: Standing) -> None:
        known = self.worst.get(person)
        if known is None or standing.breach * known.bound > known.breach * standing.bound:
            self.worst[person] = standing
