"""Fixtures that every kind of test shares: the real services, and names that no other test uses."""

import contextlib
import hashlib
import itertools
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import redis
import structlog
from hypothesis import HealthCheck, settings

from deploy.local import Kafka, Local, Redis, Unavailable
from shoal.streams.log import LibraryHandler
from tests.support.missing import fail_if_required
from tests.support.services.services import (
    Found,
    WrongAddress,
    find_kafka,
    find_redis,
    native_kafka,
    native_postgres,
    native_redis,
)

# No test fails because it was slow: the machine may be busy with something else. CI tries the same histories every
# time, so that a failure there is the change's; everybody else draws new ones.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("patient")

_TESTS = Path(__file__).parent
_RUN = secrets.token_hex(4)
_MARKED_FOLDERS = ("integration", "fault")
# The service tests' longest files, the longest first: whatever begins last should be short.
_LONGEST = (
    "fault/test_shard_loss", "integration/test_policy_change", "fault/test_shard_crashes", "integration/test_rekey",
    "fault/test_snapshot_crashes", "fault/test_shard_workers", "integration/test_snapshot", "integration/test_upgrade",
    "fault/test_erasure_crashes", "integration/test_cdc", "fault/test_services", "integration/test_series",
    "integration/test_rebuild", "integration/test_deltas", "fault/test_crash_points", "integration/test_shards",
    "fault/test_shard_cluster", "integration/test_worker", "integration/test_external", "fault/test_workers",
    "fault/test_upgrade_crashes", "fault/test_source", "fault/test_refusals", "integration/test_hospital",
)  # fmt: skip
_databases = itertools.cycle(range(1, 16))
_postgres_databases = itertools.count(1)
_found = pytest.StashKey[dict[str, str]]()
_missing = pytest.StashKey[dict[str, str]]()


@pytest.fixture(autouse=True)
def _unconfigured_log() -> Iterator[None]:
    """A command that a test runs writes its log to the test's standard error, which is closed when the test ends."""
    yield
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, LibraryHandler)]
    structlog.reset_defaults()
    logging.captureWarnings(False)


@pytest.fixture(scope="session")
def kafka_service(request: pytest.FixtureRequest) -> Iterator[Found]:
    """A real Kafka for the whole run, with where it came from."""
    with obtain(request.config, "Kafka", find_kafka()) as found:
        yield found


@pytest.fixture(scope="session")
def redis_service(request: pytest.FixtureRequest) -> Iterator[Found]:
    """A real Redis for the whole run, with where it came from."""
    with obtain(request.config, "Redis", find_redis()) as found:
        yield found


@pytest.fixture(scope="session")
def kafka(kafka_service: Found) -> str:
    """The address of a real broker, as SHOAL_KAFKA takes it."""
    return kafka_service.address


@pytest.fixture(scope="session")
def redis_url(redis_service: Found) -> str:
    """The address of a real Redis, as SHOAL_REDIS takes it; tests that share it keep apart by their `table`."""
    return redis_service.address


@pytest.fixture(scope="session")
def postgres_service(request: pytest.FixtureRequest) -> Iterator[Found]:
    """A real PostgreSQL for the whole run."""
    with obtain(request.config, "PostgreSQL", native_postgres()) as found:
        yield found


