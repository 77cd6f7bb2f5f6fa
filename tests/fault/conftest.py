"""Scenes on the run's own services, and a Redis of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import Local
from tests.conftest import obtain
from tests.fault.drills import Stage
from tests.fault.scene import EVERYTHING, Scene
from tests.support.services.clock import FakeClock, fake_clock
from tests.support.services.frail import Frail, frail_services


@pytest.fixture
def scene(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table of the test's own on services that stay up, with permanent values and other publishers beside it."""
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING)
    yield made
    made.close()


@pytest.fixture(scope="module")
def stage(
    request: pytest.FixtureRequest, kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """For the drills of a file, each on a table of its own."""
    return Stage(request, kafka, redis_url, tmp_path_factory.mktemp("drills"))


@pytest.fixture
def fragile(native_services: Local, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table of the test's own on services that the test may kill."""
    made = Scene(native_services.kafka.address, native_services.redis.address, tmp_path, table, **EVERYTHING)
    yield made
    for service in native_services:
        if service.is_running:
            service.resume()
        else:
            service.restart()
    made.close()


@pytest.fixture(scope="session")
def _frail(request: pytest.FixtureRequest) -> Iterator[Frail]:
    with obtain(request.config, "Kafka and Redis on small disks", frail_services()) as found:
        yield found


@pytest.fixture
def frail(_frail: Frail) -> Iterator[Frail]:
    """A Kafka and a Redis whose disks and wires are the test's own to fill and to cut; brought back afterwards."""
    _frail.restore()
    yield _frail
    _frail.restore()


@pytest.fixture
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeClock]:
    """The time of day of the workers that are started under it."""
    with obtain(request.config, "clock that jumps", fake_clock(tmp_path)) as found:
        yield found


@pytest.fixture
def starved(frail: Frail, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table of the test's own on those two. Its workers go by the wires, and the test itself does not."""
    made = Scene(frail.kafka.address, frail.redis.address, tmp_path, table, worker_settings=frail.wired, **EVERYTHING)
    yield made
    frail.restore()
    made.close()
