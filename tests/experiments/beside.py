"""How much of 1,500 people's values is `*` beside another publisher's uneven groups that lie side by side.

`python -m tests.experiments.beside`. 25 values, Zipf-like; groups of 8 rows; l = 2, m = 4, overlap 2, nobody known.
"""

import json
from collections import Counter
from random import Random

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State

VALUES, ROWS, WIDTH = 25, 8, 10


def zipf_policy(groups: int) -> Policy:
    document = {
        "table": "crowd",
        "attributes": {"place": {"type": "int", "min": 0, "max": groups * WIDTH}},
        "sensitive": {"name": "disease", "values": [f"d{rank}" for rank in range(VALUES)]},
        "privacy": {"k": 2, "l": 2, "signature": 4, "overlap": 2},
    }
    return build_policy(document, {}, b"")


def hidden_share(groups: int, ours: int, both: int, skew: float, seed: int = 1) -> float:
    """The share that is `*`: so many of our people lie inside each group, and so many of them are really in it."""
    random, policy = Random(seed), zipf_policy(groups)
    weights = [1 / (1 + rank) ** skew for rank in range(VALUES)]
    intake, others = Intake(policy, {}, held={}), []
    for group in range(groups):
        people = random.choices(range(VALUES), weights, k=ours)
        rows = Counter(people[:both] + random.choices(range(VALUES), weights, k=ROWS - both))
        low = group * WIDTH
        region = {"place": {"min": low, "max": low + WIDTH - 1}}
        others.append({"region": region, "sensitive": {f"d{leaf}": count for leaf, count in rows.items()}})
        for number, leaf in enumerate(people):
            qid = {"place": low + number % WIDTH}
            event = {"op": "insert", "id": f"p{group}-{number}", "qid": qid, "sensitive": [f"d{leaf}"]}
            assert intake.take(event) is None
    read = parse_external({"op": "external", "publisher": "other", "groups": others}, policy)
    assert isinstance(read, External)
    made = plan(State.empty(policy, b"secret"), Window(None, {0: intake.cut()}, read.groups), policy, 1)
    starred = sum(json.loads(group)["sensitive"].get("*", 0) for group in made.release.groups)
    return float(starred / (groups * ours))


def main() -> None:
    for groups, ours, both in ((187, 8, 8), (65, 23, 8), (65, 23, 4)):
        for skew in (1.0, 0.7):
            share = hidden_share(groups, ours, both, skew)
            print(f"{groups} groups, {ours} of ours inside each, {both} of them in it, Zipf {skew}: {share:.1%} `*`")


if __name__ == "__main__":
    main()
