"""Conversions: what a column becomes, and what is rejected rather than guessed."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.streams.files.mapping.conversion import UNAVAILABLE, WITHHELD, AttributeRule, Spell, ValueRule
from shoal.streams.files.mapping.moments import day_of, from_base64, full_years, next_birthday, number_of, plain

TODAY = date(2026, 3, 1)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0, None, date(1970, 1, 1)),
        (3685, None, date(1980, 2, 3)),
        (-1, "days", date(1969, 12, 31)),
        (86_400_000 * 3685 + 1, "millis", date(1980, 2, 3)),
        (-1, "micros", date(1969, 12, 31)),
        (86_400_000_000_000, "nanos", date(1970, 1, 2)),
        ("1980-02-03", None, date(1980, 2, 3)),
        ("1980-02-03Z", None, date(1980, 2, 3)),
        ("1980-02-03T23:30:00-02:00", None, date(1980, 2, 4)),  # in UTC
        ("1980-02-03T23:30:00.123456Z", None, date(1980, 2, 3)),
        ("1980-02-30", None, None),
        ("3685", None, None),
        (True, None, None),
        (1.5, None, None),
        (2**31 - 1, None, None),  # PostgreSQL's infinity
    ],
)
def test_a_day_is_read_or_there_is_none(value: Any, unit: str | None, expected: date | None) -> None:
    assert day_of(value, unit) == expected


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [
        ("Ass=", "1", Decimal("71.5")),  # what Debezium wrote for numeric(4,1) 71.5
        ("AtA=", 1, Decimal("72.0")),
        ("/w==", 0, Decimal(-1)),
        ("AP8=", 2, Decimal("2.55")),
        ("A" * 44, 0, Decimal(0)),
        ("", 1, None),
        ("not base64!", 1, None),
        ("Ass=", None, None),
    ],
)
def test_a_decimal_in_base64_is_exact(value: str, scale: Any, expected: Decimal | None) -> None:
    assert from_base64(value, scale) == expected


def test_a_long_decimal_keeps_all_its_digits() -> None:
    import base64

    number = 12345678901234567890123456789012345678901
    raw = base64.b64encode(number.to_bytes(18, signed=True)).decode()
    assert str(from_base64(raw, 3)) == "12345678901234567890123456789012345678.901"


def test_a_number_without_a_schema_is_never_taken_for_base64() -> None:
    assert number_of("1234", None) == 1234  # also base64
    assert number_of("Ass=", None) is None
    assert number_of("Ass=", 1) == Decimal("71.5")
    wrong: tuple[object, ...] = (True, "NaN", "1e400000000", float("inf"), [], None)
    assert [number_of(value, None) for value in wrong] == [None] * 6
    assert from_base64("AQ==", -400_000_000) is None


def test_a_schema_says_what_a_value_is() -> None:
    assert plain(3685, {"name": "io.debezium.time.Date"}) == "1980-02-03"
    assert plain(86_400_000_000, {"name": "io.debezium.time.MicroTimestamp"}) == "1970-01-02"
    decimal = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}}
    assert plain("Ass=", decimal) == "71.5"
    assert plain({"scale": 2, "value": "AP8="}, {"name": "io.debezium.data.VariableScaleDecimal"}) == "2.55"
    assert plain(["Ass="], {"type": "array", "items": decimal}) == ["71.5"]
    assert plain(UNAVAILABLE, decimal) == UNAVAILABLE
    assert plain(None, decimal) is None
    assert plain("text", {"type": "string"}) == "text"


@pytest.mark.parametrize(
    ("born", "today", "age", "next_one"),
    [
        (date(2000, 3, 1), TODAY, 26, date(2027, 3, 1)),
        (date(2000, 3, 2), TODAY, 25, date(2026, 3, 2)),
        (date(2000, 2, 29), TODAY, 26, date(2027, 3, 1)),
        (date(2000, 2, 29), date(2026, 2, 28), 25, date(2026, 3, 1)),
        (date(2000, 2, 29), date(2027, 12, 31), 27, date(2028, 2, 29)),
    ],
)
def test_an_age_grows_on_birthdays(born: date, today: date, age: int, next_one: date) -> None:
    assert full_years(born, today) == age
    assert next_birthday(born, today) == next_one
    assert full_years(born, next_one) == age + 1
    assert full_years(born, date.fromordinal(next_one.toordinal() - 1)) == age


def rule(kind: Any = "int", **changes: Any) -> AttributeRule:
    return AttributeRule(name="a", kind=kind, column="c", **changes)


@pytest.mark.parametrize(
    ("made", "value", "expected"),
    [
        (rule(), 7, 7),
        (rule(), "7", 7),
        (rule(), 7.0, 7),
        (rule(), 7.5, Reason.WRONG_TYPE),
        (rule(), True, Reason.WRONG_TYPE),
        (rule(), "seven", Reason.WRONG_TYPE),
        (rule(bin=5), 73.9, 70),
        (rule(bin=5), -1, -5),
        (rule("float", bin=0.1), "0.37", 0.3),
        (rule("float"), "71.5", 71.5),
        (rule(convert="year"), "1980-02-03", 1980),
        (rule(convert="age"), 3685, 46),
        (rule(convert="age"), "x", Reason.WRONG_TYPE),
        (rule("category"), "x ", "x "),
        (rule("category", trim=True), " x ", "x"),
        (rule("category", trim=True), "  ", Reason.MISSING_ATTRIBUTE),
        (rule("category"), 7, "7"),
        (rule("category"), False, "false"),
        (rule("category"), 7.0, Reason.WRONG_TYPE),
        (rule("category", lookup={"f": "female"}), "f", "female"),
        (rule("category", lookup={"f": "female"}), "d", Reason.UNKNOWN_NODE),
        (rule("category", lookup={"true": "yes"}), True, "yes"),
        (rule(lookup={"low": "1"}), "low", 1),
        (rule(), None, Reason.MISSING_ATTRIBUTE),
        (rule(withholds=True), None, WITHHELD),
        (rule(missing_value=3), None, 3),
        (rule(), UNAVAILABLE, Reason.UNAVAILABLE),
        (rule(scale=1), "Ass=", Reason.WRONG_TYPE),  # 71.5 is no whole number
        (rule("float", scale=1), "Ass=", 71.5),
    ],
)
def test_a_column_becomes_what_the_mapping_says(made: AttributeRule, value: Any, expected: Any) -> None:
    found = made.read({"c": value}, TODAY)
    if isinstance(expected, Reason):
        assert found == Reject(expected, None, "qid.a")
    else:
        assert found == expected
        assert type(found) is type(expected)


def test_a_row_without_the_column_is_rejected_and_a_constant_needs_none() -> None:
    assert rule().read({}, TODAY) == Reject(Reason.MISSING_FIELD, None, "qid.a")
    assert AttributeRule(name="a", kind="category", column=None, constant="north").read({}, TODAY) == "north"


@pytest.mark.parametrize(
    ("made", "value", "expected"),
    [
        (ValueRule(columns=("c",)), "flu", ["flu"]),
        (ValueRule(columns=("c",)), None, []),
        (ValueRule(columns=("c",)), ["flu"], Reason.WRONG_TYPE),
        (ValueRule(columns=("c",), is_array=True), ["flu", 7], ["flu", "7"]),
        (ValueRule(columns=("c",), is_array=True), [], []),
        (ValueRule(columns=("c",), is_array=True), "flu", Reason.WRONG_TYPE),
        (ValueRule(columns=("c",), is_array=True), ["flu", None], Reason.WRONG_TYPE),
        (ValueRule(columns=("c",), is_array=True), [UNAVAILABLE], Reason.UNAVAILABLE),
        (ValueRule(columns=("c",), lookup={"J1": "flu"}), "J1", ["flu"]),
        (ValueRule(columns=("c",), lookup={"J1": "flu"}), "J2", Reason.UNKNOWN_NODE),
        (ValueRule(columns=("c",), trim=True), " flu", ["flu"]),
    ],
)
def test_values_come_from_a_column_or_an_array(made: ValueRule, value: Any, expected: Any) -> None:
    found = made.read({"c": value})
    assert found == (Reject(expected, None, "sensitive") if isinstance(expected, Reason) else expected)


def test_a_value_holds_from_its_start_up_to_its_end() -> None:
    spell = Spell(start="since", end="until", unit=None)
    row = {"since": "2026-03-01", "until": "2026-03-05"}
    days = [date(2026, 2, 28), TODAY, date(2026, 3, 4), date(2026, 3, 5)]
    assert [spell.holds(row, day) for day in days] == [False, True, True, False]
    assert [spell.next_change(row, day) for day in days] == [TODAY, date(2026, 3, 5), date(2026, 3, 5), None]
    assert spell.holds({"since": None, "until": None}, TODAY)
    assert spell.wrong({"since": "x", "until": None}) == Reject(Reason.BAD_TIME, None, "sensitive")
    assert spell.wrong({"since": None}) == Reject(Reason.MISSING_FIELD, None, "sensitive")
