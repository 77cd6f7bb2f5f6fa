"""Beside other publishers: whose groups are joined, who is shown in which rounds, and who is not shown any more."""

import json
import random
from typing import Any

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import build_policy
from shoal.core.signatures.components import Components
from shoal.core.state import State

VALUES = [f"d{rank}" for rank in range(12)]
DOCUMENT = {
    "table": "ward",
    "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
    "sensitive": {"name": "disease", "values": VALUES},
    "privacy": {"k": 2, "l": 2, "overlap": 2},
}
POLICY = build_policy(DOCUMENT, {}, b"")
ODD = {f"d{rank}": rank + 1 for rank in range(12)}
UNEVEN = {"d0": 3, "d1": 2, "d2": 2, "d3": 2, "d4": 1, "d5": 1}
STARS = {("*",)}


def external(low: int, high: int, **shown: int) -> External:
    groups = [{"region": {"age": {"min": low, "max": high}}, "sensitive": shown}]
    read = parse_external({"op": "external", "publisher": "other", "groups": groups}, POLICY)
    assert isinstance(read, External)
    return read


def components(*externals: External) -> list[int]:
    found: list[int] = Components(POLICY, [group for one in externals for group in one.groups]).of_group.tolist()
    return found


def test_groups_whose_regions_meet_directly_or_through_others_are_taken_together() -> None:
    assert components(external(0, 9, d0=1), external(20, 29, d0=1), external(40, 49, d0=1)) == [0, 1, 2]
    assert components(external(0, 9, d0=1), external(20, 29, d0=1), external(9, 20, d1=1)) == [0, 0, 0]
    assert components(external(0, 9, d0=1), external(10, 29, d0=1)) == [0, 1]


class Ward:
    """People of all ages with any value, and what others publish."""

    def __init__(self, several: bool = False) -> None:
        self.state, self.intake = State.empty(POLICY, b"secret"), Intake(POLICY, {}, held={})
        draw = random.Random(3)
        for number in range(240):
            values = draw.sample(VALUES, 2 if several else 1)
            self.take({"op": "insert", "id": f"p{number}", "qid": {"age": draw.randrange(100)}, "sensitive": values})

    def take(self, event: dict[str, Any]) -> None:
        assert self.intake.take(event) is None

    def release(self, *externals: External) -> Plan:
        groups = [group for one in externals for group in one.groups]
        made = plan(self.state, Window(None, {0: self.intake.cut()}, groups), POLICY, self.state.meta.release + 1)
        self.state.apply(made.change)
        return made

    def ages(self) -> dict[str, int]:
        people = self.state.people
        here = people.present()
        return dict(zip(people.ids(here), people.columns[0][here].tolist(), strict=True))

    def shown(self, made: Plan, low: int = 0, high: int = 99) -> dict[str, set[tuple[str, ...]]]:
        """What people of these ages are shown as."""
        groups = {group["group"]: tuple(group["sensitive"]) for group in map(json.loads, made.release.groups)}
        found: dict[str, set[tuple[str, ...]]] = {}
        for row in map(json.loads, made.release.members.lines()):
            if low <= self.ages()[row["id"]] <= high:
                found.setdefault(row["id"], set()).add(groups[row["group"]])
        return found

    def signatures(self, made: Plan, low: int = 0, high: int = 99) -> set[tuple[str, ...]]:
        return set().union(*self.shown(made, low, high).values())


def test_values_that_others_show_equally_often_are_shown_among_themselves_where_groups_meet() -> None:
    ward, twice = Ward(), {f"d{rank}": 2 for rank in range(6)}
    found = ward.signatures(ward.release(external(0, 60, **twice), external(50, 99, **twice)))
    assert found - STARS
    assert all(len({int(label[1:]) < 6 for label in one}) == 1 and len(one) >= 4 for one in found - STARS)


def test_a_group_that_is_alone_bears_some_rounds_of_any_values_and_no_more() -> None:
    ward = Ward()
    made = ward.release(external(0, 49, **UNEVEN))
    inside = ward.shown(made, 0, 49)
    rounds = [signature for found in inside.values() for signature in found - STARS]
    assert len(inside) / 2 < len(rounds) < len(inside)
    assert any({int(label[1:]) < 6 for label in signature} == {True, False} for signature in rounds)


def test_nobody_inside_shares_a_group_with_somebody_outside() -> None:
    ward = Ward()
    made = ward.release(external(0, 49, **UNEVEN))
    ages, rows = ward.ages(), [json.loads(line) for line in made.release.members.lines()]
    inside = {row["group"] for row in rows if ages[row["id"]] < 50}
    outside = {row["group"] for row in rows if ages[row["id"]] >= 50}
    stars = {group["group"] for group in map(json.loads, made.release.groups) if "*" in group["sensitive"]}
    assert not inside & outside - stars


def test_where_uneven_groups_meet_nothing_is_shown() -> None:
    ward = Ward()
    made = ward.release(external(0, 30, **UNEVEN), external(20, 49, **ODD))
    assert ward.signatures(made, 0, 49) == STARS
    assert ward.signatures(made, 50, 99) - STARS


def test_somebody_who_was_in_two_groups_joins_them() -> None:
    for age in (10, 30):
        ward = Ward()
        ward.take({"op": "insert", "id": "mover", "qid": {"age": 10}, "sensitive": ["d0", "d1"]})
        alone = external(0, 19, **ODD), external(20, 49, **UNEVEN)
        ward.release(*alone)
        ward.take({"op": "update", "id": "mover", "qid": {"age": age}})
        assert bool(ward.signatures(ward.release(), 20, 49) - STARS) == (age == 10), age


def test_people_with_several_values_are_not_shown_beside_others() -> None:
    ward = Ward(several=True)
    made = ward.release(external(0, 49, **UNEVEN))
    assert ward.signatures(made, 0, 49) == STARS
    assert ward.signatures(made, 50, 99) - STARS


def test_a_publication_that_tells_a_signature_apart_stars_it_from_then_on() -> None:
    ward = Ward()
    assert ward.signatures(ward.release(), 0, 49) - STARS
    assert ward.signatures(ward.release(external(0, 49, **ODD)), 0, 49) == STARS
    assert ward.signatures(ward.release(), 0, 49) == STARS


def test_what_was_shown_within_the_budget_stays() -> None:
    ward = Ward()
    before = ward.shown(ward.release(external(0, 49, **UNEVEN)), 0, 49)
    ward.take({"op": "insert", "id": "late", "qid": {"age": 20}, "sensitive": ["d1"]})
    after = ward.shown(ward.release(), 0, 49)
    assert {person: after[person] for person in before} == before


def test_after_an_erasure_all_groups_are_joined() -> None:
    ward = Ward()
    made = ward.release(external(0, 49, **UNEVEN), external(60, 99, **ODD))
    assert ward.signatures(made, 0, 49) - STARS
    ward.take({"op": "erase", "id": next(person for person, age in ward.ages().items() if 50 <= age < 60)})
    assert ward.signatures(ward.release(), 0, 49) == STARS


def test_somebody_who_was_ever_inside_stays_inside() -> None:
    ward = Ward()
    ward.release()
    young = next(person for person, age in ward.ages().items() if age < 40)
    ward.take({"op": "update", "id": young, "qid": {"age": 90}})
    assert ward.shown(ward.release(external(0, 49, **ODD)))[young] == STARS
