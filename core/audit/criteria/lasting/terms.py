"""The words of lasting tables as the auditor uses them: signatures, and the four kinds of groups.

docs/design.md, "Values that last". A signature is the set of nodes that a group shows; its leaves are what its members
may stand for.
"""

from collections.abc import Mapping
from enum import Enum
from fractions import Fraction
from math import ceil, floor

from shoal.core.audit.reading.published import Group
from shoal.core.audit.reading.truth import exact
from shoal.core.policy.policy import Policy

Signature = frozenset[int]  # nodes of the sensitive hierarchy
STAR = 0  # the node of "*"


class Kind(Enum):
    """What a group is by what it shows. A group that is none of them properly is taken for a signature."""

    SIGNATURE = "signature"
    PLAIN = "plain"
    STARRED = "starred"
    CLIQUE = "clique"


class Terms:
    """A policy's terms: `m` is the fewest values of a signature, `cohorts` the fewest people of a clique."""

    def __init__(self, policy: Policy) -> None:
        self._hierarchy = policy.sensitive.hierarchy
        self.l = exact(policy.l)
        self.bound = 1 / self.l
        self.m = policy.signature
        self.cohorts = ceil(self.l)
        self.open, self.permanent = policy.sensitive.open, policy.sensitive.permanent
        self.labels = self._hierarchy.leaves
        everything = range(len(self.labels))
        self.transient = frozenset(everything) - self.open - self.permanent
        self.has_cliques = 0 < len(self.permanent) < self.m  # too few permanent values for a signature of their own
        self._leaves: dict[Signature, frozenset[int]] = {}

    def kind(self, group: Group) -> Kind:
        return self.kind_of(group.shown)

    def kind_of(self, shown: Mapping[int, int]) -> Kind:
        """The kind of a group that shows these nodes."""
        nodes = shown.keys()
        if nodes == {STAR}:
            return Kind.STARRED
        leaves = [self._leaf(node) for node in nodes]
        if len(leaves) == 1 and leaves[0] is not None:
            return Kind.CLIQUE if leaves[0] in self.permanent else Kind.PLAIN
        return Kind.PLAIN if all(leaf in self.open for leaf in leaves) else Kind.SIGNATURE

    def _leaf(self, node: int) -> int | None:
        return None if self._hierarchy.children(node) or node == STAR else self._hierarchy.first[node]

    def leaf_count(self, node: int) -> int:
        return self._hierarchy.last[node] - self._hierarchy.first[node]

    def leaves(self, signature: Signature) -> frozenset[int]:
        """Every leaf that the members of a signature may stand for."""
        known = self._leaves.get(signature)
        if known is None:
            runs = (range(self._hierarchy.first[node], self._hierarchy.last[node]) for node in signature)
            known = self._leaves[signature] = frozenset(leaf for run in runs for leaf in run)
        return known

    def node_in(self, signature: Signature, leaf: int) -> int | None:
        """The member of a signature that a leaf is shown as; None if it is none of them."""
        node = self._hierarchy.leaf_node[leaf]
        while node > STAR and node not in signature:
            node = self._hierarchy.parent[node]
        return node if node in signature else None

    def most_values(self, signature: Signature) -> int:
        """⌊m/ℓ⌋: how many different values of one person may be shown under a signature."""
        return floor(len(signature) / self.l)

    def breach(self, signature: Signature, spells: int) -> Fraction:
        """j/m for somebody who was shown with so many spells under a signature."""
        return Fraction(min(spells, self.most_values(signature)), len(signature))
