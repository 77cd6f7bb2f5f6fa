"""The periods of a panel: years, quarters, months, days, times, or plain numbers of waves.

A period has an order and, unless it is a number, a first moment, which is what the release of that period names as its
time. All periods of a panel have one form: whether wave 3 comes before March nobody can tell.
"""

import re
from datetime import date
from pathlib import PurePath
from typing import Final, NamedTuple

from shoal.core.events.event import moment_of, wrong_time

_YEAR: Final = r"(?P<year>[0-9]{4})"
_FORMS: Final = {
    "year": re.compile(rf"{_YEAR}(?:\.0+)?", re.ASCII),  # spreadsheets write years as 2019.0
    "quarter": re.compile(rf"{_YEAR}[-_ ]?[Qq](?P<quarter>[1-4])", re.ASCII),
    "month": re.compile(rf"{_YEAR}-(?P<month>[0-9]{{2}})", re.ASCII),
    "day": re.compile(rf"{_YEAR}-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}})", re.ASCII),
    "wave": re.compile(r"(?P<wave>[0-9]{1,9})(?:\.0+)?", re.ASCII),
}
_IN_A_NAME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{2}(?![0-9])|[0-9]{4}[-_ ]?[Qq][1-4]|[0-9]+", re.ASCII
)


class Period(NamedTuple):
    """One period. Those of one form compare by `order`."""

    form: str
    order: float
    text: str
    at: str | None  # its first moment
    day: date | None


def read_period(text: str) -> Period | None:
    """The period that a text names; None if it names none."""
    text = text.strip()
    for form, pattern in _FORMS.items():
        found = pattern.fullmatch(text)
        if found is None:
            continue
        parts = {name: int(value) for name, value in found.groupdict().items()}
        if form == "wave":
            return Period(form, parts["wave"], str(parts["wave"]), None, None)
        month = parts.get("month", 3 * parts.get("quarter", 1) - 2)
        try:
            first = date(parts["year"], month, parts.get("day", 1))
        except ValueError:
            return None
        name = text if form != "year" else str(parts["year"])
        return Period(form, first.toordinal(), name, f"{first.isoformat()}T00:00:00Z", first)
    if wrong_time(text) is not None:
        return None
    moment = moment_of(text)
    return Period("time", moment.timestamp(), text, text, moment.date())


def period_of_file(name: str) -> Period | None:
    """The period in a file's name: the last date, quarter, year or number in it."""
    found = _IN_A_NAME.findall(PurePath(name).name.partition(".")[0])
    return read_period(found[-1]) if found else None
