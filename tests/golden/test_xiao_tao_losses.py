"""The two examples of Xiao-Tao, section 4: what a generalized age and a generalized disease lose."""

from fractions import Fraction

import numpy as np
import pytest

from shoal.core.measure.loss import node_loss, value_losses
from shoal.core.policy.hierarchy import parse_hierarchy
from shoal.core.policy.policy import Attribute

# Figure 2 of the paper has 12 leaves, three of them under respiratory-infection; the others' names do not matter here.
_DISEASES = "".join(
    f"{leaf};{above};*\n"
    for leaf, above in [
        *((leaf, "respiratory-infection") for leaf in ("flu", "pneumonia", "bronchitis")),
        *((f"digestive-{number}", "digestive") for number in range(4)),
        *((f"other-{number}", "other") for number in range(5)),
    ]
)


def test_an_age_shown_as_1_to_10_of_1_to_60_loses_9_of_60() -> None:
    age = Attribute("age", "int", 1, 60, None)
    assert value_losses(age, np.array([1]), np.array([11])).tolist() == [pytest.approx(9 / 60)]


def test_an_age_shown_as_itself_loses_nothing() -> None:
    age = Attribute("age", "int", 1, 60, None)
    assert value_losses(age, np.array([5]), np.array([6])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("label", "loss"),
    [("respiratory-infection", Fraction(2, 12)), ("flu", Fraction(0)), ("*", Fraction(11, 12))],
)
def test_a_disease_loses_the_other_leaves_below_what_is_shown(label: str, loss: Fraction) -> None:
    hierarchy = parse_hierarchy(_DISEASES)
    assert node_loss(hierarchy, hierarchy.node_of[label]) == loss
