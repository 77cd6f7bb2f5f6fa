"""Workers of a table with shards that sleep, wake up after they were replaced, come, go and are killed."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, signal_all
from tests.support.services.table import await_that

SHARDS = 3


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING, scale={"shards": SHARDS})
    yield made
    made.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", ["shard.gather", "shard.plan", "release.sealed", "release.announced", "shard.send"])
def test_a_coordinator_and_owner_that_wakes_up_after_another_took_over_does_no_harm(clinic: Scene, moment: str) -> None:
    sleeper = clinic.start()
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    sleeper.await_log("release.applied", PATIENCE_S)
    done = sleeper.log.count(moment)
    clinic.pour(100)
    clinic.ask()
    await_that(lambda: sleeper.log.count(moment) > done, PATIENCE_S, sleeper._log, pause_s=0.001)
    signal_all(sleeper, signal.SIGSTOP)
    try:
        other = clinic.start()
        other.await_log("shard.owned", PATIENCE_S, count=SHARDS)
        clinic.await_served()
        clinic.pour(60)
        clinic.ask()
        other.await_log("release.applied", PATIENCE_S, count=2 if "release.applied release=2" in other.log else 1)
        clinic.await_served()
    finally:
        signal_all(sleeper, signal.SIGCONT)
    time.sleep(2.0)  # for whatever it has in its hands
    assert sleeper.process.poll() is None, sleeper.log
    clinic.pour(40)
    before = len(clinic.finish())
    time.sleep(2.0)
    assert len(clinic.releases()) == before, "more came out"


@pytest.mark.timeout(400)
def test_workers_that_join_leave_and_are_killed_at_random_moments_lose_nothing(clinic: Scene) -> None:
    seed = random.randrange(10**6)
    print(f"the moments are those of seed {seed}")
    dice = random.Random(seed)
    clinic.fill(200)
    with clinic.load():
        kept = clinic.start_ready()
        for _ in range(3):
            worker = clinic.start_ready()
            time.sleep(dice.uniform(0.5, 4.0))
            worker.kill()
        second = clinic.start_ready()
        time.sleep(dice.uniform(0.0, 2.0))
        assert kept.stop(PATIENCE_S) == 0, kept.log
    clinic.finish()
    assert second.process.poll() is None, second.log
