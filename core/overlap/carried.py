"""What is overlapped already when a release begins: carried groups that a new publication makes unsafe, and holders."""

from fractions import Fraction

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.groups.ledger import Ledger
from shoal.core.overlap.overlaps import Neighbours, weights
from shoal.core.people import People
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy


def unsafe_groups(people: People, published: Rows, ledger: Ledger, policy: Policy, neighbours: Neighbours) -> set[int]:
    """Groups of these people that do not balance one of them beside what is new.

    Whose value a group shows as "*" is not kept anywhere. Somebody whose value it does not show at all is one of them,
    and safe; anybody else is taken to be shown.
    """
    position, entry = _find(people, published, people.set[published].tolist(), neighbours)
    value, histogram = neighbours.entry_leaf[entry], neighbours.entry_histogram[entry]
    groups = people.group[published[position]].tolist()
    unsafe: set[int] = set()
    seen: dict[int, dict[int, Fraction]] = {}
    theirs = _Histograms(policy.sensitive.hierarchy, neighbours)
    for group, own, at in sorted(set(zip(groups, value.tolist(), histogram.tolist(), strict=True))):
        if group in unsafe:
            continue
        ours = seen.get(group)
        if ours is None:
            ours = seen[group] = weights(ledger.record(group).shown, policy.sensitive.hierarchy)
        if own in ours and not is_balanced(own, ours, theirs.weights(at), policy.overlap):
            unsafe.add(group)
    return unsafe


def overlapping_holders(people: People, neighbours: Neighbours) -> dict[int, set[int]]:
    """By permanent value, the rows of its holders, present or not, of whom somebody else's group shows it.

    A clique's value beside another publication cannot be evened out without calling people away from their cliques.
    """
    holders, found = people.holders(), dict[int, set[int]]()
    position, entry = _find(people, holders, people.held[holders].tolist(), neighbours)
    for row, value in zip(holders[position].tolist(), neighbours.entry_leaf[entry].tolist(), strict=True):
        found.setdefault(value, set()).add(row)
    return found


def is_balanced(own: int, ours: dict[int, Fraction], theirs: dict[int, Fraction], alpha: int) -> bool:
    """DESIGN, G5, to the letter: alpha values in common, one's own among them, with equal sums. Exact."""
    total = ours[own] + theirs[own]
    return sum(1 for leaf, weight in ours.items() if leaf in theirs and weight + theirs[leaf] == total) >= alpha


class _Histograms:
    def __init__(self, hierarchy: Hierarchy, neighbours: Neighbours) -> None:
        self._hierarchy, self._shown = hierarchy, neighbours.shown
        self._known: dict[int, dict[int, Fraction]] = {}

    def weights(self, histogram: int) -> dict[int, Fraction]:
        found = self._known.get(histogram)
        if found is None:
            found = self._known[histogram] = weights(self._shown[histogram], self._hierarchy)
        return found


def _find(people: People, rows: Rows, codes: list[int], neighbours: Neighbours) -> tuple[Rows, Rows]:
    """The overlaps of people with these sets of values: position in `rows` and entry."""
    values = [people.sets.items[code] for code in codes]
    owner = np.repeat(np.arange(len(values)), [len(each) for each in values])
    leaf = np.array([leaf for each in values for leaf in each], dtype=np.int64)
    return neighbours.find(people.columns, rows, owner, leaf)
