"""What permanent values cost: the same events planned with a value permanent and with it open, in one run.

100,000 people and a tenth as many who are registered without a record, 400 values by Zipf of which the 240 rarest are
protected, and 1,000 holders of one more; per release 0.5 % leave and come, 0.25 % change value and 0.25 % move.
"""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from shoal.core.events.intake import Intake
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import State
from shoal.streams.memory import without_cycle_search
from tests.bench.figures import Figures, timed
from tests.bench.load import PRIVACY

VALUES, OPEN, PERMANENT = 400, 160, "incurable"


def measure(*, quick: bool) -> Figures:
    people, holders, releases = (5_000, 50, 3) if quick else (100_000, 1_000, 8)
    found: Figures = {"people": people, "holders": holders}
    for values in ("lasting", "redrawn"):
        policies = {"plain": _policy(values, 0, is_permanent=False)}
        policies |= {str(known): _policy(values, known, is_permanent=True) for known in (0, 5, "all")}
        found[values] = _beside_plain(_planned(policies, people, holders, releases))
    return found


def _beside_plain(taken: dict[str, list[float]]) -> Figures:
    plain = taken.pop("plain")
    found: Figures = {"plain_first_s": plain[0], "plain_s": _mean(plain[1:])}
    for participation, seconds in taken.items():
        found[participation] = {
            "first_s": seconds[0],
            "later_s": _mean(seconds[1:]),
            "first_ratio": seconds[0] / plain[0],
            "later_ratio": _mean(seconds[1:]) / _mean(plain[1:]),
        }
    return found


def _planned(policies: dict[str, Policy], people: int, holders: int, releases: int) -> dict[str, list[float]]:
    """Core seconds of planning each release, by policy: in turns, so that a busy machine is as slow for all of them."""
    tables = {name: (State.empty(policy, b"bench"), Intake(policy, {})) for name, policy in policies.items()}
    seconds: dict[str, list[float]] = {name: [] for name in policies}
    for number, events in enumerate(_events(people, holders, releases), start=1):
        for name, (state, intake) in tables.items():
            for event in events:
                assert intake.take(event) is None
            window = Window(None, {0: intake.cut()})
            with without_cycle_search():  # as worker and replay do
                took = timed(partial(plan, state, window, policies[name], number))
            state.apply(took.result.change)
            seconds[name].append(took.core_s)
    return seconds


def _policy(values: str, participation: Any, *, is_permanent: bool) -> Policy:
    labels = [f"v{rank}" for rank in range(VALUES)]
    kinds = {"permanent": [PERMANENT], "open": labels[:OPEN]} if is_permanent else {"open": [*labels[:OPEN], PERMANENT]}
    document = {
        "table": "bench",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 99},
            "sex": {"type": "category", "values": ["female", "male"]},
            "place": {"type": "int", "min": 0, "max": 9_999},
        },
        "sensitive": {"name": "value", "values": [*labels, PERMANENT], **kinds},
        "privacy": {**PRIVACY[values], "participation": participation},
    }
    return build_policy(document, {}, b"bench")


def _events(people: int, holders: int, releases: int) -> Iterator[list[dict[str, Any]]]:
    random = Random(2008)
    weights = [1 / (rank + 1) ** 1.1 for rank in range(VALUES)]
    held: set[str] = set()

    def qid() -> dict[str, Any]:
        sex = random.choice(["female", "male"])
        return {"age": random.randrange(100), "sex": sex, "place": random.randrange(10_000)}

    def values(person: str) -> list[str]:
        return [f"v{random.choices(range(VALUES), weights)[0]}", *([PERMANENT] if person in held else [])]

    def insert(person: str) -> dict[str, Any]:
        if random.random() < holders / people:
            held.add(person)
        return {"op": "insert", "id": person, "qid": qid(), "sensitive": values(person)}

    here = [f"p{number}" for number in range(people)]
    absent = [{"op": "register", "id": f"r{number}", "qid": qid()} for number in range(people // 10)]
    yield [*absent, *map(insert, here)]
    born = people
    for _ in range(1, releases):
        random.shuffle(here)
        count = people // 200
        gone, here = here[:count], here[count:]
        come = [f"p{number}" for number in range(born, born + count)]
        born += count
        yield [
            *({"op": "delete", "id": person} for person in gone),
            *({"op": "update", "id": person, "sensitive": values(person)} for person in here[: count // 2]),
            *({"op": "update", "id": person, "qid": qid()} for person in here[count // 2 : count]),
            *map(insert, come),
        ]
        here += come


def _mean(seconds: list[float]) -> float:
    return sum(seconds) / len(seconds)
