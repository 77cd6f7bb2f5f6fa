"""Cliques where everybody knows who is published: no buddies, spares instead."""

from typing import Any

from shoal.core.cohort.clique import COVERED, WHOLE
from tests.support.engines.series import clinic_policy
from tests.support.histories.hiv_clinic import delete, hiv_clinic, insert
from tests.support.histories.population import Series


class TestWhenEveryoneIsKnown:
    """`participation: all`."""

    @staticmethod
    def _lupus() -> tuple[Series, list[str]]:
        """A clique of l, who has lupus and is away, and three others."""
        series = Series(clinic_policy(k=1, l=2, permanent=["hiv", "lupus"], participation="all", headroom=0))
        series.release([insert("l", "lupus", "flu"), *(insert(f"p{number}") for number in range(30))])
        (clique,) = (clique for _, clique in series.state.cohorts.living())
        return series, list(clique.owners[1:])

    @staticmethod
    def _ill(person: str) -> dict[str, Any]:
        return {"op": "update", "id": person, "sensitive": ["hiv", "flu"]}

    def test_a_clique_that_is_not_shown_after_all_was_never_shown(self) -> None:
        series, (a, b, _) = self._lupus()
        series.release([delete("l"), self._ill(a), self._ill(b)])
        _, first, second = (clique for _, clique in series.state.cohorts.living())
        assert {first.holder, second.holder} == {a, b}
        assert [(clique.mode, {*clique.created}) for clique in (first, second)] == [(WHOLE, {2}), (COVERED, {0})]

    def test_a_clique_that_is_not_shown_after_all_keeps_those_who_are_away(self) -> None:
        series, (a, b, c) = self._lupus()
        series.release([*map(delete, ["l", b, c]), self._ill(a)])
        series.release([delete(a), insert(b, "hiv", "flu")])
        lupus, first, second = (clique for _, clique in series.state.cohorts.living())
        assert (lupus.mode, first.mode, second.mode) == (COVERED, COVERED, WHOLE)
        assert (first.holder, second.holder, second.created[0]) == (a, b, 3)
        series.release([insert(a, "flu"), delete(second.owners[1])])
        _, first, after = (clique for _, clique in series.state.cohorts.living())
        assert (first.mode, after.mode) == (WHOLE, COVERED), "one group shows the value once"
        assert {*after.owners} == {*second.owners}, "nothing was shown without them"
        series.state.cohorts.check_invariants(is_everyone_known=True)
        series.release([insert(second.owners[1]), delete(a)])
        _, _, after = (clique for _, clique in series.state.cohorts.living())
        assert (after.mode, {*after.owners}) == (WHOLE, {*second.owners})

    def test_a_clique_has_spares_from_the_start(self) -> None:
        clinic = hiv_clinic(people=8, participation="all")
        assert (clinic.only.mode, len(clinic.only.owners)) == (WHOLE, 4)
        assert {clinic.group_of(owner) for owner in clinic.only.owners} == {clinic.group_of("h")}

    def test_who_leaves_uses_up_a_spare_and_is_never_replaced(self) -> None:
        clinic = hiv_clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(delete(owners[1]))
        assert (clinic.only.mode, clinic.only.owners) == (WHOLE, (owners[0], *owners[2:]))
        clinic.release(insert(owners[1]))
        assert clinic.only.owners == (owners[0], *owners[2:])

    def test_without_spares_left_the_value_is_a_star_and_those_who_are_there_stay_together(self) -> None:
        clinic = hiv_clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(delete(owners[1]), delete(owners[2]))
        clinic.release(delete(owners[3]))
        assert (clinic.only.mode, clinic.only.owners) == (COVERED, ("h", owners[3]))
        assert not any(b'"hiv"' in record for record in clinic.made.release.records)
        clinic.release(insert(owners[3]))
        assert clinic.only.mode == WHOLE, "nothing was shown without them"

    def test_while_the_holder_is_away_the_others_stay_together_under_a_star(self) -> None:
        clinic = hiv_clinic(people=8, participation="all")
        owners = clinic.only.owners
        clinic.release(delete("h"))
        assert (clinic.only.mode, clinic.only.owners) == (COVERED, owners)
        assert len({clinic.group_of(owner) for owner in owners[1:]}) == 1
        clinic.release(insert("h"))
        assert (clinic.only.mode, clinic.only.owners) == (WHOLE, owners)

    def test_a_group_shows_a_permanent_value_once_even_where_cliques_share_a_person(self) -> None:
        policy = clinic_policy(k=1, l=2, permanent=["hiv", "lupus"], participation="all", headroom=0)
        series = Series(policy)
        series.release([insert("h", "hiv"), *(insert(f"p{number}") for number in range(20))])
        (clique,) = (clique for _, clique in series.state.cohorts.living())
        first, second = clique.owners[1:3]
        made = series.release(
            [{"op": "update", "id": person, "sensitive": ["lupus", "flu"]} for person in (first, second)]
        )
        modes = [(clique.value, clique.mode) for _, clique in series.state.cohorts.living()]
        assert sorted(mode for _, mode in modes) == [WHOLE, WHOLE, COVERED]
        assert not any(b'"lupus":2' in record for record in made.release.records)
