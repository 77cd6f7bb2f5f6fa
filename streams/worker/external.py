"""The external topic: what other publishers have released, read by the planner itself.

It is small and rare beside the events, and each record may concern everybody. So it does not go through ingest. The
freeze of a release fixes where each of its partitions ends (`given:external:p` of the barrier). The planner reads from
where the last release stopped up to there, and the new place is staged and sealed with the release, like everything
that the release changes. So are rejects, each of which becomes a dead letter once.

Between releases only the clock of `every_events` looks at this topic: an accepted record counts as an event does. The
count is not stored, for the topic itself tells it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError

from shoal.core.events.event import Reason, Reject
from shoal.core.overlap.external import External, ExternalGroup, parse_external
from shoal.core.policy.policy import Policy
from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import GuaranteeError
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_ends, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.topics import Topics, partition_counts
from shoal.streams.store.keys import TRIGGERS, external_label, external_partition
from shoal.streams.store.records import RejectNote, note_of
from shoal.streams.store.reject_queue import has_rejects
from shoal.streams.store.store import Store


class ExternalRead(NamedTuple):
    """What a window brought: groups and where each was read, where each partition ended, and rejects by label."""

    groups: tuple[ExternalGroup, ...]
    places: tuple[tuple[int, int], ...]
    """Partition and offset of the record of each group."""
    ends: tuple[int, ...]
    rejects: Mapping[str, list[RejectNote]]


def source_of(label: str, topics: Topics) -> TopicPartition:
    """The partition that a label names: of the events, the external or the triggers topic."""
    if label == TRIGGERS:
        return TopicPartition(topics.triggers, 0)
    partition = external_partition(label)
    return (
        TopicPartition(topics.events, int(label)) if partition is None else TopicPartition(topics.external, partition)
    )


async def external_ends(servers: list[str], store: Store, topics: Topics) -> dict[str, int]:
    """Where the external topic ends now, by label; nothing if the topic does not exist and was never read.

    Raises KafkaError, also while a broker that has just come back does not know all partitions that were read before: a
    release frozen without them could never be made. Raises GuaranteeError if one ends before what was read of it.
    """
    taken = await store.external_offsets()
    count = (await partition_counts(servers)).get(topics.external, 0)
    if count < len(taken):
        raise UnknownTopicOrPartitionError(topics.external)
    ends = await read_ends(servers, topics.external, count) if count else {}
    if any(ends[number] < end for number, end in enumerate(taken)):
        raise GuaranteeError(
            f"topic {topics.external} ends before what was read of it: it was created anew, or lost its last records"
        )
    return {external_label(number): end for number, end in ends.items()}


async def read_external(
    servers: list[str],
    topics: Topics,
    policy: Policy,
    begin: Sequence[int],
    ends: Sequence[int],
    skipped: Mapping[str, Collection[int]],
) -> ExternalRead:
    """Read every partition from `begin` to `ends`; a partition that `begin` does not have is new, and read from 0.

    Offsets that are `skipped`, by label, count as rejected.

    Raises KafkaError, and GuaranteeError if a record that was not read yet is gone.
    """
    reader = EventReader(policy)
    groups: list[ExternalGroup] = []
    places: list[tuple[int, int]] = []
    rejects: dict[str, list[RejectNote]] = {}
    starts = [*begin, *([0] * (len(ends) - len(begin)))]
    if list(starts) == list(ends):
        return ExternalRead((), (), tuple(ends), {})
    async with open_reader(servers) as consumer:
        for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start == end:
                continue
            async for records in read_to_end(consumer, TopicPartition(topics.external, number), start, end):
                left_out = skipped.get(external_label(number), ())
                for record in (record for record in records if record.offset < end):
                    is_out = record.offset in left_out
                    read = Reject(Reason.SKIPPED) if is_out else _judge(record, policy, reader)
                    if isinstance(read, Reject):
                        rejects.setdefault(external_label(number), []).append(note_of(record.offset, read))
                    else:
                        groups += read.groups
                        places += [(number, record.offset)] * len(read.groups)
    return ExternalRead(tuple(groups), tuple(places), tuple(ends), rejects)


class Gathered:
    """How many acceptable records of the external topic wait for the next release, counted as they come."""

    def __init__(self, consumer: AIOKafkaConsumer, servers: list[str], topics: Topics, policy: Policy) -> None:
        self._consumer, self._servers, self._topic, self._policy = consumer, servers, topics.external, policy
        self._reader = EventReader(policy)
        self._begin: Sequence[int] | None = None
        self._count = 0

    async def count(self, begin: Sequence[int]) -> int:
        """`begin` is where the last release stopped. A record that has just arrived may be counted by the next call.

        Raises KafkaError, and GuaranteeError if a record that was not read yet is gone.
        """
        if begin != self._begin:
            await self._start(begin)
        if not self._consumer.assignment():
            return 0
        try:
            fetched = await self._consumer.getmany(timeout_ms=0)
        except OffsetOutOfRangeError:
            raise GuaranteeError(
                f"topic {self._topic} does not have every record since the last release: they must be kept until a "
                "release has taken them"
            ) from None
        for records in fetched.values():
            self._count += sum(not isinstance(_judge(record, self._policy, self._reader), Reject) for record in records)
        return self._count

    async def _start(self, begin: Sequence[int]) -> None:
        """Count anew, from where a release stopped, over the partitions that exist now."""
        partitions = range((await partition_counts(self._servers)).get(self._topic, 0))
        self._consumer.assign([TopicPartition(self._topic, number) for number in partitions])
        for number in partitions:
            self._consumer.seek(TopicPartition(self._topic, number), begin[number] if number < len(begin) else 0)
        self._begin, self._count = begin, 0


def _judge(record: Record, policy: Policy, reader: EventReader) -> External | Reject:
    event = reader.read(record.value, record.headers)
    return event if isinstance(event, Reject) else parse_external(event, policy)


async def external_letters(servers: list[str], store: Store, topics: Topics) -> None:
    """Send the dead letters of the external topic. Raises KafkaError, RedisError, FencedError."""
    for number in range(len(await store.external_offsets())):
        label = external_label(number)
        if not await has_rejects(store, label):
            continue
        box = DeadLetterBox(servers, store, source_of(label, topics), label, await store.own(label))
        try:
            await box.empty({})
        finally:
            await box.close()
