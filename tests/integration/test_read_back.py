"""One release of a topic is read from the topic's end; and which records a reader takes for whose."""

from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from confluent_kafka import TopicPartition as Until
from confluent_kafka.admin import AdminClient

import shoal
from shoal.streams.kafka.manifest import manifest_of
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from tests.support.services.releases_topic import make_releases, publish

FULL_EVERY = 4


async def ends_of(kafka: str, topic: str) -> list[int]:
    """The offset behind each manifest."""
    async with open_reader([kafka]) as consumer:
        found = [r async for chunk in read_to_end(consumer, TopicPartition(topic, 0), 0) for r in chunk]
    return [record.offset + 1 for record in found if manifest_of(record) is not None]


def forget(kafka: str, topic: str, until: int) -> None:
    """As retention would."""
    client = AdminClient({"bootstrap.servers": kafka})
    for future in client.delete_records([Until(topic, 0, until)]).values():
        future.result(30)


async def test_a_release_is_read_without_those_before_the_last_full_one(kafka: str, table: str, tmp_path: Path) -> None:
    path, releases = make_releases(tmp_path, table, count=6, full_every=FULL_EVERY)
    await publish(kafka, table, releases)
    policy, topic, known = shoal.load_policy(path), f"shoal.{table}.releases", shoal.read_releases(tmp_path / "out")
    assert [one.head.is_full for one in releases] == [True, False, False, True, False, False]
    for number in range(1, 7):
        assert shoal.read_release(topic, number, policy=policy, kafka=kafka) == known[number - 1]
    ends = await ends_of(kafka, topic)
    forget(kafka, topic, ends[2])  # the first three
    for number in (4, 5, 6):
        assert shoal.read_release(topic, number, policy=policy, kafka=kafka) == known[number - 1]
    assert shoal.read_release(topic, policy=policy, kafka=kafka) == known[5]
    with pytest.raises(shoal.InputError, match="has no release 3"):
        shoal.read_release(topic, 3, policy=policy, kafka=kafka)
    with pytest.raises(shoal.GuaranteeError, match="the start of topic"):
        shoal.read_topic(policy, kafka=kafka)
    forget(kafka, topic, ends[2] + 2)  # the marker of a transaction, and a record of the full one
    with pytest.raises(shoal.GuaranteeError, match="no longer has offset"):
        shoal.read_release(topic, policy=policy, kafka=kafka)
    forget(kafka, topic, ends[3])
    with pytest.raises(shoal.GuaranteeError, match="release 4 is missing, and release 6 holds only what changed since"):
        shoal.read_release(topic, policy=policy, kafka=kafka)


@pytest.mark.parametrize(
    ("key", "kind", "said"),
    [
        ("{table}/4", None, "release 4 has other records than its manifest says"),
        ("another/4", None, "that no worker of Shoal has written"),
        (None, None, "that no worker of Shoal has written"),
        ("{table}/4", b"canary", "that no worker of Shoal has written"),
        ("{table}/4", b"manifest", "that no worker of Shoal has written"),
    ],
)
async def test_a_record_that_is_none_of_a_release_ends_the_reading(
    kafka: str, table: str, tmp_path: Path, key: str | None, kind: bytes | None, said: str
) -> None:
    path, releases = make_releases(tmp_path, table, count=4)
    await publish(kafka, table, releases[:3])
    producer = AIOKafkaProducer(bootstrap_servers=[kafka])
    await producer.start()
    try:
        written = None if key is None else key.format(table=table).encode()
        headers = [] if kind is None else [("kind", kind)]
        await producer.send_and_wait(f"shoal.{table}.releases", b'{"canary":1}', written, partition=0, headers=headers)
    finally:
        await producer.stop()
    await publish(kafka, table, releases[3:])
    with pytest.raises(shoal.GuaranteeError, match=said) as caught:
        shoal.read_topic(shoal.load_policy(path), kafka=kafka)
    assert "canary" not in str(caught.value)
