"""Random lives for a small lasting table: people come, go, return, move, change values and name guards."""

from random import Random
from typing import Any

from tests.support.engines.lasting import Publisher
from tests.support.engines.lasting_desk import OPEN, PERMANENT, TRANSIENT

GUARDS: tuple[Any, ...] = (
    None, None, None, "", "lung", "asthma", "infection",
    {"node": "joints", "bound": 0.25}, {"node": "skin", "bound": 0.1},
)  # fmt: skip


def live(publisher: Publisher, rng: Random, people: int = 40, change: float = 0.15) -> None:
    """Everyone's life until the next release."""
    for number in range(people):
        person, chance = f"p{number}", rng.random()
        known = publisher.table.get(person)
        if known is None:
            if chance < 0.5:
                publisher.put(person, rng.randrange(100), *draw_values(rng), guard=rng.choice(GUARDS))
            continue
        age, values, guard = known
        if chance < change / 3:
            del publisher.table[person]
        elif chance < 2 * change / 3:
            publisher.put(person, age, *draw_values(rng), guard=guard)
        elif chance < change:
            publisher.put(person, rng.randrange(100), *values, guard=rng.choice(GUARDS))


def draw_values(rng: Random) -> set[str]:
    """One to three values, mostly transient ones."""
    found = set(rng.sample(TRANSIENT, rng.choice((1, 1, 1, 2))))
    if rng.random() < 0.2:
        found |= {rng.choice(OPEN)}
    if rng.random() < 0.08:
        found = {rng.choice(PERMANENT)} if rng.random() < 0.3 else found | {rng.choice(PERMANENT)}
    return found
