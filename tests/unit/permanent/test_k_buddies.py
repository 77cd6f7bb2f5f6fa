"""The K-buddy condition: how many others must be there before anybody may take over (Bu, section 3.5)."""

import pytest

from shoal.core.cohort.clique import COVERED, NEVER, WHOLE
from tests.support.histories.hiv_clinic import HivClinic, delete, deregister, hiv_clinic, insert, register


@pytest.mark.parametrize(("participation", "mode"), [(0, WHOLE), (1, WHOLE), (2, COVERED)])
def test_the_k_buddy_condition_asks_for_one_buddy_more_than_anybody_knows(participation: int, mode: int) -> None:
    clinic = hiv_clinic(people=3, participation=participation)
    clinic.release(delete(clinic.decoy))
    assert clinic.only.mode == mode, "two buddies are left"


def test_a_person_withheld_with_their_cell_counts_as_absent() -> None:
    """Two towns; when people leave the second one its cell is closed, and who is left there can stand in for others."""
    clinic = HivClinic(k=3)
    clinic.release(*(insert(f"p{n}", age=10) for n in range(6)), *(insert(f"q{n}", age=80) for n in range(6)))
    clinic.release(*(delete(f"q{n}") for n in range(4)), *(deregister(f"q{n}") for n in range(4)))
    assert {clinic.group_of(person) for person in ("q4", "q5")} == {None}
    clinic.release(insert("h", "hiv", age=10))
    assert clinic.only.nodes[0] == 0, "the one cell around with somebody absent in it is everything"
    absent = clinic.registration.absent
    rows = {person: clinic.series.state.people.row(person) for person in ("p0", "q0", "q4", "q5")}
    assert {person: bool(absent[row]) for person, row in rows.items()} == {
        "p0": False,
        "q0": False,
        "q4": True,
        "q5": True,
    }
    clinic.release(delete("h"))
    assert (clinic.only.mode, clinic.decoy in {"q4", "q5"}) == (COVERED, False), "they do not live where it was shown"


@pytest.mark.parametrize(("participation", "is_published"), [(0, False), (1, False), (2, True)])
def test_nobody_is_withheld_where_too_few_others_are_to_hide_who_is_there(
    participation: int, is_published: bool
) -> None:
    clinic = hiv_clinic(people=1, participation=participation)
    clinic.release({**insert("a0"), "guard": {"node": "*", "bound": 0.01}})
    assert clinic.only.mode == WHOLE
    assert (clinic.group_of("a0") is not None) is is_published, "nobody's company is good enough for them"


def test_where_no_more_rows_are_than_may_be_known_nobody_can_take_over_any_more() -> None:
    clinic = hiv_clinic(people=6, participation=2)
    decoy = clinic.decoy
    others = [f"p{number}" for number in range(6) if f"p{number}" != decoy]
    clinic.release(*map(delete, others))
    assert (clinic.only.mode, clinic.only.created) == (WHOLE, (1, NEVER)), "they are who they always were"
    clinic.release(*map(insert, others))
    clinic.release(delete(decoy))
    assert (clinic.only.mode, clinic.decoy) == (COVERED, decoy), "the others were away when it had to be one of two"


def test_where_a_buddy_took_over_the_value_is_a_star_while_no_more_rows_are_than_may_be_known() -> None:
    clinic = hiv_clinic(people=6, participation=2)
    clinic.release(delete(clinic.decoy))
    buddy = clinic.decoy
    others = [person for person in clinic.published if person not in ("h", buddy)]
    clinic.release(*map(delete, others))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", buddy))
    clinic.release(*map(insert, others))
    assert (clinic.only.mode, clinic.only.owners) == (WHOLE, ("h", buddy))


def test_where_a_buddy_took_over_the_value_is_a_star_once_too_few_are_left_who_could_have() -> None:
    clinic = hiv_clinic(people=4, absent=0, participation=2)
    gone = clinic.decoy
    clinic.release(delete(gone), deregister(gone), *(insert(f"new{number}") for number in range(4)))
    buddy = clinic.decoy
    others = [person for person in clinic.published if person.startswith("p") and person != buddy]
    assert (clinic.only.mode, len(others)) == (WHOLE, 2)
    clinic.release(delete(others[0]))
    assert clinic.only.mode == WHOLE, "three could be the owner, of whom one is away"
    clinic.release(deregister(others[0]))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", buddy)), (
        "somebody who knows of two knows the third"
    )


def test_a_container_is_no_smaller_than_the_k_buddy_condition() -> None:
    narrow, wide = HivClinic(participation=0), HivClinic(participation=2)
    for clinic in (narrow, wide):
        crowd = [insert(f"p{number}", age=10 * number) for number in range(10)]
        absent = [register(f"a{number}", age=10 * number) for number in range(10)]
        clinic.release(*absent, *crowd, insert("h", "hiv", age=5))
    (low, high) = (clinic.series.state.tree.bounds(0, [clinic.only.nodes[0]]) for clinic in (narrow, wide))  # type: ignore[arg-type]
    assert low[1] - low[0] < high[1] - high[0]
