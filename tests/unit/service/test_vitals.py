"""What a source or a sink says of itself: only if it is given a port, and of a port that is taken one sentence."""

import asyncio

import pytest

from deploy.local.ports import answers, free_port
from shoal.core.events.event import Reason
from shoal.streams.errors import InputError
from shoal.streams.settings import Settings
from shoal.streams.vitals import READY, SinkVitals, SourceVitals, check_port, serving
from tests.support.judges.metrics import value
from tests.support.services.ask import ask


async def test_a_source_is_ready_while_it_works_and_counts_batches() -> None:
    vitals, port = SourceVitals("ward"), free_port()
    async with serving(vitals, Settings(), port):
        assert (await asyncio.to_thread(ask, port, "ready"))[0] == 503
        vitals.say(READY)
        vitals.batch(5, 3, [Reason.BAD_JSON, Reason.WRONG_TYPE, Reason.BAD_JSON])
        vitals.behind(7)
        assert (await asyncio.to_thread(ask, port, "ready"))[0] == 200
        _, page = await asyncio.to_thread(ask, port, "metrics")
        vitals.again("KafkaError")
        status, said = await asyncio.to_thread(ask, port, "ready")
    assert (status, '"reason": "it begins again after KafkaError"' in said) == (503, True)
    assert value(page, "shoal_source_records_total", table="ward") == 5
    assert value(page, "shoal_source_events_total", table="ward") == 3
    assert value(page, "shoal_source_rejects_total", table="ward", reason="bad-json") == 2
    assert value(page, "shoal_source_lag_records", table="ward") == 7
    assert not answers(port)


async def test_without_a_port_nothing_is_served_and_one_that_is_taken_is_named() -> None:
    async with serving(SinkVitals("ward"), Settings(), None):
        pass
    port = free_port()
    async with serving(SinkVitals("ward"), Settings(), port):
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 is taken: choose another one with --web-port"):
            async with serving(SinkVitals("ward"), Settings(), port):
                pass
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 is taken: choose another one with SHOAL_WEB"):
            check_port(Settings(web_port=port))
    check_port(Settings(web_port=port))
    check_port(Settings(web_port=0))
