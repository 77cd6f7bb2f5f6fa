"""Slow wires, black holes and one-way cuts between a worker and its services. The soak has more and longer ones."""

import time

import pytest

from tests.fault.scene import PATIENCE_S, Scene
from tests.support.services.frail import Frail

_CUT_S = 2.5  # longer than a session


@pytest.mark.timeout(400)
def test_slow_and_cut_wires_cost_time_and_nothing_else(starved: Scene, frail: Frail) -> None:
    with starved.at_work() as worker:
        worker.await_log("release.applied", PATIENCE_S)
        for wire, other in ((frail.redis_wire, frail.kafka_wire), (frail.kafka_wire, frail.redis_wire)):
            other.slow(0.1)
            wire.cut()
            time.sleep(_CUT_S)
            wire.heal()
            wire.cut(requests=False)  # what is asked for has its effect, and nobody hears of it
            time.sleep(1.0)
            wire.heal(torn=True)
            other.heal()


@pytest.mark.timeout(400)
def test_requests_that_arrive_after_their_worker_was_replaced_have_no_effect(starved: Scene, frail: Frail) -> None:
    late = starved.start_ready()
    late.await_log("planner.ready", PATIENCE_S)
    with starved.load():
        late.await_log("release.applied", PATIENCE_S)
        for wire in (frail.redis_wire, frail.kafka_wire):
            wire.cut(answers=False)
        other = starved.start(KAFKA=starved.kafka, REDIS=starved.redis)  # by no wire
        other.await_log("ingest.loaded", PATIENCE_S, count=starved.partitions)
        other.await_log("release.applied", PATIENCE_S)
        for wire in (frail.redis_wire, frail.kafka_wire):
            wire.heal()
    starved.finish()
    time.sleep(1.0)
    starved.verdict()  # a second content or letter would come late
    assert late.stop() == 0, late.log
    assert other.stop() == 0, other.log
