"""Wong et al. as the auditor counts: figures 2, 3 and 4, and Lemma 3, by formula and world by world."""

from fractions import Fraction

import pytest

from shoal.core.audit.attack.worlds import Draw, assignments, count_linked, tokens_of
from shoal.core.audit.criteria.exposure import breach_of, shares_of
from shoal.core.policy.policy import Policy, build_policy
from tests.support.engines.audited import ByHand

MEN, EVERYONE = ("o1", "o2"), ("o1", "o2", "o3", "o4")


def policy() -> Policy:
    return build_policy(
        {
            "table": "wong",
            "attributes": {"zip": {"type": "int", "min": 65001, "max": 65015}},
            "sensitive": {"name": "disease", "values": ["flu", "fever", "chlamydia"], "open": ["flu", "fever"]},
            "privacy": {"values": "redrawn", "k": 1, "l": 2},
        },
        {},
        b"wong",
    )


def shown(**values: int) -> dict[int, int]:
    return {policy().sensitive.hierarchy.node_of[label]: count for label, count in values.items()}


CHLAMYDIA = policy().sensitive.hierarchy.leaf_code["chlamydia"]


def test_lemma_3_a_group_of_four_with_values_2_1_1_has_12_worlds() -> None:
    worlds = list(assignments({1: 2, 2: 1, 3: 1}))
    assert len(worlds) == len(set(worlds)) == 12


@pytest.mark.parametrize(
    ("people", "first", "second", "breach", "worlds"),
    [
        (2, shown(flu=1, chlamydia=1), shown(chlamydia=1, flu=1), Fraction(3, 4), 2 * 2),
        (4, shown(flu=2, chlamydia=1, fever=1), shown(chlamydia=1, flu=2, fever=1), Fraction(7, 16), 24 * 24),
    ],
    ids=["figure 2", "figure 4"],
)
def test_two_releases_link_o2_to_chlamydia_as_the_paper_says(
    people: int, first: dict[int, int], second: dict[int, int], breach: Fraction, worlds: int
) -> None:
    sensitive = policy().sensitive
    assert breach_of([shares_of(people, one, sensitive) for one in (first, second)], [CHLAMYDIA]) == breach
    draws = [Draw(people, tokens_of(sensitive.hierarchy, one), 1) for one in (first, second)]
    linked, total = count_linked(draws, frozenset({CHLAMYDIA}))
    assert (Fraction(linked, total), total) == (breach, worlds)


def table_1(desk: ByHand) -> None:
    for person, zip_code, disease in (("o1", 65001, "flu"), ("o2", 65002, "chlamydia"), ("o3", 65014, "flu")):
        desk.tell({"op": "insert", "id": person, "qid": {"zip": zip_code}, "sensitive": disease})
    desk.tell({"op": "insert", "id": "o4", "qid": {"zip": 65015}, "sensitive": "fever"})


def table_2(desk: ByHand) -> None:
    desk.tell({"op": "delete", "id": "o4"})
    for person, disease in (("o1", "chlamydia"), ("o2", "flu"), ("o3", "fever")):
        desk.tell({"op": "update", "id": person, "sensitive": disease})
    desk.tell({"op": "insert", "id": "o5", "qid": {"zip": 65010}, "sensitive": "flu"})


def test_the_auditor_finds_figure_2_beyond_one_half_though_each_release_keeps_it() -> None:
    desk = ByHand(policy())
    table_1(desk)
    women = ("o3", "o4")
    desk.publish({"g1": (1, MEN, {"flu": 1, "chlamydia": 1}), "g2": (1, women, {"flu": 1, "fever": 1})}, max_breach=0.5)
    assert desk.sentences() == set()
    table_2(desk)
    women = ("o3", "o5")
    groups = {"g3": (2, MEN, {"chlamydia": 1, "flu": 1}), "g4": (2, women, {"fever": 1, "flu": 1})}
    desk.publish(groups, max_breach=0.75)
    assert desk.sentences() == {
        "G2: a person's breach of a value is over 1/l",
        "G2: max_breach in a manifest is over the bound",
    }
    figures = desk.auditor.report(b"key").private
    assert figures is not None
    assert figures.max_breach == Fraction(3, 4)
    assert {one.enumerated for one in figures.worst[:2]} == {Fraction(3, 4)}


def test_the_auditor_finds_figure_4_within_one_half() -> None:
    desk = ByHand(policy())
    table_1(desk)
    desk.publish({"g1": (1, EVERYONE, {"flu": 2, "chlamydia": 1, "fever": 1})}, max_breach=0.25)
    table_2(desk)
    people = ("o1", "o2", "o3", "o5")
    desk.publish({"g2": (2, people, {"flu": 2, "chlamydia": 1, "fever": 1})}, max_breach=Fraction(7, 16))
    assert desk.sentences() == set()
    figures = desk.auditor.report(b"key").private
    assert figures is not None
    assert figures.max_breach == figures.worst[0].enumerated == Fraction(7, 16)
