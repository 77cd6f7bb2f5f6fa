"""Kafka and Redis that die and come back under a running worker."""

import time

import pytest

from deploy.local import Local
from tests.fault.scene import Scene


@pytest.mark.timeout(400)
def test_redis_killed_and_restarted_under_load_costs_time_and_nothing_else(
    fragile: Scene, native_services: Local
) -> None:
    worker = fragile.start_ready()
    with fragile.load():
        for _ in range(2):
            time.sleep(0.7)
            native_services.redis.kill()
            time.sleep(0.3)
            native_services.redis.restart()
        time.sleep(0.5)
    fragile.finish()
    assert worker.stop() == 0, worker.log


@pytest.mark.timeout(400)
def test_kafka_killed_and_restarted_under_load_costs_time_and_nothing_else(
    fragile: Scene, native_services: Local
) -> None:
    worker = fragile.start_ready()
    with fragile.load():
        time.sleep(1.0)
        native_services.kafka.kill()
        native_services.kafka.restart()
        time.sleep(0.5)
    fragile.finish()
    assert worker.stop() == 0, worker.log


@pytest.mark.timeout(400)
def test_services_that_hang_for_a_while_cost_time_and_nothing_else(fragile: Scene, native_services: Local) -> None:
    worker = fragile.start_ready()
    with fragile.load():
        for service in native_services:
            service.pause()
            time.sleep(3.0)  # longer than a session
            service.resume()
    fragile.finish()
    assert worker.process.poll() is None, worker.log
