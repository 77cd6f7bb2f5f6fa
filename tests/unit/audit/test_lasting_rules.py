"""Each rule of lasting tables on releases written by hand: the least that keeps it, and the least that breaks it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shoal.core.policy.policy import Policy
from tests.support.engines.lasting_desk import LastingDesk, Row, Shown, lasting_policy

BLOCK = ("asthma", "copd", "ulcer", "gastritis")
REST = ("gout", "lupus", "acne", "eczema")
FOUR = ("p0", "p1", "p2", "p3")

QUARTER, HALF = 0.25, 0.5


class Ward(LastingDesk):
    """One cell, everyone of the same age, and groups given by their rows."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy or lasting_policy(k=1, counterfeits=0.5), {"c1": (0, 99)})

    def admit(self, **values: str | Sequence[str]) -> "Ward":
        for person, held in values.items():
            self.tell({"op": "insert", "id": person, "qid": {"age": 50}, "sensitive": held})
        return self

    def update(self, person: str, **more: Any) -> None:
        self.tell({"op": "update", "id": person, **more})

    def leave(self, *people: str) -> None:
        for person in people:
            self.tell({"op": "delete", "id": person})

    def show(self, max_breach: float = QUARTER, cohorts: Any = None, **groups: Shown) -> set[str]:
        """A release of these groups; returns what is found wrong in all so far."""
        self.publish(groups, max_breach, cohorts)
        return self.found()


def rows(*people: tuple[str, str | None]) -> list[Row]:
    return [Row(person, value, "c1") for person, value in people]


def signature(people: Sequence[tuple[str, str]], labels: Sequence[str] = BLOCK, q: int = 1) -> Shown:
    """A group that shows each of these labels q times."""
    return Shown(rows(*people), dict.fromkeys(labels, q), q * len(labels) - len(people))


def stars(*people: tuple[str, str | None]) -> Shown:
    return Shown(rows(*people), {"*": len(people)})


def full(block: Sequence[str] = BLOCK, people: Sequence[str] = FOUR) -> list[tuple[str, str]]:
    return list(zip(people, block, strict=True))


def ward_of_four(policy: Policy | None = None) -> Ward:
    return Ward(policy).admit(**dict(full()))


def test_four_people_with_four_values_under_one_signature_are_as_promised() -> None:
    desk = ward_of_four()
    assert desk.show(g1=signature(full())) == set()
    assert desk.show(g1=signature(full())) == set()


def test_an_inner_node_may_be_shown_if_all_members_have_equally_many_leaves() -> None:
    nodes = ("lung", "belly", "joints", "skin")
    people = [("p0", "asthma"), ("p1", "ulcer"), ("p2", "gout"), ("p3", "acne")]
    assert Ward().admit(**dict(people)).show(g1=signature(people, nodes)) == set()
    uneven = ("lung", "ulcer", "gout", "acne")
    found = Ward().admit(**dict(people)).show(g1=signature(people, uneven))
    assert found == {"G2: the members of a signature have not equally many leaves"}
    found = (
        Ward()
        .admit(**dict(people[:3]))
        .show(g1=Shown(rows(*people[:3]), dict.fromkeys(("lung", "asthma", "ulcer", "gout"), 1), 1))
    )
    assert "G2: a signature holds a value and a node above it" in found


def test_rows_must_be_of_values_that_the_group_shows_and_no_more_often() -> None:
    desk = Ward().admit(p0="asthma", p1="asthma", p2="ulcer", p3="gout")
    people = [("p0", "asthma"), ("p1", "asthma"), ("p2", "ulcer"), ("p3", "gout")]
    assert desk.show(g1=signature(people)) == {
        "G2: a row's value is not among those its group shows",
        "G2: a group has more rows of a value than it shows",
    }


def test_the_same_value_after_an_absence_is_another_spell_and_no_other_value() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.leave("p0")
    desk.show(g1=signature(full()[1:]))
    desk.admit(p0="asthma")
    assert desk.show(g1=signature(full()), max_breach=HALF) == set()


def test_a_spell_goes_on_while_its_person_is_withheld_or_starred() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.show(g1=signature(full()[1:]), g2=stars(("p0", "asthma")))
    desk.show(g1=signature(full()[1:]))
    assert desk.show(g1=signature(full())) == set()
    found = desk.show(g1=signature(full()), max_breach=HALF)
    assert found == {"G2: max_breach in a manifest is not the largest breach so far"}


