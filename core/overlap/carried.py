"""Which carried groups a later publication of somebody else makes unsafe, so that only those are broken."""

from fractions import Fraction

import numpy as np

from core.hierarchy import Hierarchy
from core.ledger import Ledger
from core.overlap.beside import Neighbours, weights
from core.people import People
from core.policy import Policy
from core.tree import Rows


def unsafe_groups(people: People, published: Rows, ledger: Ledger, policy: Policy, neighbours: Neighbours) -> set[int]:
    """Groups of these people that do not balance one of them beside what is new.

    Whose value a group shows as "*" is not kept anywhere. Somebody whose value it does not show at all is one of them,
    and safe; anybody else is taken to be shown.
    """
    values = [people.sets.items[code] for code in people.set[published].tolist()]
    owner, leaf = _flatten(values)
    position, entry = neighbours.find(people.columns, published, owner, leaf)
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


def _flatten(values: list[tuple[int, ...]]) -> tuple[Rows, Rows]:
    """Parallel columns: who, and one of their values."""
    owner = np.repeat(np.arange(len(values)), [len(each) for each in values])
    return owner, np.array([leaf for each in values for leaf in each], dtype=np.int64)
