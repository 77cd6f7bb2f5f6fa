"""Settled groups, release by release: nobody joins one, everybody comes back to theirs, and newcomers wait by numbers."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import build_policy
from shoal.core.state import State
from tests.support.histories.mixed import Event

VALUES = [f"d{rank}" for rank in range(8)]


class Ward:
    """A small lasting table, and what its last release shows."""

    def __init__(self, k: int = 2, **privacy: Any) -> None:
        document = {
            "table": "ward",
            "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
            "sensitive": {"name": "disease", "values": VALUES},
            "privacy": {"k": k, "l": 2, "batch": 4, **privacy},
        }
        self.policy = build_policy(document, {}, b"")
        self.state, self.intake = State.empty(self.policy, b"secret"), Intake(self.policy, {}, held={})
        self.made: Plan

    def release(self, *events: Event) -> "Ward":
        for event in events:
            assert self.intake.take(event) is None, event
        window = Window(None, {0: self.intake.cut()})
        self.made = plan(self.state, window, self.policy, self.state.meta.release + 1)
        self.state.apply(self.made.change)
        self.state.check_invariants()
        return self

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.made.release.manifest)
        return found

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        return {group["group"]: group for group in map(json.loads, self.made.release.groups)}

    def rows(self) -> dict[tuple[str, str], str]:
        """The group of each value of each person; "*" for those that show none."""
        groups = self.groups
        rows = map(json.loads, self.made.release.members.lines())
        return {
            (row["id"], row["value"]): "*" if "*" in groups[row["group"]]["sensitive"] else row["group"] for row in rows
        }

    def of(self, person: str) -> list[str]:
        return [group for (one, _), group in sorted(self.rows().items()) if one == person]


def insert(person: str, *values: str, age: int = 50) -> Event:
    return {"op": "insert", "id": person, "qid": {"age": age}, "sensitive": list(values)}


def four(name: str = "p", values: Sequence[str] = VALUES[:4]) -> list[Event]:
    return [insert(f"{name}{at}", value, age=10 * at % 100) for at, value in enumerate(values)]


def delete(person: str) -> Event:
    return {"op": "delete", "id": person}


def test_a_group_shows_each_value_equally_often_and_says_how_many_places_are_vacant() -> None:
    ward = Ward().release(*four())
    (group,) = ward.groups.values()
    assert group["sensitive"] == dict.fromkeys(VALUES[:4], 1)
    assert (group["vacant"], ward.manifest["vacant"], ward.manifest["waiting"]) == (0, 0, 0)
    (group,) = ward.release(delete("p1")).groups.values()
    assert group["sensitive"] == dict.fromkeys(VALUES[:4], 1)
    assert (group["vacant"], ward.manifest["vacant"]) == (1, 1)


def test_nobody_takes_a_leavers_place() -> None:
    ward = Ward().release(*four())
    (home,) = ward.groups
    ward.release(delete("p1"), insert("q", "d1"))
    assert ward.of("q") == ["*"]
    ward.release(*four("q"))
    assert home not in {group for (person, _), group in ward.rows().items() if person.startswith("q")}


def test_a_group_without_rows_has_no_record_and_comes_back_with_its_people() -> None:
    ward = Ward().release(*four())
    (home,) = ward.groups
    ward.release(*(delete(f"p{at}") for at in range(4)))
    assert ward.groups == {}
    ward.release(insert("p2", "d2"), *four("q", VALUES[4:]))
    assert ward.of("p2") == [home]
    assert ward.groups[home]["vacant"] == 3


@pytest.mark.parametrize(
    "between",
    [
        [delete("p1")],
        [{"op": "update", "id": "p1", "qid": {"age": 99}}],
        [{"op": "update", "id": "p1", "sensitive": ["d6"]}],
        [{"op": "update", "id": "p1", "guard": "d6"}],
    ],
    ids=["absence", "a move", "another value", "a guard"],
)
def test_a_value_belongs_to_one_group_for_ever(between: list[Event]) -> None:
    ward = Ward().release(*four())
    (home,) = ward.of("p1")
    ward.release(*between, *four("q"))
    event = insert("p1", "d1") if between[0]["op"] == "delete" else {"op": "update", "id": "p1", "sensitive": ["d1"]}
    assert ward.release(event, *four("r")).of("p1") == [home]


def test_who_is_withheld_has_no_row_and_comes_back_to_their_group() -> None:
    """Two old people are k; when one of them leaves, the other is withheld."""
    people = [insert("a", "d0", age=90), insert("b", "d1", age=91), insert("c", "d2", age=1), insert("d", "d3", age=2)]
    ward = Ward(headroom=0).release(*people)
    homes = ward.rows()
    assert len(set(homes.values())) == 1
    ward.release(delete("b"))
    shown = ward.rows()
    ward.release(insert("b", "d1", age=91))
    assert ward.rows() == homes
    assert shown.items() <= homes.items()


def test_newcomers_wait_until_there_are_as_many_as_a_batch_whatever_their_values() -> None:
    for values in (VALUES[:3], ["d0"] * 3):
        ward = Ward().release(*four("p", values))
        assert (ward.manifest["waiting"], ward.manifest["suppressed"]) == (3, 3)
    ward = Ward(batch=6).release(*four())
    assert ward.manifest["waiting"] == 4, "though they would make a group"
    ward.release(*four("q", VALUES[4:6]))
    assert ward.manifest["waiting"] == 0
    assert set(ward.rows().values()) != {"*"}


def test_a_batch_that_nobody_could_hide_goes_on_waiting() -> None:
    ward = Ward().release(*four("p", ["d0"] * 5))
    assert ward.manifest["waiting"] == 5
    ward.release(*four("q", [*VALUES[:4]] * 5))
    assert ward.manifest["waiting"] == 0


def test_who_found_no_round_stays_starred_for_the_spell_and_not_longer() -> None:
    ward = Ward().release(*four("p", ["d0"] * 12 + VALUES[1:] * 3))
    starred = [person for (person, _), group in ward.rows().items() if group == "*"]
    assert ward.manifest["waiting"] == 0 < len(starred)
    for turn in range(3):
        ward.release(*four(f"q{turn}", VALUES * 2))
        assert all(ward.of(person) == ["*"] for person in starred)
    one = starred[0]
    ward.release({"op": "update", "id": one, "sensitive": ["d5"]}, *four("r", VALUES))
    assert ward.of(one) != ["*"]


def test_a_persons_values_are_in_groups_of_their_own_that_are_equal_or_disjoint() -> None:
    draw = random.Random(5)
    ward = Ward()
    for turn in range(6):
        events = [insert(f"p{turn}-{at}", *draw.sample(VALUES, draw.choice([1, 1, 2]))) for at in range(24)]
        ward.release(*events)
        rows = {pair: group for pair, group in ward.rows().items() if group != "*"}
        entries = Counter((person, group) for (person, _), group in rows.items())
        assert max(entries.values()) == 1
        groups = ward.groups
        for (person, _), group in rows.items():
            for (other, _), theirs in rows.items():
                if person == other and group != theirs:
                    mine, yours = (set(groups[one]["sensitive"]) for one in (group, theirs))
                    assert mine == yours or not mine & yours


def test_a_second_value_has_a_new_group_of_exactly_its_signature() -> None:
    ward = Ward().release(*four())
    (home,) = ward.groups
    ward.release({"op": "update", "id": "p0", "sensitive": ["d0", "d2"]}, *four("q", ["d0", "d1", "d3"]))
    first, second = ward.of("p0")
    assert first == home != second
    assert ward.groups[second]["sensitive"] == dict.fromkeys(VALUES[:4], 1)
    assert sum(ward.groups[second]["cells"].values()) == 4


def test_without_others_a_second_value_is_starred_and_a_third_always_is() -> None:
    ward = Ward().release(*four())
    ward.release({"op": "update", "id": "p0", "sensitive": ["d0", "d2"]}, *four("q", ["d4", "d5", "d6", "d7"]))
    assert ward.of("p0")[1] == "*"
    ward = Ward().release(*four())
    ward.release({"op": "update", "id": "p0", "sensitive": ["d0", "d2"]}, *four("q", ["d0", "d1", "d3"]))
    ward.release({"op": "update", "id": "p0", "sensitive": ["d0", "d1", "d2"]}, *four("r", VALUES))
    assert ward.of("p0").count("*") == 1


def test_what_a_neighbour_does_changes_nothing_for_those_who_stay() -> None:
    ward = Ward().release(*four("p", VALUES * 4))
    before = ward.rows()
    ward.release(*(delete(f"p{at}") for at in range(0, 32, 3)), *four("q", VALUES))
    after = ward.rows()
    assert {pair: group for pair, group in before.items() if pair in after} == {
        pair: group for pair, group in after.items() if pair[0].startswith("p")
    }
