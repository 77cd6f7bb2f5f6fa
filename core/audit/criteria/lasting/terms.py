"""The words of lasting tables as the auditor uses them: signatures, and the four kinds of groups.

docs/design.md, "Values that last". A signature is a set of values; here it is the set of their leaf codes.
"""

from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from math import ceil, floor
from typing import Final

from shoal.core.audit.reading.epochs import Epoch
from shoal.core.audit.reading.published import Group
from shoal.core.audit.reading.truth import exact
from shoal.core.policy.policy import Policy

Signature = frozenset[int]  # leaves of the sensitive hierarchy
STAR: Final = 0  # the node of "*"


class Kind(Enum):
    """What a group is by what it shows. A group that is none of them properly is taken for a signature."""

    SIGNATURE = "signature"
    PLAIN = "plain"
    STARRED = "starred"
    CLIQUE = "clique"


class Terms:
    """A policy's terms: `m` is the fewest values of a signature, `cohorts` are of a clique, `clique` its fewest people.

    `insiders` is c, the number of people whose values the adversary knows.
    """

    def __init__(self, policy: Policy) -> None:
        self._hierarchy = policy.sensitive.hierarchy
        self.l = exact(policy.l)
        self.bound = 1 / self.l
        self.m, self.insiders = policy.signature, policy.insiders
        self.cohorts = ceil(self.l)
        self.clique = ceil(self.l) + self.insiders
        self.open, self.permanent = policy.sensitive.open, policy.sensitive.permanent
        self.labels = self._hierarchy.leaves
        everything = range(len(self.labels))
        self.transient = frozenset(everything) - self.open - self.permanent
        self.has_cliques = 0 < len(self.permanent) < self.m  # too few permanent values for a signature of their own

    def kind(self, group: Group) -> Kind:
        return self.kind_of(group.shown)

    def kind_of(self, shown: Mapping[int, int]) -> Kind:
        """The kind of a group that shows these nodes."""
        if shown.keys() == {STAR}:
            return Kind.STARRED
        leaves = self.signature(shown)
        if len(shown) == 1 and not any(map(self.is_inner, shown)):
            return Kind.CLIQUE if leaves & self.permanent else Kind.PLAIN
        return Kind.PLAIN if leaves <= self.open and STAR not in shown else Kind.SIGNATURE

    def is_inner(self, node: int) -> bool:
        """Whether a node stands above values; "*" is none of these."""
        return node != STAR and bool(self._hierarchy.children(node))

    def signature(self, shown: Mapping[int, int]) -> Signature:
        """The leaves that these nodes stand for; "*" for none."""
        first, last = self._hierarchy.first, self._hierarchy.last
        return frozenset(leaf for node in shown if node != STAR for leaf in range(first[node], last[node]))

    def kinds(self, epoch: Epoch) -> list[frozenset[int]]:
        """The values of each kind that signatures hold, of those that there were when a release was made."""
        there = epoch.leaves.sensitive.hierarchy.leaf_code
        kinds = [self.transient] if self.has_cliques else [self.transient, self.permanent]
        return [frozenset(leaf for leaf in kind if self.labels[leaf] in there) for kind in kinds]

    def most_values(self, signature: Signature) -> int:
        """f = ⌊(m − c)/ℓ⌋: how many different values of one person may be shown under a signature."""
        return max(0, floor((len(signature) - self.insiders) / self.l))

    def breach(self, signature: Signature, values: int) -> Fraction:
        """j/(m − c) for somebody of whom so many values were shown under a signature."""
        return min(Fraction(1), Fraction(values, max(1, len(signature) - self.insiders)))
