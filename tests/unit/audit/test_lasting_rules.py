"""Each rule about signatures and rows on releases written by hand: the least that keeps it, and that breaks it."""

from typing import Any

import pytest

from tests.support.engines.lasting_desk import Row, Shown
from tests.support.engines.lasting_ward import (
    BLOCK,
    HALF,
    REST,
    Ward,
    full,
    rows,
    signature,
    stars,
    ward_of_four,
)


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
