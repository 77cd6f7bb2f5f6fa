"""Whom Shoal knows: everybody whose last event on the events topic is not a delete."""

from aiokafka import TopicPartition

from shoal.core.policy.policy import Policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.topics import Topics, partition_counts

_ARRIVALS = ("insert", "upsert")
_DEPARTURES = ("delete", "erase")


async def read_present(servers: list[str], policy: Policy) -> list[str]:
    """Ids, as the topic has them; whether each event counted is not looked at. Costs a reading of the whole topic.

    Raises KafkaError, and GuaranteeError if the beginning of the topic is gone.
    """
    topic, read = Topics(policy.table).events, EventReader(policy).read
    present: set[str] = set()
    async with open_reader(servers) as consumer:
        for number in range((await partition_counts(servers)).get(topic, 0)):
            async for records in read_to_end(consumer, TopicPartition(topic, number), 0):
                for record in records:
                    event = read(record.value, record.headers)
                    if isinstance(event, dict) and isinstance(event.get("id"), str):
                        if event.get("op") in _ARRIVALS:
                            present.add(event["id"])
                        elif event.get("op") in _DEPARTURES:
                            present.discard(event["id"])
    return sorted(present)
