"""Scenes on the run's own services, and a Redis of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import Local
from tests.fault.scene import EVERYTHING, Scene


@pytest.fixture
def scene(kafka: str, redis_db: str, table: str, tmp_path: Path) -> Iterator[Scene]:
    """A table of the test's own on services that stay up, with permanent values and other publishers beside it."""
    made = Scene(kafka, redis_db, tmp_path, table, **EVERYTHING)
    yield made
    made.close()


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
