"""Sending records to one partition in one Kafka transaction: a reader of committed records sees all of them or none."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import IllegalOperation, KafkaError, ProducerFenced

from shoal.streams.errors import FencedError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.topics import LONGEST_DEAD_LETTER
from shoal.streams.prometheus import KAFKA_SECONDS

_BATCH = 256 * 1024
_START_S = 30.0
_STOP_S = 5.0


class Message(NamedTuple):
    """A record to send. Key and value may both be None: a dead letter is a copy of its original."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


Outgoing = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
"""A `Message`, or the same as a plain tuple: of a release's hundred thousand records none has to be named."""


class Transaction:
    """A transactional producer. Its start ends the open transaction of the id's former owner, and refuses that owner.

    After any error the outcome of the transaction is unknown until the topic is read again: stop this producer and
    start a new one.
    """

    def __init__(
        self, servers: list[str], transactional_id: str, timeout_s: float = 60.0, batch_bytes: int = _BATCH
    ) -> None:
        self._timeout_s = timeout_s
        self._producer = AIOKafkaProducer(
            **client_options(servers),
            transactional_id=transactional_id,
            transaction_timeout_ms=int(1000 * timeout_s),
            max_batch_size=min(batch_bytes, _BATCH),
            max_request_size=2 * LONGEST_DEAD_LETTER,
            request_timeout_ms=30_000,
        )

    async def start(self) -> None:
        """Raises KafkaError, also if there is no answer: aiokafka may wait for ever when coordinators come and go."""
        try:
            async with asyncio.timeout(_START_S):
                await self._producer.start()
        except TimeoutError as error:
            raise KafkaError("Kafka did not hand over the transactional id in time") from error
        except AssertionError as error:
            # aiokafka's own: a broker that has just come back may name no broker at all, not even itself.
            raise KafkaError("Kafka names no broker") from error

    async def send(self, topic: str, partition: int, messages: Iterable[Outgoing], crash: str = "") -> int:
        """Send everything and commit; returns the offset after the last record. Raises FencedError or KafkaError.

        `crash` names the crash point between the two.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(2 * self._timeout_s):  # the broker gave up long ago
                await self._producer.begin_transaction()
                end = await self._send_all(topic, partition, messages)
                crash_point(crash)
                await self._producer.commit_transaction()
            KAFKA_SECONDS.labels("transaction").observe(time.monotonic() - began)
        except TimeoutError as error:
            raise KafkaError("the transaction took too long") from error
        except ProducerFenced:
            raise FencedError from None
        except (IllegalOperation, AssertionError) as error:
            # aiokafka's state machine, after an error in the background; the producer cannot be used any more.
            raise KafkaError("the transaction failed") from error
        return end

    async def _send_all(self, topic: str, partition: int, messages: Iterable[Outgoing]) -> int:
        return await send_batches(self._producer, topic, partition, messages)

    async def stop(self) -> None:
        """Let go of the id. An open transaction is aborted by the id's next owner, or by the broker's timeout."""
        with contextlib.suppress(KafkaError, TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._producer.stop(), _STOP_S)


async def send_batches(producer: AIOKafkaProducer, topic: str, partition: int, messages: Iterable[Outgoing]) -> int:
    """Send these in the open transaction, and wait until they have arrived; returns the offset after the last one.

    A batch takes a record without key and value, which `AIOKafkaProducer.send` refuses.
    """
    sent: list[tuple[int, asyncio.Future[Any]]] = []
    batch = producer.create_batch()
    for key, value, headers in messages:
        while batch.append(timestamp=None, key=key, value=value, headers=list(headers)) is None:
            sent.append((batch.record_count(), await producer.send_batch(batch, topic, partition=partition)))
            batch = producer.create_batch()
    if batch.record_count():
        sent.append((batch.record_count(), await producer.send_batch(batch, topic, partition=partition)))
    # commit_transaction commits the batches that arrived: a batch that failed must raise here, before it.
    answers = await asyncio.gather(*(future for _, future in sent))
    return max((answer.offset + count for (count, _), answer in zip(sent, answers, strict=True)), default=0)
