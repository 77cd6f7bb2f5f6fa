"""The desk: rows of one or two tables become people, and Shoal is told what differs."""

from datetime import date
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.streams.files.mapping.conversion import UNAVAILABLE
from shoal.streams.source.desk import Role
from shoal.streams.source.person import MARK_DAYS
from tests.support.engines.source import CODES, TODAY, Office


def test_somebody_is_told_of_when_there_are_a_row_and_a_value_in_either_order() -> None:
    for order in ((0, 1), (1, 0)):
        office = Office()
        steps = [lambda office=office: office.person(7), lambda office=office: office.value(1, 7, "J1")]
        assert steps[order[0]]() == []
        (event,) = steps[order[1]]()
        assert event == {"op": "upsert", "id": "7", "qid": {"age": 46, "zip": "z1"}, "sensitive": ["flu"]}


def test_only_what_differs_is_told() -> None:
    office = Office().with_flu(7)
    assert office.person(7) == []  # a column that nobody reads
    assert [event["qid"]["zip"] for event in office.person(7, zip="z2")] == ["z2"]
    assert [event["sensitive"] for event in office.value(2, 7, "M1")] == [["flu", "gout"]]
    assert office.value(3, 7, "M1") == []  # the same value twice
    assert office.value_gone(2) == []
    assert [event["sensitive"] for event in office.value_gone(3)] == [["flu"]]
    assert office.person_gone(7) == [{"op": "delete", "id": "7"}]
    assert office.person_gone(7) == []


def test_a_value_that_moves_to_somebody_else_leaves_the_first() -> None:
    office = Office().with_flu(7).with_flu(8)
    office.value(2, 7, "M1")
    assert {event["id"]: event["sensitive"] for event in office.value(2, 8, "M1")} == {
        "7": ["flu"],
        "8": ["flu", "gout"],
    }


def test_a_change_that_comes_again_has_no_effect() -> None:
    office = Office().with_flu(7)
    first = office.lsn
    office.person(7, zip="z2")
    office.value(7, 7, "M1")
    assert office.person(7, lsn=first - 8) == []
    assert office.value(7, 7, "J1", lsn=first) == []
    office.person_gone(7)
    assert office.person(7, lsn=first) == []
    assert office.told == {}


def test_a_row_of_a_snapshot_counts_whatever_came_before() -> None:
    office = Office().with_flu(7)
    assert [event["qid"]["zip"] for event in office.person(7, zip="z5", op="r")] == ["z5"]
    # A database that was restored counts from elsewhere; so does a transaction that was open during the snapshot.
    assert [event["qid"]["zip"] for event in office.person(7, zip="z6", lsn=1)] == ["z6"]


def test_what_postgresql_did_not_send_stays_as_it_was() -> None:
    office = Office().with_flu(7)
    (event,) = office.person(7, born=UNAVAILABLE, zip="z2")
    assert event["qid"] == {"age": 46, "zip": "z2"}
    assert office.person(9, born=UNAVAILABLE) == Reject(Reason.UNAVAILABLE, None, "qid.age")


def test_a_row_that_does_not_fit_is_rejected_and_the_person_stays() -> None:
    office = Office().with_flu(7)
    assert office.person(7, zip="z11") == Reject(Reason.UNKNOWN_NODE, None, "qid.zip")
    assert office.value(7, 7, "X9") == Reject(Reason.UNKNOWN_NODE, None, "sensitive")
    assert office.value(2, 7, "M1", until="soon") == Reject(Reason.BAD_TIME, None, "sensitive")
    assert office.person(None) == Reject(Reason.WRONG_TYPE, None, "id")
    assert office.person("a\nb") == Reject(Reason.BAD_TEXT, None, "id")
    assert office.told["7"].sensitive == ["flu"]


def test_a_second_row_of_a_person_is_rejected_and_its_deletion_ignored() -> None:
    office = Office().with_flu(7)
    assert office.person(7, key={"row": 2}) == Reject(Reason.ALREADY_PRESENT, None, "id")
    assert office.person_gone(7, key={"row": 2}) == []
    assert office.told.keys() == {"7"}


