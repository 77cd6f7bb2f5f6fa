"""Publishing one shard's part of a release, in numbered transactions of at most 32 MiB (docs/protocol.md, step 7).

A part may be too large for one transaction. That a reader sees some of it early is harmless: the release was announced
before, so it is this release. What must not happen is a record that comes twice, or another one in its place. So the
new owner of a shard ends the former owner's open transaction and reads what is committed in the shard's partition since
the release before. It compares that with what is to be sent, record by record, and goes on after it. On the first
partition manifests and `sealed` records stand between the parts. They are passed over.

The first record of each transaction has the transaction's number as a header.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final, NamedTuple

from aiokafka import TopicPartition

from shoal.streams.errors import GuaranteeError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.manifest import KIND, Headers
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Transaction

LARGEST_BYTES: Final = 32 * 1024 * 1024
NUMBER: Final = "transaction"
_TRANSACTION_S: Final = 120.0
_OVERHEAD: Final = 64  # bytes of a record beside its value, about


class Sent(NamedTuple):
    """Where a part stands: the offset of its first record, and the one after its last."""

    first: int
    end: int


class PartPublisher:
    """The right to publish the parts of one shard: a transactional id, whose last owner alone can commit."""

    def __init__(self, servers: list[str], table: str, shard: int, largest_bytes: int = LARGEST_BYTES) -> None:
        topics = Topics(table)
        self._servers, self._table, self._largest = servers, table, largest_bytes
        self._partition = TopicPartition(topics.releases, shard)
        self._transaction = Transaction(servers, topics.parts_producer(shard), _TRANSACTION_S)
        self._end: int | None = None  # after the last record that was sent under this ownership

    async def start(self) -> None:
        """Take ownership: the former owner's open transaction is aborted. Raises KafkaError."""
        await self._transaction.start()

    async def stop(self) -> None:
        await self._transaction.stop()

    async def publish(self, number: int, records: Sequence[bytes], begin: int) -> Sent:
        """Step 7: send what is not committed yet of a part. `begin` is where the part of the release before ended.

        Raises GuaranteeError if the partition has something else, FencedError, KafkaError.
        """
        key = f"{self._table}/{number}".encode()
        done, first, end = await self._committed(key, records, begin)
        for at, (start, stop) in enumerate(split(records, self._largest)):
            if stop <= done:
                continue
            if start < done:
                raise self._another(number)
            headers: Iterator[Headers] = chain([((NUMBER, str(at).encode()),)], repeat(()))
            messages = zip(repeat(key), records[start:stop], headers)
            topic, shard = self._partition.topic, self._partition.partition
            end = await self._transaction.send(topic, shard, messages, crash="release.7.open")
            first = end - (stop - start) if first is None else first
            crash_point("release.7.part")
        self._end = end
        return Sent(begin if first is None else first, end)

    async def _committed(self, key: bytes, records: Sequence[bytes], begin: int) -> tuple[int, int | None, int]:
        """How many records of a part are committed, the offset of the first, and the one after the last.

        The topic is not read if the part begins where this owner's last part ended: nobody else can have sent anything
        since.
        """
        count, first, end = 0, None, begin
        if begin == self._end:
            return count, first, end
        async with open_reader(self._servers) as consumer:
            async for found in read_to_end(consumer, self._partition, begin):
                for record in found:
                    if KIND in dict(record.headers):
                        continue
                    is_next = record.key == key and count < len(records) and record.value == records[count]
                    if not is_next:
                        raise self._another(int(key.rpartition(b"/")[2]))
                    first, end, count = record.offset if first is None else first, record.offset + 1, count + 1
        return count, first, end

    def _another(self, number: int) -> GuaranteeError:
        return GuaranteeError(
            f"topic {self._partition.topic}, partition {self._partition.partition}, has other records for release "
            f"{number} than were sealed: nothing is published until they are explained"
        )


def split(records: Sequence[bytes], largest_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of records, from one place to before another, for one transaction each."""
    if records and sum(map(len, records)) + _OVERHEAD * len(records) <= largest_bytes:
        yield 0, len(records)
        return
    start, size = 0, 0
    for place, record in enumerate(records):
        length = len(record) + _OVERHEAD
        if size and size + length > largest_bytes:
            yield start, place
            start, size = place, 0
        size += length
    if size:
        yield start, len(records)
