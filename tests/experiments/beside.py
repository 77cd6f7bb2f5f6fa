"""How much of 1,500 people's values is `*` beside another publisher's uneven groups that lie side by side.

`python -m tests.experiments.beside`. 25 values, Zipf-like; groups of 8 rows; l = 2, m = 4, overlap 2, nobody known.
"""

from collections import Counter
from fractions import Fraction
from random import Random

from shoal.core.policy.policy import Policy, build_policy
from shoal.core.signatures.budget import Budget

VALUES, ROWS = 25, 8


def zipf_policy() -> Policy:
    document = {
        "table": "crowd",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": [f"d{rank}" for rank in range(VALUES)]},
        "privacy": {"k": 2, "l": 2, "signature": 4, "overlap": 2},
    }
    return build_policy(document, {}, b"")


def hidden_share(groups: int, ours: int, both: int, skew: float, seed: int = 1) -> float:
    """The share that is `*`: so many of our people lie inside each group, and so many of them are really in it."""
    random, policy = Random(seed), zipf_policy()
    weights = [1 / (1 + rank) ** skew for rank in range(VALUES)]
    shown = 0
    for _ in range(groups):
        people = random.choices(range(VALUES), weights, k=ours)
        rows = Counter(people[:both] + random.choices(range(VALUES), weights, k=ROWS - both))
        budget = Budget(policy, {leaf: Fraction(count) for leaf, count in rows.items()})
        shown += sum(map(len, budget.plan(Counter(people), lambda some: random.sample(some, len(some)))))
    return 1 - shown / (groups * ours)


def main() -> None:
    for groups, ours, both in ((187, 8, 8), (65, 23, 8), (65, 23, 4)):
        for skew in (1.0, 0.7):
            share = hidden_share(groups, ours, both, skew)
            print(f"{groups} groups, {ours} of ours inside each, {both} of them in it, Zipf {skew}: {share:.1%} `*`")


if __name__ == "__main__":
    main()
