"""Clients of Kafka in the company of brokers that hang, and with parts that have ended: they go on, or say so."""

import asyncio
import contextlib
import socket
from operator import attrgetter

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaError

from shoal.streams.kafka.partition_reader import open_reader, read_at, read_ends, read_oldest, read_to_end
from shoal.streams.kafka.topics import Topics, ensure_topics
from shoal.streams.kafka.transaction import Transaction


async def test_a_client_does_not_wait_long_for_brokers_that_are_silent(kafka: str, table: str) -> None:
    """A machine that is gone refuses nothing: connections to it are taken, or seem to be, and nothing is answered."""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        servers = [*(f"127.0.0.1:{one.getsockname()[1]}" for one in silent), kafka]
        async with asyncio.timeout(40):  # each of the three is waited for once, and then known
            for _ in range(4):
                async with open_reader(servers):
                    pass
                producer = Transaction(servers, f"{table}.any")
                await producer.start()
                await producer.stop()


async def test_a_consumer_whose_fetching_has_ended_is_told_from_one_to_which_nothing_comes(
    kafka: str, table: str
) -> None:
    topic = TopicPartition(Topics(table).releases, 0)
    await ensure_topics([kafka], table, 1)
    for part in ("_fetcher._fetch_task", "_client._sync_task"):
        async with open_reader([kafka]) as consumer:
            assert [records async for records in read_to_end(consumer, topic, 0)] == []
            task = attrgetter(part)(consumer)
            task.cancel()
            await asyncio.wait({task})
            with pytest.raises(KafkaError, match="ended"):
                await read_at(consumer, topic, [0])


async def test_the_end_of_a_topic_is_asked_for_once(kafka: str, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that did not know the topic would be refused, wait and ask again: 0.1 s of every release."""
    await ensure_topics([kafka], table, 4)
    assert await read_ends([kafka], Topics(table).events, 4) == dict.fromkeys(range(4), 0)  # by then it has a leader
    ask, asked = Fetcher._proc_offset_requests, []

    async def counted(self: Fetcher, timestamps: object) -> object:
        asked.append(timestamps)
        return await ask(self, timestamps)

    monkeypatch.setattr(Fetcher, "_proc_offset_requests", counted)
    await read_ends([kafka], Topics(table).events, 4)
    async with open_reader([kafka]) as consumer:
        assert await read_oldest(consumer, TopicPartition(Topics(table).events, 0)) == 0
    assert len(asked) == 2
