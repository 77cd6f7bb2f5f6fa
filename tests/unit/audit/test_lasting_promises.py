"""Cliques, guards and blocks on releases written by hand: the least that keeps each rule, and that breaks it."""

from collections.abc import Mapping
from typing import Any

import pytest

from shoal.core.policy.policy import Policy
from tests.support.engines.lasting_desk import Shown, lasting_policy
from tests.support.engines.lasting_ward import (
    BLOCK,
    HALF,
    QUARTER,
    REST,
    Ward,
    full,
    rows,
    signature,
    stars,
    ward_of_four,
)


def clique_ward(policy: Policy | None = None) -> Ward:
    return ward_of_four(policy).admit(h=["hiv", "flu"], d=["flu"], e=["flu"])


def clique(*people: tuple[str, str | None], value: str = "hiv") -> Shown:
    return Shown(rows(*people), {value: 1})


def with_clique(desk: Ward, shown: Shown | None, cohorts: Any = None, **more: Shown) -> set[str]:
    plain = Shown(rows(("h", "flu"), ("d", "flu"), ("e", "flu")), {"flu": 3})
    groups: Mapping[str, Shown] = {"g1": signature(full()), "flu": plain, **({"hiv": shown} if shown else {}), **more}
    desk.publish(groups, QUARTER, {"hiv": cohorts} if cohorts else None)
    return desk.found()


COHORTS = [["h"], ["d"]]


def test_a_clique_whose_people_have_other_rows_is_as_promised() -> None:
    desk = clique_ward()
    for _ in range(2):
        assert with_clique(desk, clique(("h", "hiv"), ("d", None)), COHORTS) == set()
    assert with_clique(desk, None) == set()
    assert with_clique(desk, None, COHORTS, again=clique(("h", "hiv"), ("d", None))) == set()


RIGHT = clique(("h", "hiv"), ("d", None))
NO_HOLDER = "G3: a clique's group does not have one row that stands for its value and is its holder's"
UNBALANCED = "G3: a group's owners of each cohort are not as many as the times it shows the value"
FORM = "contract: the cohorts are not l lists of owners for each permanent value"


@pytest.mark.parametrize(
    ("shown", "cohorts", "expected"),
    [
        (clique(("h", None), ("d", None)), COHORTS, NO_HOLDER),
        (clique(("h", None), ("d", "hiv")), COHORTS, NO_HOLDER),
        (clique(("h", "hiv"), ("h", None)), COHORTS, "G3: a person has two rows in a clique"),
        (
            clique(("h", "hiv")),
            [["h"]],
            "G3: a clique's group does not show its value once for at least l + insiders rows",
        ),
        (RIGHT, [["d"], ["h"]], "G3: the first cohort lists somebody who does not hold the value"),
        (RIGHT, [["h"], ["e"]], UNBALANCED),
        (RIGHT, [["h"], ["h"]], "G3: a person owns two instances of a value"),
        (RIGHT, [["h"], ["x"]], "contract: the cohorts list somebody who is not published"),
        (RIGHT, [["h"], ["d"], ["e"]], FORM),
        (RIGHT, None, FORM),
    ],
)
def test_a_clique_that_is_wrong_is_found(shown: Shown, cohorts: Any, expected: str) -> None:
    assert expected in with_clique(clique_ward(), shown, cohorts)


def test_nobody_is_in_two_cliques_of_one_value_however_much_later() -> None:
    desk = clique_ward()
    with_clique(desk, clique(("h", "hiv"), ("d", None)), COHORTS)
    with_clique(desk, None)
    other = Shown(rows(("h", "hiv"), ("e", None)), {"hiv": 1})
    found = with_clique(desk, None, [["h"], ["e"]], new=other)
    assert found == {"G3: a person is in two cliques of one value"}