def test_a_third_value_under_a_signature_of_four_is_one_too_many() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    for value, other in (("copd", "p1"), ("ulcer", "p2")):
        desk.update("p0", sensitive=value)
        desk.update(other, sensitive="flu")
        people = [("p0", value), *((p, v) for p, v in full()[1:] if v not in (value, "copd"))]
        plain = {"flu": Shown(rows(*((p, "flu") for p in ("p1", "p2")[: int(other[1])])), {"flu": int(other[1])})}
        desk.show(g1=signature(people), max_breach=HALF, **plain)
    assert desk.found() - {"contract: more than a quarter of a group's values are counterfeits"} == {
        "G2: S3: more than m/l different values of a person are shown under one signature",
        "G2: S3: a value is shown for the first time for somebody who could get one that could only be suppressed",
    }


def test_once_a_signature_is_full_nothing_is_shown_for_the_first_time() -> None:
    desk = Ward().admit(p0=["asthma", "copd"], p1="ulcer", p2="gastritis", **dict(full(REST, ["q0", "q1", "q2", "q3"])))
    first = [("p0", "asthma"), ("p0", "copd"), ("p1", "ulcer"), ("p2", "gastritis")]
    others = full(REST, ["q0", "q1", "q2", "q3"])
    assert desk.show(g1=signature(first), g2=signature(others, REST), max_breach=HALF) == set()
    desk.update("p0", sensitive=["asthma", "copd", "gout"])
    desk.leave("q0")
    assert desk.show(g1=signature(first), g2=signature([("p0", "gout"), *others[1:]], REST), max_breach=HALF) == {
        "G2: S3: a value is shown for the first time for somebody who could get one that could only be suppressed"
    }


def test_some_values_outside_and_too_few_for_a_signature_keep_everything_else_hidden() -> None:
    """Of eight values five are in a signature of p0: three are left, fewer than the four that a signature needs."""
    five, people = (*BLOCK, "gout"), ("p0", "p1", "p2", "p3", "p4")
    desk = Ward().admit(**dict(zip(people, five, strict=True)))
    shown = signature(list(zip(people, five, strict=True)), five)
    assert desk.show(g1=shown, max_breach=0.2) == set()
    desk.update("p0", sensitive=["asthma", "copd"])
    assert desk.show(g1=shown, g2=stars(("p0", "copd")), max_breach=0.2) == set()
    desk.leave("p1")
    moved = signature([("p0", "asthma"), ("p0", "copd"), *list(zip(people, five, strict=True))[2:]], five)
    found = desk.show(g1=moved, max_breach=0.4)
    assert any("S3: a value is shown for the first time" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (("p0", "copd"), {"contract: a row's value is not one of its person's"}),
        (("p9", "asthma"), {"contract: somebody is published who is not present"}),
        (("p0", None), {"contract: a row stands for no value, and is neither of a clique nor all that its person has"}),
    ],
)
def test_a_row_that_is_not_its_persons_is_found(line: tuple[str, str | None], expected: set[str]) -> None:
    desk = ward_of_four()
    group = Shown(rows(line, *full()[1:]), dict.fromkeys(BLOCK, 1))
    assert expected <= desk.show(g1=group)


def test_a_value_with_two_rows_and_a_person_in_two_cells_are_found() -> None:
    desk = ward_of_four()
    desk.cells = {"c1": (0, 99), "c2": (50, 99)}
    again = Shown([Row("p0", "asthma", "c2")], {"*": 1})
    desk.manifest = {"withheld": 0}
    assert desk.show(g1=signature(full()), g2=again) == {
        "contract: a value of a person has two rows",
        "contract: people, withheld and unsampled do not add up to everyone present",
        "G1: a person's rows are in two cells",
    }


def test_a_group_that_says_it_did_not_change_has_the_same_people() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.leave("p0")
    desk.admit(q0="asthma")
    swapped = signature([("q0", "asthma"), *full()[1:]])
    desk._last["g1"] = 1, 1, swapped  # so that the desk takes it for what it was
    assert desk.show(g1=swapped) == {"G6: a carried group has other people"}


