"""Erasure: what is left of a person in the records that are stored, and what counts when they come back."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from shoal.core.events.intake import Intake
from shoal.core.events.window import ERASED_STATUS
from shoal.core.overlap.external import External, parse_external
from shoal.core.person import FORGOTTEN, Person
from shoal.core.plan import Plan, Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.state import RECORDS, State

Event = dict[str, Any]
ERASE: Event = {"op": "erase", "id": "x"}
AGE = 37


def ward_policy(values: str = "lasting", **sensitive: Any) -> Policy:
    """Eight diseases under signatures of four, of which a person may be shown with two each."""
    diseases = [f"d{rank}" for rank in range(8)]
    document = {
        "table": "ward",
        "attributes": {"age": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": [*diseases, *sensitive.get("permanent", ())], **sensitive},
        "privacy": {"k": 2, "l": 2, "values": values, **({"batch": 4} if values == "lasting" else {})},
    }
    return build_policy(document, {}, b"")


class Ward:
    """A series of releases of a small table with `x` among its people."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or ward_policy()
        self.state = State.empty(self.policy, b"secret")
        self.intake = Intake(self.policy, {}, held={})

    def release(self, *events: Event, others: Sequence[Event] = ()) -> Plan:
        for event in events:
            assert self.intake.take(event) is None, event
        self.intake.check_invariants()
        read = [parse_external(event, self.policy) for event in others]
        groups = [group for one in read if isinstance(one, External) for group in one.groups]
        window = Window(None, {0: self.intake.cut()}, groups)
        made = plan(self.state, window, self.policy, self.state.meta.release + 1)
        self.state.apply(made.change)
        self.state.check_invariants()
        return made

    def restart(self) -> None:
        """From the records, in another order."""
        records = {
            name: random.Random(3).sample(found := list(self.state.records(name)), len(found)) for name in RECORDS
        }
        self.state = State.load(self.policy, b"secret", self.state.meta, **records)
        people = self.state.people
        self.intake = Intake(self.policy, people.roster(), held=people.holdings())

    @property
    def x(self) -> Person:
        people: dict[str, Person] = dict(self.state.records("people"))
        return people["x"]

    def shown(self, made: Plan) -> list[list[str]]:
        """The values that x's rows are shown among."""
        rows = [row for row in map(json.loads, made.release.members.lines()) if row["id"] == "x"]
        groups = {group["group"]: sorted(group["sensitive"]) for group in map(json.loads, made.release.groups)}
        return [groups[row["group"]] for row in rows]


def crowd(count: int = 24, name: str = "p") -> list[Event]:
    draw = random.Random(7)
    return [
        {"op": "insert", "id": f"{name}{number}", "qid": {"age": draw.randrange(100)}, "sensitive": [f"d{number % 8}"]}
        for number in range(count)
    ]


def insert(*values: str, **more: Any) -> Event:
    return {"op": "insert", "id": "x", "qid": {"age": AGE}, "sensitive": [*values], **more}


@pytest.mark.parametrize("values", ["lasting", "redrawn"])
@pytest.mark.parametrize("before", [[], [{"op": "delete", "id": "x"}]], ids=["present", "absent"])
def test_of_somebody_erased_no_quasi_identifier_value_guard_or_time_is_stored(values: str, before: list[Event]) -> None:
    ward = Ward(ward_policy(values))
    ward.release(*crowd(), insert("d1", "d3", guard="d2"))
    ward.release({"op": "update", "id": "x", "qid": {"age": 38}}, *before)
    ward.release(ERASE)
    left = ward.x
    assert (left.status, left.qid, left.values, left.guard, left.held) == (ERASED_STATUS, (0,), (), None, ())
    assert (left.since, left.group, left.coarse) == (FORGOTTEN, -1, -1)
    assert all(qid == () for qid in left.trail)
    assert all(entry[0] < 0 for entry in left.entries)
    assert bool(left.exposures) == (values == "redrawn")
    ward.restart()
    assert ward.x == left


