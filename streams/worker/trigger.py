"""Triggers: requests for a release on the triggers topic, and when a policy's clocks make one themselves."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from shoal.core.events.event import (
    ChangeRequest,
    Reason,
    Reject,
    ReleaseRequest,
    SkipRequest,
    is_before,
    moment_of,
    parse_change,
    parse_release,
    parse_skip,
)
from shoal.core.policy.policy import Policy
from shoal.streams.intake.formats import EventReader


class Trigger(NamedTuple):
    """A record of the triggers topic."""

    offset: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Clock(NamedTuple):
    """What a release's being due depends on."""

    now: datetime
    last: datetime
    """When the last release was asked for, or the table was begun."""
    accepted: int
    """Events in the open window."""
    elapsed_s: float
    """Seconds since `last`, by a clock that cannot be set."""


def read_trigger(trigger: Trigger, reader: EventReader) -> ReleaseRequest | SkipRequest | ChangeRequest | Reject:
    """The request in a record, or why there is none."""
    event = reader.read(trigger.value, trigger.headers)
    if isinstance(event, Reject):
        return event
    op = event.get("op") if isinstance(event, dict) else None
    if op == "change":
        return parse_change(event)
    return parse_skip(event) if op == "skip" else parse_release(event, numbered=True)


def judge_request(asked: ReleaseRequest, last_at: str | None) -> ReleaseRequest | Reject:
    """A request for a release, rejected if it names an earlier time than a release before it has named."""
    return Reject(Reason.OUT_OF_ORDER, "release", "at") if is_before(asked.at, last_at) else asked


def due(policy: Policy, clock: Clock) -> str | None:
    """Which clock of the policy wants a release now: events, seconds or at; None if none does.

    A moment of `at` that passed while no worker ran is due as soon as one runs; several of them are due once.
    """
    wanted = policy.triggers
    if wanted.every_events is not None and clock.accepted >= wanted.every_events:
        return "events"
    if wanted.every_seconds is not None and clock.elapsed_s >= wanted.every_seconds:
        return "seconds"
    moment = wanted.next_at(clock.last)
    return "at" if moment is not None and moment <= clock.now else None


def has_timers(policy: Policy) -> bool:
    wanted = policy.triggers
    return (wanted.every_events, wanted.every_seconds, wanted.at) != (None, None, None)


def request(now: datetime, number: int | None = None) -> bytes:
    """A request for a release. With a number it does nothing once that release is under way."""
    event: dict[str, object] = {"op": "release", "at": timestamp(now)}
    if number is not None:
        event["release"] = number
    return json.dumps(event).encode()


def not_before(now: datetime, last_at: str | None) -> datetime:
    """The time that a request of ours names: now, or what the last release has named, if a clock was ahead then."""
    return now if last_at is None else max(now, moment_of(last_at))


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