def test_nobody_of_a_clique_has_a_signature_that_holds_its_value() -> None:
    permanent = ["hiv", "hepatitis", "acne", "eczema"]
    policy = lasting_policy(k=1, sensitive={"permanent": permanent})
    desk = clique_ward(policy).admit(**dict(zip(("q0", "q1", "q2", "q3"), permanent, strict=True)))
    held = list(zip(("q0", "q1", "q2", "q3"), permanent, strict=True))
    assert with_clique(desk, clique(("h", "hiv"), ("d", None)), COHORTS, g2=signature(held, permanent)) == set()
    desk.update("d", sensitive=["flu", "acne"])
    more = [("d", "acne"), ("r0", "hiv"), ("r1", "hepatitis"), ("r2", "eczema")]
    desk.admit(**dict(more[1:]))
    groups = {"g2": signature(held, permanent), "g3": signature(more, permanent)}
    found = with_clique(desk, clique(("h", "hiv"), ("d", None)), COHORTS, **groups)
    assert found == {"G3: a person of a clique has an entry whose signature holds its value"}


def test_a_holder_with_no_other_value_has_a_row_for_none_and_nobody_else_has() -> None:
    desk = ward_of_four().admit(h="hiv", d="flu")
    shown = clique(("h", "hiv"), ("d", None))
    flu = Shown(rows(("d", "flu")), {"flu": 1})
    assert desk.show(g1=signature(full()), hiv=shown, s=stars(("h", None)), flu=flu, cohorts={"hiv": COHORTS}) == set()
    desk = ward_of_four().admit(h="hiv", d="flu")
    found = desk.show(g1=signature(full()), hiv=shown, flu=flu, cohorts={"hiv": COHORTS})
    assert found == {"G3: a person of a clique has no other row"}
    desk = ward_of_four().admit(d="flu")
    found = desk.show(g1=signature(full()), s=stars(("d", None)), flu=flu)
    assert found == {"contract: a row stands for no value, and is neither of a clique nor all that its person has"}


def marks_of(desk: Ward) -> dict[str, tuple[int, int]]:
    private = desk.auditor.report(b"key").private
    assert private is not None
    assert private.lasting is not None
    return {mark.what: (mark.claims, mark.right) for mark in private.lasting.cliques.marks}


def test_marks_of_a_holder_are_counted_once_for_a_clique() -> None:
    """First the holder's other row is the only "*"; then the decoy's is, who has the fewest rows as well."""
    desk = ward_of_four().admit(h="hiv", d=["flu"])
    shown, flu = clique(("h", "hiv"), ("d", None)), Shown(rows(("d", "flu")), {"flu": 1})
    for _ in range(2):
        desk.show(g1=signature(full()), hiv=shown, s=stars(("h", None)), flu=flu, cohorts={"hiv": COHORTS})
    assert marks_of(desk) == {'alone has a "*"': (1, 1), "alone has the fewest rows": (0, 0)}
    desk = ward_of_four().admit(h=["hiv", "flu", "cold"], d=["gout"])
    flu, cold = (Shown(rows(("h", value)), {value: 1}) for value in ("flu", "cold"))
    gout = stars(("d", "gout"))
    desk.show(g1=signature(full()), hiv=shown, s=gout, flu=flu, cold=cold, cohorts={"hiv": COHORTS}, waiting=1)
    assert marks_of(desk) == {'alone has a "*"': (1, 0), "alone has the fewest rows": (1, 0)}
    assert desk.found() == set()


OVER = "G4: what is shown of what a person guards is over their bound"
UNSAFE = "G4: a value is shown for the first time for somebody whose bound one more value could pass"
SECOND = [("p0", "copd"), ("q1", "asthma"), ("q2", "ulcer"), ("q3", "gastritis")]