def test_nobody_sees_in_the_next_release_whether_somebody_was_deleted_or_erased() -> None:
    manifests = set()
    for event in (ERASE, {"op": "delete", "id": "x"}):
        ward = Ward()
        ward.release(*crowd(), insert("d1"))
        manifests.add(ward.release(event).release.manifest)
    assert len(manifests) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_somebody_who_comes_back_is_shown_among_the_same_values_and_that_is_counted(restarts: bool) -> None:
    ward = Ward()
    (first,) = ward.shown(ward.release(*crowd(), insert("d1")))
    again = "d1"
    for turn in range(3):
        ward.release(ERASE)
        if restarts:
            ward.restart()
        shown = ward.shown(ward.release(insert(again), *crowd(name=f"q{turn}-")))
        if shown != [first]:
            break
        again = next(value for value in first if value != "d1")
    assert (turn, shown) == (1, [["*"]]), "a signature of four stands for two values of one person"
    signatures = {entry[1] for entry in ward.x.entries if entry[1] >= 0}
    assert len(signatures) == 1


def test_a_value_that_was_shown_counts_as_another_one_when_it_comes_back() -> None:
    """Which one it was is forgotten, so how somebody is shown cannot depend on it."""
    outcomes = []
    for second in ("the same", "another"):
        ward = Ward()
        (first,) = ward.shown(ward.release(*crowd(), insert("d1")))
        value = "d1" if second == "the same" else next(value for value in first if value != "d1")
        ward.release(ERASE)
        ward.release(insert(value), *crowd(name="q"))
        ward.release(ERASE)
        assert len({entry[1] for entry in ward.x.entries if entry[0] < 0}) == 1 < len(ward.x.entries)
        third = next(value for value in ("d0", "d2", "d4", "d6") if value not in first)
        outcomes.append(ward.shown(ward.release(insert(third), *crowd(name="r"))))
    assert outcomes == [[["*"]], [["*"]]], "their signature is full: nothing new of theirs is shown (S3)"


def test_somebody_erased_and_back_in_one_window_goes_on_and_their_past_is_forgotten() -> None:
    ward = Ward()
    ward.release(*crowd(), insert("d1"))
    ward.release({"op": "update", "id": "x", "sensitive": ["d2"], "guard": "d6"})
    before = {entry[0]: entry for entry in ward.x.entries}
    made = ward.release(ERASE, insert("d2"))
    after = {entry[0]: entry for entry in ward.x.entries}
    assert after[2] == before[2], "a value that is there before and after goes on"
    assert 1 not in after
    assert [entry[1] for value, entry in after.items() if value < 0] == [before[1][1]]
    assert ward.x.guard is None
    assert len(ward.shown(made)) == 1


def test_a_value_shown_plainly_is_forgotten_and_nothing_else_is_shown_of_them_without_an_empty_guard() -> None:
    ward = Ward()
    assert ward.shown(ward.release(*crowd(), insert("d1", guard=""))) == [["d1"]]
    ward.release(ERASE)
    assert all(entry[0] < 0 for entry in ward.x.entries)
    ward.restart()
    assert ward.shown(ward.release(insert("d3"))) == [["*"]]
    assert ward.shown(ward.release({"op": "update", "id": "x", "guard": ""})) == [["d3"]]


def test_an_open_value_leaves_nothing() -> None:
    ward = Ward(ward_policy(open=["d7"]))
    assert ward.shown(ward.release(*crowd(), insert("d7"))) == [["d7"]]
    ward.release(ERASE)
    assert ward.x.entries == ()


def test_somebody_who_came_and_was_erased_in_one_window_is_a_handle_and_no_more() -> None:
    ward = Ward()
    ward.release(*crowd(), insert("d1"), ERASE)
    assert ward.x == Person(ERASED_STATUS, 0, (0,), (), -1, (), FORGOTTEN, trail=((),))


def test_an_erasure_of_somebody_deregistered_lets_nobody_back() -> None:
    ward = Ward()
    ward.release(*crowd(), insert("d1"))
    ward.release({"op": "delete", "id": "x"}, {"op": "deregister", "id": "x"})
    ward.release(ERASE)
    assert (ward.x.qid, ward.x.since) == ((0,), FORGOTTEN)
    ward.restart()
    refused = ward.intake.take(insert("d1"))
    assert refused is not None
    assert refused.reason == "deregistered"


