"""Intake beside a naive model that keeps everyone's whole record and knows nothing of windows."""

import copy
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from shoal.core.events.event import Reject
from shoal.core.events.guard import EMPTY
from shoal.core.events.intake import Intake
from shoal.core.events.window import (
    ABSENT,
    ANEW,
    DEREGISTERED,
    DEREGISTERED_STATUS,
    ERASED,
    ERASED_STATUS,
    GONE,
    PATCH,
    PRESENT,
    PUT,
    REGISTER,
    Delta,
    overlay,
)
from shoal.core.policy.policy import build_policy

POLICY = build_policy(
    {
        "table": "t",
        "attributes": {
            "age": {"type": "int", "min": 0, "max": 9},
            "weight": {"type": "float", "min": 0, "max": 1},
            "ward": {"type": "category", "values": ["a", "b", "7"]},
        },
        "sensitive": {"name": "disease", "values": ["flu", "ulcer", "gout"]},
        "privacy": {"values": "redrawn", "k": 2, "l": 2},
    },
    {},
    b"",
)
NAMES = ("age", "weight", "ward")
DISEASES = ("flu", "ulcer", "gout")
# How a person's record is written in events, and what it is in a window.
VALUES: dict[str, dict[Any, Any]] = {
    "age": {0: 0, 4: 4, 9: 9},
    "weight": {0: 0.0, 0.25: 0.25, 1: 1.0},
    "ward": {"a": 0, "b": 1, "7": 2, 7: 2},
}

people = st.sampled_from(["p", "q", "é"])
qids = st.fixed_dictionaries({name: st.sampled_from(list(VALUES[name])) for name in NAMES})
patches = st.fixed_dictionaries({}, optional={name: st.sampled_from(list(VALUES[name])) for name in NAMES})
sensitives = st.sampled_from(DISEASES) | st.lists(st.sampled_from(DISEASES), min_size=1, max_size=3)
times = st.fixed_dictionaries({}, optional={"at": st.just("2024-05-01T10:00:00Z")})


ALLOWED = {
    "insert": ("unknown", "absent", "erased"),
    "upsert": ("unknown", "present", "absent", "erased"),
    "update": ("present",),
    "delete": ("present",),
    "register": ("unknown", "absent", "erased"),
    "deregister": ("absent",),
    "erase": ("present", "absent", "deregistered", "erased"),
}


def _events(ops: tuple[str, ...] = tuple(ALLOWED)) -> st.SearchStrategy[dict[str, Any]]:
    guards = st.fixed_dictionaries({}, optional={"guard": st.sampled_from([None, "", "flu", {"node": None}])})
    either = st.fixed_dictionaries({}, optional={"qid": patches, "sensitive": sensitives})
    record = st.fixed_dictionaries({"qid": qids, "sensitive": sensitives})
    bodies = {
        "insert": st.tuples(record, guards),
        "upsert": st.tuples(record, guards),
        "update": st.tuples(either, guards),
        "delete": st.tuples(),
        "register": st.tuples(st.fixed_dictionaries({"qid": qids})),
        "deregister": st.tuples(),
        "erase": st.tuples(),
    }

    def event(op: str) -> st.SearchStrategy[dict[str, Any]]:
        return st.builds(
            lambda person, parts, time: (
                {"op": op, "id": person} | {k: v for part in (*parts, time) for k, v in part.items()}
            ),
            people,
            bodies[op],
            times,
        )

    return st.sampled_from(ops).flatmap(event)


# Each makes any event with the field wrong.
DAMAGES: list[tuple[str | None, Any]] = [
    (None, lambda event: event.update(extra=1)),
    (None, lambda event: event.update(op=event["op"].upper())),
    (None, lambda event: event.update(at="yesterday")),
    ("id", lambda event: event.pop("id")),
    ("id", lambda event: event.update(id="")),
    ("id", lambda event: event.update(id=1)),
    ("qid", lambda event: event.update(qid=None)),
    ("qid", lambda event: event["qid"].update(height=1)),
    ("qid", lambda event: event["qid"].update(age=10)),
    ("qid", lambda event: event["qid"].update(age=True)),
    ("qid", lambda event: event["qid"].update(age=4.0)),
    ("qid", lambda event: event["qid"].update(weight=1.5)),
    ("qid", lambda event: event["qid"].update(ward="*")),
    ("qid", lambda event: event["qid"].update(ward=7.0)),
    ("sensitive", lambda event: event.update(sensitive=[])),
    ("sensitive", lambda event: event.update(sensitive=["flu", "*"])),
    ("sensitive", lambda event: event.update(sensitive=[None])),
    ("sensitive", lambda event: event.update(sensitive=["flu"] * 4)),  # there are three
    ("sensitive", lambda event: event.update(guard="influenza")),
]


