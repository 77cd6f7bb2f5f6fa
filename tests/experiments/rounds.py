"""Wong's twenty rounds (section 8): query error, group sizes and time for l = 2, 3, 5, 7, by strategy.

The paper's table of drug reactions is not to be had, so one of its size and shape is generated: 105,420 reactions of
40,478 people, 2,320 kinds of reaction of which the 232 rarest are sensitive. The rounds are the paper's: a twentieth of
the reactions each, 20 % of the last round's carried on, and then 20 % of all given a value drawn from the whole table.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from shoal.core.cells.tree import Rows
from shoal.core.measure.query import draw_queries
from shoal.core.policy.policy import Policy, build_policy
from tests.experiments.series import Figures, Record, Table, Watcher, column, measure, run

BOUNDS = (2, 3, 5, 7)
STRATEGIES = {
    "constant-ratio": {"name": "constant-ratio", "releases": 3},
    "geometric": {"name": "geometric", "alpha": 3},
    "adaptive": {"name": "adaptive", "releases": 3},
}
PROVINCES = 13
ATTRIBUTES = {
    "age": {"type": "int", "min": 0, "max": 99},
    "sex": {"type": "category", "values": ["female", "male"]},
    "weight": {"type": "int", "min": 2, "max": 161},
    "province": {"type": "category", "values": [f"province-{n}" for n in range(1, PROVINCES + 1)]},
}
HEADROOM = 10  # four of five people are others in the next round; k/2 would leave one in ten withheld in the end


@dataclass(frozen=True)
class Reactions:
    """The generator: the same reactions and rounds for the same parameters."""

    people: int = 40_478
    reactions: int = 105_420
    kinds: int = 2_320
    sensitive: int = 232
    exponent: float = 1.0
    rounds: int = 20
    carried: float = 0.2
    changed: float = 0.2
    seed: int = 2010

    def policy(self, l: int, strategy: dict[str, object], k: int = 5) -> Policy:
        labels = [f"r{rank}" for rank in range(1, self.kinds + 1)]
        document = {
            "table": "reactions",
            "attributes": ATTRIBUTES,
            "sensitive": {"name": "reaction", "values": labels, "open": labels[: -self.sensitive]},
            "privacy": {"values": "redrawn", "k": k, "l": l, "strategy": strategy, "headroom": HEADROOM},
        }
        return build_policy(document, {}, repr((self, l, strategy)).encode())

    def tables(self) -> Iterator[Table]:
        random = np.random.default_rng(self.seed)
        qids = self._people(random)
        chances = np.arange(1, self.kinds + 1, dtype=np.float64) ** -self.exponent
        holder = random.permutation(np.r_[np.arange(self.people), self._more(random)])
        value = random.choice(self.kinds, self.reactions, p=chances / chances.sum())
        parts = np.array_split(np.arange(self.reactions), self.rounds)
        holders, values = holder[parts[0]], value[parts[0]]
        for number, part in enumerate(parts):
            if number:
                carried = random.choice(len(holders), round(self.carried * len(holders)), replace=False)
                holders, values = np.r_[holder[part], holders[carried]], np.r_[value[part], values[carried]]
                changed = random.choice(len(holders), round(self.changed * len(holders)), replace=False)
                values[changed] = value[random.integers(0, self.reactions, len(changed))]
            yield _table(qids, holders, values)

    def _people(self, random: np.random.Generator) -> list[tuple[int | float, ...]]:
        age = np.clip(random.normal(52, 21, self.people), 0, 99).astype(np.int64)
        sex = random.integers(0, 2, self.people)
        weight = np.clip(random.normal(66 + 12 * sex, 16, self.people) * np.clip(age / 16, 0.06, 1), 2, 161)
        province = random.choice(PROVINCES, self.people, p=np.arange(PROVINCES, 0, -1) / (PROVINCES * 7))
        columns = (age, sex, weight.astype(np.int64), province)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _more(self, random: np.random.Generator) -> Rows:
        """Who has the reactions beyond everybody's first: some have many, most have none."""
        inclination = random.exponential(1.0, self.people)
        return random.choice(self.people, self.reactions - self.people, p=inclination / inclination.sum())


def _table(qids: list[tuple[int | float, ...]], holders: Rows, values: Rows) -> Table:
    held: dict[int, set[int]] = {}
    for person, value in zip(holders.tolist(), values.tolist(), strict=True):
        held.setdefault(person, set()).add(value)
    table: dict[str, Record] = {f"p{who}": (qids[who], tuple(sorted(mine))) for who, mine in held.items()}
    return table


def experiment(watch: Watcher, *, quick: bool = False) -> Figures:
    """Every round of every combination of l and strategy."""
    reactions = Reactions()
    if quick:
        reactions = replace(reactions, people=2_000, reactions=5_000, kinds=400, sensitive=40, rounds=4)
    tables = list(reactions.tables())
    runs = []
    for name, strategy in STRATEGIES.items():
        for l in (2,) if quick else BOUNDS:
            policy = reactions.policy(l, strategy)
            queries = draw_queries(policy, count=50 if quick else 1_000)
            watch(f"{name}, l = {l}")
            rounds = [measure(step, queries) for step in run(policy, tables)]
            runs.append({"strategy": name, "l": l, **_summary(rounds), "rounds": rounds})
    return {"reactions": vars(reactions), "people_per_round": [len(table) for table in tables], "runs": runs}


def _summary(rounds: list[Figures]) -> Figures:
    """The mean over the rounds, and how the second half compares with the first: 1 is flat."""
    half = len(rounds) // 2
    found: Figures = {}
    for name in ("query_error", "average_group", "largest_group", "plan_s"):
        figures = column(rounds, name)
        found[name] = float(figures.mean())
        found[f"{name}_late_to_early"] = float(figures[half:].mean() / figures[:half].mean())
    for name in ("withheld_share", "hidden_share", "max_breach"):
        found[f"most_{name}"] = float(column(rounds, name).max())
    return found
