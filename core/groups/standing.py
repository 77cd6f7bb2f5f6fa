"""Standings: what a group of a pool shows, and how much of it, in floats.

A standing can be worked out from the members, or grown from another one by a newcomer or by a node that is lifted: the
search for groups tries many, and each try costs only what it changes.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shoal.core.groups.pool import Pool
from shoal.core.groups.weight import set_aside
from shoal.core.policy.policy import Policy
from shoal.core.policy.strategy import Floats

Raised = Mapping[int, Mapping[int, int]]  # unit -> leaf -> the node it is shown as


class Standing(NamedTuple):
    """How a group stands: its people less what is set aside, what it shows by node, and w(s, G) of every leaf."""

    left: int
    shown: Mapping[int, int]
    weights: Floats

    @property
    def people(self) -> int:
        """n(G)."""
        return max(1, self.left)

    def joined_by(self, other: "Standing") -> "Standing":
        """How it stands together with another group, where nothing is raised for it."""
        shown = dict(self.shown)
        for node, count in other.shown.items():
            shown[node] = shown.get(node, 0) + count
        return Standing(self.left + other.left, shown, self.weights + other.weights)


class Standings:
    """Works out the standings of a pool's groups."""

    def __init__(self, pool: Pool, policy: Policy) -> None:
        self._pool, self._hierarchy, self._aside = pool, policy.sensitive.hierarchy, set_aside(policy.sensitive)
        self._leaves = len(policy.sensitive.hierarchy.leaves)

    def of(self, members: list[int], raised: Raised) -> Standing:
        """What a group of these people shows, whose values are raised as `raised` says."""
        return self._grown(0, {}, np.zeros(self._leaves), members, raised)

    def of_shown(self, people: int, shown: Mapping[int, int]) -> Standing:
        """A group of so many people that shows these leaves so often, counterfeits included (G5)."""
        weights = np.zeros(self._leaves)
        weights[list(shown)] = list(shown.values())
        return Standing(people, {self._hierarchy.leaf_node[leaf]: count for leaf, count in shown.items()}, weights)

    def with_newcomer(self, before: Standing, newcomer: int, raised: Raised) -> Standing:
        """A standing with one more person, where no other member's values are raised for it."""
        return self._grown(before.left, before.shown, before.weights.copy(), [newcomer], raised)

    def lifted(self, group: Standing, node: int) -> Standing:
        """A standing with everything under a node shown as that node."""
        first, last = self._hierarchy.first[node], self._hierarchy.last[node]
        shown, weights = dict(group.shown), group.weights.copy()
        beneath = [other for other in shown if node < other and first <= self._hierarchy.first[other] < last]
        shown[node] = shown.get(node, 0) + sum(shown.pop(other) for other in beneath)
        weights[first:last] = 0
        while node > 0:  # now the node itself weighs on its leaves, and so does each node shown above it
            weights[first:last] += shown.get(node, 0) / (self._hierarchy.last[node] - self._hierarchy.first[node])
            node = self._hierarchy.parent[node]
        return Standing(group.left, shown, weights)

    def _grown(
        self, left: int, before: Mapping[int, int], weights: Floats, members: list[int], raised: Raised
    ) -> Standing:
        """A group that showed `before` with these weights, which are written into, and more people."""
        shown = dict(before)
        leaf_node, aside = self._hierarchy.leaf_node, 0
        for unit in members:
            exceptions = raised.get(unit)
            for leaf in self._pool.sets[unit]:
                node = leaf_node[leaf] if exceptions is None else exceptions.get(leaf, leaf_node[leaf])
                shown[node] = shown.get(node, 0) + 1
                if node in self._aside:
                    aside += 1
                elif node == leaf_node[leaf]:
                    weights[leaf] += 1
                else:
                    first, last = self._hierarchy.first[node], self._hierarchy.last[node]
                    weights[first:last] += 1 / (last - first)
        return Standing(left + len(members) - aside, shown, weights)
