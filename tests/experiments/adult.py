"""Adult, 12,000 rows and then increments (Pei, section 6): what independent releases give away, what the tree costs.

Occupation is the sensitive attribute, so seven attributes are left. Pei counts all eight as quasi-identifiers; the
share of rows that independent releases leave unsafe is given for both.
"""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.query import draw_queries
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from tests.experiments.mondrian import Points, View, anonymize, unsafe_share, view_of
from tests.experiments.series import Figures, Table, Watcher, measure, redrawn, run
from tests.support.root import ROOT

FOLDER = ROOT / "examples" / "adult"
FIRST = 12_000
KS = (2, 5, 10, 15, 20, 25)
INCREMENTS = (0.1, 0.3, 0.5, 0.7, 0.9)
SERIES = (12_000, *range(13_800, 30_001, 1_800))
SEED = 1994


@dataclass(frozen=True)
class Adult:
    """The table in codes: one column per attribute of the policy, the eighth is occupation."""

    policy: Policy
    points: Points

    def table(self, rows: Rows) -> Table:
        records = self.points[rows].tolist()
        return {f"a{row}": (tuple(codes[:-1]), (codes[-1],)) for row, codes in zip(rows.tolist(), records, strict=True)}

    @staticmethod
    def row_of(person: str) -> int:
        return int(person[1:])

    def regions_only(self, k: int, headroom: int | None = None) -> Policy:
        """The policy with another k and with every occupation open: regions do not depend on occupations."""
        policy = self.policy
        everything = frozenset(range(len(policy.sensitive.hierarchy.leaves)))
        sensitive = policy.sensitive._replace(open=everything)
        return replace(policy, k=k, headroom=-(-k // 2) if headroom is None else headroom, sensitive=sensitive)


def load_adult() -> Adult:
    policy = redrawn(load_policy(FOLDER / "policy.yaml"), 3)
    with gzip.open(FOLDER / "adult.csv.gz", "rt", encoding="utf-8") as text:
        people = list(csv.DictReader(text))
    columns = []
    for attribute in policy.attributes:
        column = [person[attribute.name] for person in people]
        codes = attribute.hierarchy.leaf_code if attribute.hierarchy else None
        columns.append([codes[label] if codes else int(label) for label in column])
    occupations = policy.sensitive.hierarchy.leaf_code
    columns.append([occupations[person[policy.sensitive.name]] for person in people])
    return Adult(policy, np.array(columns, dtype=np.int64).T.copy())


def leakage(adult: Adult, k: int, sizes: tuple[int, ...], order: Rows) -> Figures:
    """Unsafe rows and discernibility after these sizes, of independent releases and of the tree's."""
    tables = [order[:size] for size in sizes]
    alone = [anonymize(adult.points[:, :-1], rows, k) for rows in tables]
    eight = [anonymize(adult.points, rows, k) for rows in tables]
    found: Figures = {
        "independent_unsafe": unsafe_share([release.view for release in alone], k),
        "independent_unsafe_eight": unsafe_share([release.view for release in eight], k),
        "mondrian_discernibility": alone[-1].discernibility,
    }
    for name, headroom in (("tight", 0), ("default", None)):
        policy = adult.regions_only(k, headroom)
        steps = list(run(policy, [adult.table(rows) for rows in tables]))
        discernibility = steps[-1].manifest["loss"]["discernibility"]
        found |= {
            f"{name}_unsafe": unsafe_share([view_of(step, adult.row_of) for step in steps], k),
            f"{name}_discernibility": discernibility,
            f"{name}_ratio": discernibility / alone[-1].discernibility,
            f"{name}_withheld": steps[-1].manifest["withheld"],
        }
    return found


def series(adult: Adult, sizes: tuple[int, ...], queries: int, watch: Watcher) -> Iterator[Figures]:
    """Every release of one long series, with the share of unsafe rows over all releases so far."""
    order = np.random.default_rng(SEED).permutation(len(adult.points))
    policy = adult.policy
    workload = draw_queries(policy, count=queries)
    mine: list[View] = []
    theirs: list[View] = []
    for step in run(policy, (adult.table(order[:size]) for size in sizes)):
        independent = anonymize(adult.points[:, :-1], order[: sizes[step.number - 1]], policy.k)
        mine.append(view_of(step, adult.row_of))
        theirs.append(independent.view)
        watch(f"series: release {step.number} of {len(sizes)}")
        yield measure(step, workload) | {
            "unsafe": unsafe_share(mine, policy.k),
            "independent_unsafe": unsafe_share(theirs, policy.k),
            "mondrian_discernibility": independent.discernibility,
        }


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Pei's figures 4, 5, 7 and 8, and one long series through the whole engine."""
    adult = load_adult()
    runs, ks, increments = (1, (10,), (0.5,)) if quick else (10, KS, INCREMENTS)
    first = 2_000 if quick else FIRST
    random = np.random.default_rng(SEED)
    orders = [random.permutation(len(adult.points)) for _ in range(runs)]

    def averaged(k: int, increment: float) -> Figures:
        watch(f"k = {k}, increment {increment:.0%}: {runs} runs")
        sizes = (first, round(first * (1 + increment)))
        found = [leakage(adult, k, sizes, order) for order in orders]
        return {name: float(np.mean([figures[name] for figures in found])) for name in found[0]}

    return {
        "rows": len(adult.points),
        "first": first,
        "runs": runs,
        "by_k": [{"k": k, **averaged(k, 0.5)} for k in ks],
        "by_increment": [{"increment": share, **averaged(10, share)} for share in increments],
        "series": list(series(adult, (2_000, 2_500) if quick else SERIES, 50 if quick else 1_000, watch)),
    }
