"""Containers: how large a part of the space an instance's owner may be replaced in (Bu, sections 3.2 and 3.5)."""

import numpy as np

from shoal.core.cells.tree import Tree
from shoal.core.cohort.registration import Mask, Registration
from shoal.core.people import People


class Containers:
    """Where the clean people of one permanent value are, node by node. Made once a release; an allocation climbs."""

    def __init__(self, tree: Tree, people: People, registration: Registration, clean: Mask, participation: int) -> None:
        self._parents = tree.parents()
        self._leaf = people.leaf
        self._enough = participation + 1
        self._present, self._absent = (
            tree.sums(np.bincount(people.leaf[clean & where], minlength=tree.size))
            for where in (registration.present, registration.absent)
        )

    def allocate(self, row: int) -> int:
        """Bu's allocateContainer: the smallest node around somebody with K+1 present and K+1 absent buddies.

        The K-buddy condition; where nothing meets it, the root. An owner is not their own buddy: they must have been
        taken from the clean ones before.
        """
        node = int(self._leaf[row])
        while node and (self._present[node] < self._enough or self._absent[node] < self._enough):
            node = int(self._parents[node])
        return node

    def take(self, row: int) -> None:
        """Somebody present is not clean any more."""
        node = int(self._leaf[row])
        self._present[node] -= 1
        while node:
            node = int(self._parents[node])
            self._present[node] -= 1
