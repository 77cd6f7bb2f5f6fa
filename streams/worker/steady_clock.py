"""A clock that ignores jumps of the machine's clock.

The machine's clock may be set, or be wrong for a moment. Two rules keep releases coming. Spans are measured by the
monotonic clock, which nobody can set. A time of day that does not follow from the one before is believed only after it
has held for a while. Until then the clock goes on from the earlier time.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_TOLERANCE_S: Final = 5.0
_BELIEVED_AFTER_S: Final = 30.0


class SteadyClock:
    """The time of day. Ask it often: a jump is noticed by comparing with the last answer."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()  # of the time of day that is believed
        self._other = self._offset  # of another one that the machine's clock has shown since
        self._since = 0.0

    @property
    def monotonic_s(self) -> float:
        return self._monotonic()

    def now(self) -> datetime:
        """The time of day in UTC."""
        monotonic = self._monotonic()
        offset = self._wall() - monotonic
        if abs(offset - self._offset) <= _TOLERANCE_S:
            self._offset = self._other = offset  # drift, which is corrected all the time
        elif abs(offset - self._other) > _TOLERANCE_S:
            self._other, self._since = offset, monotonic
        elif monotonic - self._since >= _BELIEVED_AFTER_S:
            self._offset = offset
        return datetime.fromtimestamp(monotonic + self._offset, UTC)


class Elapsed:
    """How long ago the last release was, whatever the machine's clock did since and before."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._release: int | None = None
        self._known = self._began = self._looked = 0.0
        self._last = datetime.fromtimestamp(0, UTC)

    def look(self, release: int, last: datetime, now: datetime) -> tuple[float, datetime]:
        """Seconds since the release before `release` was asked for, and when that was. `last` is what a clock said.

        That clock may have been wrong. It was not asked for in the future, nor, if it is new, before the last look.
        """
        uptime = self._clock.monotonic_s
        if release != self._release:
            said_s = max(0.0, (now - last).total_seconds())
            self._known = said_s if self._release is None else min(said_s, uptime - self._looked)
            self._last = now - timedelta(seconds=self._known)
            self._release, self._began = release, uptime
        self._looked = uptime
        return self._known + uptime - self._began, self._last
