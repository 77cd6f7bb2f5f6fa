"""Small tables beside other publishers through the real engine: what it shows of whom, as a table to be enumerated."""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from shoal.core.events.intake import Intake
from shoal.core.overlap.external import External, parse_external
from shoal.core.plan import Window, plan
from shoal.core.policy.policy import Policy, build_policy
from shoal.core.signatures.entries import NO_GROUP
from shoal.core.state import State
from tests.support.beside.tables import Ward
from tests.support.beside.worlds import Person, Table

OUTSIDE = 90


class Published(NamedTuple):
    table: Table
    shown: frozenset[str]  # of whom something is shown, and not as "*", in the last release
    fresh: frozenset[str]  # who was first shown when all others had published


def ward_policy(values: int, l: int = 2, alpha: int = 2) -> Policy:
    """A lasting table of so many values, with a place for each of nine other groups and one outside of all."""
    document = {
        "table": "ward",
        "attributes": {"place": {"type": "int", "min": 0, "max": 99}},
        "sensitive": {"name": "disease", "values": [f"d{value}" for value in range(values)]},
        "privacy": {"k": 1, "l": l, "signature": 2 * l, "overlap": alpha, "batch": 2 * l},
    }
    return build_policy(document, {}, b"ward")


def publish(random: Random, ward: Ward, policy: Policy, *, is_late: bool) -> Published:
    """Three releases: people come in the first two, move in the second, and have second values from then on or before.

    Others publish before the first, or, if they are late, before the second.
    """
    state, intake = State.empty(policy, random.randbytes(8)), Intake(policy, {}, held={})
    together = {one: random.random() < 0.5 for one in ward.held}
    begins = {one: random.choice([1, 1, 2]) for one in ward.held}
    before: frozenset[str] = frozenset()
    for number in range(1, 4):
        for one, values in ward.held.items():
            places = [10 * e for e in ward.places[one]] or [OUTSIDE]
            if number == begins[one]:
                first = values if together[one] else values[:1]
                _take(intake, "insert", one, places[0], first)
            elif number == begins[one] + 1:
                _take(intake, "update", one, places[-1], values if together[one] else values[-1:])
        groups = _others(ward, policy) if number > is_late else []
        made = plan(state, Window(None, {0: intake.cut()}, groups), policy, number)
        state.apply(made.change)
        if is_late and number == 1:
            before = _shown(state, ward, is_now=False)
    return Published(_table(state, ward), _shown(state, ward, is_now=True), _shown(state, ward, is_now=False) - before)


def _take(intake: Intake, op: str, one: str, place: int, values: Sequence[int]) -> None:
    event: dict[str, Any] = {"op": op, "id": one, "qid": {"place": place}}
    assert intake.take(event | {"sensitive": [f"d{value}" for value in values]}) is None


def _others(ward: Ward, policy: Policy) -> Sequence[Any]:
    groups = [
        {
            "region": {"place": {"min": 10 * e, "max": 10 * e + 9}},
            "sensitive": {f"d{value}": count for value, count in sorted(shown.items())},
        }
        for e, shown in enumerate(ward.others)
        if shown
    ]
    read = parse_external({"op": "external", "publisher": "other", "groups": groups}, policy)
    assert isinstance(read, External)
    return read.groups


def _homes(state: State) -> dict[tuple[str, int], int]:
    entries = state.entries
    signed = np.flatnonzero(entries.signature >= 0)
    people = state.people.ids(entries.owner[signed])
    return dict(
        zip(zip(people, entries.value[signed].tolist(), strict=True), entries.home[signed].tolist(), strict=True)
    )


def _shown(state: State, ward: Ward, *, is_now: bool) -> frozenset[str]:
    entries = state.entries
    some = np.flatnonzero((entries.signature >= 0) & ((entries.group == entries.home) | (not is_now)))
    return frozenset(state.people.ids(entries.owner[some[entries.home[some] != NO_GROUP]]))


def _table(state: State, ward: Ward) -> Table:
    homes = _homes(state)
    used = sorted(set(homes.values()))
    records = dict(state.groups.records(np.array(used, dtype=np.int64)))
    groups = [dict.fromkeys(state.signatures.sets[records[home].kind], records[home].rounds) for home in used]
    people = {}
    for one, values in ward.held.items():
        mine = [homes.get((one, value)) for value in values]
        if ward.inside[one] or any(home is not None for home in mine):
            at = [None if home is None else used.index(home) for home in mine]
            people[one] = Person(at, [(0, 1)] if len(values) > 1 else [], ward.inside[one])
    return Table(ward.values, groups, ward.others, people)
