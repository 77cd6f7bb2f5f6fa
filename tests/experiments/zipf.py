"""20,000 people with Zipf-distributed values: how much is withheld, suppressed or raised over twenty releases.

Three uniform attributes, 400 values with probabilities proportional to rank^-1.1, the 240 rarest of them sensitive, and
per release 2 % of the people deleted, 2 % given a new value and 2 % inserted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.measure.query import draw_queries
from shoal.core.policy.policy import Policy, build_policy
from tests.experiments.series import Figures, Record, Table, Watcher, measure, run


@dataclass(frozen=True)
class Crowd:
    """The generator: the same tables for the same parameters."""

    people: int = 20_000
    values: int = 400
    open_values: int = 160
    exponent: float = 1.1
    deleted: float = 0.02
    updated: float = 0.02
    inserted: float = 0.02
    releases: int = 20
    seed: int = 2007

    def policy(self, k: int = 5, l: int = 2, foreseen: int = 5) -> Policy:
        labels = [f"v{rank}" for rank in range(1, self.values + 1)]
        document = {
            "table": "zipf",
            "attributes": {name: {"type": "int", "min": 0, "max": 999} for name in ("x", "y", "z")},
            "sensitive": {"name": "value", "values": labels, "open": labels[: self.open_values]},
            "privacy": {"values": "redrawn", "k": k, "l": l, "strategy": {"name": "adaptive", "releases": foreseen}},
        }
        return build_policy(document, {}, repr(self).encode())

    def tables(self) -> Iterator[Table]:
        random = np.random.default_rng(self.seed)
        chances = np.arange(1, self.values + 1, dtype=np.float64) ** -self.exponent
        chances /= chances.sum()
        born = 0
        table: dict[str, Record] = {}
        for release in range(self.releases):
            newcomers = self.people if release == 0 else round(self.people * self.inserted)
            if release:
                ids = np.array(list(table))
                for gone in random.choice(ids, round(self.people * self.deleted), replace=False).tolist():
                    del table[gone]
                ids = np.array(list(table))
                for changed in random.choice(ids, round(self.people * self.updated), replace=False).tolist():
                    table[changed] = (table[changed][0], (int(random.choice(self.values, p=chances)),))
            places = random.integers(0, 1000, (newcomers, 3)).tolist()
            held = random.choice(self.values, newcomers, p=chances).tolist()
            for place, value in zip(places, held, strict=True):
                table[f"p{born}"] = (tuple(place), (value,))
                born += 1
            yield dict(table)


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """The figures of every release."""
    crowd = replace(Crowd(), people=2000, releases=4) if quick else Crowd()
    policy = crowd.policy()
    queries = draw_queries(policy, count=50 if quick else 1000)
    releases = []
    for step in run(policy, crowd.tables()):
        releases.append(measure(step, queries))
        watch(f"release {step.number}: {releases[-1]['average_group']:.2f} people per group")
    return {
        "crowd": vars(crowd),
        "releases": releases,
        "most_withheld_share": max(figures["withheld_share"] for figures in releases),
        "most_hidden_share": max(figures["hidden_share"] for figures in releases),
    }
