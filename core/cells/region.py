"""Regions: the part of the quasi-identifier space a cell covers, and the one way each is written.

Inside Shoal every attribute of a region is a half-open run `[low, high)`: of integers, of floats (the last run of the
domain includes its upper end), or of a category's leaf codes, which follow the hierarchy's depth-first order.
"""

import json
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.policy.policy import Attribute

Bounds: TypeAlias = tuple[int, int] | tuple[float, float]


def domain(attribute: Attribute) -> Bounds:
    """The whole of an attribute as a half-open run."""
    if attribute.kind == "float":
        return float(attribute.low), float(attribute.high)
    return int(attribute.low), int(attribute.high) + 1


def roundest_between(left: float, right: float) -> float | None:
    """The roundest number strictly between two values, None if there is none: fewest digits, then nearest the middle.

    A cut must never be the value of a row (docs/design.md, "G1 Cells"), hence strictly. Works on the decimal text of
    the values, so that the published number is short. It is exact: the float nearest to the decimal must itself lie
    between the two.
    """
    low, high = Decimal(repr(left)), Decimal(repr(right))
    middle = (low + high) / 2
    exponent = (high - low).adjusted() + 1
    while exponent >= -340:
        step = Decimal(1).scaleb(exponent)
        first = (low / step).to_integral_value(ROUND_FLOOR) + 1
        last = (high / step).to_integral_value(ROUND_CEILING) - 1
        if first <= last:
            nearest = (middle / step).to_integral_value()
            found = float(min(max(nearest, first), last) * step)
            if left < found < right:
                return found + 0.0  # -0.0 becomes 0.0
        if exponent < low.adjusted() - 20 and exponent < high.adjusted() - 20:
            return None
        exponent -= 1
    return None


def decimal_text(number: float) -> str:
    """A float as JSON with a decimal point and no exponent, the same text for the same number."""
    text = repr(number)
    if "e" in text or "E" in text:
        text = format(Decimal(text), "f")
    return text if "." in text else text + ".0"


def attributes_json(attribute: Attribute, low: NDArray[Any], high: NDArray[Any]) -> list[str]:
    """One attribute of many regions with its name, as releases write it (docs/contract.md, "Regions")."""
    name = json.dumps(attribute.name, ensure_ascii=False)
    runs = list(zip(low.tolist(), high.tolist(), strict=True))
    if attribute.kind == "int":
        return [f'{name}:{{"min":{first},"max":{last - 1}}}' for first, last in runs]
    texts: dict[Bounds, str] = {}
    for run in set(runs):
        first, last = run
        if attribute.kind == "float":
            end = "max" if last == attribute.high else "below"
            texts[run] = f'{name}:{{"min":{decimal_text(first)},"{end}":{decimal_text(last)}}}'
        else:
            assert attribute.hierarchy is not None
            labels = json.dumps(
                attribute.hierarchy.fewest_labels(first, last), ensure_ascii=False, separators=(",", ":")
            )
            texts[run] = f'{name}:{{"nodes":{labels}}}'
    return [texts[run] for run in runs]


def attribute_losses(attribute: Attribute, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """NCP of one attribute of many regions: the share of the domain each spans; one leaf of a category is exact."""
    if attribute.kind == "float":
        return np.asarray((high - low) / (float(attribute.high) - float(attribute.low)))
    if attribute.kind == "int":
        return np.asarray((high - 1 - low) / (attribute.high - attribute.low))
    return np.where(high - low <= 1, 0.0, (high - low) / (attribute.high + 1))
