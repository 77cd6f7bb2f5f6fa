"""Bu's six people (sections 1 and 3.4): exposed under 3-invariance, 1/3 each in what Shoal publishes of them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from shoal.core.policy.policy import Policy, build_policy
from tests.experiments.linkage import Adversary, Clue, Clues
from tests.support.histories.population import Series

SIX = ("p1", "p2", "p3", "p4", "p5", "p6")
Group = tuple[frozenset[str], int]  # its people, and how often it shows HIV

THREE_INVARIANT: list[list[Group]] = [
    [(frozenset(("p1", "p2", "p3")), 1), (frozenset(("p4", "p5", "p6")), 1)],
    [(frozenset(("p1", "p4", "p5")), 1), (frozenset(("p2", "p3", "p6")), 1)],
    [(frozenset(("p1", "p4", "p6")), 1), (frozenset(("p2", "p3", "p5")), 1)],
]


def _assignments(releases: Iterable[Sequence[Group]]) -> list[frozenset[str]]:
    """Every set of two holders that fits what was published: HIV never leaves anybody."""
    return [
        frozenset(holders)
        for holders in combinations(SIX, 2)
        if all(len(people.intersection(holders)) == times for groups in releases for people, times in groups)
    ]


def _risk(person: str, assignments: list[frozenset[str]]) -> Fraction:
    return Fraction(sum(person in holders for holders in assignments), len(assignments))


def test_under_3_invariance_five_assignments_are_left_after_two_releases_and_p4_is_exposed_by_the_third() -> None:
    assert len(_assignments(THREE_INVARIANT[:2])) == 5
    left = _assignments(THREE_INVARIANT)
    assert set(left) == {frozenset(("p2", "p4")), frozenset(("p3", "p4"))}
    assert _risk("p4", left) == 1


def _policy(participation: Any) -> Policy:
    document = {
        "table": "bu",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {
            "name": "disease",
            "values": ["hiv", "flu", "fever"],
            "permanent": ["hiv"],
            "open": ["flu", "fever"],
        },
        "privacy": {"values": "redrawn", "k": 3, "l": 3, "participation": participation},
    }
    return build_policy(document, {}, b"bu")


def _published(series: Series, events: Iterable[dict[str, Any]]) -> list[Group]:
    release = series.release(events).release
    people: dict[str, set[str]] = {}
    for person, group, _ in release.members:
        people.setdefault(group, set()).add(person)
    shows = {group["group"]: group["sensitive"] for group in map(json.loads, release.groups)}
    return [(frozenset(members), shows[group].get("hiv", 0)) for group, members in people.items()]


def _history() -> Iterator[list[dict[str, Any]]]:
    """p2 and p4 hold HIV; flu and fever go around, so that every group is formed anew in every release."""
    holds = ("p2", "p4")
    yield [
        {"op": "insert", "id": person, "qid": {"age": 20 + place}, "sensitive": ["hiv" if person in holds else "flu"]}
        for place, person in enumerate(SIX)
    ]
    for number in range(5):
        value = ("fever", "flu")[number % 2]
        yield [{"op": "update", "id": person, "sensitive": [value]} for person in SIX if person not in holds]


@pytest.mark.parametrize("participation", [0, "all"])
def test_in_shoals_releases_each_of_the_six_is_a_holder_in_a_third_of_the_worlds(participation: Any) -> None:
    series = Series(_policy(participation))
    releases: list[list[Group]] = []
    for events in _history():
        releases.append(_published(series, events))
        assert sum(times for _, times in releases[-1]) == 2, "nothing is suppressed"
        assert sum(len(people) for people, _ in releases[-1]) == 6, "nobody is withheld"
        left = _assignments(releases)
        assert {_risk(person, left) for person in SIX} == {Fraction(1, 3)}


def _tell(adversary: Adversary, number: int, groups: Sequence[Group]) -> dict[str, Fraction]:
    """What the attack of docs/experiments.md makes of a release, knowing who is in which group."""
    told = [(frozenset(map(SIX.index, people)), times) for people, times in groups]
    clues = [Clue(people, people, times, times) for people, times in told if times]
    cleared = {person for people, times in told if not times for person in people}
    adversary.see(number, Clues(clues, cleared))
    return {person: adversary.risk(place) for place, person in enumerate(SIX)}


def test_one_attack_exposes_p4_under_3_invariance_and_nobody_in_shoals_releases() -> None:
    adversary = Adversary()
    *_, last = (_tell(adversary, number, groups) for number, groups in enumerate(THREE_INVARIANT, start=1))
    assert last == {"p1": 0, "p2": Fraction(1, 2), "p3": Fraction(1, 2), "p4": 1, "p5": 0, "p6": 0}
    for participation in (0, "all"):
        series, adversary = Series(_policy(participation)), Adversary()
        for number, events in enumerate(_history(), start=1):
            risks = _tell(adversary, number, _published(series, events))
            assert set(risks.values()) == {Fraction(1, 3)}