# -- permanent values -----------------------------------------------------------------------------------------------


def test_a_clique_of_somebody_erased_is_not_shown_again_and_does_not_tell_whose_value_it_was() -> None:
    owners = set()
    for _ in range(2):
        ward = Ward(ward_policy(permanent=["hiv"]))
        ward.release(*crowd(), insert("hiv", "d1"))
        (bond,) = ward.state.bonds.bonds.values()
        assert bond.owners[0] == "x"
        ward.release(ERASE)
        (bond,) = ward.state.bonds.bonds.values()
        assert bond.is_lost
        owners.add(bond.owners)
        assert ward.x.held == ()
    assert owners == {tuple(sorted(bond.owners))}
    made = ward.release(insert("hiv", "d1"))
    assert b'"hiv"' not in b"".join(made.release.groups)
    assert len(ward.state.bonds.bonds) == 1, "nobody is in two cliques of one value"


def test_a_holder_of_a_lasting_table_is_none_after_an_erasure_unless_the_event_says_so() -> None:
    ward = Ward(ward_policy(permanent=["hiv"]))
    ward.release(*crowd(), insert("hiv", "d1"))
    ward.release(ERASE)
    ward.restart()
    ward.release(insert("d1"))
    assert (ward.x.held, ward.x.values) == ((), (1,))


@pytest.mark.parametrize("moment", ["at once", "later", "after a restart"])
def test_a_holder_of_a_redrawn_table_stays_one(moment: str) -> None:
    """The decoys' alibi is that anybody of the clique may be the holder, in every release to come."""
    ward = Ward(ward_policy("redrawn", permanent=["hiv"]))
    ward.release(*crowd(), insert("hiv", "d1"))
    if moment == "at once":
        ward.release(ERASE, insert("d1"))
    else:
        ward.release(ERASE)
        if moment == "after a restart":
            ward.restart()
        ward.release(insert("d1"))
    assert ward.x.held == (8,)
    assert ward.x.values == (1, 8)
    refused = ward.intake.take({"op": "update", "id": "x", "sensitive": ["d2"]})
    assert refused is not None
    assert refused.reason == "permanent"


def test_a_permanent_value_of_a_redrawn_table_is_held_even_if_it_came_just_before_the_erasure() -> None:
    """Intake does not know whether the value was ever shown, and both must remember the same."""
    ward = Ward(ward_policy("redrawn", permanent=["hiv"]))
    ward.release(*crowd(), insert("d1"))
    ward.release({"op": "update", "id": "x", "sensitive": ["d1", "hiv"]}, ERASE)
    held = dict(ward.intake.held)
    ward.restart()
    assert ward.intake.held == held == {"x": (8,)}


# -- other publishers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_somebody_who_comes_back_may_have_been_in_any_region_that_others_published(moment: str) -> None:
    """Where they were is forgotten, so they count as having been everywhere, and are shown as *."""
    groups = [{"region": {"age": {"min": 90, "max": 99}}, "sensitive": {"d0": 2, "d1": 1}}]
    others = {"op": "external", "publisher": "other", "groups": groups}
    for erases, expected in ((True, ["*"]), (False, None)):
        ward = Ward()
        ward.release(*crowd(), insert("d1"), others=[others] if moment == "before" else [])
        gone = ERASE if erases else {"op": "delete", "id": "x"}
        ward.release(gone, others=[others] if moment == "after" else [])
        ward.restart()
        (shown,) = ward.shown(ward.release(insert("d1")))
        assert (shown == ["*"]) == (expected == ["*"])


# -- the ledger -----------------------------------------------------------------------------------------------------


def test_the_ledger_of_somebody_who_comes_back_counts_what_was_shown() -> None:
    ward = Ward(ward_policy("redrawn"))
    ward.release(*crowd(), insert("d1"))
    groups = ward.x.exposures
    ward.release(ERASE)
    assert ward.x.exposures == groups
    ward.restart()
    ward.release(insert("d1"), *crowd(80, "q"))
    assert ward.x.exposures == (*groups, ward.x.group)
