"""Neighbourhoods of others' groups, beside a naive search that compares every region with every other."""

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from shoal.core.audit.criteria.lasting.neighbourhoods import Neighbourhoods
from shoal.core.audit.criteria.others import Other, read_others
from shoal.core.audit.reading.truth import Record
from shoal.core.policy.policy import build_policy

POLICY = build_policy(
    {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 19},
            "zip": {"type": "category", "values": ["a", "b", "c", "d"]},
        },
        "sensitive": {"name": "s", "values": ["v", "w", "x", "y"]},
        "privacy": {"k": 1, "l": 2, "values": "lasting"},
    },
    {},
    b"",
)
POINTS = tuple(product(range(20), range(4)))


def draw_region(rng: Random) -> dict[str, Any]:
    low = rng.randrange(20)
    sides = {
        "age": {"min": low, "max": min(19, low + rng.randrange(4))},
        "zip": {"nodes": rng.sample(["a", "b", "c", "d"], rng.choice([1, 1, 2]))},
    }
    return {name: side for name, side in sides.items() if rng.random() < 0.9}


def draw_others(rng: Random, count: int) -> list[Other]:
    groups = [
        {"regions": [draw_region(rng) for _ in range(rng.choice([1, 1, 3]))], "sensitive": {"v": 1}}
        for _ in range(count)
    ]
    return read_others({"publisher": "north", "groups": groups}, POLICY)


def holds(other: Other, point: tuple[int, int]) -> bool:
    return any(
        all(
            not runs or any(low <= value < high for low, high in runs)
            for runs, value in zip(region, point, strict=True)
        )
        for region in other.regions
    )


def join_naively(others: Sequence[Other]) -> set[frozenset[int]]:
    """Groups are joined while two of them hold one point."""
    found = [frozenset({at}) for at in range(len(others))]
    for point in POINTS:
        there = {at for at, other in enumerate(others) if holds(other, point)}
        together = [one for one in found if one & there]
        if together:
            found = [one for one in found if one not in together] + [frozenset[int]().union(*together)]
    return set(found)


@pytest.mark.parametrize("seed", range(40))
def test_groups_are_together_whose_regions_meet_directly_or_through_others(seed: int) -> None:
    rng, near = Random(seed), Neighbourhoods(POLICY)
    others: list[Other] = []
    places = {f"p{age}{code}": Record((age, code), frozenset({0}), None) for age, code in POINTS}
    for _ in range(3):
        others = others + draw_others(rng, rng.choice([1, 3, 6]))
        near.look(others, places)
        naive = join_naively(others)
        for person, record in places.items():
            expected = {
                one for one in naive for at in one if holds(others[at], (int(record.qid[0]), int(record.qid[1])))
            }
            assert near.of(person) == expected


def test_somebody_who_moved_away_is_still_in_what_they_were_in() -> None:
    near = Neighbourhoods(POLICY)
    others = read_others(
        {"publisher": "n", "groups": [{"region": {"zip": {"nodes": ["a"]}}, "sensitive": {"v": 1}}]}, POLICY
    )
    near.look((), {"p": Record((3, 0), frozenset({0}), None), "q": Record((3, 1), frozenset({0}), None)})
    near.look(others, {"p": Record((3, 1), frozenset({0}), None)})
    assert near.of("p") == {frozenset({0})}
    assert near.of("q") == frozenset()
