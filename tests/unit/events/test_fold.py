"""What a window comes to: net effects only, from everybody's home partition only."""

from shoal.core.events.window import ABSENT, DEREGISTERED, DEREGISTERED_STATUS, GONE, PATCH, PRESENT, PUT, REGISTER
from shoal.core.fold import Window, fold
from shoal.core.people import People
from shoal.core.person import NOBODY, Person
from shoal.core.plan import plan
from shoal.core.state import State
from tests.support.engines.series import clinic_policy

HERE, THERE = (30, 61.5, 0, 1), (31, 61.5, 0, 1)


def _state(*people: str) -> State:
    policy = clinic_policy(k=1)
    state = State.empty(policy, b"test")
    state.apply(plan(state, Window(None, {0: dict.fromkeys(people, (PUT, HERE, (0,), None, None))}), policy, 1).change)
    return state


def _person(people: People, person_id: str) -> Person:
    row = people.row(person_id)
    assert row is not None
    return people.person(row)


def test_there_and_back_again_is_no_change() -> None:
    people = _state("a", "b").people
    folded = fold(people, Window(None, {0: {"a": (PUT, HERE, (0,), None, None)}}), 2)
    assert (folded.touched, folded.broken) == ([], set())


def test_a_patch_changes_only_what_it_names() -> None:
    people = _state("a", "b").people
    fold(people, Window(None, {0: {"a": (PATCH, (31, None, None, None), None, None, None)}}), 2)
    person = _person(people, "a")
    assert (person.qid, person.values, person.since) == (THERE, (0,), 2)


def test_someone_gone_breaks_their_group_and_keeps_their_ledger() -> None:
    people = _state("a", "b").people
    before = _person(people, "a")
    folded = fold(people, Window(None, {0: {"a": (GONE, None, None, None, None)}}), 2)
    after = _person(people, "a")
    assert folded.broken == {before.group}
    assert (after.status, after.group, after.exposures) == (ABSENT, NOBODY, before.exposures)


def test_who_registers_or_ceases_to_exist_is_remembered_without_a_record() -> None:
    people = _state("a").people
    window = Window(None, {0: {"b": (REGISTER, HERE, None, None, None), "c": (DEREGISTERED, None, None, None, None)}})
    folded = fold(people, window, 2)
    assert [_person(people, p).status for p in "bc"] == [ABSENT, DEREGISTERED_STATUS]
    assert folded.arrived == []


def test_events_from_another_partition_than_home_have_no_effect_and_are_named() -> None:
    people = _state("a").people
    window = Window(None, {0: {}, 3: {"a": (PUT, THERE, (1,), (17, 18), None)}})
    folded = fold(people, window, 2)
    assert folded.misrouted == [(3, 17), (3, 18)]
    assert _person(people, "a").qid == HERE


def test_of_two_partitions_that_bring_somebody_new_the_lower_is_home() -> None:
    people = _state().people
    window = Window(None, {5: {"a": (PUT, THERE, (1,), (8,), None)}, 2: {"a": (PUT, HERE, (0,), (9,), None)}})
    folded = fold(people, window, 2)
    person = _person(people, "a")
    assert (person.home, person.qid, person.status) == (2, HERE, PRESENT)
    assert folded.misrouted == [(5, 8)]
