"""Which events of a file the engine would reject, and why, while somebody else reads the same lines."""

from collections.abc import Iterable, Iterator
from typing import Any

from shoal.core.events.event import Reason, Reject, is_before, parse_json, parse_release
from shoal.core.events.intake import Intake
from shoal.core.overlap.external import parse_external
from shoal.core.policy.policy import Policy
from shoal.streams.files.formats.format import EventLine
from shoal.streams.files.rejects import Tally


def judged(policy: Policy, lines: Iterable[bytes], tally: Tally) -> Iterator[bytes]:
    """Passes the lines on, and counts those that have no effect."""
    judge = _Judge(policy)
    for number, raw in enumerate(lines, start=1):
        reject = judge.take(raw)
        if isinstance(raw, EventLine):
            reject = raw.reject or reject
            if reject is not None:
                tally.add(reject, raw.number, raw.file)
        elif reject is not None:
            tally.add(reject, number)
        yield raw


class _Judge:
    def __init__(self, policy: Policy) -> None:
        self._policy, self._intake = policy, Intake(policy, {}, held={}, handle_of=str)
        self._last_at: str | None = None

    def take(self, raw: bytes) -> Reject | None:
        event: Any = parse_json(raw)
        if isinstance(event, Reject):
            return event if raw.strip() else None
        op = event.get("op") if isinstance(event, dict) else None
        if op == "external":
            read = parse_external(event, self._policy)
            return read if isinstance(read, Reject) else None
        if op != "release":
            return self._intake.take(event)
        request = parse_release(event)
        if isinstance(request, Reject):
            return request
        if is_before(request.at, self._last_at):
            return Reject(Reason.OUT_OF_ORDER, "release", "at")
        self._last_at = request.at or self._last_at
        self._intake.cut()
        return None
