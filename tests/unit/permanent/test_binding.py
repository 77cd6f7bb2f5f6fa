"""Cliques in group formation: together in one group, with the permanent value shown, whatever it costs the others."""

import json
from collections import Counter
from typing import Any

import pytest

from shoal.core.groups.grouping import Grouping
from tests.support.engines.series import clinic_policy
from tests.support.histories.population import Series


@pytest.fixture(autouse=True)
def invariants(monkeypatch: pytest.MonkeyPatch) -> list[Grouping]:
    """Every grouping of a test, whose invariants are checked when it is done."""
    seen, largest_breach = list[Grouping](), Grouping.largest_breach

    def checked(grouping: Grouping) -> float:
        grouping.check_invariants()
        seen.append(grouping)
        return largest_breach(grouping)

    monkeypatch.setattr(Grouping, "largest_breach", checked)
    return seen


def _insert(person: str, *values: str, age: int = 30) -> dict[str, Any]:
    qid = {"age": age, "weight": 70.0, "sex": "female", "zip": "z11"}
    return {"op": "insert", "id": person, "qid": qid, "sensitive": list(values)}


class _Published:
    """One release of these people, where one exposure at most is foreseen; `h` holds hiv."""

    def __init__(self, *events: dict[str, Any], l: int = 2, **privacy: Any) -> None:
        privacy.setdefault("strategy", {"name": "adaptive", "releases": 1})
        series = Series(clinic_policy(k=1, l=l, headroom=0, permanent=["hiv"], **privacy))
        release = series.release(events).release
        self.group = {person: group for person, group, _ in release.members}
        self.shows = {group["group"]: group["sensitive"] for group in map(json.loads, release.groups)}
        self.clique = {owner for _, clique in series.state.cohorts.living() for owner in clique.owners if owner}
        self.manifest = json.loads(release.manifest)

    @property
    def company(self) -> set[str]:
        return {person for person, group in self.group.items() if group == self.group["h"]}

    @property
    def shown(self) -> dict[str, int]:
        found: dict[str, int] = self.shows[self.group["h"]]
        return found


def test_a_clique_with_nothing_else_to_protect_is_a_group_by_itself() -> None:
    found = _Published(_insert("h", "hiv"), *(_insert(f"p{n}", "flu") for n in range(9)))
    assert (found.company, found.shown) == (found.clique, {"hiv": 1, "flu": 1})


def test_a_clique_with_something_to_protect_joins_a_group_that_has_room() -> None:
    values = ["asthma", "gastritis", "ulcer", "gout"]
    found = _Published(_insert("h", "hiv", "lupus"), *(_insert(f"p{n}", values[n % 4]) for n in range(8)))
    assert found.company > found.clique
    assert (found.shown["hiv"], found.shown["lupus"], found.manifest["suppressed"]) == (1, 1, 0)


def test_a_holder_is_no_company_for_others_values() -> None:
    found = _Published(_insert("h", "hiv"), _insert("p", "asthma"))
    assert found.shown == {"hiv": 1, "*": 1}, "asthma would be shown for the one person who is not the holder"


def test_where_nobody_is_left_to_hide_among_the_transient_values_are_suppressed_and_the_permanent_one_stays() -> None:
    found = _Published(_insert("h", "hiv", "gout"), _insert("p", "gout", "flu"))
    assert found.shown == {"hiv": 1, "flu": 1, "*": 2}


@pytest.mark.parametrize("l", [2, 3])
def test_every_clique_finds_a_group_however_many_there_are(l: int, invariants: list[Grouping]) -> None:
    people = [_insert(f"h{n}", "hiv", age=n) for n in range(15)] + [_insert(f"p{n}", "gout", age=n) for n in range(30)]
    found = _Published(*people, _insert("h", "hiv"), l=l)
    count = Counter(found.group[owner] for owner in found.clique)
    assert sum(shown.get("hiv", 0) for shown in found.shows.values()) == min(16, 30 // (l - 1))
    for group, shown in found.shows.items():
        assert shown.get("hiv", 0) * l <= max(count[group], 0)
    assert len(found.group) == 46
    assert invariants


def test_a_guard_over_an_open_value_is_kept_in_a_clique_too() -> None:
    guarded = {**_insert("p", "flu"), "guard": "flu"}
    found = _Published(_insert("h", "hiv"), guarded)
    assert found.shown == {"hiv": 1, "*": 1}


VALUES = ("asthma", "gastritis", "ulcer", "gout", "lupus")
THRICE = {"name": "adaptive", "releases": 3}


def _holders_and_decoys(**privacy: Any) -> _Published:
    """Five holders with a value each to be protected, and nobody but their decoys around."""
    holders = [_insert(name, "hiv", value) for name, value in zip(("h", "i", "j", "m", "n"), VALUES, strict=True)]
    return _Published(*holders, *(_insert(f"p{number}", "flu") for number in range(5)), strategy=THRICE, **privacy)


def test_ties_with_nothing_but_ties_around_them_come_together() -> None:
    found = _holders_and_decoys()
    assert found.company == {"h", "i", "j", "m", "n", *(f"p{number}" for number in range(5))}
    assert found.shown == {"hiv": 5, "flu": 5, **dict.fromkeys(VALUES, 1)}
    assert found.manifest["max_breach"] == pytest.approx(1 / 5), "and nobody spends more than planned"


def test_ties_keep_apart_where_everyone_is_known() -> None:
    found = _holders_and_decoys(participation="all")
    assert {shown.get("hiv", 0) for shown in found.shows.values()} <= {0, 1}
