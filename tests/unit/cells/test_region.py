"""How regions are written, and where floats are cut."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.cells.region import attribute_losses, attributes_json, decimal_text, roundest_between
from shoal.core.policy.policy import Attribute
from tests.support.engines.series import clinic_policy


@pytest.mark.parametrize(
    ("left", "right", "roundest"),
    [
        (61.5, 64.2, 63.0),
        (59.0, 61.0, 60.0),
        (99.0, 101.0, 100.0),
        (999.0, 1001.0, 1000.0),
        (-5.0, 5.0, 0.0),
        (0.12, 0.13, 0.125),
        (72.25, 72.75, 72.5),
        (1e-9, 2e-9, 1.5e-9),
        (1e300, 3e300, 2e300),
    ],
)
def test_a_cut_is_the_roundest_number_between_its_neighbours(left: float, right: float, roundest: float) -> None:
    assert roundest_between(left, right) == roundest


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS, FLOATS)
def test_a_cut_lies_strictly_between_its_neighbours(left: float, right: float) -> None:
    left, right = min(left, right), max(left, right)
    cut = roundest_between(left, right) if left < right else None
    if cut is None:
        assert left == right or math.nextafter(math.nextafter(left, right), right) >= right or right - left < 1e-300
    else:
        assert left < cut < right


def test_there_is_no_cut_between_two_neighbouring_floats() -> None:
    assert roundest_between(61.5, math.nextafter(61.5, 62)) is None


@given(FLOATS)
def test_a_float_is_written_with_a_point_and_without_an_exponent(number: float) -> None:
    text = decimal_text(number)
    assert "." in text
    assert "e" not in text
    assert float(text) == number
    assert json.loads(text) == number


def _json(attribute: Attribute, low: float, high: float) -> str:
    (text,) = attributes_json(attribute, np.array([low]), np.array([high]))
    return text.removeprefix(f'"{attribute.name}":')


def test_a_float_region_includes_the_end_of_the_domain_and_no_other() -> None:
    weight = Attribute("weight", "float", 0.0, 300.0, None)
    assert _json(weight, 50.0, 72.5) == '{"min":50.0,"below":72.5}'
    assert _json(weight, 72.5, 300.0) == '{"min":72.5,"max":300.0}'


def test_an_integer_region_includes_both_ends() -> None:
    assert _json(Attribute("age", "int", 0, 120, None), 20, 35) == '{"min":20,"max":34}'


def test_a_category_is_the_fewest_labels_of_its_hierarchy() -> None:
    zips = clinic_policy().attributes[3]
    assert _json(zips, 0, 5) == '{"nodes":["*"]}'
    assert _json(zips, 0, 3) == '{"nodes":["z1*"]}'
    assert _json(zips, 1, 3) == '{"nodes":["z12","z13"]}'


def test_loss_is_the_share_of_the_domain_and_a_single_leaf_loses_nothing() -> None:
    zips = clinic_policy().attributes[3]
    assert attribute_losses(zips, np.array([0, 0]), np.array([1, 3])).tolist() == [0, 3 / 5]
    age, weight = Attribute("age", "int", 0, 100, None), Attribute("weight", "float", 0.0, 200.0, None)
    assert attribute_losses(age, np.array([20]), np.array([31])).tolist() == [0.1]
    assert attribute_losses(weight, np.array([50.0]), np.array([100.0])).tolist() == [0.25]
