"""Workers whose clock jumps, for a moment or for good: releases go on, and none names an earlier time than the last."""

import json
import time
from pathlib import Path

import pytest

from tests.fault.scene import PATIENCE_S
from tests.support.services.clock import FakeClock
from tests.support.services.table import Table, insert

_FAR_S = 400 * 86_400
_BELIEVED_S = 30.0  # streams/worker/steady_clock.py
_EVERY_S = 2


@pytest.mark.timeout(400)
@pytest.mark.parametrize("lasts_s", [3.0, pytest.param(_BELIEVED_S + 5, marks=pytest.mark.soak)])
def test_releases_go_on_while_the_clock_jumps_either_way(
    kafka: str, redis_db: str, table: str, tmp_path: Path, clock: FakeClock, lasts_s: float
) -> None:
    made = Table(kafka, redis_db, tmp_path, table, release={"every_seconds": _EVERY_S})
    try:
        worker = made.start_under(clock.environment)
        worker.await_log("planner.ready", PATIENCE_S)
        made.send([insert(number) for number in range(30)])
        made.await_releases(1, PATIENCE_S)
        for jump_s in (_FAR_S, -_FAR_S):
            clock.jump(jump_s)
            time.sleep(lasts_s)
            clock.jump(0)
            # A clock that was believed has to be believed again, too.
            made.await_releases(len(made.releases()) + 2, _BELIEVED_S + 10 * _EVERY_S)
        assert worker.stop() == 0, worker.log
        times = [json.loads(release.manifest)["published_at"] for release in made.judge(complete=False)]
        assert times == sorted(times)
        assert len({time[:4] for time in times}) == (1 if lasts_s < _BELIEVED_S else 2), "a moment was believed"
    finally:
        made.close()
