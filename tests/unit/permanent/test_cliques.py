"""Cliques and cohorts as a structure: how they are listed, looked up and checked."""

from typing import Any

import pytest

from shoal.core.cohort.clique import COVERED, WHOLE, Clique, Cohorts, cohorts_of
from tests.support.engines.series import clinic_policy
from tests.support.histories.hiv_clinic import delete, hiv_clinic, insert
from tests.support.histories.population import Series


def test_a_group_with_an_untouched_clique_is_carried() -> None:
    clinic = hiv_clinic()
    group = clinic.group_of("h")
    clinic.release(insert("new"))
    assert clinic.group_of("h") == group
    assert clinic.made.change.cliques == {}
    clinic.release(insert("far", age=90))
    assert clinic.group_of("h") == group, "the tree was split, which changes no role"


def test_cliques_that_share_a_person_are_published_together() -> None:
    policy = clinic_policy(k=1, l=3, permanent=["hiv", "lupus"], headroom=0)
    series = Series(policy)
    made = series.release([insert("h", "hiv", "lupus"), *(insert(f"p{number}") for number in range(6))])
    owners = {owner for _, clique in series.state.cohorts.living() for owner in clique.owners}
    assert len({group for person, group, _ in made.release.members if person in owners}) == 1
    assert {clique.mode for _, clique in series.state.cohorts.living()} == {WHOLE}


def test_cohorts_are_listed_with_published_owners_only_and_holders_first() -> None:
    clinic = hiv_clinic(l=3)
    clique = clinic.only
    assert clinic.made.release.cohorts == {"hiv": [[owner] for owner in clique.owners]}
    clinic.release(delete("h"))
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
        clinic = hiv_clinic(people=4)
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
