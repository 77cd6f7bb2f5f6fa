"""The cases of Bu's section 3.2 by their names: what becomes of a clique when its people come, go, move or fall ill."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from shoal.core.cohort.clique import COVERED, DORMANT, EXTINCT, NEVER, WHOLE, Clique, Cohorts, cohorts_of
from shoal.core.cohort.registration import Registration
from shoal.core.plan import Plan
from tests.support.engines.series import clinic_policy
from tests.support.histories.population import Series


@dataclass
class _Clinic:
    """A series of releases under a policy with one permanent value, hiv; `here` is who has a record."""

    l: int = 2
    participation: int | str = 0
    k: int = 1
    series: Series = field(init=False)
    made: Plan = field(init=False)

    def __post_init__(self) -> None:
        policy = clinic_policy(k=self.k, l=self.l, participation=self.participation, permanent=["hiv"], headroom=0)
        self.series = Series(policy)

    def release(self, *events: dict[str, Any]) -> Plan:
        self.made = self.series.release(events)
        return self.made

    @property
    def cliques(self) -> list[Clique]:
        return [clique for _, clique in self.series.state.cohorts.living()]

    @property
    def only(self) -> Clique:
        (clique,) = self.cliques
        return clique

    @property
    def registration(self) -> Registration:
        """As the last release saw it."""
        state = self.series.state
        people = state.people.copy()
        rows = np.bincount(people.leaf[people.sampled()], minlength=state.tree.size)
        return Registration(people, state.tree, rows < self.k, state.keyed, self.series.number)

    @property
    def published(self) -> list[str]:
        return [person for person, _, _ in self.made.release.members]

    def group_of(self, person: str) -> str | None:
        return {id_: group for id_, group, _ in self.made.release.members}.get(person)


def _insert(person: str, *values: str, age: int = 30) -> dict[str, Any]:
    qid = {"age": age, "weight": 70.0, "sex": "female", "zip": "z11"}
    return {"op": "insert", "id": person, "qid": qid, "sensitive": list(values) or ["flu"]}


def _register(person: str, age: int = 30) -> dict[str, Any]:
    return {"op": "register", "id": person, "qid": {"age": age, "weight": 70.0, "sex": "female", "zip": "z11"}}


def _delete(person: str) -> dict[str, Any]:
    return {"op": "delete", "id": person}


def _deregister(person: str) -> dict[str, Any]:
    return {"op": "deregister", "id": person}


def _clinic(*, people: int = 4, absent: int = 3, l: int = 2, participation: int | str = 0) -> _Clinic:
    """h holds hiv; p0, p1, … do not; a0, a1, … are registered and have no record."""
    clinic = _Clinic(l, participation)
    clinic.release(
        *(_register(f"a{number}") for number in range(absent)),
        _insert("h", "hiv"),
        *(_insert(f"p{number}") for number in range(people)),
    )
    return clinic


def _decoy(clinic: _Clinic) -> str:
    return clinic.only.owners[1]


def test_m1_and_m2_a_new_holder_gets_an_instance_and_decoys_in_every_other_cohort() -> None:
    clinic = _clinic(l=3)
    clique = clinic.only
    assert (clique.holder, clique.mode, len(clique.owners)) == ("h", WHOLE, 3)
    assert {clinic.group_of(owner) for owner in clique.owners} == {clinic.group_of("h")}
    assert set(clique.owners[1:]) <= {"p0", "p1", "p2", "p3"}


def test_m3_and_m4_a_decoy_who_becomes_a_holder_hands_over_and_gets_decoys_of_their_own() -> None:
    clinic = _clinic()
    decoy = _decoy(clinic)
    clinic.release({"op": "update", "id": decoy, "sensitive": ["hiv"]})
    first, second = clinic.cliques
    assert (first.holder, first.mode, second.holder, second.mode) == ("h", WHOLE, decoy, WHOLE)
    assert decoy not in first.owners
    assert len({*first.owners, *second.owners}) == 4


def test_m4_fails_where_nobody_is_clean_and_the_value_becomes_a_star() -> None:
    clinic = _clinic(people=1, absent=0)
    clinic.release({"op": "update", "id": "p0", "sensitive": ["hiv"]})
    assert [clique.mode for clique in clinic.cliques] == [COVERED, COVERED]
    shown = [record for record in clinic.made.release.records if b'"hiv"' in record]
    assert shown == []


def test_a1_while_the_holder_is_absent_absent_buddies_own_the_decoys_instances() -> None:
    clinic = _clinic(l=3)
    before = clinic.only
    clinic.release(_delete("h"))
    after = clinic.only
    assert (after.holder, after.mode, after.nodes, after.created) == ("h", DORMANT, before.nodes, before.created)
    assert set(after.owners[1:]) <= {"a0", "a1", "a2"}


def test_a1_without_absent_buddies_the_decoys_stay_together_under_a_star() -> None:
    clinic = _clinic(l=3, absent=0)
    before = clinic.only
    clinic.release(_delete("h"))
    assert (clinic.only.owners, clinic.only.mode) == (before.owners, COVERED)
    groups = {clinic.group_of(owner) for owner in before.owners[1:]}
    (record,) = (record for record in clinic.made.release.records if f'"{groups.copy().pop()}"'.encode() in record)
    assert len(groups) == 1
    assert b'"*":1' in record


def test_a1_whoever_was_seen_where_nobody_was_absent_never_takes_over() -> None:
    clinic = _Clinic()
    clinic.release(
        *(_insert(f"p{number}", age=10 if number < 4 else 80) for number in range(8)), _insert("h", "hiv", age=10)
    )
    decoy = _decoy(clinic)
    gone = (_delete("h"), _delete(decoy))
    clinic.release(*gone, _register("h", age=80), _register(decoy, age=80))
    clinic.release(_insert("h", age=80))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", decoy))


def test_a2_a_decoy_who_leaves_is_replaced_by_a_present_buddy_in_the_holders_group() -> None:
    clinic = _clinic()
    decoy = _decoy(clinic)
    clinic.release(_delete(decoy))
    assert clinic.only.mode == WHOLE
    assert _decoy(clinic) in {"p0", "p1", "p2", "p3"} - {decoy}
    assert clinic.group_of(_decoy(clinic)) == clinic.group_of("h")


def test_a2_without_a_buddy_the_holders_value_is_a_star() -> None:
    clinic = _clinic(people=1)
    clinic.release(_delete("p0"), _insert("new"))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", "p0")), "whoever came later is no buddy"
    assert not any(b'"hiv"' in record for record in clinic.made.release.records)


def test_a_holder_who_is_back_wakes_the_instances_up() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"))
    clinic.release(_insert("h"))
    assert clinic.only.mode == WHOLE
    assert _decoy(clinic) in {"p0", "p1", "p2", "p3"}
    assert sum(b'"hiv":1' in record for record in clinic.made.release.records) == 1


def test_a_dormant_owner_who_comes_back_hands_over_to_another_absent_buddy() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"))
    dormant = _decoy(clinic)
    clinic.release(_insert(dormant))
    assert clinic.only.mode == DORMANT
    assert _decoy(clinic) in {"a0", "a1", "a2"} - {dormant}


def test_a_clique_goes_extinct_when_every_instance_has_an_extinct_owner_or_buddy() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"))
    clinic.release(_deregister("h"))
    assert clinic.only.mode == DORMANT, "the decoy's instance has a living owner, and no buddy of it died"
    other = next(person for person in ("a0", "a1", "a2") if person != _decoy(clinic))
    clinic.release(_deregister(other))
    assert clinic.cliques == []
    assert clinic.series.state.cohorts.cliques[1].mode == EXTINCT


def test_a_buddy_who_dies_while_the_holder_is_away_counts_when_the_holder_dies_too() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"))
    other = next(person for person in ("a0", "a1", "a2") if person != _decoy(clinic))
    clinic.release(_deregister(other))
    assert (clinic.only.mode, _decoy(clinic)) == (DORMANT, other), "somebody who will not come back"
    clinic.release(_deregister("h"))
    assert clinic.cliques == []


def test_a_holder_who_is_back_is_joined_by_somebody_who_lives_whoever_died_meanwhile() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"))
    clinic.release(_deregister(next(person for person in ("a0", "a1", "a2") if person != _decoy(clinic))))
    clinic.release(_insert("h"))
    assert (clinic.only.mode, _decoy(clinic) in {"p0", "p1", "p2", "p3"}) == (WHOLE, True)


def test_a_buddy_who_died_while_the_value_was_shown_does_not_count() -> None:
    clinic = _clinic()
    clinic.release(_deregister("a0"))
    clinic.release(_delete("h"))
    clinic.release(_deregister("h"))
    assert clinic.only.mode == DORMANT, "whoever is registered no more was not the one the value was shown for"


@pytest.mark.parametrize(("participation", "is_over"), [(0, True), (1, True), (2, False)])
def test_as_many_buddies_must_die_as_for_anybody_to_take_over(participation: int, is_over: bool) -> None:
    clinic = _clinic(people=8, absent=5, participation=participation)
    clinic.release(_delete("h"))
    others = [person for person in ("a0", "a1", "a2", "a3", "a4") if person != _decoy(clinic)]
    clinic.release(*map(_deregister, ["h", *others[:2]]))
    assert (clinic.cliques == []) is is_over


def test_once_the_others_stood_under_a_star_only_they_themselves_can_end_a_clique() -> None:
    clinic = _clinic(people=3, absent=0)
    decoy, other = _decoy(clinic), next(p for p in ("p0", "p1", "p2") if p != _decoy(clinic))
    clinic.release(_delete("h"))
    assert clinic.only.mode == COVERED
    clinic.release(_deregister("h"), _delete(other), _deregister(other))
    assert _decoy(clinic) == decoy, "everyone could see the other one while the decoy stood under a star"
    clinic.release(_delete(decoy), _deregister(decoy))
    assert clinic.cliques == []


def test_whoever_was_registered_later_is_no_buddy_when_they_die() -> None:
    clinic = _clinic()
    clinic.release(_delete("h"), _register("late"))
    clinic.release(_deregister("h"), _deregister("late"))
    assert clinic.only.mode == DORMANT


def test_a_holder_who_leaves_their_container_gets_another() -> None:
    clinic = _Clinic()
    crowd = [_insert(f"p{number}", age=age) for number, age in enumerate((10, 11, 12, 13, 80, 81, 82, 83))]
    absent = [_register(f"a{number}", age=age) for number, age in enumerate((10, 12, 80, 82))]
    clinic.release(*absent, *crowd, _insert("h", "hiv", age=11))
    before = clinic.only
    clinic.release({"op": "update", "id": "h", "qid": {"age": 82}})
    after = clinic.only
    assert before.nodes[0] != 0, "the tree has cells small enough"
    assert (after.holder, after.created[0], after.mode) == ("h", 2, WHOLE)
    assert after.nodes[0] != before.nodes[0]


def _two_towns() -> _Clinic:
    """Four people of 10 and four of 80, as many of each who are absent, and h, who is 10."""
    clinic = _Clinic()
    crowd = [_insert(f"p{number}", age=10 if number < 4 else 80) for number in range(8)]
    absent = [_register(f"a{number}", age=10 if number < 4 else 80) for number in range(8)]
    clinic.release(*absent, *crowd, _insert("h", "hiv", age=10))
    return clinic


def test_a_decoy_who_leaves_their_container_hands_over() -> None:
    clinic = _two_towns()
    before = clinic.only
    assert before.nodes[1] != 0, "the tree has cells small enough"
    clinic.release({"op": "update", "id": _decoy(clinic), "qid": {"age": 80}})
    assert clinic.only.owners[1] != before.owners[1]
    assert clinic.only == before._replace(owners=clinic.only.owners, is_handed=True)


def test_a_buddy_lives_in_the_cell_that_was_shown() -> None:
    clinic = _two_towns()
    for number in range(3):
        clinic.release(_delete(_decoy(clinic)))
        assert _decoy(clinic) in {"p0", "p1", "p2", "p3"}, number
    clinic.release(_delete(_decoy(clinic)))
    assert clinic.only.mode == COVERED, "there are others in the table, but none of them lives there"


@pytest.mark.parametrize(("participation", "mode"), [(0, WHOLE), (1, WHOLE), (2, COVERED)])
def test_the_k_buddy_condition_asks_for_one_buddy_more_than_anybody_knows(participation: int, mode: int) -> None:
    clinic = _clinic(people=3, participation=participation)
    clinic.release(_delete(_decoy(clinic)))
    assert clinic.only.mode == mode, "two buddies are left"


def test_whoever_is_withheld_with_their_cell_counts_as_absent() -> None:
    """Two towns; when people leave the second one its cell is closed, and who is left there can stand in for others."""
    clinic = _Clinic(k=3)
    clinic.release(*(_insert(f"p{n}", age=10) for n in range(6)), *(_insert(f"q{n}", age=80) for n in range(6)))
    clinic.release(*(_delete(f"q{n}") for n in range(4)), *(_deregister(f"q{n}") for n in range(4)))
    assert {clinic.group_of(person) for person in ("q4", "q5")} == {None}
    clinic.release(_insert("h", "hiv", age=10))
    assert clinic.only.nodes[0] == 0, "the one cell around with somebody absent in it is everything"
    absent = clinic.registration.absent
    rows = {person: clinic.series.state.people.row(person) for person in ("p0", "q0", "q4", "q5")}
    assert {person: bool(absent[row]) for person, row in rows.items()} == {
        "p0": False,
        "q0": False,
        "q4": True,
        "q5": True,
    }
    clinic.release(_delete("h"))
    assert (clinic.only.mode, _decoy(clinic) in {"q4", "q5"}) == (COVERED, False), "they do not live where it was shown"


@pytest.mark.parametrize(("participation", "is_published"), [(0, False), (1, False), (2, True)])
def test_nobody_is_withheld_where_too_few_others_are_to_hide_who_is_there(
    participation: int, is_published: bool
) -> None:
    clinic = _clinic(people=1, participation=participation)
    clinic.release({**_insert("a0"), "guard": {"node": "*", "bound": 0.01}})
    assert clinic.only.mode == WHOLE
    assert (clinic.group_of("a0") is not None) is is_published, "nobody's company is good enough for them"


def test_where_no_more_rows_are_than_may_be_known_nobody_can_take_over_any_more() -> None:
    clinic = _clinic(people=6, participation=2)
    decoy = _decoy(clinic)
    others = [f"p{number}" for number in range(6) if f"p{number}" != decoy]
    clinic.release(*map(_delete, others))
    assert (clinic.only.mode, clinic.only.created) == (WHOLE, (1, NEVER)), "they are who they always were"
    clinic.release(*map(_insert, others))
    clinic.release(_delete(decoy))
    assert (clinic.only.mode, _decoy(clinic)) == (COVERED, decoy), "the others were away when it had to be one of two"


def test_where_a_buddy_took_over_the_value_is_a_star_while_no_more_rows_are_than_may_be_known() -> None:
    clinic = _clinic(people=6, participation=2)
    clinic.release(_delete(_decoy(clinic)))
    buddy = _decoy(clinic)
    others = [person for person in clinic.published if person not in ("h", buddy)]
    clinic.release(*map(_delete, others))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", buddy))
    clinic.release(*map(_insert, others))
    assert (clinic.only.mode, clinic.only.owners) == (WHOLE, ("h", buddy))


def test_where_a_buddy_took_over_the_value_is_a_star_once_too_few_are_left_who_could_have() -> None:
    clinic = _clinic(people=4, absent=0, participation=2)
    gone = _decoy(clinic)
    clinic.release(_delete(gone), _deregister(gone), *(_insert(f"new{number}") for number in range(4)))
    buddy = _decoy(clinic)
    others = [person for person in clinic.published if person.startswith("p") and person != buddy]
    assert (clinic.only.mode, len(others)) == (WHOLE, 2)
    clinic.release(_delete(others[0]))
    assert clinic.only.mode == WHOLE, "three could be the owner, of whom one is away"
    clinic.release(_deregister(others[0]))
    assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", buddy)), "whoever knows of two knows the third"


def test_a_container_is_no_smaller_than_the_k_buddy_condition() -> None:
    narrow, wide = _Clinic(participation=0), _Clinic(participation=2)
    for clinic in (narrow, wide):
        crowd = [_insert(f"p{number}", age=10 * number) for number in range(10)]
        absent = [_register(f"a{number}", age=10 * number) for number in range(10)]
        clinic.release(*absent, *crowd, _insert("h", "hiv", age=5))
    (low, high) = (clinic.series.state.tree.bounds(0, [clinic.only.nodes[0]]) for clinic in (narrow, wide))  # type: ignore[arg-type]
    assert low[1] - low[0] < high[1] - high[0]


def test_a_group_with_an_untouched_clique_is_carried() -> None:
    clinic = _clinic()
    group = clinic.group_of("h")
    clinic.release(_insert("new"))
    assert clinic.group_of("h") == group
    assert clinic.made.change.cliques == {}
    clinic.release(_insert("far", age=90))
    assert clinic.group_of("h") == group, "the tree was split, which changes no role"


def test_cliques_that_share_a_person_are_published_together() -> None:
    policy = clinic_policy(k=1, l=3, permanent=["hiv", "lupus"], headroom=0)
    series = Series(policy)
    made = series.release([_insert("h", "hiv", "lupus"), *(_insert(f"p{number}") for number in range(6))])
    owners = {owner for _, clique in series.state.cohorts.living() for owner in clique.owners}
    assert len({group for person, group, _ in made.release.members if person in owners}) == 1
    assert {clique.mode for _, clique in series.state.cohorts.living()} == {WHOLE}


def test_cohorts_are_listed_with_published_owners_only_and_holders_first() -> None:
    clinic = _clinic(l=3)
    clique = clinic.only
    assert clinic.made.release.cohorts == {"hiv": [[owner] for owner in clique.owners]}
    clinic.release(_delete("h"))
    assert clinic.made.release.cohorts == {"hiv": [[], [], []]}


def test_of_a_clique_with_spares_so_many_are_listed_as_there_are_cohorts() -> None:
    cohorts = Cohorts()
    cohorts.add(Clique(0, ("h", "a", "b", "c"), (0,) * 4, (1,) * 4, WHOLE))
    assert cohorts_of(cohorts, {0: "hiv"}, 3) == {"hiv": [["h"], ["a"], ["b"]]}


def test_where_a_value_is_a_star_nobody_is_listed() -> None:
    cohorts = Cohorts()
    cohorts.add(Clique(0, ("h", "a"), (0, 0), (1, 1), COVERED))
    assert cohorts_of(cohorts, {0: "hiv"}, 2) == {"hiv": [[], []]}


class TestRowsLookedUpOnce:
    """The rows of a clique's owners, which a copy shares with what it is a copy of."""

    @staticmethod
    def _two() -> tuple[Cohorts, Cohorts, Any]:
        clinic = _clinic(people=4)
        cohorts = clinic.series.state.cohorts
        return cohorts, cohorts.copy(), clinic.series.state.people

    def _expected(self, cohorts: Cohorts, people: Any) -> list[int]:
        return [people.row(owner) for owner in cohorts.cliques[1].owners]

    def test_a_copy_knows_what_was_looked_up(self) -> None:
        cohorts, twin, people = self._two()
        assert cohorts.rows_of(1, people) is twin.rows_of(1, people)
        assert twin.rows_of(1, people) == self._expected(twin, people)

    def test_whatever_changes_hands_in_a_copy_both_say_what_is_true_of_them(self) -> None:
        cohorts, twin, people = self._two()
        other = next(person for person in ("p0", "p1", "p2", "p3") if person not in cohorts.cliques[1].owners)
        twin.cliques[1] = twin.cliques[1].with_owner(1, other)
        for each in (twin, cohorts, twin):
            assert each.rows_of(1, people) == self._expected(each, people)
        assert cohorts.rows_of(1, people) != twin.rows_of(1, people)

    def test_a_clique_made_in_two_copies_has_the_owners_of_each(self) -> None:
        cohorts, twin, people = self._two()
        pairs = {
            each: Clique(0, owners, (0, 0), (2, 2), WHOLE)
            for each, owners in ((cohorts, ("p0", "p1")), (twin, ("p2", "p3")))
        }
        for each, clique in pairs.items():
            assert each.add(clique) == 2
        for each in (cohorts, twin, cohorts):
            assert each.rows_of(2, people) == [people.row(owner) for owner in pairs[each].owners]

    def test_an_instance_without_an_owner_has_no_row(self) -> None:
        cohorts, _, people = self._two()
        cohorts.cliques[1] = cohorts.cliques[1].with_owner(1, "")
        assert cohorts.rows_of(1, people) == [people.row("h"), -1]


