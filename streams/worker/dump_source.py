"""What every dump of a release under way is made from: its vector, its policies, and where the events of people are."""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from aiokafka import TopicPartition

from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.files.policy_record import pack_policy, unpack_policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.manifest import Origin, read_origin
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Settings
from shoal.streams.store.course import Course
from shoal.streams.store.store import Store
from shoal.streams.worker.changing import read_request
from shoal.streams.worker.culprit import records_between
from shoal.streams.worker.dumped_shard import Place
from shoal.streams.worker.vector import PackedVector, origin_of

_RECORDS_A_PART: Final = 5_000


class DumpSource:
    """A release that waits, and the shard or desk to be dumped. It is read, and not changed."""

    def __init__(
        self, settings: Settings, policy: Policy, store: Store, partitions: int, course: Course, number: int
    ) -> None:
        self.settings, self.policy, self.store = settings, policy, store
        self.partitions, self.course, self.number = partitions, course, number
        self.servers, self.topics = settings.kafka_servers, Topics(policy.table)
        assert course.vector is not None
        assert course.origin is not None
        self.origin: Origin = origin_of(PackedVector(course.vector, course.origin), course.number, partitions)

    async def policies(self) -> tuple[tuple[str, str], Policy]:
        """As the file has them, and the one in whose leaves everything is stored."""
        if self.course.changed is None:
            return (pack_policy(self.settings.policy_path), ""), self.policy
        asked = await read_request(self.servers, self.topics, EventReader(self.policy), self.origin.trigger)
        return (asked.previous, asked.policy), unpack_policy(asked.previous) or self.policy

    async def places(self, wanted: Collection[str]) -> dict[str, list[Place]]:
        """Where the events of this window about these people are. Reads all of the window."""
        last = await last_committed(self.servers, self.policy.table)
        begins: Sequence[int] = [0] * self.partitions
        if last is not None:
            begins = read_origin(last.number, last.headers, self.partitions).offsets
        handle_of = Keyed(self.settings.key_bytes, self.policy.table).handle
        reader, found = EventReader(self.policy), dict[str, list[Place]]()
        for number, (begin, end) in enumerate(zip(begins, self.origin.offsets, strict=True)):
            partition = TopicPartition(self.topics.events, number)
            async for record in records_between(self.servers, partition, begin, end):
                event = reader.read(record.value, record.headers)
                person = event.get("id") if isinstance(event, dict) else None
                if isinstance(person, str) and (handle := handle_of(person)) in wanted:
                    found.setdefault(handle, []).append((number, record.offset))
        return found


def portions(name: str, records: Any) -> Iterator[tuple[str, list[Any]]]:
    """Records of a kind, some thousand at a time."""
    waiting = iter(records)
    while some := list(islice(waiting, _RECORDS_A_PART)):
        yield name, some
