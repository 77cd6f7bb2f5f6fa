"""Workers whose clock jumps, for a moment or for good: releases go on, and none names an earlier time than the last."""

import json
import time
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from deploy.local.ports import free_port
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
    port = free_port()
    made = Table(kafka, redis_db, tmp_path, table, release={"every_seconds": _EVERY_S})
    try:
        worker = made.start_under(clock.environment, WEB_PORT=str(port))
        worker.await_log("planner.ready", PATIENCE_S)
        made.send([insert(number) for number in range(30)])
        made.await_releases(1, PATIENCE_S)
        for jump_s in (_FAR_S, -_FAR_S):
            clock.jump(jump_s)
            time.sleep(lasts_s)
            assert abs(_shown(port) - time.time() - jump_s) < 60, "the clock has not jumped"
            clock.jump(0)
            made.await_releases(len(made.releases()) + 2, 10 * _EVERY_S)
        assert worker.stop() == 0, worker.log
        times = [json.loads(release.manifest)["published_at"] for release in made.judge(complete=False)]
        assert times == sorted(times)
        assert len({time[:4] for time in times}) == (1 if lasts_s < _BELIEVED_S else 2), "a moment was believed"
    finally:
        made.close()


def _shown(port: int) -> float:
    """The time of day by the worker's own clock: every answer over HTTP is dated."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()