def test_a_group_that_says_it_changed_did() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk._last["g1"] = 1, 1, stars()
    assert desk.show(g1=signature(full())) == {"contract: a group says it changed, and nothing in it did"}


@pytest.mark.parametrize(
    ("formed", "changed", "expected"),
    [
        (1, 3, None),
        (2, 1, "G6: a group says it changed before it was formed, or later than now"),
        (2, 2, "G6: a group says it was formed in another release than it said before"),
        (3, 3, "G6: a group id is used again"),
        (1, 2, "G6: a carried group is not what it was"),
    ],
)
def test_formed_and_changed_are_what_the_release_before_says(formed: int, changed: int, expected: str | None) -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.show(g1=signature(full()))
    desk.leave("p0")
    now = signature(full()[1:])
    desk._last["g1"] = formed, changed, now if changed < 3 else stars()
    found = {sentence for sentence in desk.show(g1=now) if "other people" not in sentence}
    assert found == (set() if expected is None else {expected})


def test_a_group_that_was_gone_does_not_come_back() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.show(g2=stars(*full()))
    assert desk.show(g1=signature(full())) == {"G6: a group id is used again"}


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
        (clique(("h", "hiv")), [["h"]], "G3: a clique's group does not show its value once for at least l rows"),
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
    desk.leave("q2")
    mixed = signature([("d", "acne"), *(one for one in held if one[0] != "q2")], permanent)
    found = with_clique(desk, clique(("h", "hiv"), ("d", None)), COHORTS, g2=mixed)
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


OVER = "G4: what is shown of what a person guards is over their bound"


def test_what_is_shown_of_what_somebody_guards_is_added_up() -> None:
    """p0 guards both lung diseases with a bound of 1/2: one spell among four values is 2/4, and a second would be 1."""
    desk = ward_of_four()
    desk.update("p0", guard="lung")
    assert desk.show(g1=signature(full())) == set()
    desk.update("p0", sensitive="copd")
    desk.update("p1", sensitive="asthma")
    swapped = [("p0", "copd"), ("p1", "asthma"), *full()[2:]]
    assert desk.show(g1=signature(swapped), max_breach=HALF) == {OVER}


def test_a_guard_named_later_counts_what_was_shown_and_hides_what_meets_it() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    desk.update("p0", guard={"node": "lung", "bound": 0.4})
    late = "G4: something that meets what a person guards is shown although its bound was used up before"
    assert desk.show(g1=signature(full()[1:]), s=stars(full()[0])) == set()
    assert desk.show(g1=signature(full())) == {late}


def test_max_breach_may_count_what_was_shown_under_a_guard_and_need_not() -> None:
    for stated in (QUARTER, HALF):
        desk = ward_of_four()
        desk.show(g1=signature(full()))
        desk.update("p0", guard="ulcer", sensitive="copd")
        desk.update("p1", sensitive="flu")
        people = [("p0", "copd"), *full()[2:]]
        flu = Shown(rows(("p1", "flu")), {"flu": 1})
        found = desk.show(g1=signature(people), flu=flu, max_breach=stated)
        assert "G2: max_breach in a manifest is not the largest breach so far" not in found


def external(desk: Ward, low: int = 0, high: int = 99, **shown: int) -> None:
    region = {"age": {"min": low, "max": high}}
    groups = [{"region": region, "sensitive": shown}]
    desk.tell({"op": "external", "publisher": "north", "groups": groups})


NOT_ALIKE = "G5: a value is shown for the first time among values that another publication does not show alike"
STAYED = "G5: a value is still shown that another publication has left with too few like it"


