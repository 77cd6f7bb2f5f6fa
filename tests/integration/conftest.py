"""Tables of a test's own, a Redis that holds only them, and a Kafka with authentication."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import obtain
from tests.support.services.secure_kafka import SecureKafka, native_secure_kafka
from tests.support.services.snapshots import take
from tests.support.services.table import Make, Table, inserts


@pytest.fixture(scope="module")
def secure_kafka(request: pytest.FixtureRequest) -> Iterator[SecureKafka]:
    """A real broker with TLS, SASL and an authorizer, for the tests of one file."""
    with obtain(request.config, "Kafka with TLS and rights", native_secure_kafka()) as found:
        assert isinstance(found.service, SecureKafka)
        yield found.service


@pytest.fixture
def make(kafka: str, redis_url: str, tmp_path: Path, table: str) -> Iterator[Callable[..., Table]]:
    """Makes the test's table; what is said changes its policy. Its workers end with the test."""
    made: list[Table] = []

    def _make(**changes: Any) -> Table:
        made.append(Table(kafka, redis_url, tmp_path, table, **changes))
        return made[-1]

    yield _make
    for one in made:
        one.close()


@pytest.fixture
def kept(make: Make, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Table, Path]:
    """A table of one release with a snapshot of it, and nobody at work on it; `request.param` changes its policy."""
    table = make(**getattr(request, "param", {}))
    worker = table.start_planner()
    table.send(inserts(0, 100))
    table.release()
    worker.await_log("release.applied")
    assert worker.stop() == 0
    path = tmp_path / "kept"
    assert take(table, path).startswith(f"{path}: release 1, ")
    return table, path
