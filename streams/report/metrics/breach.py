"""How near anyone's breach has come to the bound (docs/design.md, "G2 Global").

The largest breach and the bound are the manifest's. How the breaches of all people are spread needs the private
membership, and is computed in floats: whether the promise holds is for `shoal audit` to say, with exact fractions. It
is worked out for redrawn tables only, where a breach grows with each group; in a lasting table it does not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shoal.core.measure.release_reader import ReleaseColumns
from shoal.core.policy.policy import Policy
from shoal.streams.report.metrics.metric import Figure, Figures, Metric, Picture, Reading, Request, Tile, curve
from shoal.streams.report.panel import Panel


class Breach(Metric):
    """The largest breach of anyone, and, with the membership, of the person in the middle and of 19 in 20."""

    figures = {  # noqa: RUF012
        "max_breach": Figure(
            "max_breach",
            ".4f",
            "The largest probability, over everyone ever published, with which someone who kept all releases can link "
            "a person to a value. In a lasting table it is j/(m - insiders): j values of one person among the same m.",
        ),
        "bound": Figure("bound", ".4f", "What max_breach may never exceed."),
        "breach_median": Figure(
            "breach, median", ".4f", "The breach of the person in the middle: half of the people have spent less."
        ),
        "breach_most": Figure("breach, 95 %", ".4f", "19 of 20 people have spent less than this."),
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._accounts = Accounts(request.policy)

    def measure(self, reading: Reading) -> Figures:
        found = reading.stated("max_breach", "bound")
        if reading.members is not None and self.request.policy.values == "redrawn":
            spent = self._accounts.see(reading.number, reading.published, [row[:3] for row in reading.members])
            found |= {"breach_median": spent and spent.median, "breach_most": spent and spent.most}
        return found

    def tiles(self, last: Figures) -> Sequence[Tile]:
        return (Tile("max_breach", self.write(last, "max_breach"), f"bound {self.write(last, 'bound')}"),)

    def warnings(self, last: Figures) -> Iterable[str]:
        yield (
            "From all releases together, and knowing who was in which region when: nobody is linked to a value with "
            f"more than {self.write(last, 'max_breach')}; the policy promises {self.write(last, 'bound')}."
        )

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:
        lines = [curve(series, "max_breach", "largest (max_breach)"), curve(series, "bound", "bound", is_bound=True)]
        if any(figures.get("breach_most") is not None for figures in series):
            most = curve(series, "breach_most", "95 % of the people below")
            lines[1:1] = [most, curve(series, "breach_median", "half below")]
        panel = Panel("Breach", "release", "probability", lines)
        return (Picture(panel, "Over all releases so far."),)


class Spent(NamedTuple):
    """The largest breach of each person ever published, over those people, with and without a guard."""

    people: int
    median: float
    most: float  # 95th percentile
    largest: float


class Accounts:
    """The survival of every person, value by value. It sees the releases in order."""

    def __init__(self, policy: Policy) -> None:
        hierarchy = policy.sensitive.hierarchy
        self._first, self._last = hierarchy.first, hierarchy.last
        self._skipped = policy.sensitive.open | policy.sensitive.permanent
        self._permanent_nodes = {hierarchy.leaf_node[leaf] for leaf in policy.sensitive.permanent}
        self._survival: dict[str, dict[int, float]] = {}

    def see(self, number: int, published: ReleaseColumns, members: Iterable[tuple[str, str, str]]) -> Spent | None:
        """Charges the groups formed at this release. Returns None while nobody was ever published."""
        shares = self._shares(number, published)
        for person, group, _ in members:
            mine = self._survival.setdefault(person, {})
            for leaf, share in shares.get(group, {}).items():
                mine[leaf] = mine.get(leaf, 1.0) * (1.0 - share)
        if not self._survival:
            return None
        breaches = [1.0 - min(mine.values(), default=1.0) for mine in self._survival.values()]
        return Spent(len(breaches), float(np.median(breaches)), float(np.quantile(breaches, 0.95)), max(breaches))

    def _shares(self, number: int, published: ReleaseColumns) -> Mapping[str, dict[int, float]]:
        """w(s, G) / n(G) of each protected leaf in each group formed at this release."""
        people = published.group_rows.tolist()
        weights: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        known = [0] * len(people)  # values that an attacker knows, or is taken to know, of other people
        columns = (published.shown_group, published.shown_node, published.shown_count)
        for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
            if node == 0 or node in self._permanent_nodes:
                known[group] += count
                continue
            first, last = self._first[node], self._last[node]
            for leaf in range(first, last):
                if leaf not in self._skipped:
                    weights[group][leaf] += count / (last - first)
        formed = published.formed.tolist()
        found: dict[str, dict[int, float]] = {}
        for group, name in enumerate(published.group_names):
            if formed[group] == number:
                n = max(1, people[group] - known[group])
                found[name] = {leaf: min(1.0, weight / n) for leaf, weight in weights[group].items()}
        return found
