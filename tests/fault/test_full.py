"""Kafka and Redis that run out of memory or disk. A worker waits, says what for, and goes on when there is room."""

import pytest

from deploy.local.ports import free_port
from tests.fault.scene import PATIENCE_S, Scene
from tests.fault.test_seen import ready
from tests.support.judges.metrics import value
from tests.support.services.ask import ask
from tests.support.services.frail import Frail
from tests.support.services.table import await_that


def _await_reason(port: int, words: str) -> None:
    """Wait until the worker is not ready for this reason; its metrics say that it is stuck, and it is alive."""
    await_that(lambda: words in (ready(port)[1]["reason"] or ""), PATIENCE_S)
    assert ready(port)[0] == 503
    assert value(ask(port, "metrics")[1], "shoal_ingest_course", course="stuck") == 1
    assert ask(port, "health")[0] == 200


@pytest.mark.timeout(400)
def test_a_redis_out_of_memory_is_waited_for_and_named(starved: Scene, frail: Frail) -> None:
    port = free_port()
    with starved.connect() as admin, starved.at_work(WEB_PORT=str(port)) as worker:
        worker.await_log("release.applied", PATIENCE_S)
        admin.config_set("maxmemory", 1)
        worker.await_log("OutOfMemoryError", PATIENCE_S)
        _await_reason(port, "Redis is full")
        admin.config_set("maxmemory", 0)
        await_that(lambda: ready(port)[0] == 200, PATIENCE_S)
    assert worker.log.count("OutOfMemoryError") < 30, "it tries again and again without a pause"


@pytest.mark.timeout(400)
def test_a_redis_out_of_disk_is_waited_for_and_named_and_one_that_ends_has_lost_nothing(
    starved: Scene, frail: Frail
) -> None:
    port = free_port()
    with starved.connect() as admin, starved.at_work(WEB_PORT=str(port)) as worker:
        worker.await_log("release.applied", PATIENCE_S)
        admin.config_set("appendfsync", "everysec")  # so it answers MISCONF
        frail.redis_disk.fill()
        _await_reason(port, "disk")
        frail.redis_disk.make_room()
        await_that(lambda: ready(port)[0] == 200, PATIENCE_S)
        admin.config_set("appendfsync", "always")  # so it ends: it cannot take back what it has done in memory
        frail.redis_disk.fill()
        await_that(lambda: not frail.redis.is_running, PATIENCE_S)
        frail.redis_disk.make_room()
        frail.redis.restart()


@pytest.mark.soak  # a broker takes its time to end and to come back
@pytest.mark.timeout(400)
def test_a_kafka_that_ends_because_its_disk_is_full_has_lost_nothing_when_it_is_back(
    starved: Scene, frail: Frail
) -> None:
    with starved.at_work() as worker:
        worker.await_log("release.applied", PATIENCE_S)
        frail.kafka_disk.fill()
        await_that(lambda: not frail.kafka.is_running, PATIENCE_S)
        frail.kafka_disk.make_room()
        frail.kafka.restart()
