"""Kafka and Redis that die and come back under a running worker."""

import time

import pytest

from deploy.local import Local
from tests.fault.scene import PATIENCE_S, Scene, said
from tests.support.services.table import await_that


@pytest.mark.timeout(400)
def test_redis_killed_and_restarted_under_load_costs_time_and_nothing_else(
    fragile: Scene, native_services: Local
) -> None:
    with fragile.at_work():
        for _ in range(2):
            time.sleep(0.7)
            native_services.redis.kill()
            time.sleep(0.3)
            native_services.redis.restart()
        time.sleep(0.5)


@pytest.mark.timeout(400)
def test_kafka_killed_and_restarted_under_load_costs_time_and_nothing_else(
    fragile: Scene, native_services: Local
) -> None:
    with fragile.at_work():
        time.sleep(1.0)
        native_services.kafka.kill()
        native_services.kafka.restart()
        time.sleep(0.5)


@pytest.mark.timeout(400)
def test_a_worker_whose_kafka_is_killed_as_it_starts_works_soon_after_or_says_that_kafka_was_away(
    fragile: Scene, native_services: Local
) -> None:
    fragile.pour(60)
    fragile.ask()
    worker = fragile.start_ready()  # Faust, which brings the requests, joins its group only now
    native_services.kafka.kill()
    native_services.kafka.restart()
    await_that(lambda: worker.process.poll() is not None or "release.published" in worker.log, 60, worker._log)
    if worker.process.poll() is not None:
        assert (worker.wait(), "Kafka cannot be reached" in said(worker)) == (3, True), worker.log
        fragile.start().await_log("release.published", PATIENCE_S)
    fragile.finish()


@pytest.mark.timeout(400)
def test_services_that_hang_for_a_while_cost_time_and_nothing_else(fragile: Scene, native_services: Local) -> None:
    with fragile.at_work():
        for service in native_services:
            service.pause()
            time.sleep(3.0)  # longer than a session
            service.resume()