class Model:
    """Everyone's status and record, event by event, as the contract has it."""

    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.where: dict[str, dict[str, Any]] = {}  # of everyone registered
        self.ill: dict[str, set[str]] = {}  # of everyone present
        self.guard: dict[str, object] = {}  # of everyone who ever wished for one, and did not take it back

    def take(self, event: dict[str, Any]) -> bool:
        op, person = event["op"], event["id"]
        status = self.status.get(person, "unknown")
        if status not in ALLOWED[op]:
            return False
        coded = {name: VALUES[name][value] for name, value in event.get("qid", {}).items()}
        if op in ("insert", "upsert", "update", "register"):
            self.where[person] = {**self.where.get(person, {}), **coded}
        if "sensitive" in event:
            written = event["sensitive"]
            self.ill[person] = {written} if isinstance(written, str) else set(written)
        if op in ("delete", "deregister", "erase"):
            self.ill.pop(person, None)
        if op == "erase":
            self.forget(person)
            self.status[person] = "deregistered" if status == "deregistered" else "erased"
            return True
        self._wish(person, event.get("guard"))
        becomes = {"deregister": "deregistered", "delete": "absent", "register": "absent"}
        self.status[person] = becomes.get(op, "present")
        return True

    def forget(self, person: str) -> None:
        for known in (self.where, self.ill, self.guard):
            known.pop(person, None)

    def _wish(self, person: str, guard: object) -> None:
        if guard == {"node": None}:
            self.guard.pop(person, None)
        elif guard is not None:
            self.guard[person] = guard

    def table(self) -> dict[str, tuple[object, ...]]:
        """What matters of everyone. Where someone absent was last seen is compared where the window says it."""
        return {
            person: (
                status,
                self.where[person] if status == "present" else None,
                self.ill.get(person),
                self.guard.get(person),
            )
            for person, status in self.status.items()
        }


def apply(model: Model, window: dict[str, Delta]) -> Model:
    """What the model of the window's start becomes if only the window is known."""
    after = copy.deepcopy(model)
    for person, (kind, qid, values, _, wish) in window.items():
        if kind >= ERASED:
            after.forget(person)
            kind = {anew: kind for kind, anew in ANEW.items()}.get(kind, kind)
        if kind == PATCH:
            assert qid is not None
            changed = {name: value for name, value in zip(NAMES, qid, strict=True) if value is not None}
            after.where[person] = {**after.where[person], **changed}
        elif kind in (PUT, REGISTER):
            assert qid is not None
            after.where[person] = dict(zip(NAMES, qid, strict=True))
        if wish is not None:
            after.guard.pop(person, None)
            after.guard |= {person: "" if wish[0] == EMPTY else "flu"} if wish else {}
        if values is not None:
            after.ill[person] = {DISEASES[code] for code in values}
        if kind in (GONE, REGISTER, DEREGISTERED):
            after.ill.pop(person, None)
        names = {PATCH: "present", PUT: "present", GONE: "absent", REGISTER: "absent", DEREGISTERED: "deregistered"}
        names[ERASED] = "erased"
        after.status[person] = names[kind]
    return after


class IntakeMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.intake = Intake(POLICY, {})
        self.model = Model()
        self.offset = 0
        self._start_window()

    def _start_window(self) -> None:
        self.start = copy.deepcopy(self.model)
        self.taken: dict[str, list[int]] = {}
        self.counted = 0
        self.drained: dict[str, Delta] = {}

    @rule(event=_events())
    def take(self, event: dict[str, Any]) -> None:
        self.offset += 1
        refused = self.intake.take(event, self.offset)
        assert (refused is None) == self.model.take(event), refused
        if refused is None:
            self.counted += 1
            self.taken.setdefault(event["id"], []).append(self.offset)
        else:
            assert (refused.op, refused.field) == (event["op"], "id")

    @rule(person=people, data=st.data())
    def take_one_that_counts(self, person: str, data: st.DataObject) -> None:
        status = self.model.status.get(person, "unknown")
        ops = tuple(op for op, statuses in ALLOWED.items() if status in statuses and op != "deregister")
        if ops:
            self.take(data.draw(_events(ops)) | {"id": person})

    @rule(event=_events(), damage=st.sampled_from(DAMAGES))
    def take_damaged(self, event: dict[str, Any], damage: tuple[str | None, Any]) -> None:
        field, spoil = damage
        if field is not None and field not in event:
            return
        spoil(event)
        before = copy.deepcopy((self.intake.window, self.intake.roster, self.intake.touched, self.intake.accepted))
        assert isinstance(self.intake.take(event, 10**9), Reject)
        assert before == (self.intake.window, self.intake.roster, self.intake.touched, self.intake.accepted)

    @rule()
    def cut(self) -> None:
        seen = self.intake.window
        assert self.intake.cut() is seen
        self._start_window()

    @rule()
    def drain(self) -> None:
        """What is written down part by part is the window."""
        overlay(self.drained, self.intake.drain())
        assert self.drained == self.intake.window

    @rule()
    def restart(self) -> None:
        """Another worker goes on from what was written."""
        self.drain()
        window = copy.deepcopy(self.drained)
        self.intake = Intake(POLICY, dict(self.intake.roster), window, self.intake.accepted)

    @invariant()
    def the_window_is_the_net_effect(self) -> None:
        self.intake.check_invariants()
        found = apply(self.start, self.intake.window)
        assert found.table() == self.model.table()
        for person, (kind, qid, _, _, _) in self.intake.window.items():
            if kind in (PATCH, GONE):
                assert self.start.status[person] == "present"
            if kind == REGISTER:
                assert qid is not None
                assert dict(zip(NAMES, qid, strict=True)) == self.model.where[person]

    @invariant()
    def the_roster_is_everyones_status(self) -> None:
        codes = {"present": PRESENT, "absent": ABSENT, "deregistered": DEREGISTERED_STATUS, "erased": ERASED_STATUS}
        assert self.intake.roster == {person: codes[status] for person, status in self.model.status.items()}

    @invariant()
    def every_accepted_event_is_counted_once(self) -> None:
        assert self.intake.accepted == self.counted
        for person, (_, _, _, offsets, _) in self.intake.window.items():
            assert (offsets and [*offsets]) == (None if person in self.start.status else self.taken[person])


TestIntake = IntakeMachine.TestCase
TestIntake.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def _fold(events: list[dict[str, Any]]) -> tuple[list[bool], dict[str, Delta], int]:
    """Everybody starts out present, so that updates get somewhere."""
    intake = Intake(POLICY, {"p": PRESENT, "q": PRESENT})
    taken = [intake.take(event) is None for event in events]
    return taken, intake.window, intake.accepted


@given(st.lists(_events(), max_size=12), st.randoms(use_true_random=False))
def test_how_different_peoples_events_interleave_does_not_matter(events: list[dict[str, Any]], random: Any) -> None:
    queues = [[event for event in events if event["id"] == person] for person in ("p", "q", "é")]
    shuffled: list[dict[str, Any]] = []
    while any(queues):
        shuffled.append(random.choice([queue for queue in queues if queue]).pop(0))
    before, after = _fold(events), _fold(shuffled)
    assert before[1:] == after[1:]


updates = st.fixed_dictionaries({"op": st.just("update"), "id": st.just("p"), "qid": patches})


@given(st.lists(updates, max_size=6), st.randoms(use_true_random=False))
def test_updates_of_different_attributes_commute(events: list[dict[str, Any]], random: Any) -> None:
    # one update per attribute, the last one written; then any order of them gives what the original order gave
    last = {name: value for event in events for name, value in event["qid"].items()}
    single = [{"op": "update", "id": "p", "qid": {name: value}} for name, value in last.items()]
    random.shuffle(single)
    assert _fold(single)[1] == _fold(events)[1]


@given(st.lists(_events(), max_size=8))
def test_rejected_events_can_be_left_out(events: list[dict[str, Any]]) -> None:
    taken, window, accepted = _fold(events)
    kept = [event for event, is_taken in zip(events, taken, strict=True) if is_taken]
    assert _fold(kept) == ([True] * accepted, window, accepted)
