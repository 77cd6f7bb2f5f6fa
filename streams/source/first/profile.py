"""What a column seems to be: its type, what was seen in it, and whether it could be a quasi-identifier."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from shoal.core.policy.hierarchy import wrong_label
from shoal.streams.files.mapping.moments import day_of, number_of
from shoal.streams.source.first.look import Look

_MOST_LABELS: Final = 50
_FEW: Final = 10  # rows that say nothing about how much a column differs
_MOST_DIFFERENT: Final = 0.9  # a text that differs on more rows than this names people
_POSTCODE: Final = re.compile(r"[0-9]{4,6}", re.ASCII)


class Kind(StrEnum):
    """What a column could become."""

    INT = "int"
    FLOAT = "float"
    DATE = "date"
    LABEL = "label"
    POSTCODE = "postcode"
    IDENTIFIER = "identifier"
    TEXT = "text"
    EMPTY = "empty"


class Column(NamedTuple):
    """One column. `low` and `high` are of numbers. `labels` has the distinct texts with how often each was seen, and
    without blanks around them if the mapping is to `trim` them. `flaw` says why they cannot be labels.
    """

    name: str
    kind: Kind
    rows: int
    missing: int
    low: float
    high: float
    labels: Counter[str]
    trim: bool
    flaw: str | None


def profile(look: Look) -> list[Column]:
    """Every column of a look, in its order."""
    can_trim = look.kind != "csv"  # a source does, a CSV file is taken as it is
    return [_profile(name, [row.get(name) for row in look.rows], can_trim=can_trim) for name in look.columns]


def _profile(name: str, values: Sequence[Any], *, can_trim: bool) -> Column:
    trim = can_trim and any(isinstance(value, str) and value != value.strip() for value in values)
    if trim:
        values = [(value.strip() or None) if isinstance(value, str) else value for value in values]
    there = [value for value in values if value is not None]
    labels = Counter(_text(value) for value in there)
    flaw = next(filter(None, map(wrong_label, labels)), None)
    numbers = [number_of(value if isinstance(value, int | float) else str(value), None) for value in there]
    low, high = 0.0, 0.0
    if there and None not in numbers:
        found = [float(number) for number in numbers if number is not None]
        low, high = min(found), max(found)
    kind = _kind(there, labels, numbers)
    if flaw is not None and kind in (Kind.LABEL, Kind.POSTCODE):
        kind = Kind.TEXT
    return Column(name, kind, len(values), len(values) - len(there), low, high, labels, trim, flaw)


def _kind(there: Sequence[Any], labels: Counter[str], numbers: Sequence[Decimal | None]) -> Kind:
    if not there:
        return Kind.EMPTY
    if all(_is_date(value) for value in there):
        return Kind.DATE
    is_text = all(isinstance(value, str) for value in there)
    if is_text and all(_POSTCODE.fullmatch(label) for label in labels) and len({len(label) for label in labels}) == 1:
        return Kind.POSTCODE
    if len(labels) == len(there) > _FEW and all(number is None or number == int(number) for number in numbers):
        return Kind.IDENTIFIER
    if None not in numbers and not any(isinstance(value, bool) for value in there):
        return Kind.INT if all(number == int(number) for number in numbers if number is not None) else Kind.FLOAT
    if len(labels) > _MOST_DIFFERENT * len(there) and len(there) > _FEW:
        return Kind.IDENTIFIER
    return Kind.LABEL if len(labels) <= _MOST_LABELS else Kind.TEXT


def _is_date(value: Any) -> bool:
    return isinstance(value, date | datetime) or (isinstance(value, str) and day_of(value, None) is not None)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def wide(low: float, high: float) -> tuple[float, float]:
    """Round bounds around what was seen: a domain is public, and must not be somebody's value."""
    size = max(abs(low), abs(high), 1.0)
    step = 10.0 ** math.floor(math.log10(size))
    return math.floor(low / step) * step, (math.floor(high / step) + 1) * step
