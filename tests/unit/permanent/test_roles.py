"""The cases of Bu's section 3.2 by their names: what becomes of a clique when its people come, go, move or fall ill."""

import pytest

from shoal.core.cohort.clique import COVERED, DORMANT, EXTINCT, WHOLE
from tests.support.histories.hiv_clinic import HivClinic, delete, deregister, hiv_clinic, insert, register


def test_m1_and_m2_a_new_holder_gets_an_instance_and_decoys_in_every_other_cohort() -> None:
    clinic = hiv_clinic(l=3)
    clique = clinic.only
    assert (clique.holder, clique.mode, len(clique.owners)) == ("h", WHOLE, 3)
    assert {clinic.group_of(owner) for owner in clique.owners} == {clinic.group_of("h")}
    assert set(clique.owners[1:]) <= {"p0", "p1", "p2", "p3"}


def test_m3_and_m4_a_decoy_who_becomes_a_holder_hands_over_and_gets_decoys_of_their_own() -> None:
    clinic = hiv_clinic()
    decoy = clinic.decoy
    clinic.release({"op": "update", "id": decoy, "sensitive": ["hiv"]})
    first, second = clinic.cliques
    assert (first.holder, first.mode, second.holder, second.mode) == ("h", WHOLE, decoy, WHOLE)
    assert decoy not in first.owners
    assert len({*first.owners, *second.owners}) == 4


def test_m4_fails_where_nobody_is_clean_and_the_value_becomes_a_star() -> None:
    clinic = hiv_clinic(people=1, absent=0)
    clinic.release({"op": "update", "id": "p0", "sensitive": ["hiv"]})
    assert [clique.mode for clique in clinic.cliques] == [COVERED, COVERED]
    shown = [record for record in clinic.made.release.records if b'"hiv"' in record]
    assert shown == []


def test_a1_while_the_holder_is_absent_absent_buddies_own_the_decoys_instances() -> None:
    clinic = hiv_clinic(l=3)
    before = clinic.only
    clinic.release(delete("h"))
    after = clinic.only
    assert (after.holder, after.mode, after.nodes, after.created) == ("h", DORMANT, before.nodes, before.created)
    assert set(after.owners[1:]) <= {"a0", "a1", "a2"}


def test_a1_without_absent_buddies_the_decoys_stay_together_under_a_star() -> None:
    clinic = hiv_clinic(l=3, absent=0)
    before = clinic.only
    clinic.release(delete("h"))
    assert (clinic.only.owners, clinic.only.mode) == (before.owners, COVERED)
    groups = {clinic.group_of(owner) for owner in before.owners[1:]}
    (record,) = (record for record in clinic.made.release.records if f'"{groups.copy().pop()}"'.encode() in record)
    assert len(groups) == 1
    assert b'"*":1' in record


def test_a1_a_person_seen_where_nobody_was_absent_never_takes_over() -> None:
    clinic = HivClinic()
    clinic.release(
        *(insert(f"p{number}", age=10 if number < 4 else 80) for number in range(8)), insert("h", "hiv", age=10)
    )
    decoy = clinic.decoy
    gone = (delete("h"), delete(decoy))
    clinic.release(*gone, register("h", age=80), register(decoy, age=80))
    clinic.release(insert("h", age=80))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", decoy))


def test_a2_a_decoy_who_leaves_is_replaced_by_a_present_buddy_in_the_holders_group() -> None:
    clinic = hiv_clinic()
    decoy = clinic.decoy
    clinic.release(delete(decoy))
    assert clinic.only.mode == WHOLE
    assert clinic.decoy in {"p0", "p1", "p2", "p3"} - {decoy}
    assert clinic.group_of(clinic.decoy) == clinic.group_of("h")


def test_a2_without_a_buddy_the_holders_value_is_a_star() -> None:
    clinic = hiv_clinic(people=1)
    clinic.release(delete("p0"), insert("new"))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", "p0")), "a person who came later is no buddy"
    assert not any(b'"hiv"' in record for record in clinic.made.release.records)


def test_a_holder_who_is_back_wakes_the_instances_up() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"))
    clinic.release(insert("h"))
    assert clinic.only.mode == WHOLE
    assert clinic.decoy in {"p0", "p1", "p2", "p3"}
    assert sum(b'"hiv":1' in record for record in clinic.made.release.records) == 1


def test_a_dormant_owner_who_comes_back_hands_over_to_another_absent_buddy() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"))
    dormant = clinic.decoy
    clinic.release(insert(dormant))
    assert clinic.only.mode == DORMANT
    assert clinic.decoy in {"a0", "a1", "a2"} - {dormant}


