"""Beside other publishers: who is in their groups, and which signatures those people may be shown as."""

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
    "privacy": {"k": 2, "l": 2, "counterfeits": 0.3, "overlap": 2},
}
POLICY = build_policy(DOCUMENT, {}, b"")


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

    def __init__(self) -> None:
        self.state, self.intake = State.empty(POLICY, b"secret"), Intake(POLICY, {}, held={})
        draw = random.Random(3)
        for number in range(240):
            record = {"qid": {"age": draw.randrange(100)}, "sensitive": [draw.choice(VALUES)]}
            assert self.intake.take({"op": "insert", "id": f"p{number}", **record}) is None

    def release(self, *externals: External, events: tuple[dict[str, Any], ...] = ()) -> Plan:
        for event in events:
            assert self.intake.take(event) is None
        groups = [group for one in externals for group in one.groups]
        window = Window(None, {0: self.intake.cut()}, groups)
        made = plan(self.state, window, POLICY, self.state.meta.release + 1)
        self.state.apply(made.change)
        return made

    def ages(self) -> dict[str, int]:
        people = self.state.people
        return {person: int(people.columns[0][row]) for row, person in enumerate(people.ids(self._rows()))}

    def _rows(self) -> Any:
        return self.state.people.present()


def signatures(made: Plan, ward: Ward, low: int, high: int) -> set[tuple[str, ...]]:
    """What people of these ages are shown as."""
    groups = {group["group"]: tuple(group["sensitive"]) for group in map(json.loads, made.release.groups)}
    ages = ward.ages()
    rows = map(json.loads, made.release.members.lines())
    return {groups[row["group"]] for row in rows if low <= ages[row["id"]] <= high}


def test_people_in_others_groups_take_blocks_of_values_that_those_show_equally_often() -> None:
    ward = Ward()
    twice = {f"d{rank}": 2 for rank in range(6)}
    found = signatures(ward.release(external(0, 99, **twice)), ward, 0, 99)
    assert found - {("*",)}
    for signature in found - {("*",)}:
        ranks = {int(label[1:]) < 6 for label in signature}
        assert len(ranks) == 1
        assert len(signature) >= 4


def test_if_any_value_has_no_block_they_are_all_starred() -> None:
    ward = Ward()
    found = signatures(ward.release(external(0, 49, d0=3)), ward, 0, 49)
    assert found == {("*",)}
    assert signatures(ward.release(), ward, 50, 99) - {("*",)}


def test_a_publication_that_tells_a_signature_apart_stars_it_from_then_on() -> None:
    ward = Ward()
    assert signatures(ward.release(), ward, 0, 49) - {("*",)}
    odd = {f"d{rank}": rank + 1 for rank in range(12)}
    assert signatures(ward.release(external(0, 49, **odd)), ward, 0, 49) == {("*",)}
    assert signatures(ward.release(), ward, 0, 49) == {("*",)}


def test_somebody_who_was_ever_inside_stays_inside() -> None:
    ward = Ward()
    ward.release()
    young = next(person for person, age in ward.ages().items() if age < 40)
    ward.release(events=({"op": "update", "id": young, "qid": {"age": 90}},))
    made = ward.release(external(0, 49, **{f"d{rank}": rank + 1 for rank in range(12)}))
    groups = {group["group"]: tuple(group["sensitive"]) for group in map(json.loads, made.release.groups)}
    rows = [json.loads(line) for line in made.release.members.lines() if json.loads(line)["id"] == young]
    assert [groups[row["group"]] for row in rows] == [("*",)]