@pytest.mark.parametrize(
    "wrong",
    [
        {1: Clique(0, ("h", "p"), (0, 0), (1, 1), WHOLE), 2: Clique(0, ("p", "q"), (0, 0), (1, 1), WHOLE)},
        {1: Clique(0, ("", "p"), (0, 0), (1, 1), WHOLE)},
        {2: Clique(0, ("h", "p"), (0, 0), (1, 1), WHOLE)},
        {1: Clique(0, ("h", "p"), (0, -1), (1, 1), WHOLE)},
        {1: Clique(0, ("h", "p"), (0,), (1, 1), WHOLE)},
    ],
)
def test_the_invariants_notice_what_must_not_be(wrong: dict[int, Clique]) -> None:
    cohorts = Cohorts()
    cohorts.put(wrong.items())
    with pytest.raises(AssertionError):
        cohorts.check_invariants(is_everyone_known=False)


class TestWhenEveryoneIsKnown:
    """`participation: all`."""

    @staticmethod
    def _lupus() -> tuple[Series, list[str]]:
        """A clique of l, who has lupus and is away, and three others."""
        series = Series(clinic_policy(k=1, l=2, permanent=["hiv", "lupus"], participation="all", headroom=0))
        series.release([_insert("l", "lupus", "flu"), *(_insert(f"p{number}") for number in range(30))])
        (clique,) = (clique for _, clique in series.state.cohorts.living())
        return series, list(clique.owners[1:])

    @staticmethod
    def _ill(person: str) -> dict[str, Any]:
        return {"op": "update", "id": person, "sensitive": ["hiv", "flu"]}

    def test_a_clique_that_is_not_shown_after_all_was_never_shown(self) -> None:
        series, (a, b, _) = self._lupus()
        series.release([_delete("l"), self._ill(a), self._ill(b)])
        _, first, second = (clique for _, clique in series.state.cohorts.living())
        assert {first.holder, second.holder} == {a, b}
        assert [(clique.mode, {*clique.created}) for clique in (first, second)] == [(WHOLE, {2}), (COVERED, {0})]

    def test_a_clique_that_is_not_shown_after_all_keeps_those_who_are_away(self) -> None:
        series, (a, b, c) = self._lupus()
        series.release([*map(_delete, ["l", b, c]), self._ill(a)])
        series.release([_delete(a), _insert(b, "hiv", "flu")])
        lupus, first, second = (clique for _, clique in series.state.cohorts.living())
        assert (lupus.mode, first.mode, second.mode) == (COVERED, COVERED, WHOLE)
        assert (first.holder, second.holder, second.created[0]) == (a, b, 3)
        series.release([_insert(a, "flu"), _delete(second.owners[1])])
        _, first, after = (clique for _, clique in series.state.cohorts.living())
        assert (first.mode, after.mode) == (WHOLE, COVERED), "one group shows the value once"
        assert {*after.owners} == {*second.owners}, "nothing was shown without them"
        series.state.cohorts.check_invariants(is_everyone_known=True)
        series.release([_insert(second.owners[1]), _delete(a)])
        _, _, after = (clique for _, clique in series.state.cohorts.living())
        assert (after.mode, {*after.owners}) == (WHOLE, {*second.owners})

    def test_a_clique_has_spares_from_the_start(self) -> None:
        clinic = _clinic(people=8, participation="all")
        assert (clinic.only.mode, len(clinic.only.owners)) == (WHOLE, 4)
        assert {clinic.group_of(owner) for owner in clinic.only.owners} == {clinic.group_of("h")}

    def test_who_leaves_uses_up_a_spare_and_is_never_replaced(self) -> None:
        clinic = _clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(_delete(owners[1]))
        assert (clinic.only.mode, clinic.only.owners) == (WHOLE, (owners[0], *owners[2:]))
        clinic.release(_insert(owners[1]))
        assert clinic.only.owners == (owners[0], *owners[2:])

    def test_without_spares_left_the_value_is_a_star_and_those_who_are_there_stay_together(self) -> None:
        clinic = _clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(_delete(owners[1]), _delete(owners[2]))
        clinic.release(_delete(owners[3]))
        assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", owners[3]))
        assert not any(b'"hiv"' in record for record in clinic.made.release.records)
        clinic.release(_insert(owners[3]))
        assert clinic.only.mode == WHOLE, "nothing was shown without them"

    def test_while_the_holder_is_away_the_others_stay_together_under_a_star(self) -> None:
        clinic = _clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(_delete("h"))
        assert (clinic.only.mode, clinic.only.owners) == (COVERED, owners)
        assert len({clinic.group_of(owner) for owner in owners[1:]}) == 1
        clinic.release(_insert("h"))
        assert (clinic.only.mode, clinic.only.owners) == (WHOLE, owners)

    def test_a_group_shows_a_permanent_value_once_even_where_cliques_share_a_person(self) -> None:
        policy = clinic_policy(k=1, l=2, permanent=["hiv", "lupus"], participation="all", headroom=0)
        series = Series(policy)
        series.release([_insert("h", "hiv"), *(_insert(f"p{number}") for number in range(20))])
        (clique,) = (clique for _, clique in series.state.cohorts.living())
        first, second = clique.owners[1:3]
        made = series.release(
            [{"op": "update", "id": person, "sensitive": ["lupus", "flu"]} for person in (first, second)]
        )
        modes = [(clique.value, clique.mode) for _, clique in series.state.cohorts.living()]
        assert sorted(mode for _, mode in modes) == [WHOLE, WHOLE, COVERED]
        assert not any(b'"lupus":2' in record for record in made.release.records)