def test_values_that_others_show_equally_often_are_a_block() -> None:
    desk = ward_of_four()
    external(desk, **dict.fromkeys(BLOCK, 3))
    assert desk.show(g1=signature(full())) == set()
    desk = ward_of_four()
    external(desk, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == {NOT_ALIKE}
    desk = ward_of_four()
    external(desk, low=60, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == set()


def test_a_block_may_be_no_smaller_than_overlap_asks_and_every_value_must_have_one() -> None:
    desk = ward_of_four(lasting_policy(k=1, overlap=5))
    external(desk, **dict.fromkeys((*BLOCK, *REST), 1))
    found = desk.show(g1=signature(full()))
    assert found == {
        "G5: a value is shown for the first time beside another publication among fewer values than overlap asks"
    }
    desk = ward_of_four()
    external(desk, gout=1)
    assert desk.show(g1=signature(full())) == {
        "G5: a value is shown for the first time although some value has no block beside another publication"
    }


def test_blocks_are_cut_once() -> None:
    shifted = ("ulcer", "gastritis", "gout", "lupus")
    desk = ward_of_four().admit(**dict(full(shifted, ["q0", "q1", "q2", "q3"])))
    external(desk, **dict.fromkeys((*BLOCK, *REST), 1))
    found = desk.show(g1=signature(full()), g2=signature(full(shifted, ["q0", "q1", "q2", "q3"]), shifted))
    assert found == {"G5: two people beside the same publications have blocks that are neither equal nor disjoint"}


def test_what_was_shown_before_another_publication_stays_if_enough_are_left_like_it() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    external(desk, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == set()
    external(desk, asthma=1)
    assert desk.show(g1=signature(full())) == {STAYED}
    assert desk.show(s=stars(*full())) == {STAYED}


def test_two_values_first_shown_beside_others_are_judged_then_and_not_again() -> None:
    desk = Ward().admit(p0=["asthma", "copd"], p2="ulcer", p3="gastritis")
    external(desk, **dict.fromkeys(BLOCK, 3))
    shown = signature([("p0", "asthma"), ("p0", "copd"), ("p2", "ulcer"), ("p3", "gastritis")])
    for _ in range(3):
        assert desk.show(g1=shown, max_breach=HALF) == set()


def test_a_publication_that_joins_others_is_judged_with_the_spells_shown_by_then() -> None:
    """Two spells of one value among four: sets of two are enough for one spell, and not for two."""
    for is_back in (False, True):
        desk = ward_of_four()
        desk.show(g1=signature(full()))
        if is_back:
            desk.leave("p0")
            desk.show(g1=signature(full()[1:]))
            desk.admit(p0="asthma")
        stated = HALF if is_back else QUARTER
        desk.show(g1=signature(full()), max_breach=stated)
        external(desk, asthma=1, copd=1)
        assert desk.show(g1=signature(full()), max_breach=stated) == ({STAYED} if is_back else set())


def test_a_group_that_was_split_takes_no_newcomers() -> None:
    desk = ward_of_four()
    desk.show(g1=signature(full()))
    external(desk, low=50, high=50, asthma=1, copd=1)
    assert desk.show(g1=signature(full())) == set()
    desk.leave("p0")
    desk.tell({"op": "insert", "id": "q0", "qid": {"age": 20}, "sensitive": "asthma"})
    found = desk.show(g1=signature([("q0", "asthma"), *full()[1:]]))
    assert found == {"G5: a group that a later publication has split took newcomers or changed its counts"}


def test_publications_whose_regions_meet_are_taken_together() -> None:
    """Everyone is 50. The second group does not reach them, and still tells values of the first's people apart."""
    desk = ward_of_four()
    external(desk, low=0, high=60, **dict.fromkeys(BLOCK, 1))
    external(desk, low=55, high=99, asthma=1)
    assert desk.show(g1=signature(full())) == {NOT_ALIKE}
    desk = ward_of_four()
    external(desk, low=0, high=54, **dict.fromkeys(BLOCK, 1))
    external(desk, low=55, high=99, asthma=1)
    assert desk.show(g1=signature(full())) == set()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"max_breach": 0.5}, "G2: max_breach in a manifest is not the largest breach so far"),
        ({"max_breach": 0.9}, "G2: max_breach in a manifest is more than anyone's breach can be"),
        ({"people": 3}, "contract: people in a manifest is not what its records add up to"),
        ({"cells": 3}, "contract: cells in a manifest is not what its records add up to"),
        ({"carried": 3}, "contract: carried in a manifest is not what its records add up to"),
        ({"suppressed": 1}, "contract: suppressed in a manifest is not what its records add up to"),
        ({"values": "redrawn"}, "contract: a manifest names another model of values than the policy"),
        ({"withheld": 1}, "contract: people, withheld and unsampled do not add up to everyone present"),
        ({"loss": None}, "contract: loss in a manifest is not what its records come to"),
    ],
)
def test_a_manifest_that_is_wrong_is_found(stated: dict[str, Any], expected: str) -> None:
    desk = ward_of_four()
    desk.manifest = stated
    assert expected in desk.show(g1=signature(full()))
