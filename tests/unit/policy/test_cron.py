"""Cron expressions: what they mean, what is refused, and the two nights a year on which clocks lie."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import CronError
from shoal.core.policy.cron import parse_cron

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")  # its clocks change by half an hour


def _next(expression: str, when: str, zone: str = "UTC") -> str:
    found = parse_cron(expression).next_after(datetime.fromisoformat(when), ZoneInfo(zone))
    assert found.utcoffset() == timedelta(0)
    return found.strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("expression", "when", "expected"),
    [
        ("0 3 * * *", "2024-05-01T02:59:59Z", "2024-05-01 03:00"),
        ("0 3 * * *", "2024-05-01T03:00:00Z", "2024-05-02 03:00"),
        ("0 3 * * *", "2024-12-31T23:00:00Z", "2025-01-01 03:00"),
        ("* * * * *", "2024-05-01T03:00:30Z", "2024-05-01 03:01"),
        ("*/15 * * * *", "2024-05-01T03:46:00Z", "2024-05-01 04:00"),
        ("10-20/5 8,20 * * *", "2024-05-01T08:16:00Z", "2024-05-01 08:20"),
        ("10-20/5 8,20 * * *", "2024-05-01T08:20:00Z", "2024-05-01 20:10"),
        ("0 0 1 jan,JUL *", "2024-02-01T00:00:00Z", "2024-07-01 00:00"),
        ("0 0 * * mon-fri", "2024-05-03T12:00:00Z", "2024-05-06 00:00"),
        ("0 0 * * 7", "2024-05-03T12:00:00Z", "2024-05-05 00:00"),
        ("0 0 * * 0", "2024-05-03T12:00:00Z", "2024-05-05 00:00"),
        ("0 0 * * sat-sun", "2024-05-05T12:00:00Z", "2024-05-11 00:00"),
        ("0 0 31 * *", "2024-04-01T00:00:00Z", "2024-05-31 00:00"),
        ("0 0 29 2 *", "2025-01-01T00:00:00Z", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29 00:00"),
    ],
)
def test_the_next_moment_is_the_first_one_after(expression: str, when: str, expected: str) -> None:
    assert _next(expression, when) == expected


def test_with_both_days_given_either_is_enough() -> None:
    assert _next("0 0 13 * fri", "2024-09-01T00:00:00Z") == "2024-09-06 00:00"
    assert _next("0 0 13 * fri", "2024-10-11T00:00:00Z") == "2024-10-13 00:00"


def test_with_a_star_in_one_day_field_both_must_fit() -> None:
    assert _next("0 0 */2 * mon", "2024-09-01T00:00:00Z") == "2024-09-09 00:00"


def test_times_are_local_to_the_zone() -> None:
    assert _next("0 3 * * *", "2024-01-10T00:00:00Z", "Europe/Berlin") == "2024-01-10 02:00"
    assert _next("0 3 * * *", "2024-07-10T00:00:00Z", "Europe/Berlin") == "2024-07-10 01:00"


def test_a_time_that_is_skipped_in_spring_fires_once_when_the_gap_ends() -> None:
    assert _next("30 2 * * *", "2024-03-30T12:00:00Z", "Europe/Berlin") == "2024-03-31 01:00"
    assert _next("30 2 * * *", "2024-03-31T01:00:00Z", "Europe/Berlin") == "2024-04-01 00:30"


def test_several_skipped_times_fire_once_together() -> None:
    fired = _series("*/20 2 * * *", "2024-03-31T00:00:00Z", BERLIN, 2)
    assert fired == ["2024-03-31 01:00", "2024-04-01 00:00"]


def test_a_skipped_time_and_one_at_the_end_of_the_gap_fire_once_together() -> None:
    assert _series("0,30 2,3 * * *", "2024-03-31T00:00:00Z", BERLIN, 3) == [
        "2024-03-31 01:00",
        "2024-03-31 01:30",
        "2024-04-01 00:00",
    ]


def test_a_time_that_comes_twice_in_autumn_fires_the_first_time_only() -> None:
    assert _series("30 2 * * *", "2024-10-26T12:00:00Z", BERLIN, 2) == ["2024-10-27 00:30", "2024-10-28 01:30"]


def test_between_the_two_occurrences_the_next_one_is_tomorrow() -> None:
    assert _next("30 2 * * *", "2024-10-27T01:10:00Z", "Europe/Berlin") == "2024-10-28 01:30"


def test_a_change_by_half_an_hour_is_understood() -> None:
    # 6 October 2024: 02:00 becomes 02:30, at 15:30 UTC of the day before
    assert _series("15 2 * * *", "2024-10-05T00:00:00Z", LORD_HOWE, 2) == ["2024-10-05 15:30", "2024-10-06 15:15"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "five fields"),
        ("@daily", "five fields"),
        ("0 3 * *", "not 4"),
        ("0 3 * * * *", "not 6"),
        ("60 3 * * *", "the minute 60 is not between 0 and 59"),
        ("0 24 * * *", "the hour 24"),
        ("0 0 0 * *", "day of month"),
        ("0 0 * 13 *", "month"),
        ("0 0 * * 8", "day of week"),
        ("0 0 * * funday", "'funday' is not a day of week"),
        ("0 0 mon * *", "'mon' is not a day of month"),
        ("0 5-3 * * *", "runs backwards"),
        ("*/0 * * * *", "step of zero"),
        ("5/15 * * * *", "no range; write 5-59/15"),
        ("1,,2 * * * *", "is not a minute"),
        ("-1 * * * *", "is not a minute"),
        ("1.5 * * * *", "is not a minute"),
        ("? * * * *", "is not a minute"),
        ("0 0 l * *", "is not a day of month"),
        ("٣ * * * *", "is not a minute"),
        ("99999999999999999999 * * * *", "not between"),
        ("0 0 30 2 *", "never comes true"),
        ("0 0 31 2,4,6 *", "never comes true"),
    ],
)
def test_what_is_not_an_expression_is_refused_with_a_reason(expression: str, words: str) -> None:
    with pytest.raises(CronError, match=words.replace("?", r"\?")):
        parse_cron(expression)


def test_a_day_that_no_month_has_is_fine_if_the_day_of_week_can_save_it() -> None:
    assert _next("0 0 30 2 mon", "2024-02-01T00:00:00Z") == "2024-02-05 00:00"


_fields = st.tuples(
    st.sampled_from(["*", "*/7", "0", "30", "5,50", "10-40/10"]),
    st.sampled_from(["*", "*/5", "0", "2", "1-3", "23"]),
    st.sampled_from(["*", "*/3", "1", "15,31", "20-31"]),
    st.sampled_from(["*", "3", "10", "1-6"]),
    st.sampled_from(["*", "0", "mon-fri", "6,7"]),
)

# Minutes from 1 January 2024 to the nights on which the clocks of the zones below change.
_CHANGES = [
    int((datetime.fromisoformat(change) - datetime(2024, 1, 1, tzinfo=UTC)).total_seconds()) // 60
    for change in (
        "2024-03-10T07:00Z",
        "2024-03-31T01:00Z",
        "2024-04-06T15:00Z",
        "2024-10-05T15:30Z",
        "2024-10-27T01:00Z",
        "2024-11-03T06:00Z",
    )
]


@settings(max_examples=100, deadline=None)
@given(
    _fields.map(" ".join),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(0, 366 * 24 * 60) | st.builds(int.__add__, st.sampled_from(_CHANGES), st.integers(-1500, 200)),
)
def test_it_agrees_with_trying_every_minute(expression: str, zone_name: str, minutes: int) -> None:
    """The naive clock: walk UTC minute by minute and look at the wall."""
    cron, zone = parse_cron(expression), ZoneInfo(zone_name)
    when = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    found = cron.next_after(when, zone)
    assert found > when
    moment = when + timedelta(minutes=1)
    horizon = when + timedelta(days=4)
    while moment < min(found, horizon):
        local = moment.astimezone(zone)
        if local.fold == 0:
            assert not _matches(expression, local), f"{local} was passed over"
        moment += timedelta(minutes=1)
    if found < horizon:
        wall = (found - timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
        skipped = []
        while (wall := wall + timedelta(minutes=1)) < found.astimezone(zone).replace(tzinfo=None):
            skipped.append(wall)
        assert any(_matches(expression, local) for local in (*skipped, found.astimezone(zone)))


def _matches(expression: str, local: datetime) -> bool:
    def allowed(text: str, low: int, high: int) -> set[int]:
        names = {"mon": "1", "fri": "5"}
        found: set[int] = set()
        for item in text.split(","):
            span, _, step = item.partition("/")
            first, _, last = span.partition("-")
            start = low if span == "*" else int(names.get(first, first))
            end = high if span == "*" else int(names.get(last, last) or start)
            found.update(range(start, end + 1, int(step or 1)))
        return found

    minute, hour, day, month, weekday = expression.split()
    by_day = local.day in allowed(day, 1, 31)
    by_week = local.isoweekday() % 7 in {number % 7 for number in allowed(weekday, 0, 6)}
    either = day[0] != "*" and weekday[0] != "*"
    return (
        local.minute in allowed(minute, 0, 59)
        and local.hour in allowed(hour, 0, 23)
        and local.month in allowed(month, 1, 12)
        and ((by_day or by_week) if either else (by_day and by_week))
    )


def _series(expression: str, when: str, zone: ZoneInfo, count: int) -> list[str]:
    cron, moment, fired = parse_cron(expression), datetime.fromisoformat(when), []
    for _ in range(count):
        moment = cron.next_after(moment, zone)
        fired.append(moment.strftime("%Y-%m-%d %H:%M"))
    return fired
