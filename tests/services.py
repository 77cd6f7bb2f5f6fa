"""Finds a real Kafka and a real Redis for the tests: addresses one is given, else Docker, else deploy/local.

There is no fake of either. Where a service cannot be had, the tests that need it say why and are skipped; with
SHOAL_REQUIRE_SERVICES=1, as in CI, they fail instead.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from deploy.local import Local, Unavailable, local_services
from deploy.local.ports import free_port

# The images of docker-compose.yml; a test keeps them alike.
KAFKA_IMAGE = "apache/kafka:3.9.1"
REDIS_IMAGE = "redis:7.4.2-alpine"
_DOCKER_WITHIN_S = 180.0


@dataclass(frozen=True)
class Services:
    """Where the two services are, and where they came from."""

    kafka: str
    redis: str
    origin: str
    local: Local | None = None
    """The processes, when they are ours to kill."""


@contextlib.contextmanager
def services() -> Iterator[Services]:
    """The first of the three that works. Raises Unavailable with every reason, one line each."""
    given = _given()
    if given is not None:
        yield given
        return
    reasons: list[str] = []
    with contextlib.ExitStack() as stack:
        for source in (docker_services, native_services):
            try:
                found = stack.enter_context(source())
            except Unavailable as reason:
                reasons.append(str(reason))
            else:
                yield found
                return
    raise Unavailable("no Kafka and Redis for the tests:\n  " + "\n  ".join(reasons))


@contextlib.contextmanager
def native_services() -> Iterator[Services]:
    """Processes of our own, which a fault test may kill. Raises Unavailable."""
    with local_services() as local:
        yield Services(local.kafka.address, local.redis.address, "native", local)


@contextlib.contextmanager
def docker_services() -> Iterator[Services]:
    """Containers, on loopback ports, removed at the end. Raises Unavailable when no Docker engine answers."""
    _require_docker()
    from testcontainers.core.container import DockerContainer

    kafka_port, redis_port = free_port(), free_port()
    kafka = DockerContainer(KAFKA_IMAGE).with_envs(**_kafka_environment(kafka_port))
    redis = DockerContainer(REDIS_IMAGE).with_command("redis-server --appendonly yes --appendfsync always --save ''")
    kafka.ports[str(kafka_port)] = ("127.0.0.1", kafka_port)
    redis.ports["6379"] = ("127.0.0.1", redis_port)
    found = Services(f"127.0.0.1:{kafka_port}", f"redis://127.0.0.1:{redis_port}/0", "docker")
    with contextlib.ExitStack() as stack:
        try:
            for container in (kafka, redis):
                stack.callback(container.stop)
                container.start()
            _await_answers(found)
        except Exception as error:  # noqa: BLE001 - whatever Docker does, the native services are tried next
            raise Unavailable(f"Docker answers but did not run the services ({type(error).__name__})") from None
        yield found


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
    except redis.RedisError:
        return False


def _given() -> Services | None:
    kafka, redis = os.environ.get("SHOAL_TEST_KAFKA"), os.environ.get("SHOAL_TEST_REDIS")
    if not kafka and not redis:
        return None
    if not kafka or not redis:
        raise Unavailable("SHOAL_TEST_KAFKA and SHOAL_TEST_REDIS go together; only one of them is set")
    # An address that was asked for and does not answer is a mistake to report, not a reason to test something else.
    if not kafka_answers(kafka, 10):
        raise Unavailable("no Kafka answers at SHOAL_TEST_KAFKA")
    if not redis_answers(redis, 10):
        raise Unavailable("no Redis answers at SHOAL_TEST_REDIS")
    return Services(kafka, redis, "given")


def _require_docker() -> None:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=3)
        client.ping()
        client.close()
    except (DockerException, OSError):
        raise Unavailable("Docker: no engine answers") from None


def _kafka_environment(port: int) -> dict[str, str]:
    return {
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


def _await_answers(found: Services) -> None:
    deadline = time.monotonic() + _DOCKER_WITHIN_S
    while not (redis_answers(found.redis, 2) and kafka_answers(found.kafka, 5)):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.2)
