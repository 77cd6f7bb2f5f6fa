"""Dates and numbers as Debezium writes them, brought into a form that says what it is.

With a schema a column's semantic type names its unit. Without one a date is a bare number of days since 1970 and a
decimal is base64; then the mapping says the unit and the scale. Nothing is guessed: what is neither is no date or no
number.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

_PER_DAY: Final = {"days": 1, "millis": 86_400_000, "micros": 86_400_000_000, "nanos": 86_400_000_000_000}
_EPOCH: Final = date(1970, 1, 1)
_SEMANTIC: Final = {
    "io.debezium.time.Date": "days",
    "org.apache.kafka.connect.data.Date": "days",
    "io.debezium.time.Timestamp": "millis",
    "org.apache.kafka.connect.data.Timestamp": "millis",
    "io.debezium.time.MicroTimestamp": "micros",
    "io.debezium.time.NanoTimestamp": "nanos",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_DAY: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ].*|Z)?", re.ASCII)
_LONGEST_NUMBER: Final = 1000


def plain(value: Any, schema: Mapping[str, Any] | None) -> Any:
    """A value that needs no schema any more: days and decimals as text, everything else as it is.

    A value that is not what its schema says stays as it is; whoever uses it finds that it does not fit.
    """
    if value is None or schema is None:
        return value
    name = schema.get("name")
    if name in _SEMANTIC and type(value) is int:
        day = day_of(value, _SEMANTIC[name])
        return value if day is None else day.isoformat()
    if name == _DECIMAL and isinstance(value, str):
        number = from_base64(value, (schema.get("parameters") or {}).get("scale"))
        return value if number is None else str(number)
    if name == _VARIABLE and isinstance(value, dict):
        number = from_base64(value.get("value"), value.get("scale"))
        return value if number is None else str(number)
    if isinstance(value, list):
        return [plain(item, schema.get("items")) for item in value]
    return value


def day_of(value: object, unit: str | None) -> date | None:
    """The day of a date or time: ISO text, or a count of units since 1970 in UTC. None if it is neither."""
    if isinstance(value, str):
        found = _DAY.fullmatch(value)
        try:
            return _day_of_text(value, found[1]) if found else None
        except ValueError:
            return None
    if type(value) is not int:
        return None
    try:
        return _EPOCH + timedelta(days=value // _PER_DAY[unit or "days"])
    except OverflowError:
        return None


def _day_of_text(text: str, day: str) -> date:
    if len(text) <= len(day) + 1:
        return date.fromisoformat(day)
    moment = datetime.fromisoformat(text)
    return (moment.astimezone(UTC) if moment.tzinfo else moment).date()


def from_base64(value: object, scale: object) -> Decimal | None:
    """The number whose unscaled bytes, big-endian, are written in base64."""
    try:
        places = int(scale) if isinstance(scale, int | str) else None
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (ValueError, binascii.Error):
        return None
    if not raw or places is None or len(raw) > _LONGEST_NUMBER:
        return None
    return _sane(Decimal(f"{int.from_bytes(raw, signed=True)}E{-places}"))  # exact, however long it is


def number_of(value: object, scale: int | None) -> Decimal | None:
    """A number from a number, from its decimal text or, with a scale, from base64. None if it is none of them."""
    if type(value) is int:
        return Decimal(value)
    if type(value) is float:
        return Decimal(repr(value)) if math.isfinite(value) else None
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        return None
    if scale is not None:
        return from_base64(value, scale)
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return _sane(number)


def _sane(number: Decimal) -> Decimal | None:
    """A number that can be computed with: 1e400000000 as a whole number would fill the memory."""
    return number if number.is_finite() and abs(number.adjusted()) < _LONGEST_NUMBER else None


def full_years(born: date, today: date) -> int:
    """An age. Somebody born on 29 February is a year older from 1 March on in common years."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def next_birthday(born: date, today: date) -> date:
    """The first day after `today` on which the age is another one."""
    year = today.year if (today.month, today.day) < (born.month, born.day) else today.year + 1
    try:
        return born.replace(year=year)
    except ValueError:
        return date(year, 3, 1)
