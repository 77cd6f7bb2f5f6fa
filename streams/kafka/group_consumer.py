"""The consumer of a group that commits nothing: what it reads, and from where, is kept in Redis or does not matter."""

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError

from shoal.streams.errors import InputError
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.partition_reader import stop_client
from shoal.streams.kafka.refusal import why_refused
from shoal.streams.kafka.topics import METADATA_MAX_AGE_MS

POLL_MS = 100


async def open_group_consumer(
    servers: list[str],
    topic: str,
    group: str,
    name: str,
    session_s: float,
    listener: ConsumerRebalanceListener,
    begins: str = "none",
    instance: str | None = None,
) -> AIOKafkaConsumer:
    """A started consumer of committed records; others can see its `name`. It begins nowhere by itself unless `begins`
    is `latest`; then its partitions stay with it as far as they can, and if it is an `instance`, after a restart, too.

    Raises KafkaError, and InputError if Kafka does not let it in.
    """
    assignors = {} if begins == "none" else {"partition_assignment_strategy": (StickyPartitionAssignor,)}
    session_ms = int(1000 * session_s)
    consumer = AIOKafkaConsumer(
        **client_options(servers),
        group_id=group,
        client_id=name,
        group_instance_id=instance,
        enable_auto_commit=False,
        auto_offset_reset=begins,
        **assignors,
        isolation_level="read_committed",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 4,
        max_poll_interval_ms=600_000,
        max_partition_fetch_bytes=2 * 1024 * 1024,
        fetch_max_wait_ms=POLL_MS,
        request_timeout_ms=max(30_000, session_ms + 5_000),
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
    )
    consumer.subscribe([topic], listener=listener)
    try:
        await consumer.start()
    except BaseException as error:
        await stop_client(consumer)
        why = await why_refused(servers) if isinstance(error, KafkaConnectionError) else None
        if isinstance(why, InputError):
            raise why from error
        raise
    return consumer
