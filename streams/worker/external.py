"""The external topic: what other publishers have released, taken by the planner itself.

It is small and rare beside the events, and all of it concerns everybody. So it does not go through ingest: the freeze
of a release fixes where each of its partitions ends (`given:external:p` of the barrier), the planner reads from where
the last release stopped up to there, and where it stopped is staged and sealed with the release, like all that it
changes. What is rejected is marked in the same way, and becomes a dead letter once.

Only the clock of `every_events` looks at it between releases: what is accepted there counts as the events do. How much
has gathered is not stored anywhere, for the topic itself tells it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError

from shoal.core.events.event import Reject
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.policy.policy import Policy
from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import GuaranteeError
from shoal.streams.intake.codec import content_type, decode_event
from shoal.streams.intake.partition import Record
from shoal.streams.kafka.partition_reader import open_reader, read_ends, read_to_end
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.store.records import Mark
from shoal.streams.store.store import TRIGGERS, Store

_LABEL = "external:"


class ExternalRead(NamedTuple):
    """What a window brought: groups, where each partition ended, and by partition the marks of what was rejected."""

    groups: tuple[ExternalGroup, ...]
    ends: tuple[int, ...]
    marks: Mapping[int, list[Mark]]


NOTHING_READ = ExternalRead((), (), {})


def external_label(partition: int) -> str:
    """The name under which a partition's rejects are kept."""
    return f"{_LABEL}{partition}"


def source_of(label: str, topics: Topics) -> TopicPartition:
    """The partition whose rejects are kept under a label: of the events, the external or the triggers topic."""
    if label == TRIGGERS:
        return TopicPartition(topics.triggers, 0)
    if label.startswith(_LABEL):
        return TopicPartition(topics.external, int(label.removeprefix(_LABEL)))
    return TopicPartition(topics.events, int(label))


def reached(ends: Sequence[int]) -> list[bytes]:
    """Where the external topic has been taken up to, as fields and values of the key `external`."""
    return [part for number, end in enumerate(ends) for part in (str(number).encode(), str(end).encode())]


async def read_reached(store: Store) -> tuple[int, ...]:
    """The same as it is stored; nothing for a table that has taken none yet."""
    found: Mapping[bytes, bytes] = await store.redis.hgetall(store.key("external"))
    return tuple(int(found[str(number).encode()]) for number in range(len(found)))


async def external_ends(servers: list[str], store: Store, topics: Topics) -> dict[str, int]:
    """Where the external topic ends now, by label; it is not asked to be there before something was on it.

    Raises KafkaError, also while a broker that has just come back does not know all partitions that something was taken
    from: a release frozen without them could never be made. Raises GuaranteeError if one ends before what was taken.
    """
    taken = await read_reached(store)
    count = (await partition_counts(servers)).get(topics.external, 0)
    if count < len(taken):
        raise UnknownTopicOrPartitionError(topics.external)
    ends = await read_ends(servers, topics.external, count) if count else {}
    if any(ends[number] < end for number, end in enumerate(taken)):
        raise GuaranteeError(
            f"topic {topics.external} ends before what was taken from it: it was made anew or lost records, and its "
            "records must be kept for ever"
        )
    return {external_label(number): end for number, end in ends.items()}


async def read_external(
    servers: list[str], topics: Topics, policy: Policy, begin: Sequence[int], ends: Sequence[int]
) -> ExternalRead:
    """Read every partition from where it was taken up to to where it ends. A partition may be new since.

    Raises KafkaError, and GuaranteeError if something that was not taken yet is gone.
    """
    groups: list[ExternalGroup] = []
    marks: dict[int, list[Mark]] = {}
    starts = [*begin, *([0] * (len(ends) - len(begin)))]
    if list(starts) == list(ends):
        return ExternalRead((), tuple(ends), {})
    async with open_reader(servers) as consumer:
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start == end:
                continue
            async for records in read_to_end(consumer, TopicPartition(topics.external, number), start, end):
                for record in (record for record in records if record.offset < end):
                    read = _judge(record, policy)
                    if isinstance(read, Reject):
                        mark = Mark(record.offset, str(read.reason), read.field, read.op)
                        marks.setdefault(number, []).append(mark)
                    else:
                        groups += read.groups
    return ExternalRead(tuple(groups), tuple(ends), marks)


class Gathered:
    """How many accepted events stand on the external topic behind the last release, counted as they come."""

    def __init__(self, consumer: AIOKafkaConsumer, servers: list[str], topics: Topics, policy: Policy) -> None:
        self._consumer, self._servers, self._topic, self._policy = consumer, servers, topics.external, policy
        self._begin: Sequence[int] | None = None
        self._count = 0

    async def count(self, begin: Sequence[int]) -> int:
        """`begin` is what `read_reached` says. What has just arrived may be counted only by the next call.

        Raises KafkaError, and GuaranteeError if something that was not taken yet is gone.
        """
        if begin != self._begin:
            await self._start(begin)
        if not self._consumer.assignment():
            return 0
        try:
            fetched = await self._consumer.getmany(timeout_ms=0)
        except OffsetOutOfRangeError:
            raise GuaranteeError(
                f"topic {self._topic} does not hold all that came after the last release: its records must be kept for "
                "ever"
            ) from None
        for records in fetched.values():
            self._count += sum(not isinstance(_judge(record, self._policy), Reject) for record in records)
        return self._count

    async def _start(self, begin: Sequence[int]) -> None:
        """Count anew, from where a release stopped; partitions that are new since are looked at from now on."""
        partitions = range((await partition_counts(self._servers)).get(self._topic, 0))
        self._consumer.assign([TopicPartition(self._topic, number) for number in partitions])
        for number in partitions:
            self._consumer.seek(TopicPartition(self._topic, number), begin[number] if number < len(begin) else 0)
        self._begin, self._count = begin, 0


def _judge(record: Record, policy: Policy) -> External | Reject:
    event = decode_event(record.value, content_type(record.headers))
    return event if isinstance(event, Reject) else parse_external(event, policy)


async def external_letters(servers: list[str], store: Store, topics: Topics) -> None:
    """Send the dead letters of the external topic that are marked. Raises KafkaError, RedisError, FencedError."""
    for number in range(len(await read_reached(store))):
        label = external_label(number)
        if not await store.redis.exists(store.key(f"rejects:{label}")):
            continue
        box = DeadLetterBox(servers, store, source_of(label, topics), label, await store.claim(label))
        try:
            await box.empty({})
        finally:
            await box.close()
