"""Sends a batch in one Kafka transaction: its events, its dead letters, and how far the input was read.

The number of the batch stands beside every offset, as the metadata of Kafka's consumer group. So a source that starts
can tell whether the last batch of a former one was committed, also if that batch moved no offset.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation, KafkaError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata

from shoal.streams.errors import FencedError
from shoal.streams.faults import crash_point
from shoal.streams.intake.formats import MSGPACK
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.partition_reader import stop_client
from shoal.streams.kafka.topics import LONGEST_DEAD_LETTER, Topics, admin_client
from shoal.streams.kafka.transaction import Message, send_batches

_TRANSACTION_S = 60.0
_HEADERS = [("content-type", MSGPACK.media_types[0].encode())]


class Committed(NamedTuple):
    """What Kafka has of the source: the number of the last batch, 0 if it has none, and the offsets after it."""

    number: int
    offsets: Mapping[TopicPartition, int]


class Outlet:
    """The transactional producer of one table's source. Its start refuses the former one, and ends its transaction.

    After any error the outcome of the transaction is unknown: stop this outlet, start another, and ask `committed`.
    """

    def __init__(self, servers: list[str], table: str) -> None:
        self._servers, self._topics = servers, Topics(table)
        self._producer = AIOKafkaProducer(
            **client_options(servers),
            transactional_id=self._topics.source,
            transaction_timeout_ms=int(1000 * _TRANSACTION_S),
            linger_ms=5,
            max_batch_size=256 * 1024,
            max_request_size=2 * LONGEST_DEAD_LETTER,
        )

    async def start(self) -> None:
        """Raises KafkaError."""
        try:
            await self._producer.start()
        except AssertionError as error:  # aiokafka's own, see streams/kafka/transaction.py
            raise KafkaError("Kafka names no broker") from error

    async def committed(self) -> Committed:
        """How far Kafka says that the source is; only true after the start, which ends open transactions."""
        async with admin_client(self._servers, _TRANSACTION_S) as admin:
            found = await admin.list_consumer_group_offsets(self._topics.source)
        numbers = [int(one.metadata) for one in found.values() if one.metadata.isdigit()]
        return Committed(max(numbers, default=0), {partition: one.offset for partition, one in found.items()})

    async def send(
        self,
        number: int,
        events: Iterable[Mapping[str, Any]],
        letters: Iterable[Message],
        offsets: Mapping[TopicPartition, int],
    ) -> None:
        """Step 4: all of it or nothing. Raises FencedError or KafkaError."""
        try:
            async with asyncio.timeout(2 * _TRANSACTION_S):
                await self._producer.begin_transaction()
                await self._send_all(events, letters)
                places = {partition: OffsetAndMetadata(end, str(number)) for partition, end in offsets.items()}
                await self._producer.send_offsets_to_transaction(places, self._topics.source)
                crash_point("source.4.open")
                await self._producer.commit_transaction()
        except TimeoutError as error:
            raise KafkaError("the transaction took too long") from error
        except ProducerFenced:
            raise FencedError from None
        except (IllegalOperation, AssertionError) as error:  # as in streams/kafka/transaction.py
            raise KafkaError("the transaction failed") from error

    async def stop(self) -> None:
        """Let go of the id. An open transaction is ended by the next owner."""
        await stop_client(self._producer)

    async def _send_all(self, events: Iterable[Mapping[str, Any]], letters: Iterable[Message]) -> None:
        sent = []
        for event in events:
            key, value = event["id"].encode(), MSGPACK.write(event)
            # Without a partition it is the key's murmur2 hash, as for every producer of Shoal.
            sent.append(await self._producer.send(self._topics.events, value, key=key, headers=_HEADERS))
        await send_batches(self._producer, self._topics.dead_letter, 0, letters)
        # A commit would commit what arrived: what did not must raise here.
        await asyncio.gather(*sent)