@pytest.fixture
def postgres(postgres_service: Found) -> Iterator[str]:
    """The address of a PostgreSQL database of the test's own, empty at first."""
    import psycopg

    name = f"test_{next(_postgres_databases)}"
    with psycopg.connect(postgres_service.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield f"{postgres_service.address.rpartition('/')[0]}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _are_given() -> bool:
    return bool({"SHOAL_TEST_KAFKA", "SHOAL_TEST_REDIS"} & os.environ.keys())


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    """A table name that no other test has used: the same in every run, because what is drawn depends on it.

    Services that outlive the run may hold the tables of an earlier one, and get names of the run's own.
    """
    run = _RUN if _are_given() else ""
    return f"test-{hashlib.blake2b((run + request.node.nodeid).encode(), digest_size=5).hexdigest()}"


@pytest.fixture
def redis_db(redis_service: Found) -> Iterator[str]:
    """The address of a Redis database of the test's own: empty at first, emptied at the end."""
    url = f"{redis_service.address.rpartition('/')[0]}/{next(_databases)}"
    with redis.Redis.from_url(url) as client:
        if redis_service.origin == "SHOAL_TEST_REDIS" and client.dbsize():
            pytest.fail("databases 1 to 15 of the Redis at SHOAL_TEST_REDIS must be empty: tests flush them")
        client.flushdb()
        yield url
        client.flushdb()


@pytest.fixture(scope="session")
def _killable(request: pytest.FixtureRequest) -> Iterator[Local]:
    # The run's own services where they are processes of ours; a second broker would only cost memory.
    with contextlib.ExitStack() as stack:
        kafka = request.getfixturevalue("kafka_service").service
        if kafka is None:
            kafka = stack.enter_context(obtain(request.config, "a Kafka to kill", native_kafka())).service
        server = request.getfixturevalue("redis_service").service
        if server is None:
            server = stack.enter_context(obtain(request.config, "a Redis to kill", native_redis())).service
        assert isinstance(kafka, Kafka)
        assert isinstance(server, Redis)
        yield Local(kafka, server)


@pytest.fixture
def native_services(_killable: Local) -> Iterator[Local]:
    """Kafka and Redis as processes that the test may `kill()`, `pause()` and `restart()`; brought back afterwards."""
    _bring_back(_killable)
    yield _killable
    _bring_back(_killable)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_found] = {}
    config.stash[_missing] = {}


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is in tests/integration and tests/fault is marked so by being there.

    The tests of one such file run in one process, one after the other. Each process has a Kafka and a Redis of its own.
    These tests wait more than they compute, so `make test` has more processes than most machines have cores. They come
    first, the longest files before the others. Services that somebody gave the run are used by one process at a time.
    """
    for item in items:
        folder, file = _place(item)
        if folder in _MARKED_FOLDERS:
            item.add_marker(folder)
            item.add_marker(pytest.mark.xdist_group("services" if _are_given() else file))
    items.sort(key=_turn)


def _place(item: pytest.Item) -> tuple[str, str]:
    """The folder of tests with this one, and its file in it."""
    folder = item.path.relative_to(_TESTS).parts[0] if item.path.is_relative_to(_TESTS) else ""
    return folder, f"{folder}/{item.path.stem}"


def _turn(item: pytest.Item) -> int:
    folder, file = _place(item)
    if file in _LONGEST:
        return _LONGEST.index(file)
    return len(_LONGEST) + (folder not in _MARKED_FOLDERS)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of several tells the one that reports which services it had."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["services"] = [session.config.stash[_found], session.config.stash[_missing]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for known, new in zip((_found, _missing), getattr(node, "workeroutput", {}).get("services", ()), strict=False):
        node.config.stash[known].update(new)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which services the tests ran on, and say it loudly if one was missing."""
    for name, where in config.stash[_found].items():
        terminalreporter.line(f"tested on a real {name}: {where}")
    if config.stash[_missing]:
        terminalreporter.section("NOT TESTED ON REAL SERVICES", yellow=True, bold=True)
        for reason in config.stash[_missing].values():
            terminalreporter.line(reason)
        terminalreporter.line("Every test that needs one of them was skipped. CONTRIBUTING.md says how to get them.")


class _Located(Protocol):
    """A service, or several, that can be said where it is and where it came from."""

    @property
    def address(self) -> str: ...
    @property
    def origin(self) -> str: ...


_L = TypeVar("_L", bound=_Located)


@contextlib.contextmanager
def obtain(config: pytest.Config, name: str, source: AbstractContextManager[_L]) -> Iterator[_L]:
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(source)
        except WrongAddress as mistake:
            pytest.fail(str(mistake), pytrace=False)
        except Unavailable as reason:
            fail_if_required(reason)
            config.stash[_missing][name] = str(reason)
            pytest.skip(f"no real {name}")
        config.stash[_found][name] = f"{found.address} ({found.origin})"
        yield found


def _bring_back(local: Local) -> None:
    for service in local:
        if service.is_running:
            service.resume()
        else:
            service.restart()