def test_what_is_shown_of_what_somebody_guards_is_added_up() -> None:
    """p0 guards both lung diseases with a bound of 1/2: one of four values is 2/4, and a second would make it 1."""
    desk = ward_of_four()
    desk.update("p0", guard="lung")
    assert desk.show(g1=signature(full())) == set()
    desk.update("p0", sensitive="copd")
    desk.admit(**dict(SECOND[1:]))
    assert desk.show(g1=signature(full()[1:]), g2=signature(SECOND), max_breach=QUARTER) == {OVER}


def test_nothing_is_shown_for_the_first_time_while_one_more_value_could_pass_the_bound() -> None:
    """Two values under a signature that meets the guard are 2/4 of a bound of 1/2; a value outside adds nothing."""
    other = [("p0", "gout"), ("r1", "lupus"), ("r2", "acne"), ("r3", "eczema")]
    for bound, expected in ((0.3, {UNSAFE}), (0.5, set())):
        desk = ward_of_four()
        desk.update("p0", guard={"node": "asthma", "bound": bound})
        desk.show(g1=signature(full()))
        desk.update("p0", sensitive=["asthma", "gout"])
        desk.admit(**dict(other[1:]))
        assert desk.show(g1=signature(full()), g2=signature(other, REST)) == expected


def test_a_guard_named_later_counts_what_was_shown_and_hides_what_meets_it() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.update("p0", guard={"node": "lung", "bound": 0.4})
    late = "G4: something that meets what a person guards is shown although its bound was used up before"
    assert desk.show(g1=signature(full()[1:]), s=stars(full()[0])) == set()
    assert desk.show(g1=signature(full())) == {late}


def test_with_insiders_a_guard_counts_more() -> None:
    """2/5 with five values and nobody else in the know, and 2/4 with one insider."""
    five = (*BLOCK, "gout")
    people = [f"p{at}" for at in range(5)]
    for insiders, expected in ((0, set()), (1, {OVER})):
        desk = Ward(lasting_policy(k=1, signature=5, insiders=insiders)).admit(**dict(full(five, people)))
        desk.update("p0", guard={"node": "lung", "bound": 0.45})
        found = desk.show(g1=signature(full(five, people), five), max_breach=1 / (5 - insiders))
        assert found == expected


def test_a_clique_has_an_insider_more_than_l() -> None:
    policy = lasting_policy(k=1, insiders=1, signature=5)
    five = (*BLOCK, "gout")
    people = [f"p{at}" for at in range(5)]
    flu = Shown(rows(("h", "flu"), ("d", "flu"), ("e", "flu")), {"flu": 3})
    for mates, expected in (
        (("d", "e"), set()),
        (("d",), {"G3: a clique's group does not show its value once for at least l + insiders rows"}),
    ):
        desk = Ward(policy).admit(**dict(full(five, people)), h=["hiv", "flu"], d=["flu"], e=["flu"])
        shown = clique(("h", "hiv"), *((mate, None) for mate in mates))
        found = desk.show(0.25, {"hiv": COHORTS}, g1=signature(full(five, people), five), hiv=shown, flu=flu)
        assert found == expected


def test_max_breach_may_count_what_was_shown_under_a_guard_and_need_not() -> None:
    for stated in (QUARTER, HALF):
        desk = ward_of_four()
        desk.show(g1=signature(full()))
        desk.update("p0", guard="ulcer", sensitive="copd")
        desk.admit(**dict(SECOND[1:]))
        found = desk.show(g1=signature(full()[1:]), g2=signature(SECOND), max_breach=stated)
        assert "G2: max_breach in a manifest is not the largest breach so far" not in found


def external(desk: Ward, low: int = 0, high: int = 99, **shown: int) -> None:
    region = {"age": {"min": low, "max": high}}
    groups = [{"region": region, "sensitive": shown}]
    desk.tell({"op": "external", "publisher": "north", "groups": groups})


TOO_MUCH = "G5: a value is shown for the first time beside another publication that cannot hide it"
STAYED = "G5: a value is still shown that another publication has left with too few like it"


