"""Whether the rows of a CSV file are a panel: ids repeat, and a column says to which period each row belongs."""

import re
from typing import Final, NamedTuple

from shoal.streams.errors import InputError
from shoal.streams.files.mapping.period import Period, read_period
from shoal.streams.source.first.look import Look

_MOST_DOUBLED: Final = 0.01  # so large a share of the rows may be there twice by mistake
_SOUNDS_LIKE_ONE: Final = re.compile(
    r"year|yr|wave|period|date|day|month|quarter|time|round|visit|survey|jahr|welle|monat|quartal|annee|ano|anno",
    re.IGNORECASE,
)


class Panel(NamedTuple):
    """The column of the period, how many periods there are, how many people, and what the first period is.

    `doubled` rows are about a person and a period that a row before them is about.
    """

    column: str
    periods: int
    people: int
    first: Period
    doubled: int


def find_panel(look: Look, ids: tuple[str, ...], named: str | None) -> Panel | None:
    """None if every row has an id of its own. Raises InputError if ids repeat and no column tells the rows apart."""
    if look.kind != "csv":
        return None
    if named is not None and named not in look.values:
        raise InputError(f"there is no column {named}; there are {', '.join(look.columns)}.")
    keys = [*zip(*(look.values[name] for name in ids), strict=True)]
    people = len(set(keys))
    if people == look.rows and named is None:
        return None
    found: list[tuple[str, list[Period], int]] = []
    for name, values in look.values.items():
        if name in ids or named not in (None, name):
            continue
        periods = _periods(values)
        doubled = look.rows - len({*zip(keys, values, strict=True)})
        if periods is not None and doubled <= look.rows * _MOST_DOUBLED:
            found.append((name, periods, doubled))
    if not found:
        raise InputError(_why_none(look, ids, people, named))
    name, periods, doubled = min(found, key=_doubt)
    return Panel(name, len(periods), people, min(periods, key=lambda period: period.order), doubled)


def _doubt(candidate: tuple[str, list[Period], int]) -> tuple[bool, bool, int, int]:
    """How little a column looks like the period: by its name, by what is in it, by rows that it does not tell apart."""
    name, periods, doubled = candidate
    return not _SOUNDS_LIKE_ONE.search(name), periods[0].form == "wave", doubled, len(periods)


def _periods(values: list[str | None]) -> list[Period] | None:
    """The different periods in a column; None if not all of its values are periods of one form."""
    found: list[Period] = []
    for value in dict.fromkeys(values):
        period = None if value is None else read_period(value)
        if period is None or (found and period.form != found[0].form):
            return None
        found.append(period)
    return found


def _why_none(look: Look, ids: tuple[str, ...], people: int, named: str | None) -> str:
    repeat = f"{'/'.join(ids)} repeats: {look.rows:,} rows have {people:,} different ids"
    if named is None:
        return (
            f"{repeat}, and no column tells the rows of a person apart. In a panel a column has a year, a date or a "
            "wave on every row, and nobody has two rows with the same one: name it with --period to see what is wrong "
            "with it. If a person has a row for each value, put the values of a person into one row first."
        )
    if _periods(look.values[named]) is None:
        return f"{repeat}, and {named} is not a year, a month, a date or a whole number on every row, in one form."
    return f"{repeat}, and people have two rows with the same {named}."
