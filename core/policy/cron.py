"""Cron expressions of five fields, and the next moment that one names.

Fields are minute, hour, day of month, month, day of week; each is `*`, a number, a name (jan, mon), a range `a-b`, a
step `*/n` or `a-b/n`, or a list of those. As in Vixie's cron, if neither day field begins with `*`, either may match.

Clock changes. An expression names local wall-clock times. A time that is skipped in spring fires at the first moment
after the gap (several skipped times fire once together); a time that comes twice in autumn fires the first time only.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import chain

from shoal.core.errors import CronError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # by month, in a leap year
_ITEM = re.compile(
    r"(?:(?P<all>\*)|(?P<low>[0-9]+|[a-z]+)(?:-(?P<high>[0-9]+|[a-z]+))?)(?:/(?P<step>[0-9]+))?", re.ASCII
)
# 29 February is at most eight years away (1896 to 1904, 2096 to 2104).
_HORIZON = timedelta(days=8 * 366 + 2)


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # the first of them stands for `low`


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True)
class Cron:
    """A parsed expression."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    either_day: bool  # day of month or day of week is enough

    def next_after(self, when: datetime, zone: tzinfo = UTC) -> datetime:
        """The first moment strictly after `when` (aware) that the expression names in `zone`, in UTC."""
        start = when.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)
        for wall in self._walls(start):
            moment = _moment(wall, zone)
            if moment > when:
                return moment
        raise CronError(f"no moment within eight years fits the cron expression {self.text!r}")

    def _walls(self, start: datetime) -> Iterator[datetime]:
        """Matching wall-clock times from `start` on, in order."""
        day = start.date()
        end = day + _HORIZON
        while day <= end:
            if self._fits(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - a wall has no zone
                        if wall >= start:
                            yield wall
            day += timedelta(days=1)

    def _fits(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_month = day.day in self.days
        by_week = day.isoweekday() % 7 in self.weekdays
        return (by_month or by_week) if self.either_day else (by_month and by_week)


def parse_cron(text: str) -> Cron:
    """Parse an expression. Raises CronError, also for an expression that no moment can fit."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(
            f"a cron expression has five fields (minute, hour, day of month, month, day of week), not {len(parts)}"
        )
    minutes, hours, days, months, weekdays = (
        _parse_field(part, kind) for part, kind in zip(parts, _FIELDS, strict=True)
    )
    weekdays = frozenset(day % 7 for day in weekdays)
    either_day = not (parts[2].startswith("*") or parts[4].startswith("*"))
    if not either_day and all(min(days) > _LONGEST[month - 1] for month in months):
        raise CronError(f"no month named by {parts[3]!r} has a day {min(days)}, so the expression never comes true")
    return Cron(text, tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, either_day)


def _parse_field(text: str, kind: _Field) -> frozenset[int]:
    return frozenset(chain.from_iterable(_parse_item(item, kind) for item in text.lower().split(",")))


def _parse_item(item: str, kind: _Field) -> range:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise CronError(f"{item!r} is not a {kind.name}: write *, a number, a range a-b or a step */n")
    if match["all"]:
        # 7 is another name for Sunday, so "every day of the week" stops at 6.
        low, high = kind.low, min(kind.high, 6) if kind.names is _DAYS else kind.high
    else:
        low = _parse_number(match["low"], kind)
        high = low if match["high"] is None else _parse_number(match["high"], kind)
        if kind.names is _DAYS and high == 0 < low:
            high = 7
    if low > high:
        raise CronError(f"the {kind.name} {item!r} runs backwards; write it as two ranges")
    if match["step"] is None:
        return range(low, high + 1)
    step = int(match["step"])
    if match["all"] is None and match["high"] is None:
        raise CronError(f"the {kind.name} {item!r} has a step but no range; write {low}-{kind.high}/{step}")
    if step < 1:
        raise CronError(f"the {kind.name} {item!r} has a step of zero")
    return range(low, high + 1, step)


def _parse_number(text: str, kind: _Field) -> int:
    if text in kind.names:
        return kind.names.index(text) + kind.low
    if not text.isdigit():
        raise CronError(f"{text!r} is not a {kind.name}")
    number = int(text) if len(text) < 10 else kind.high + 1
    if not kind.low <= number <= kind.high:
        raise CronError(f"the {kind.name} {text} is not between {kind.low} and {kind.high}")
    return number


def _moment(wall: datetime, zone: tzinfo) -> datetime:
    """When the clocks of `zone` first show `wall`; the end of the gap if they skip it."""
    local = wall.replace(tzinfo=zone, fold=0)
    moment = local.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    # In a gap the two folds give the offsets before and after, and the clocks change between the two moments.
    before, after = local.replace(fold=1).astimezone(UTC), moment
    offset = after.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after
