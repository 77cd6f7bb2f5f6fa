"""Three brokers, of which one or two are gone: leaders change under load, or nothing can be written for a while.

Three brokers on one machine start slowly, so these tests run with `make soak`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import obtain
from tests.fault.scene import EVERYTHING, Scene
from tests.integration.replayed import assert_a_replay_makes_the_same
from tests.support.services.brokers import Brokers, three_brokers

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    with obtain(request.config, "Kafka of three brokers", three_brokers()) as found:
        yield found


@pytest.fixture
def scene(brokers: Brokers, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(brokers.address, redis_db, tmp_path, table, **EVERYTHING)
    yield made
    brokers.restore()
    made.close()


def test_one_broker_after_the_other_goes_and_comes_back_and_releases_go_on(scene: Scene, brokers: Brokers) -> None:
    with scene.at_work():
        for number in range(3):
            brokers[number].kill()
            done = len(scene.releases())
            scene.await_releases(done + 2, 120)  # with two of three
            brokers.restore()
            time.sleep(2.0)
    assert_a_replay_makes_the_same(scene)


def test_with_one_of_three_brokers_nothing_is_written_and_nothing_is_lost(scene: Scene, brokers: Brokers) -> None:
    with scene.at_work() as worker:
        for number in range(2):
            scene.await_releases(len(scene.releases()) + 1, 120)
            brokers[number].kill()
            brokers[number + 1].kill()
            time.sleep(8.0)  # longer than a session, of a worker's and of a broker's
            assert worker.process.poll() is None, worker.log
            brokers.restore()
            time.sleep(2.0)
    assert_a_replay_makes_the_same(scene)


def test_a_broker_that_hangs_does_not_keep_releases_from_going_on(scene: Scene, brokers: Brokers) -> None:
    """It refuses nothing: whoever asks it waits. Every release asks Kafka several things with new clients."""
    with scene.at_work():
        for number in range(2):
            brokers[number].pause()
            try:
                # Whoever has a connection to it waits out a request or two; the load of this test, a minute and more.
                scene.await_releases(len(scene.releases()) + 1, 240)
                scene.await_releases(len(scene.releases()) + 2, 90)
            finally:
                brokers[number].resume()
            time.sleep(5.0)
    assert_a_replay_makes_the_same(scene)
