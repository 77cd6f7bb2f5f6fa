"""What a column seems to be: its type, what was seen in it, and whether it could be a quasi-identifier."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from shoal.core.policy.hierarchy import ROOT, wrong_label
from shoal.streams.files.mapping.moments import day_of, number_of
from shoal.streams.source.first.look import Look

_MOST_LABELS: Final = 50
_FEW: Final = 10  # rows that say nothing about how much a column differs
_MOST_DIFFERENT: Final = 0.9  # a text that differs on more rows than this names people
_MOST_CODES: Final = 20  # different whole numbers that still look like codes
_ROWS_PER_CODE: Final = 3  # each of them on so many rows, on average, or it is a short column of amounts
_NO_VALUE: Final = frozenset({"NA", "N/A", "n/a", "na", "NULL", "null", "None", "NaN", "nan", ".", "-", "?"})
_NO_NUMBER: Final = frozenset(f"-{number}" for number in (*range(1, 10), 66, 77, 88, 97, 98, 99, 999))
_YEAR: Final = re.compile(r"(?:1[89]|20)[0-9]{2}", re.ASCII)
_CODE: Final = re.compile(r"-?[0-9]{1,9}(?:\.0)?", re.ASCII)  # 1.0: how some programs write 1 beside empty fields
_POSTCODE: Final = re.compile(r"[0-9]{4,6}", re.ASCII)


class Kind(StrEnum):
    """What a column could become."""

    INT = "int"
    FLOAT = "float"
    DATE = "date"
    LABEL = "label"
    CODE = "code"
    POSTCODE = "postcode"
    IDENTIFIER = "identifier"
    TEXT = "text"
    EMPTY = "empty"


class Column(NamedTuple):
    """One column. `low` and `high` are of numbers. `labels` has the distinct texts with how often each was seen, and
    without blanks around them if the mapping is to `trim` them. `no_value` are texts that seem to mean an empty field;
    they count as `missing`. `flaw` says why the texts cannot be labels.
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
    no_value: tuple[str, ...] = ()


def profile(look: Look) -> list[Column]:
    """Every column of a look, in its order."""
    return [_profile(name, values) for name, values in look.values.items()]


def _profile(name: str, values: Sequence[Any]) -> Column:
    trim = any(isinstance(value, str) and value != value.strip() for value in values)
    if trim:
        values = [(value.strip() or None) if isinstance(value, str) else value for value in values]
    no_value = tuple(sorted(_no_value({value for value in values if isinstance(value, str)})))
    there = [value for value in values if value is not None and value not in no_value]
    labels = Counter(_text(value) for value in there)
    flaw = next(filter(None, map(wrong_label, labels)), None)
    if ROOT in labels:
        flaw = f'the label "{ROOT}" stands for everything'
    known: dict[Any, Decimal | None] = {}
    for value in there:
        if not isinstance(value, list | dict) and value not in known:
            known[value] = number_of(value if isinstance(value, int | float) else str(value), None)
    numbers = [None if isinstance(value, list | dict) else known[value] for value in there]
    low, high = 0.0, 0.0
    if there and None not in numbers:
        found = [float(number) for number in numbers if number is not None]
        low, high = min(found), max(found)
    kind = _kind(there, labels, numbers)
    if flaw is not None and kind in (Kind.LABEL, Kind.POSTCODE, Kind.CODE):
        kind = Kind.TEXT
    return Column(name, kind, len(values), len(values) - len(there), low, high, labels, trim, flaw, no_value)


def _no_value(texts: set[str]) -> set[str]:
    """Texts that seem to mean an empty field: words for it, and -9 and its like where no other number is negative."""
    found = texts & _NO_VALUE
    negative = {text for text in texts if text.startswith("-") and text != "-"}
    is_number = all(number_of(text, None) is not None for text in texts - found)
    if is_number and negative <= _NO_NUMBER and len(texts) > len(negative | found):
        found |= negative
    return found


def _kind(there: Sequence[Any], labels: Counter[str], numbers: Sequence[Decimal | None]) -> Kind:
    if not there:
        return Kind.EMPTY
    if all(_is_date(value) for value in there):
        return Kind.DATE
    is_text = all(isinstance(value, str) for value in there)
    is_year = is_text and all(_YEAR.fullmatch(label) for label in labels)
    if is_text and all(_POSTCODE.fullmatch(label) for label in labels) and len({len(label) for label in labels}) == 1:
        if is_year:
            return Kind.INT
        if not all(label.endswith("0") for label in labels):  # else they are round amounts
            return Kind.POSTCODE
    few = len(labels) <= min(_MOST_CODES, len(there) / _ROWS_PER_CODE)
    if few and all(type(value) in (int, str) for value in there) and all(map(_CODE.fullmatch, labels)):
        return Kind.CODE
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
