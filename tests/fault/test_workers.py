"""Workers that die at random moments, come and go, or wake up after they have been replaced."""

import random
import signal
import time
from collections.abc import Callable

import pytest

from shoal.streams.store.keys import INGEST, rejects_key
from shoal.streams.store.records import RejectNote, pack
from tests.fault.scene import PATIENCE_S, Scene, signal_all
from tests.support.services.table import Worker, await_that


@pytest.mark.timeout(400)
def test_three_kills_at_random_moments_under_load_lose_nothing(scene: Scene) -> None:
    seed = random.randrange(10**6)
    print(f"the moments are those of seed {seed}")
    dice = random.Random(seed)
    with scene.load():
        for _ in range(3):
            worker = scene.start_ready()
            time.sleep(dice.uniform(0.0, 1.5))
            worker.kill()
        scene.start_ready()
    scene.finish()


@pytest.mark.timeout(400)
def test_partitions_change_hands_while_workers_join_leave_and_are_killed(scene: Scene) -> None:
    with scene.load():
        first = scene.start_ready()
        second = scene.start_ready()  # joins
        third = scene.start_ready()
        second.kill()
        third.await_log("ingest.assigned", PATIENCE_S, count=third.log.count("ingest.assigned") + 1)
        assert first.stop(PATIENCE_S) == 0, first.log  # leaves; it was the planner
        third.await_log("ingest.loaded", PATIENCE_S, count=scene.partitions)
    scene.finish()
    assert third.process.poll() is None


@pytest.mark.timeout(400)
def test_a_worker_that_wakes_up_after_its_partitions_were_given_away_does_no_harm_with_what_it_remembers(
    scene: Scene,
) -> None:
    sleeper = scene.start_ready()
    sleeper.await_log("planner.ready", PATIENCE_S)
    with scene.load():
        sleeper.await_log("ingest.progress", PATIENCE_S)
        _sleep_and_wake(scene, sleeper)
    scene.finish()
    _assert_nothing_more_comes(scene)


@pytest.mark.timeout(400)
def test_a_worker_that_slept_through_a_release_of_nothing_new_passes_the_next_barrier(scene: Scene) -> None:
    """Nothing comes to its partitions, which are its own again when it wakes up, so no batch tells it that it slept."""
    sleeper = scene.start()
    sleeper.await_log("planner.ready", PATIENCE_S)
    scene.settle()
    signal_all(sleeper, signal.SIGSTOP)
    try:
        other = scene.start()
        other.await_log("ingest.loaded", PATIENCE_S, count=scene.partitions)
        scene.ask()
        scene.await_served()
        other.await_log("release.applied", PATIENCE_S)
        other.kill()
    finally:
        signal_all(sleeper, signal.SIGCONT)
    scene.ask()
    scene.await_served(60)
    scene.verdict()
    assert sleeper.process.poll() is None, sleeper.log


@pytest.mark.timeout(400)
def test_dead_letters_leave_a_quiet_partition_that_a_former_owner_took_by_mistake(scene: Scene) -> None:
    """A worker that was slow to take over a partition writes its token although the partition is another's by then."""
    first = scene.start()
    scene.settle()
    scene.verdict()
    assert first.stop(PATIENCE_S) == 0, first.log
    scene.start().await_log("ingest.loaded", PATIENCE_S, count=scene.partitions)  # and has sent no letter yet
    sent = scene.dead_letters()
    accepted = next(offset for offset in range(100) if (scene.topics.events, 0, offset) not in sent)
    prefix = f"{{shoal:{scene.name}}}:"
    with scene.connect() as client:
        client.hset(prefix + INGEST, "token:0", "of a former owner")
        client.rpush(prefix + rejects_key("0"), pack(RejectNote(accepted, "wrong-partition", "insert", "id")))
    letters = scene.await_dead_letters(sent.total() + 1, 60)
    assert letters - sent == {(scene.topics.events, 0, accepted): 1}


@pytest.mark.timeout(400)
def test_a_planner_that_wakes_up_in_a_release_that_another_has_made_publishes_nothing(scene: Scene) -> None:
    planner = scene.start()
    for moment in ("release.frozen", "release.planned", "release.sealed"):
        planner.await_log("planner.ready", PATIENCE_S)
        done = planner.log.count(moment)
        scene.pour(150)
        scene.ask()
        await_that(_says(planner, moment, done + 1), PATIENCE_S, planner._log, pause_s=0.001)
        successor = _sleep_and_wake(scene, planner)
        assert planner.stop(PATIENCE_S) == 0, planner.log
        planner = successor
    scene.finish()
    _assert_nothing_more_comes(scene)


def _says(worker: Worker, text: str, count: int) -> Callable[[], bool]:
    return lambda: worker.log.count(text) >= count


def _sleep_and_wake(scene: Scene, sleeper: Worker) -> Worker:
    """SIGSTOP; another worker, which is returned, takes everything over and publishes; SIGCONT."""
    signal_all(sleeper, signal.SIGSTOP)
    try:
        other = scene.start()
        other.await_log("ingest.loaded", PATIENCE_S, count=scene.partitions)
        other.await_log("planner.ready", PATIENCE_S)
        scene.pour(60)
        scene.ask()
        other.await_log("release.applied", PATIENCE_S)
    finally:
        signal_all(sleeper, signal.SIGCONT)
    time.sleep(1.0)  # for whatever it has in its hands
    assert sleeper.process.poll() is None, sleeper.log
    return other


def _assert_nothing_more_comes(scene: Scene) -> None:
    """A second content or letter would come late, so the judge is heard again."""
    time.sleep(1.0)
    scene.verdict()
