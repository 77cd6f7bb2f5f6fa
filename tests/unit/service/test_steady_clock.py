"""Clocks that jump: either way, for a moment or for good, they lose at most one release."""

from datetime import UTC, datetime, timedelta

import pytest

from shoal.streams.worker.steady_clock import Elapsed, SteadyClock
from shoal.streams.worker.trigger import not_before

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAYS = 86_400.0


class Machine:
    """A machine whose clock can be set. Its monotonic clock cannot."""

    def __init__(self) -> None:
        self.uptime_s, self.ahead_s = 1_000.0, 0.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: NOON.timestamp() + self.uptime_s - 1_000.0 + self.ahead_s, lambda: self.uptime_s)


def releases_of(machine: Machine, every_s: float, for_s: int, jumps: dict[int, float]) -> list[int]:
    """At which second a clock of `every_seconds` asks for a release, as the planner's clocks do it."""
    clock = machine.clock()
    elapsed, made, last = Elapsed(clock), list[int](), NOON
    for second in range(for_s):
        machine.uptime_s += 1
        machine.ahead_s = jumps.get(second, machine.ahead_s)
        if elapsed.look(len(made) + 1, last, clock.now())[0] >= every_s:
            made.append(second)
            last = datetime.fromtimestamp(NOON.timestamp() + machine.uptime_s - 1_000.0 + machine.ahead_s, UTC)
    return made


def test_without_jumps_releases_come_every_so_often() -> None:
    assert releases_of(Machine(), 60, 600, {}) == [59 + 60 * number for number in range(10)]


@pytest.mark.parametrize("every_s", [10, 60])
@pytest.mark.parametrize("ahead_s", [400 * DAYS, -400 * DAYS, 3_600.0, -3_600.0])
def test_a_clock_that_jumps_for_a_moment_or_for_good_loses_at_most_one_release(every_s: int, ahead_s: float) -> None:
    """400 days ahead for a moment, it was silent until somebody asked; then, for half a minute."""
    for moment in (10, 59, 119, 130):
        for jumps in ({moment: ahead_s}, {moment: ahead_s, moment + 5: 0.0}, {moment: ahead_s, moment + 100: 0.0}):
            assert 600 // every_s - len(releases_of(Machine(), every_s, 600, jumps)) in (0, 1)


def test_a_start_after_a_release_by_a_clock_that_was_ahead_waits_once() -> None:
    machine = Machine()
    clock = machine.clock()
    elapsed = Elapsed(clock)
    far = NOON + timedelta(days=400)
    assert elapsed.look(7, far, NOON) == (0.0, NOON)
    machine.uptime_s += 60
    assert elapsed.look(7, far, NOON + timedelta(seconds=60)) == (60.0, NOON)


def test_a_clock_is_believed_only_when_it_holds() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.now() == NOON
    machine.ahead_s = 400 * DAYS
    seen = []
    for _ in range(40):
        machine.uptime_s += 1
        seen.append(clock.now())
    assert seen[28] == NOON + timedelta(seconds=29)
    assert seen[-1] == NOON + timedelta(days=400, seconds=40)
    machine.ahead_s -= 3.0  # a correction, not a jump
    assert clock.now() == NOON + timedelta(days=400, seconds=37)


def test_a_request_of_ours_names_no_earlier_time_than_the_last_release() -> None:
    assert not_before(NOON, None) == NOON
    assert not_before(NOON, "2026-03-01T11:00:00Z") == NOON
    assert not_before(NOON, "2027-03-01T11:00:00") == datetime(2027, 3, 1, 11, tzinfo=UTC)
