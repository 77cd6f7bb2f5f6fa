"""Fixtures that every kind of test shares: the real services, and names that no other test uses."""

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import pytest
import redis

from deploy.local import Local, Unavailable
from tests import services as sources
from tests.services import Services

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("integration", "fault")
_databases = itertools.cycle(range(1, 16))
_found = pytest.StashKey[str]()
_missing = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def services(request: pytest.FixtureRequest) -> Iterator[Services]:
    """A real Kafka and a real Redis, for the whole run."""
    with _obtain(request.config, sources.services()) as found:
        yield found


@pytest.fixture(scope="session")
def kafka(services: Services) -> str:
    """The address of the broker, as SHOAL_KAFKA takes it."""
    return services.kafka


@pytest.fixture(scope="session")
def redis_url(services: Services) -> str:
    """The address of Redis, as SHOAL_REDIS takes it; tests that share it keep apart by their `table`."""
    return services.redis


@pytest.fixture
def table() -> str:
    """A table name that no other test, and no earlier run on the same broker, has used."""
    return f"test-{secrets.token_hex(5)}"


@pytest.fixture
def redis_db(services: Services) -> Iterator[str]:
    """The address of a Redis database of the test's own: empty at first, emptied at the end."""
    url = f"{services.redis.rpartition('/')[0]}/{next(_databases)}"
    with redis.Redis.from_url(url) as client:
        if services.origin == "given" and client.dbsize():
            pytest.fail("databases 1 to 15 of the Redis at SHOAL_TEST_REDIS must be empty: tests flush them")
        client.flushdb()
        yield url
        client.flushdb()


@pytest.fixture(scope="session")
def _killable(request: pytest.FixtureRequest) -> Iterator[Local]:
    # The run's own services, if they are processes of ours: a second broker would only cost memory.
    if not os.environ.get("SHOAL_TEST_KAFKA"):
        shared: Services = request.getfixturevalue("services")
        if shared.local is not None:
            yield shared.local
            return
    with _obtain(request.config, sources.native_services()) as found:
        assert found.local is not None
        yield found.local


@pytest.fixture
def native_services(_killable: Local) -> Iterator[Local]:
    """Kafka and Redis as processes that the test may `kill()`, `pause()` and `restart()`; brought back afterwards."""
    _bring_back(_killable)
    yield _killable
    _bring_back(_killable)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is in tests/integration and tests/fault is marked so by being there."""
    for item in items:
        folder = item.path.relative_to(_TESTS).parts[0] if item.path.is_relative_to(_TESTS) else ""
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which services the tests ran on, and say it loudly if there were none."""
    missing = config.stash.get(_missing, None)
    if missing is not None:
        terminalreporter.section("NOT TESTED ON REAL SERVICES", yellow=True, bold=True)
        terminalreporter.line(missing)
        terminalreporter.line("Every test that needs them was skipped. See CONTRIBUTING.md, “Services for tests”.")
    elif (found := config.stash.get(_found, None)) is not None:
        terminalreporter.line(f"services: {found}")


@contextlib.contextmanager
def _obtain(config: pytest.Config, source: AbstractContextManager[Services]) -> Iterator[Services]:
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(source)
        except Unavailable as reason:
            _do_without(config, str(reason))
        config.stash[_found] = f"{found.origin}, Kafka {found.kafka}, Redis {found.redis}"
        yield found


def _do_without(config: pytest.Config, reason: str) -> NoReturn:
    if os.environ.get("SHOAL_REQUIRE_SERVICES", "") not in ("", "0"):
        pytest.fail(f"SHOAL_REQUIRE_SERVICES is set, and there are {reason}", pytrace=False)
    config.stash[_missing] = reason
    pytest.skip(reason)


def _bring_back(local: Local) -> None:
    for service in local:
        if service.is_running:
            service.resume()
        else:
            service.restart()