def test_a_row_is_left_out_while_the_mapping_says_so() -> None:
    office = Office().with_flu(7)
    assert office.person(7, zip=None) == [{"op": "delete", "id": "7"}]
    assert [event["op"] for event in office.person(7)] == ["upsert"]


def test_people_without_a_value_have_the_one_for_none() -> None:
    office = Office(none="healthy")
    assert [event["sensitive"] for event in office.person(7)] == [["healthy"]]
    assert [event["sensitive"] for event in office.value(1, 7, "J1")] == [["flu"]]
    assert [event["sensitive"] for event in office.value_gone(1)] == [["healthy"]]


def test_ids_of_several_columns_cannot_be_confused() -> None:
    office = Office(id_columns=("house", "number"))
    assert office.person_id({"house": "a", "number": 1}) == "a/1"
    assert office.person_id({"house": "a/1", "number": 2}) == Reject(Reason.BAD_TEXT, None, "id")


# -- time -------------------------------------------------------------------------------------------------------------


def test_birthdays_and_ends_are_looked_at_on_their_day() -> None:
    office = Office().with_flu(7)
    assert office.due == {"7": date(2027, 2, 3)}
    office.value(2, 7, "M1", until="2027-03-01")
    (event,) = office.on(date(2027, 2, 3))
    assert (event["qid"]["age"], event["sensitive"]) == (47, ["flu", "gout"])
    assert office.due == {"7": date(2027, 3, 1)}
    (event,) = office.on(date(2027, 3, 1))
    assert event["sensitive"] == ["flu"]


def test_an_age_that_grows_out_of_the_policy_takes_the_person_out() -> None:
    office = Office().with_flu(7, born="1906-02-03")
    assert office.told["7"].qid["age"] == 120
    assert office.on(date(2027, 2, 3)) == [{"op": "delete", "id": "7"}]


def test_marks_of_deleted_rows_go_after_a_while() -> None:
    office = Office().with_flu(7)
    office.value_gone(7)
    office.person_gone(7)
    assert office.desk.people["7"].row is not None
    assert office.due["7"] == date.fromordinal(TODAY.toordinal() + MARK_DAYS)
    office.on(office.due["7"])
    assert office.desk.people["7"].is_empty
    assert office.desk.rows == {}


# -- complete looks ---------------------------------------------------------------------------------------------------


def test_who_is_not_in_a_complete_snapshot_is_gone() -> None:
    office = Office().with_flu(7).with_flu(8)
    office.person(8, op="r")
    assert office.sweep(Role.PEOPLE) == [{"op": "delete", "id": "7"}]
    assert office.told.keys() == {"8"}


def test_values_that_are_not_in_a_complete_snapshot_are_gone() -> None:
    office = Office().with_flu(7)
    office.value(2, 7, "M1")
    office.value(2, 7, "M1", op="r")
    assert [event["sensitive"] for event in office.sweep(Role.VALUES)] == [["gout"]]


def test_a_row_that_was_changed_after_the_snapshot_is_there() -> None:
    office = Office().with_flu(7)
    office.person(8, op="r", lsn=office.lsn - 100)  # read before the change of 7, from another partition
    assert office.sweep(Role.PEOPLE) == []


def test_truncate_takes_everything_and_may_come_again() -> None:
    office = Office().with_flu(7)
    at = office.truncate(Role.PEOPLE)
    assert office.sweep(Role.PEOPLE) == [{"op": "delete", "id": "7"}]
    assert [event["op"] for event in office.person(9)] == []
    office.value(5, 9, "J1")
    office.truncate(Role.PEOPLE, lsn=at)
    assert office.sweep(Role.PEOPLE) == []
    assert office.told.keys() == {"9"}


@pytest.mark.parametrize("values", [["J1"], ["J1", "M1"], []])
def test_values_may_come_from_an_array_of_the_same_table(values: list[str]) -> None:
    office = Office(array="codes")
    events: Any = office.person(7, codes=values)
    assert [event["sensitive"] for event in events] == ([sorted(CODES[one] for one in values)] if values else [])
    assert office.person(8, codes=["X9"]) == Reject(Reason.UNKNOWN_NODE, None, "sensitive")