def test_values_that_others_show_equally_often_may_be_shown() -> None:
    desk = ward_of_four()
    external(desk, **dict.fromkeys(BLOCK, 3))
    assert desk.show(g1=signature(full())) == set()
    desk = ward_of_four()
    external(desk, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == set(), "of four values two are alike, and two are not shown"
    desk = ward_of_four()
    external(desk, asthma=2, copd=1)
    assert desk.show(g1=signature(full())) == {TOO_MUCH}
    desk = ward_of_four()
    external(desk, low=60, asthma=2, copd=1)
    assert desk.show(g1=signature(full())) == set()


def test_as_many_values_as_overlap_asks_must_be_alike() -> None:
    for overlap, expected in ((4, set()), (5, {TOO_MUCH})):
        desk = ward_of_four(lasting_policy(k=1, overlap=overlap))
        external(desk, **dict.fromkeys((*BLOCK, *REST), 1))
        assert desk.show(g1=signature(full())) == expected


def test_another_publication_bears_some_rounds_and_not_more() -> None:
    """After two rounds, one row would be left, and whoever is in neither group would have its value."""
    people = [f"q{at}" for at in range(4)]
    for shown, rounds, expected in ((3, 1, set()), (3, 2, {TOO_MUCH}), (2, 2, set())):
        desk = ward_of_four().admit(**dict(full(BLOCK, people)))
        external(desk, **{**dict.fromkeys(BLOCK, 2), BLOCK[0]: shown})
        groups = {"g1": signature(full()), "g2": signature(full(BLOCK, people))}
        assert (
            desk.show(**dict([*groups.items()][:rounds]), **({} if rounds == 2 else {"s": stars(*full(BLOCK, people))}))
            == expected
        )


def test_what_was_shown_before_another_publication_stays_if_enough_are_left_like_it() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    external(desk, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == set()
    external(desk, asthma=1)
    assert desk.show(g1=signature(full())) == {STAYED}
    assert desk.show(s=stars(*full())) == {STAYED}


def test_a_publication_that_joins_others_is_judged_with_the_values_shown_by_then() -> None:
    """Sets of two among four are enough for one value that was shown, and not for two."""
    for values in (1, 2):
        desk = ward_of_four()
        groups = {"g1": signature(full())}
        desk.show(**groups)
        if values == 2:
            desk.update("p0", sensitive="copd")
            desk.admit(**dict(SECOND[1:]))
            groups = {"g1": signature(full()[1:]), "g2": signature(SECOND)}
        stated = HALF if values == 2 else QUARTER
        desk.show(**groups, max_breach=stated)
        external(desk, asthma=1, copd=1)
        assert desk.show(**groups, max_breach=stated) == ({STAYED} if values == 2 else set())


def test_with_an_insider_more_must_be_left_alike() -> None:
    five = (*BLOCK, "gout")
    people = [f"p{at}" for at in range(5)]
    for insiders, expected in ((0, set()), (1, {STAYED})):
        desk = Ward(lasting_policy(k=1, signature=5, insiders=insiders)).admit(**dict(full(five, people)))
        groups = {"g1": signature(full(five, people), five)}
        desk.show(**groups, max_breach=1 / (5 - insiders))
        external(desk, asthma=1, copd=1)
        assert desk.show(**groups, max_breach=1 / (5 - insiders)) == expected


def test_publications_whose_regions_meet_are_taken_together() -> None:
    """Everyone is 50. The second group does not reach them, and still tells values of the first's people apart."""
    desk = ward_of_four()
    external(desk, low=0, high=60, **dict.fromkeys(BLOCK, 1))
    external(desk, low=55, high=99, asthma=1)
    assert desk.show(g1=signature(full())) == {TOO_MUCH}
    desk = ward_of_four()
    external(desk, low=0, high=54, **dict.fromkeys(BLOCK, 1))
    external(desk, low=55, high=99, asthma=1)
    assert desk.show(g1=signature(full())) == set()
