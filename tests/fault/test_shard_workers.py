"""Workers of a table with shards that sleep, wake up after they were replaced, come, go and are killed."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.scene import EVERYTHING, PATIENCE_S, Scene, signal_all
from tests.support.root import ROOT
from tests.support.services.table import Worker, await_that

SHARDS = 3
# What a worker says right after a step of a release: as an owner, and as the coordinator.
MOMENTS = (
    "shard.gather", "shard.plan", "release.planned", "release.sealed", "release.announced", "shard.send",
    "release.published", "shard.apply",
)  # fmt: skip


@pytest.fixture
def clinic(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING, scale={"shards": SHARDS})
    yield made
    made.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_coordinator_and_owner_that_wakes_up_after_another_took_over_does_no_harm(clinic: Scene, moment: str) -> None:
    sleeper = clinic.start()
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    sleeper.await_log("release.applied", PATIENCE_S)
    done = sleeper.log.count(moment)
    clinic.pour(100)
    clinic.ask()
    _await_more(sleeper, moment, done)
    signal_all(sleeper, signal.SIGSTOP)
    try:
        other = clinic.start()
        other.await_log("shard.owned", PATIENCE_S, count=SHARDS)
        clinic.await_served()
        clinic.pour(60)
        clinic.ask()
        clinic.await_served()
    finally:
        signal_all(sleeper, signal.SIGCONT)
    time.sleep(2.0)  # for whatever it has in its hands
    assert sleeper.process.poll() is None, sleeper.log
    clinic.pour(40)
    before = len(clinic.finish())
    time.sleep(2.0)
    assert len(clinic.releases()) == before, "more came out"


def _await_more(worker: Worker, moment: str, said: int) -> None:
    """Until a worker has said something once more."""
    await_that(lambda: worker.log.count(moment) > said, PATIENCE_S, worker._log, pause_s=0.001)


@pytest.mark.timeout(600)
def test_a_worker_that_joins_and_one_that_leaves_at_every_step_of_a_release_lose_nothing(clinic: Scene) -> None:
    worker = clinic.start_ready()
    clinic.fill(200)
    clinic.ask()
    clinic.await_served()
    for moment in MOMENTS:
        said = worker.log.count(moment)
        clinic.pour(60)
        clinic.ask()
        _await_more(worker, moment, said)
        joined = clinic.start()
        assert worker.stop(PATIENCE_S) == 0, worker.log
        clinic.await_served()
        worker = joined
        worker.await_log("shard.owned", PATIENCE_S, count=SHARDS)
    assert len(clinic.finish()) == len(MOMENTS) + 2
    assert worker.stop() == 0


# A worker that takes longer than a session for every step of a shard; nothing else about it is changed.
SLOW = """
import sys, time
from shoal.streams.worker import shard_owner
from shoal.streams.cli import main

def slow(function):
    def take_time(*arguments, **named):
        time.sleep(3)
        return function(*arguments, **named)
    return take_time

shard_owner.gather, shard_owner.plan_part = slow(shard_owner.gather), slow(shard_owner.plan_part)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.timeout(400)
def test_a_worker_that_is_slow_keeps_its_shards_and_the_release_waits_for_it(clinic: Scene) -> None:
    log = clinic.folder / "slow.log"
    with log.open("wb") as output:
        slow = subprocess.Popen(
            [sys.executable, "-c", SLOW, "worker"], env=clinic.environment(), cwd=ROOT, stdout=output, stderr=output
        )
    try:
        await_that(lambda: log.read_text().count("shard.owned") == SHARDS, PATIENCE_S, log)
        quick = clinic.start()
        quick.await_log("shard.owned", PATIENCE_S)
        clinic.fill(200)
        for _ in range(2):
            clinic.pour(60)
            clinic.ask()
            clinic.await_served()
        clinic.finish()
        text = log.read_text()
        assert "shard.plan" in text, "the slow worker had no shard"
        assert "shard.plan" in quick.log, "the quick worker had no shard"
        assert "shard.fenced" not in text + quick.log
        assert slow.poll() is None, text
        assert quick.stop() == 0
    finally:
        slow.kill()
        slow.wait()


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
