"""Publishing a part in numbered transactions: a new owner goes on after the last committed one and repeats nothing."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from confluent_kafka import Consumer, TopicPartition

from shoal.streams.errors import FencedError, GuaranteeError
from shoal.streams.kafka.part_publisher import NUMBER, PartPublisher, Sent, split
from shoal.streams.kafka.topics import Topics, ensure_topics

RECORDS = [b"record %02d" % number for number in range(20)]
SMALL = 5 * 80  # bytes of a transaction: five records and their overhead


class _Cut(Exception):
    """The process ends here."""


@pytest_asyncio.fixture
async def servers(kafka: str, table: str) -> AsyncIterator[list[str]]:
    await ensure_topics([kafka], table, 1, shards=2, within_s=30)
    yield [kafka]


async def _started(servers: list[str], table: str) -> PartPublisher:
    publisher = PartPublisher(servers, table, 1, SMALL)
    await publisher.start()
    return publisher


def test_a_part_is_split_by_its_bytes_and_no_record_is_lost() -> None:
    assert list(split(RECORDS, SMALL)) == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert list(split([], SMALL)) == []
    assert list(split([b"x" * 1000, b"y"], SMALL)) == [(0, 1), (1, 2)]


async def test_a_new_owner_goes_on_after_the_last_committed_transaction(
    servers: list[str], table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await _started(servers, table)
    begin = (await first.publish(1, RECORDS[:3], 0)).end
    committed = 0

    def cut(name: str) -> None:
        nonlocal committed
        committed += name == "release.7.part"
        if committed == 2:
            raise _Cut

    monkeypatch.setattr("shoal.streams.kafka.part_publisher.crash_point", cut)
    with pytest.raises(_Cut):
        await first.publish(2, RECORDS, begin)
    monkeypatch.undo()
    second = await _started(servers, table)
    sent = await second.publish(2, RECORDS, begin)
    assert await second.publish(2, RECORDS, begin) == sent, "what is there is found"
    with pytest.raises(FencedError):
        await first.publish(3, RECORDS, sent.end)
    found = _read(servers, table)
    assert [value for _, value, _ in found] == [*RECORDS[:3], *RECORDS]
    mine = [(offset, number) for offset, _, number in found if offset >= begin]
    assert (sent.first, sent.end) == (mine[0][0], mine[-1][0] + 1)
    assert [number for _, number in mine if number is not None] == [b"0", b"1", b"2", b"3"]
    assert await second.publish(3, [], sent.end) == Sent(sent.end, sent.end), "an empty part has a place, too"
    for publisher in (first, second):
        await publisher.stop()


async def test_a_partition_with_other_records_is_refused(servers: list[str], table: str) -> None:
    publisher = await _started(servers, table)
    await publisher.publish(1, RECORDS, 0)
    for number, records in ((1, [*RECORDS[:7], b"another"]), (1, RECORDS[:7]), (2, RECORDS)):
        with pytest.raises(GuaranteeError, match="has other records"):
            await publisher.publish(number, records, 0)
    assert [value for _, value, _ in _read(servers, table)] == RECORDS
    await publisher.stop()


def _read(servers: list[str], table: str) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, value and number of every committed record of the partition."""
    consumer = Consumer(
        {"bootstrap.servers": servers[0], "group.id": "nobody", "isolation.level": "read_committed",
         "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.assign([TopicPartition(Topics(table).releases, 1, 0)])
    found = []
    while messages := consumer.consume(1000, 3.0):
        found += [(one.offset(), one.value() or b"", dict(one.headers() or ()).get(NUMBER)) for one in messages]
    consumer.close()
    return found
