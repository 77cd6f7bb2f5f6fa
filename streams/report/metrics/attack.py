"""The persistence attack on these releases and on naive ones: how many claims it makes, and how many are right.

It needs the events and the private membership. It is the auditor's (docs/audit.md), played once over all releases, and
the page shows it for each probability with which the attacker believes that values stay.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from shoal.core.audit.attack.naive import bucketize
from shoal.core.audit.attack.persistence import Claims, PersistenceAttack
from shoal.core.audit.attack.shown import ShownGroup, tokens_by_node
from shoal.streams.report.metrics.metric import Figures, Metric, Picture, Reading, Request, Tile
from shoal.streams.report.plot import Line, Panel


class Attack(Metric):
    """Claims of somebody who believes that values mostly stay from one release to the next."""

    figures = {}  # noqa: RUF012 - it is about all releases together, so it has no column

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        leaves = len(request.policy.sensitive.hierarchy.leaves)
        self._here = PersistenceAttack(leaves, is_by_person=request.policy.values == "redrawn")
        self._naive = PersistenceAttack(leaves, is_by_person=True)
        self._seen = 0

    def measure(self, reading: Reading) -> Figures:
        if reading.truth is None or reading.members is None:
            return {}
        policy, table = self.request.policy, reading.truth.table
        held = {person: record.values for person, record in table.items()}
        self._here.see(self._groups(reading), held)
        naive = bucketize(policy, table, reading.number)
        shown: list[dict[tuple[int, ...], int]] = []
        for people in naive:
            counts: dict[tuple[int, ...], int] = defaultdict(int)
            for person in people:
                for leaf in held[person]:
                    counts[leaf,] += 1
            shown.append(counts)
        self._naive.see((ShownGroup(None, people, one) for people, one in zip(naive, shown, strict=True)), held)
        self._seen += 1
        return {}

    def _groups(self, reading: Reading) -> Iterator[ShownGroup]:
        """The groups of a release with the people of their rows."""
        published, hierarchy = reading.published, self.request.policy.sensitive.hierarchy
        rows: dict[str, list[str]] = {name: [] for name in published.group_names}
        for person, group, _ in reading.members or ():
            rows[group].append(person)
        shown: list[dict[int, int]] = [{} for _ in published.group_names]
        columns = (published.shown_group, published.shown_node, published.shown_count)
        for group, node, count in zip(*(column.tolist() for column in columns), strict=True):
            shown[group][node] = count
        is_lasting = self.request.policy.values == "lasting"
        for name, values in zip(published.group_names, shown, strict=True):
            is_plain = is_lasting and 0 not in values and list(values.values()) == [len(rows[name])]
            yield ShownGroup(name, rows[name], tokens_by_node(hierarchy, values), is_plain)

    @cached_property
    def _claims(self) -> tuple[tuple[Claims, ...], tuple[Claims, ...]]:
        """By stay probability, on these releases and on naive ones."""
        bound, unprotected = 1 / self.request.policy.l, self.request.policy.sensitive.open
        return self._here.claims(bound, unprotected), self._naive.claims(bound, unprotected)

    def summary(self) -> Figures:
        if not self._seen:
            return {}
        here, naive = ([claims._asdict() for claims in found] for found in self._claims)
        return {"attack": {"promised": self.request.policy.values == "lasting", "here": here, "naive": naive}}

    def tiles(self, last: Figures) -> Sequence[Tile]:  # noqa: ARG002 - about all releases
        if not self._seen:
            return ()
        worst = max(self._claims[0], key=lambda claims: claims.over_right)
        naive = max(self._claims[1], key=lambda claims: claims.over_right)
        remark = f"of {worst.over:,}; on naive releases {naive.over_right:,} of {naive.over:,}"
        return (Tile("the attack’s right claims", f"{worst.over_right:,}", remark),)

    def pictures(self, series: Sequence[Figures]) -> Sequence[Picture]:  # noqa: ARG002
        if not self._seen:
            return ()
        lines = []
        for name, found in zip(("these releases", "naive"), self._claims, strict=True):
            stay = [claims.stay for claims in found]
            lines.append(Line(f"{name}: claims", stay, [claims.over for claims in found]))
            lines.append(Line(f"{name}: right", stay, [claims.over_right for claims in found]))
        panel = Panel("Persistence attack", "believed probability that a value stays", "people", lines)
        promise = "Nothing is promised about it: the model of a redrawn table is that values do not last."
        if self.request.policy.values == "lasting":
            share = f"{1 / self.request.policy.l:.0%}"
            promise = f"Promised: of the claims on these releases no more than {share} are right, but for chance."
        caption = f"People of whom a value is claimed with more than {1 / self.request.policy.l:.2g}. {promise}"
        return (Picture("attack.png", panel, caption),)
