"""What a worker says of itself while a service is away: it is alive, not ready, and still tells Prometheus why."""

import json
from typing import Any

from deploy.local import Local
from deploy.local.ports import free_port
from tests.fault.scene import PATIENCE_S, Scene
from tests.support.judges.metrics import read_page, value
from tests.support.services.ask import ask
from tests.support.services.table import await_that


def ready(port: int) -> tuple[int, dict[str, Any]]:
    status, text = ask(port, "ready")
    return status, json.loads(text)


def silence_s(port: int) -> float:
    """Seconds since Kafka last answered a fetch of the partition that has waited longest."""
    samples = read_page(ask(port, "metrics")[1])["shoal_kafka_silence_seconds"].samples
    return max((sample.value for sample in samples), default=0.0)


def test_a_worker_without_redis_is_alive_and_not_ready_and_says_why(fragile: Scene, native_services: Local) -> None:
    port = free_port()
    worker = fragile.start_ready(WEB_PORT=str(port))
    await_that(lambda: ready(port)[0] == 200, PATIENCE_S)
    before = value(ask(port, "metrics")[1], "shoal_reconnects_total", service="redis", part="ingest")
    native_services.redis.kill()
    await_that(lambda: ready(port)[0] == 503, PATIENCE_S)
    found = ready(port)[1]
    assert (found["state"], found["redis"], found["reason"]) == ("stuck", False, "Redis does not answer")
    assert ask(port, "health")[0] == 200
    await_that(
        lambda: value(ask(port, "metrics")[1], "shoal_reconnects_total", service="redis", part="ingest") > before,
        PATIENCE_S,
    )
    native_services.redis.restart()
    await_that(lambda: ready(port)[0] == 200, PATIENCE_S)
    assert worker.stop() == 0


def test_a_kafka_that_hangs_is_seen_before_anything_times_out(fragile: Scene, native_services: Local) -> None:
    port = free_port()
    worker = fragile.start_ready(WEB_PORT=str(port), SESSION_S="10")
    await_that(lambda: ready(port)[0] == 200, PATIENCE_S)
    await_that(lambda: 0.0 < silence_s(port) < 1.0, PATIENCE_S)
    native_services.kafka.pause()
    try:
        await_that(lambda: silence_s(port) > 2.0, PATIENCE_S)
        assert ready(port)[1]["state"] == "ready", "two seconds are not an outage yet"
    finally:
        native_services.kafka.resume()
    await_that(lambda: 0.0 < silence_s(port) < 1.0, PATIENCE_S)
    assert worker.stop() == 0
