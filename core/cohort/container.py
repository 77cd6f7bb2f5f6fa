"""Containers: the part of the space in which the owner of an instance may be replaced (Bu, sections 3.2 and 3.5)."""

import numpy as np

from shoal.core.cohort.draft import CohortDraft
from shoal.core.cohort.registration import Mask


class Containers:
    """The clean people of one permanent value, counted node by node. Made once a release; an allocation climbs."""

    def __init__(self, draft: CohortDraft, is_clean: Mask) -> None:
        tree, registration = draft.tree, draft.registration
        self._parents = tree.parents()
        self._leaf = draft.people.leaf
        self._enough = draft.known + 1
        self._present, self._absent = (
            tree.sums(np.bincount(self._leaf[is_clean & where], minlength=tree.size))
            for where in (registration.present, registration.absent)
        )

    def allocate(self, row: int) -> int:
        """Bu's allocateContainer: the smallest node around a person with K+1 present and K+1 absent buddies.

        This is the K-buddy condition; where no node meets it, the root is the container. An owner is not their own
        buddy: the caller must have called `take` for the owner.
        """
        node = int(self._leaf[row])
        while node and (self._present[node] < self._enough or self._absent[node] < self._enough):
            node = int(self._parents[node])
        return node

    def take(self, row: int) -> None:
        """Count a person who is present as not clean any more."""
        node = int(self._leaf[row])
        self._present[node] -= 1
        while node:
            node = int(self._parents[node])
            self._present[node] -= 1
