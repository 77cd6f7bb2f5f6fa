"""Finds a real Kafka and a real Redis for the tests: at an address that is given, else in Docker, else natively.

There is no fake of either. Where one cannot be had, the tests that need it say why and are skipped; with
SHOAL_REQUIRE_SERVICES=1, as in CI, they fail instead. The two are found independently: a machine without Java still
tests everything that needs only Redis.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import Redis, Service, Unavailable
from deploy.local.kafka import BriefKafka
from deploy.local.ports import free_port
from deploy.local.postgres import Postgres

# The images of docker-compose.yml; a test keeps them alike.
KAFKA_IMAGE = "apache/kafka:3.9.2"
REDIS_IMAGE = "valkey/valkey:8.1.10-trixie"
_DOCKER_WITHIN_S = 180.0


class WrongAddress(Exception):
    """An address that was given does not answer: a mistake to report, not a reason to skip or to test another."""


@dataclass(frozen=True)
class Found:
    """Where a service is, where it came from, and its process when that is ours to kill."""

    address: str
    origin: str
    service: Service | None = None


_Source = Callable[[], contextlib.AbstractContextManager[Found]]


@contextlib.contextmanager
def find_kafka() -> Iterator[Found]:
    """The first Kafka that can be had. Raises Unavailable with every reason, or WrongAddress."""
    with _first("Kafka", _given("SHOAL_TEST_KAFKA", kafka_answers), docker_kafka, native_kafka) as found:
        yield found


@contextlib.contextmanager
def find_redis() -> Iterator[Found]:
    """The first Redis that can be had. Raises Unavailable with every reason, or WrongAddress."""
    with _first("Redis", _given("SHOAL_TEST_REDIS", redis_answers), docker_redis, native_redis) as found:
        yield found


@contextlib.contextmanager
def native_kafka() -> Iterator[Found]:
    """A process of our own, with throw-away data. Raises Unavailable."""
    with _native(BriefKafka) as found:
        yield found


@contextlib.contextmanager
def native_redis() -> Iterator[Found]:
    """A process of our own, with throw-away data. Raises Unavailable."""
    with _native(Redis) as found:
        yield found


@contextlib.contextmanager
def native_postgres() -> Iterator[Found]:
    """A process of our own, with throw-away data. Raises Unavailable."""
    with _native(Postgres) as found:
        yield found


@contextlib.contextmanager
def docker_kafka() -> Iterator[Found]:
    """A container on a loopback port, removed at the end. Raises Unavailable."""
    port = free_port()
    settings = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{port},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_LOG_RETENTION_MS": "-1",
    }
    with _container(KAFKA_IMAGE, port, port, settings, None, lambda: kafka_answers(f"127.0.0.1:{port}", 5)):
        yield Found(f"127.0.0.1:{port}", "Docker")


@contextlib.contextmanager
def docker_redis() -> Iterator[Found]:
    """A container on a loopback port, removed at the end. Raises Unavailable."""
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    command = ["valkey-server", "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    with _container(REDIS_IMAGE, 6379, port, {}, command, lambda: redis_answers(url, 2)):
        yield Found(url, "Docker")


def environment(kafka: str, redis: str, **settings: str) -> dict[str, str]:
    """The environment for a process under test: ours without any SHOAL_ setting, plus these.

    `environment(kafka, redis, KEY="…")` sets SHOAL_KEY. Nothing of the developer's own configuration leaks in.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    chosen = {"KAFKA": kafka, "REDIS": redis, **settings}
    return inherited | {f"SHOAL_{name}": value for name, value in chosen.items()}


def kafka_answers(address: str, within_s: float) -> bool:
    """Whether a broker at this address lists itself."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return bool(AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=within_s).brokers)
    except KafkaException:
        return False


def redis_answers(url: str, within_s: float) -> bool:
    """Whether a Redis at this address answers PING."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_timeout=within_s, socket_connect_timeout=within_s) as client:
            return bool(client.ping())
    except (redis.RedisError, ValueError):
        return False


@contextlib.contextmanager
def _first(name: str, *sources: _Source) -> Iterator[Found]:
    reasons: list[str] = []
    with contextlib.ExitStack() as stack:
        for source in sources:
            try:
                found = stack.enter_context(source())
            except Unavailable as reason:
                reasons.append(str(reason))
            else:
                yield found
                return
    raise Unavailable(f"no {name} for the tests: " + "; ".join(reason for reason in reasons if reason))


def _given(variable: str, is_there: Callable[[str, float], bool]) -> _Source:
    @contextlib.contextmanager
    def given() -> Iterator[Found]:
        address = os.environ.get(variable)
        if not address:
            raise Unavailable(f"{variable} is not set")
        if not is_there(address, 10):
            raise WrongAddress(f"nothing answers at the address in {variable}")
        yield Found(address, variable)

    return given


@contextlib.contextmanager
def _native(kind: type[Service]) -> Iterator[Found]:
    folder = Path(tempfile.mkdtemp(prefix=f"shoal-{kind.name}-"))
    service = kind(folder)
    try:
        service.start()
        yield Found(service.address, "native", service)
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _container(
    image: str,
    inside: int,
    outside: int,
    settings: dict[str, str],
    command: list[str] | None,
    is_up: Callable[[], bool],
) -> Iterator[None]:
    _require_docker()
    from testcontainers.core.container import DockerContainer

    container: Any = DockerContainer(image).with_envs(**settings)
    container.ports[str(inside)] = ("127.0.0.1", outside)
    if command is not None:
        container.with_command(command)
    with contextlib.ExitStack() as stack:
        try:
            stack.callback(container.stop)
            container.start()
        except Exception as error:  # noqa: BLE001 - whatever Docker does, the native service is tried next
            raise Unavailable(f"Docker answers but did not run {image} ({type(error).__name__})") from None
        deadline = time.monotonic() + _DOCKER_WITHIN_S
        while not is_up():
            if time.monotonic() > deadline:
                raise Unavailable(f"Docker ran {image} but nothing answered within {_DOCKER_WITHIN_S:.0f} s")
            time.sleep(0.2)
        yield


def _require_docker() -> None:
    import docker
    from docker.errors import DockerException

    try:
        with contextlib.closing(docker.from_env(timeout=3)) as client:
            client.ping()
    except (DockerException, OSError):
        raise Unavailable("no Docker engine answers") from None
