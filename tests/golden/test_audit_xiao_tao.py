"""Xiao and Tao, examples 1 to 4: reconstructions of figure 3, one by one and by the auditor's formula."""

from fractions import Fraction

import pytest

from shoal.core.audit.attack.worlds import Draw, Owners, count_linked, count_worlds, tokens_of
from shoal.core.audit.criteria.exposure import breach_of, shares_of
from shoal.core.policy.policy import Policy, build_policy
from tests.support.engines.audited import ByHand

# Figure 2 as far as the text goes; the leaves it leaves out are made up.
TAXONOMY = """\
flu;respiratory-infection;respiratory-system-problem;*
pneumonia;respiratory-infection;respiratory-system-problem;*
bronchitis;respiratory-infection;respiratory-system-problem;*
pulmonary-edema;vascular-lung-disease;respiratory-system-problem;*
pulmonary-embolism;vascular-lung-disease;respiratory-system-problem;*
pulmonary-hypertension;vascular-lung-disease;respiratory-system-problem;*
gastric-ulcer;stomach-disease;digestive-system-problem;*
dyspepsia;stomach-disease;digestive-system-problem;*
gastritis;stomach-disease;digestive-system-problem;*
colitis;colon-disease;digestive-system-problem;*
colon-cancer;colon-disease;digestive-system-problem;*
diverticulosis;colon-disease;digestive-system-problem;*
"""


def policy() -> Policy:
    return build_policy(
        {
            "table": "xiao-tao",
            "attributes": {"age": {"type": "int", "min": 1, "max": 60}},
            "sensitive": {"name": "disease", "hierarchy": "disease.csv"},
            "privacy": {"values": "redrawn", "k": 1, "l": 2},
        },
        {"disease.csv": TAXONOMY.encode()},
        b"xiao-tao",
    )


SENSITIVE = policy().sensitive
HIERARCHY = SENSITIVE.hierarchy
GROUP_1 = {"gastric-ulcer": 1, "dyspepsia": 1, "respiratory-infection": 2}
GROUP_2 = {"respiratory-infection": 2}


def shown(values: dict[str, int]) -> dict[int, int]:
    return {HIERARCHY.node_of[label]: count for label, count in values.items()}


def under(label: str) -> frozenset[int]:
    node = HIERARCHY.node_of[label]
    return frozenset(range(HIERARCHY.first[node], HIERARCHY.last[node]))


@pytest.mark.parametrize(
    ("values", "people", "owners", "guard", "breaching", "reconstructions", "breach"),
    [
        (GROUP_1, 5, Owners.ONE_EACH, "respiratory-infection", 432, 1080, Fraction(2, 5)),
        (GROUP_1, 5, Owners.ANY, "respiratory-infection", 2025, 5625, Fraction(9, 25)),
        (GROUP_2, 2, Owners.ONE_EACH, "pneumonia", 6, 18, Fraction(1, 3)),
        (GROUP_2, 2, Owners.ANY, "pneumonia", 11, 36, Fraction(11, 36)),
    ],
    ids=["Ken", "Ken, several records per person", "tuple 5", "tuple 5, several records per person"],
)
def test_reconstructions_are_counted_as_in_the_examples(
    values: dict[str, int],
    people: int,
    owners: Owners,
    guard: str,
    breaching: int,
    reconstructions: int,
    breach: Fraction,
) -> None:
    draw = Draw(people, tokens_of(HIERARCHY, shown(values)), 2 if people > 2 else 0, owners)
    assert count_worlds(draw) == reconstructions
    assert count_linked([draw], under(guard)) == (breaching, reconstructions)
    assert Fraction(breaching, reconstructions) == breach


def test_the_formula_is_theorem_1_where_one_person_has_one_record() -> None:
    assert breach_of([shares_of(5, shown(GROUP_1), SENSITIVE)], under("respiratory-infection")) == Fraction(2, 5)
    assert breach_of([shares_of(2, shown(GROUP_2), SENSITIVE)], under("pneumonia")) == Fraction(1, 3)


def test_mary_alone_is_linked_to_flu_with_one_third() -> None:
    assert breach_of([shares_of(1, shown({"respiratory-infection": 1}), SENSITIVE)], under("flu")) == Fraction(1, 3)


# Figure 1a: age, disease, guarding node.
MICRODATA = {
    "Andy": (5, "gastric-ulcer", "stomach-disease"),
    "Bill": (9, "dyspepsia", "dyspepsia"),
    "Ken": (6, "pneumonia", "respiratory-infection"),
    "Nash": (8, "bronchitis", "bronchitis"),
    "Joe": (12, "pneumonia", "pneumonia"),
    "Sam": (19, "pneumonia", "pneumonia"),
    "Linda": (21, "flu", ""),
    "Jane": (26, "gastritis", "gastritis"),
    "Sarah": (28, "pneumonia", "respiratory-infection"),
    "Mary": (56, "flu", "flu"),
}
FIGURE_3 = {
    "g1": (1, ["Andy", "Bill", "Ken", "Nash"], GROUP_1),
    "g2": (1, ["Joe", "Sam"], GROUP_2),
    "g3": (1, ["Linda"], {"flu": 1}),
    "g4": (1, ["Jane", "Sarah"], {"gastritis": 1, "pneumonia": 1}),
    "g5": (1, ["Mary"], {"respiratory-infection": 1}),
}


def publish_figure_3(groups: dict[str, tuple[int, list[str], dict[str, int]]]) -> ByHand:
    desk = ByHand(policy())
    for person, (age, disease, guard) in MICRODATA.items():
        desk.tell({"op": "insert", "id": person, "qid": {"age": age}, "sensitive": disease, "guard": guard})
    desk.publish(groups)
    return desk


def test_figure_3_breaches_nobody_beyond_one_half() -> None:
    desk = publish_figure_3(FIGURE_3)
    assert desk.sentences() == set()
    figures = desk.auditor.report(b"key").private
    assert figures is not None
    assert (figures.guarded, figures.unguarding) == (9, 1)
    assert figures.worst[0].breach == figures.worst[0].enumerated == Fraction(1, 2)
    # Andy and Ken guard all of two values that four people show: 2/4, since who was published is taken to be known.
    assert figures.nearest_guard == 1


def test_figure_1c_where_joe_and_sam_both_show_pneumonia_is_found_out() -> None:
    desk = publish_figure_3({**FIGURE_3, "g2": (1, ["Joe", "Sam"], {"pneumonia": 2})})
    assert desk.sentences() == {"G4: a person's breach of what they guard is over their bound"}
