"""Bu et al. as the auditor counts: the six people, exposed under 3-invariance, a third each with cohorts (Theorem 1).

The paper's tables are lost in the copy there is; the groups are rebuilt from its text (sections 1.1 and 3.3). HIV is
permanent, ℓ = 3. The holders are p2 and p4.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import pytest

from shoal.core.audit.permanent.holders import Component, Drawn, HolderSets
from tests.support.engines.audited import ByHand
from tests.support.engines.scarcity import HIV, scarce_policy
from tests.support.judges.formations import Release, count_unordered, formations, risk

SIX = ("p1", "p2", "p3", "p4", "p5", "p6")
FIRST: Release = [(("p1", "p2", "p3"), 1), (("p4", "p5", "p6"), 1)]
SECOND: Release = [(("p1", "p4", "p5"), 1), (("p2", "p3", "p6"), 1)]
THIRD: Release = [(("p1", "p4", "p6"), 1), (("p2", "p3", "p5"), 1)]
THIRD_WITH_COHORTS: Release = [(("p1", "p4", "p3"), 1), (("p2", "p6", "p5"), 1)]
COHORTS = (("p2", "p4"), ("p1", "p6"), ("p3", "p5"))  # the holders' first


def count_holder_sets(releases: Sequence[Release]) -> list[Component]:
    sets = HolderSets()
    for release in releases:
        sets.see(Drawn(people, shown, 0) for people, shown in release)
    return sets.components


def only(components: list[Component]) -> set[frozenset[str]]:
    (component,) = components
    assert component.sets is not None
    return component.sets


def test_after_two_releases_five_assignments_are_possible_and_after_three_only_two() -> None:
    five = [{"p1", "p6"}, {"p2", "p4"}, {"p2", "p5"}, {"p3", "p4"}, {"p3", "p5"}]
    assert only(count_holder_sets([FIRST, SECOND])) == {frozenset(pair) for pair in five}
    two = [{"p2", "p4"}, {"p3", "p4"}]
    assert only(count_holder_sets([FIRST, SECOND, THIRD])) == {frozenset(pair) for pair in two}


def test_p4_is_exposed_under_3_invariance() -> None:
    (component,) = count_holder_sets([FIRST, SECOND, THIRD])
    assert component.risks()["p4"] == 1
    assert component.risks()["p1"] == component.risks()["p6"] == 0


def test_counted_without_the_mechanism_two_releases_already_exceed_a_third() -> None:
    (component,) = count_holder_sets([FIRST, SECOND])
    expected = {p: Fraction(1, 5) if p in ("p1", "p6") else Fraction(2, 5) for p in SIX}
    assert component.risks() == expected


@pytest.mark.parametrize("releases", [[FIRST], [FIRST, SECOND], [FIRST, SECOND, THIRD_WITH_COHORTS]])
def test_theorem_1_over_cohort_formations_everyone_is_linked_in_a_third_of_the_worlds(releases: list[Release]) -> None:
    found = formations(releases, 3)
    assert {risk(found, person) for person in SIX} == {Fraction(1, 3)}


def test_after_two_releases_there_are_the_two_formations_of_the_paper_and_none_after_the_third() -> None:
    assert count_unordered(formations([FIRST, SECOND], 3)) == 2
    assert formations([FIRST, SECOND, THIRD], 3) == {}
    assert count_unordered(formations([FIRST, SECOND, THIRD_WITH_COHORTS], 3)) == 1


def test_where_decoys_may_be_replaced_counting_formations_is_counting_holder_sets() -> None:
    """The gap in the proof of Theorem 1: cohorts are alike only as long as no owner may change (section 3.3)."""
    for releases in ([FIRST, SECOND], [FIRST, SECOND, THIRD]):
        found = formations(releases, 3, is_handed_over=True)
        (component,) = count_holder_sets(releases)
        assert {person: risk(found, person) for person in SIX} == component.risks()


def test_while_groups_keep_to_the_cohorts_nobody_is_ever_in_more_than_two_in_five_holder_sets() -> None:
    """And nobody is ever excluded: in any series of up to four releases everyone is in a fifth of the sets or more."""
    kept: list[Release] = []
    for picks in product((0, 1), repeat=2):
        group = (COHORTS[0][0], COHORTS[1][picks[0]], COHORTS[2][picks[1]])
        kept.append([(group, 1), (tuple(p for p in SIX if p not in group), 1)])
    risks = {
        risk
        for length in range(1, 5)
        for releases in product(kept, repeat=length)
        for component in count_holder_sets(releases)
        for risk in component.risks().values()
    }
    assert (min(risks), max(risks)) == (Fraction(1, 5), Fraction(2, 5))


def publish_six(desk: ByHand, releases: Sequence[Release], cohorts: Sequence[Sequence[str]] = COHORTS) -> None:
    for at, person in enumerate(SIX):
        values = [HIV] if person in COHORTS[0] else ["flu" if at % 2 else "fever"]
        desk.tell({"op": "insert", "id": person, "qid": {"age": at}, "sensitive": values})
    for number, release in enumerate(releases, start=1):
        groups = {f"g{number}.{at}": (number, people, shown_by(people)) for at, (people, _) in enumerate(release)}
        desk.publish(groups, cohorts={HIV: cohorts})


def shown_by(people: Sequence[str]) -> dict[str, int]:
    shown = {HIV: sum(person in COHORTS[0] for person in people)}
    for at, person in enumerate(SIX):
        if person in people and person not in COHORTS[0]:
            label = "flu" if at % 2 else "fever"
            shown[label] = shown.get(label, 0) + 1
    return shown


def about_g3(desk: ByHand) -> set[str]:
    return {sentence for sentence in desk.sentences() if sentence.startswith("G3")}


def test_the_auditor_finds_3_invariance_out_by_its_cohorts() -> None:
    desk = ByHand(scarce_policy(3, 0))
    publish_six(desk, [FIRST, SECOND])
    assert about_g3(desk) == set()
    desk = ByHand(scarce_policy(3, 0))
    publish_six(desk, [FIRST, SECOND, THIRD])
    assert "G3: a group's owners of each cohort are not as many as the times it shows the value" in about_g3(desk)


def test_the_auditor_finds_nothing_wrong_with_releases_that_keep_to_the_cohorts() -> None:
    desk = ByHand(scarce_policy(3, 0))
    publish_six(desk, [FIRST, SECOND, THIRD_WITH_COHORTS, THIRD_WITH_COHORTS, FIRST])
    assert about_g3(desk) == set()


def test_someone_who_knows_who_is_where_is_stopped_by_cliques_alone() -> None:
    """Cohorts are Bu's answer to less knowledge: `participation: all` asks for cliques that stay together."""
    desk = ByHand(scarce_policy(3, "all"))
    publish_six(desk, [FIRST, SECOND])
    assert "G3: fewer than l people could hold a value in a holder's place" in about_g3(desk)
    desk = ByHand(scarce_policy(3, "all"))
    publish_six(desk, [FIRST, FIRST, FIRST])
    assert about_g3(desk) == set()


def test_a_holder_who_leaves_alone_is_exposed_whatever_the_groups() -> None:
    """Section 2, table 4: even one group for all cannot hide that HIV went when p4 did, once all others are known."""
    everyone: Release = [(SIX, 2)]
    without_p4: Release = [(tuple(p for p in SIX if p != "p4"), 1)]
    smallest = count_holder_sets([everyone, without_p4])[0].risks()
    assert smallest["p4"] == 1
    assert smallest["p2"] == Fraction(1, 5)


def test_decoys_who_come_back_without_the_value_give_the_holder_away() -> None:
    """Section 1.1: p1 and p3 are absent in release 2 and return in release 3 to a group that shows no HIV."""
    back: Release = [(("p1", "p3"), 0), (("p2", "p5", "p6"), 1)]
    components = count_holder_sets([FIRST, [(("p2", "p4", "p5", "p6"), 2)], back])
    assert [component.risks()["p2"] for component in components if "p2" in component.people] == [1]