def test_a_clique_goes_extinct_when_every_instance_has_an_extinct_owner_or_buddy() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"))
    clinic.release(deregister("h"))
    assert clinic.only.mode == DORMANT, "the decoy's instance has a living owner, and no buddy of it died"
    other = next(person for person in ("a0", "a1", "a2") if person != clinic.decoy)
    clinic.release(deregister(other))
    assert clinic.cliques == []
    assert clinic.series.state.cohorts.cliques[1].mode == EXTINCT


def test_a_buddy_who_dies_while_the_holder_is_away_counts_when_the_holder_dies_too() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"))
    other = next(person for person in ("a0", "a1", "a2") if person != clinic.decoy)
    clinic.release(deregister(other))
    assert (clinic.only.mode, clinic.decoy) == (DORMANT, other), "somebody who will not come back"
    clinic.release(deregister("h"))
    assert clinic.cliques == []


def test_a_holder_who_is_back_is_joined_by_a_living_buddy_although_others_died() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"))
    clinic.release(deregister(next(person for person in ("a0", "a1", "a2") if person != clinic.decoy)))
    clinic.release(insert("h"))
    assert (clinic.only.mode, clinic.decoy in {"p0", "p1", "p2", "p3"}) == (WHOLE, True)


def test_a_buddy_who_died_while_the_value_was_shown_does_not_count() -> None:
    clinic = hiv_clinic()
    clinic.release(deregister("a0"))
    clinic.release(delete("h"))
    clinic.release(deregister("h"))
    assert clinic.only.mode == DORMANT, "a person who is registered no more was not the one the value was shown for"


@pytest.mark.parametrize(("participation", "is_over"), [(0, True), (1, True), (2, False)])
def test_as_many_buddies_must_die_as_for_anybody_to_take_over(participation: int, is_over: bool) -> None:
    clinic = hiv_clinic(people=8, absent=5, participation=participation)
    clinic.release(delete("h"))
    others = [person for person in ("a0", "a1", "a2", "a3", "a4") if person != clinic.decoy]
    clinic.release(*map(deregister, ["h", *others[:2]]))
    assert (clinic.cliques == []) is is_over


def test_once_the_others_stood_under_a_star_only_they_themselves_can_end_a_clique() -> None:
    clinic = hiv_clinic(people=3, absent=0)
    decoy, other = clinic.decoy, next(p for p in ("p0", "p1", "p2") if p != clinic.decoy)
    clinic.release(delete("h"))
    assert clinic.only.mode == COVERED
    clinic.release(deregister("h"), delete(other), deregister(other))
    assert clinic.decoy == decoy, "everyone could see the other one while the decoy stood under a star"
    clinic.release(delete(decoy), deregister(decoy))
    assert clinic.cliques == []


def test_a_person_registered_later_is_no_buddy_when_they_die() -> None:
    clinic = hiv_clinic()
    clinic.release(delete("h"), register("late"))
    clinic.release(deregister("h"), deregister("late"))
    assert clinic.only.mode == DORMANT


def test_a_holder_who_leaves_their_container_gets_another() -> None:
    clinic = HivClinic()
    crowd = [insert(f"p{number}", age=age) for number, age in enumerate((10, 11, 12, 13, 80, 81, 82, 83))]
    absent = [register(f"a{number}", age=age) for number, age in enumerate((10, 12, 80, 82))]
    clinic.release(*absent, *crowd, insert("h", "hiv", age=11))
    before = clinic.only
    clinic.release({"op": "update", "id": "h", "qid": {"age": 82}})
    after = clinic.only
    assert before.nodes[0] != 0, "the tree has cells small enough"
    assert (after.holder, after.created[0], after.mode) == ("h", 2, WHOLE)
    assert after.nodes[0] != before.nodes[0]


def two_towns() -> HivClinic:
    """Four people of 10 and four of 80, as many of each who are absent, and h, who is 10."""
    clinic = HivClinic()
    crowd = [insert(f"p{number}", age=10 if number < 4 else 80) for number in range(8)]
    absent = [register(f"a{number}", age=10 if number < 4 else 80) for number in range(8)]
    clinic.release(*absent, *crowd, insert("h", "hiv", age=10))
    return clinic


def test_a_decoy_who_leaves_their_container_hands_over() -> None:
    clinic = two_towns()
    before = clinic.only
    assert before.nodes[1] != 0, "the tree has cells small enough"
    clinic.release({"op": "update", "id": clinic.decoy, "qid": {"age": 80}})
    assert clinic.only.owners[1] != before.owners[1]
    assert clinic.only == before._replace(owners=clinic.only.owners, is_handed=True)


def test_a_buddy_lives_in_the_cell_that_was_shown() -> None:
    clinic = two_towns()
    for number in range(3):
        clinic.release(delete(clinic.decoy))
        assert clinic.decoy in {"p0", "p1", "p2", "p3"}, number
    clinic.release(delete(clinic.decoy))
    assert clinic.only.mode == COVERED, "there are others in the table, but none of them lives there"
