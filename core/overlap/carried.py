"""Overlaps that exist when a release begins: carried groups that a new publication makes unsafe, and holders."""

from fractions import Fraction

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.groups.ledger import Ledger
from shoal.core.overlap.overlaps import ExternalIndex, weights
from shoal.core.people import People
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy


def unsafe_groups(people: People, published: Rows, ledger: Ledger, policy: Policy, index: ExternalIndex) -> set[int]:
    """The groups of these people that leave one of them unbalanced beside the publications in `index`.

    The ledger does not say whose value a group shows as "*". A person whose value the group does not show at all is
    safe; any other person is taken to be shown.
    """
    position, bar = _find(people, published, people.set[published].tolist(), index)
    value, histogram = index.bar_leaf[bar], index.bar_histogram[bar]
    groups = people.group[published[position]].tolist()
    unsafe: set[int] = set()
    seen: dict[int, dict[int, Fraction]] = {}
    theirs = _Histograms(policy.sensitive.hierarchy, index)
    for group, own, at in sorted(set(zip(groups, value.tolist(), histogram.tolist(), strict=True))):
        if group in unsafe:
            continue
        ours = seen.get(group)
        if ours is None:
            ours = seen[group] = weights(ledger.record(group).shown, policy.sensitive.hierarchy)
        if own in ours and not is_balanced(own, ours, theirs.weights(at), policy.overlap):
            unsafe.add(group)
    return unsafe


def overlapping_holders(people: People, index: ExternalIndex) -> dict[int, set[int]]:
    """By permanent value, the rows of its holders, present or not, who overlap an external group that shows it.

    Balancing a clique's value beside another publication would take people away from their cliques; it is hidden.
    """
    holders, found = people.holders(), dict[int, set[int]]()
    position, bar = _find(people, holders, people.held[holders].tolist(), index)
    for row, value in zip(holders[position].tolist(), index.bar_leaf[bar].tolist(), strict=True):
        found.setdefault(value, set()).add(row)
    return found


def is_balanced(own: int, ours: dict[int, Fraction], theirs: dict[int, Fraction], alpha: int) -> bool:
    """Whether alpha common values, one's own among them, have equal sums, in exact fractions.

    (docs/design.md, "G5 Composition"; Baig, Definition 4.)
    """
    total = ours[own] + theirs[own]
    return sum(1 for leaf, weight in ours.items() if leaf in theirs and weight + theirs[leaf] == total) >= alpha


class _Histograms:
    """The weights of external histograms, worked out when asked for and kept."""

    def __init__(self, hierarchy: Hierarchy, index: ExternalIndex) -> None:
        self._hierarchy, self._shown = hierarchy, index.shown
        self._known: dict[int, dict[int, Fraction]] = {}

    def weights(self, histogram: int) -> dict[int, Fraction]:
        found = self._known.get(histogram)
        if found is None:
            found = self._known[histogram] = weights(self._shown[histogram], self._hierarchy)
        return found


def _find(people: People, rows: Rows, codes: list[int], index: ExternalIndex) -> tuple[Rows, Rows]:
    """The overlaps of people with these sets of values: position in `rows` and bar."""
    values = [people.sets.items[code] for code in codes]
    owner = np.repeat(np.arange(len(values)), [len(each) for each in values])
    leaf = np.array([leaf for each in values for leaf in each], dtype=np.int64)
    return index.find(people.columns, rows, owner, leaf)
