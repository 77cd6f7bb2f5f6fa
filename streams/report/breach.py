"""How much of each person's budget is spent, from the private membership: breach(o, s) of DESIGN's G2, in floats.

Only the spread over people is kept. Whether the promise holds is for `shoal audit` to say, with exact fractions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy


class Spent(NamedTuple):
    """The largest breach of each person ever published, over those people; who has a guard counts like the others."""

    people: int
    median: float
    most: float  # 95th percentile
    largest: float


class Accounts:
    """Everyone's survival, value by value. Sees releases in order."""

    def __init__(self, policy: Policy) -> None:
        hierarchy = policy.sensitive.hierarchy
        self._first, self._last = hierarchy.first, hierarchy.last
        self._skipped = policy.sensitive.open | policy.sensitive.permanent
        self._permanent_nodes = {hierarchy.leaf_node[leaf] for leaf in policy.sensitive.permanent}
        self._survival: dict[str, dict[int, float]] = {}

    def see(self, number: int, columns: ReleaseColumns, members: Iterable[tuple[str, str, str]]) -> Spent | None:
        """Charge the groups formed at this release; None while no person was ever published."""
        shares = self._shares(number, columns)
        for person, group, _ in members:
            mine = self._survival.setdefault(person, {})
            for leaf, share in shares.get(group, {}).items():
                mine[leaf] = mine.get(leaf, 1.0) * (1.0 - share)
        if not self._survival:
            return None
        breaches = [1.0 - min(mine.values(), default=1.0) for mine in self._survival.values()]
        return Spent(len(breaches), float(np.median(breaches)), float(np.quantile(breaches, 0.95)), max(breaches))

    def _shares(self, number: int, columns: ReleaseColumns) -> Mapping[str, dict[int, float]]:
        """w(s, G) / n(G) of each protected leaf in each group formed at this release."""
        people = columns.people.tolist()
        weights: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        known = [0] * len(people)  # values that are known, or taken, to sit on other people
        shown = (columns.shown_group, columns.shown_node, columns.shown_count)
        for group, node, count in zip(*(column.tolist() for column in shown), strict=True):
            if node == 0 or node in self._permanent_nodes:
                known[group] += count
                continue
            first, last = self._first[node], self._last[node]
            for leaf in range(first, last):
                if leaf not in self._skipped:
                    weights[group][leaf] += count / (last - first)
        formed = columns.formed.tolist()
        found: dict[str, dict[int, float]] = {}
        for group, name in enumerate(columns.group_names):
            if formed[group] == number:
                n = max(1, people[group] - known[group])
                found[name] = {leaf: min(1.0, weight / n) for leaf, weight in weights[group].items()}
        return found
