"""Triggers: what a request says, and when a policy makes one by itself."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject, ReleaseRequest, SkipRequest
from shoal.core.policy.policy import Policy
from shoal.streams.files.policy_yaml import load_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.worker.trigger import Clock, Trigger, due, has_timers, judge_request, read_trigger, request
from tests.support.engines.series import clinic_policy
from tests.support.services.table import POLICY

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def clock(now: datetime, last: datetime, accepted: int) -> Clock:
    return Clock(now, last, accepted, (now - last).total_seconds())


READER = EventReader(clinic_policy())


@pytest.fixture
def policy(tmp_path: Path) -> Any:
    def make(**release: Any) -> Policy:
        path = tmp_path / "policy.json"
        path.write_text(json.dumps({"table": "t", **POLICY, "release": release}))
        return load_policy(path)

    return make


def test_a_request_may_name_its_time() -> None:
    assert read_trigger(Trigger(0, b'{"op":"release","at":"2026-01-01T00:00:00Z"}', ()), READER) == ReleaseRequest(
        "2026-01-01T00:00:00Z"
    )
    assert read_trigger(Trigger(0, b'{"op":"release"}', ()), READER) == ReleaseRequest(None)


def test_a_request_may_ask_to_leave_a_record_out() -> None:
    value = b'{"op":"skip","topic":"events","partition":3,"offset":17}'
    assert read_trigger(Trigger(0, value, ()), READER) == SkipRequest("events", 3, 17)


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        (b'{"op":"skip","topic":"events","partition":3}', Reason.MISSING_FIELD, "offset"),
        (b'{"op":"skip","topic":"releases","partition":3,"offset":1}', Reason.OUT_OF_DOMAIN, "topic"),
        (b'{"op":"skip","topic":7,"partition":3,"offset":1}', Reason.WRONG_TYPE, "topic"),
        (b'{"op":"skip","topic":"events","partition":true,"offset":1}', Reason.WRONG_TYPE, "partition"),
        (b'{"op":"skip","topic":"events","partition":0,"offset":-1}', Reason.OUT_OF_DOMAIN, "offset"),
        (b'{"op":"skip","topic":"events","partition":0,"offset":9007199254740992}', Reason.OUT_OF_DOMAIN, "offset"),
        (b'{"op":"skip","topic":"events","partition":0,"offset":1,"why":1}', Reason.UNKNOWN_FIELD, None),
    ],
)
def test_what_to_leave_out_must_be_named_rightly(value: bytes, reason: Reason, field: str | None) -> None:
    assert read_trigger(Trigger(0, value, ()), READER) == Reject(reason, "skip", field)


def test_a_request_may_not_name_an_earlier_time_than_a_release_before_it() -> None:
    asked = ReleaseRequest("2026-03-01T12:00:00Z")
    assert judge_request(asked, "2026-03-01T13:00:00+01:00") == asked
    assert judge_request(asked, None) == asked
    assert judge_request(ReleaseRequest(None), "2026-03-01T13:00:00") == ReleaseRequest(None)
    assert judge_request(asked, "2026-03-01T12:00:01") == Reject(Reason.OUT_OF_ORDER, "release", "at")


def test_a_request_of_a_timer_names_its_release() -> None:
    asked = read_trigger(Trigger(0, request(NOON, 7), ()), READER)
    assert asked == ReleaseRequest("2026-03-01T12:00:00Z", 7)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", Reason.BAD_JSON),
        (None, Reason.NOT_AN_OBJECT),
        (b'{"op":"insert","id":"x"}', Reason.WRONG_TOPIC),
        (b'{"op":"release","please":1}', Reason.UNKNOWN_FIELD),
        (b'{"op":"release","at":"yesterday"}', Reason.BAD_TIME),
    ],
)
def test_anything_else_is_rejected(value: bytes | None, reason: Reason) -> None:
    asked = read_trigger(Trigger(0, value, ()), READER)
    assert isinstance(asked, Reject)
    assert asked.reason == reason


def test_a_policy_without_triggers_wants_nothing(policy: Any) -> None:
    assert not has_timers(policy())
    assert due(policy(), clock(NOON, NOON - timedelta(days=999), 10**9)) is None


def test_events_are_due_when_there_are_enough(policy: Any) -> None:
    every = policy(every_events=100)
    assert has_timers(every)
    assert due(every, clock(NOON, NOON, 99)) is None
    assert due(every, clock(NOON, NOON, 100)) == "events"


def test_seconds_count_from_the_last_request(policy: Any) -> None:
    every = policy(every_seconds=60)
    assert due(every, clock(NOON, NOON - timedelta(seconds=59), 0)) is None
    assert due(every, clock(NOON, NOON - timedelta(seconds=60), 0)) == "seconds"


def test_a_moment_that_passed_while_nobody_looked_is_due_once(policy: Any) -> None:
    every = policy(at="0 3 * * *")
    assert due(every, clock(NOON, NOON - timedelta(hours=8), 0)) is None, "03:00 was before the last release"
    missed = NOON - timedelta(days=3)
    assert due(every, clock(NOON, missed, 0)) == "at"
    assert due(every, clock(NOON, NOON, 0)) is None, "three missed runs make one release"
