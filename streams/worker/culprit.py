"""Which record stops a release: found by repeating the step that failed with fewer of the window's people.

Gathering and planning are pure, so they can be repeated in memory. People are added until the step fails. Without the
last person added it would not have failed yet, so the records about this person in this window are named. If the step
fails without anybody, the groups of other publishers are searched in the same way. The search takes some twenty
repetitions, however many people there are. It names the places of records and says nothing else about them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from typing import Final, NamedTuple

from aiokafka import TopicPartition

from shoal.core.policy.policy import Policy
from shoal.core.randomness import Keyed
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.manifest import read_origin
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.topics import Topics
from shoal.streams.settings import Settings
from shoal.streams.thread import in_thread
from shoal.streams.worker.failed_step import FailedStep

_MOST_NAMED: Final = 5


class WindowPlace(NamedTuple):
    """Where a window begins and ends in each partition of the events topic."""

    begins: Sequence[int]
    ends: Sequence[int]


class Culprit(NamedTuple):
    """Where the records are that stop a release."""

    topic: str
    """As `shoal skip` takes it."""
    partition: int
    offsets: Sequence[int]

    @property
    def advice(self) -> str:
        """What an operator is told to do."""
        commands = (f"`shoal skip {self.topic} {self.partition} {offset}`" for offset in self.offsets[-_MOST_NAMED:])
        one = "the record that stops it" if len(self.offsets) == 1 else "the records that stop it, last one first"
        return f"leave out {one}: {', '.join(reversed(list(commands)))}"


async def search_window(settings: Settings, policy: Policy, step: FailedStep, ends: Sequence[int]) -> Culprit | None:
    """Search the window that ends at these offsets. It begins where the last release ended."""
    servers = settings.kafka_servers
    last = await last_committed(servers, policy.table)
    begins = [0] * len(ends) if last is None else read_origin(last.number, last.headers, len(ends)).offsets
    handle_of = Keyed(settings.key_bytes, policy.table).handle
    return await find_culprit(step, servers, policy, WindowPlace(begins, ends), handle_of)


async def find_culprit(
    step: FailedStep, servers: list[str], policy: Policy, window: WindowPlace, handle_of: Callable[[str], str]
) -> Culprit | None:
    """None if the step fails without any event, too. `handle_of` tells what the window calls a person.

    Raises KafkaError, ServiceError.
    """
    people, groups = step.people, len(step.places)
    nobody: frozenset[str] = frozenset()
    if await _fails(step, nobody, 0):
        return None
    if await _fails(step, nobody, groups):
        last = await _first_failing(groups, lambda count: _fails(step, nobody, count))
        partition, offset = step.places[last]
        return Culprit("external", partition, [offset])
    last = await _first_failing(len(people), lambda count: _fails(step, frozenset(people[:count]), groups))
    person, reader, topics = people[last], EventReader(policy), Topics(policy.table)
    found: list[tuple[int, int]] = []
    for number, (begin, end) in enumerate(zip(window.begins, window.ends, strict=True)):
        async for record in _records_between(servers, TopicPartition(topics.events, number), begin, end):
            event = reader.read(record.value, record.headers)
            if isinstance(event, dict) and isinstance(event.get("id"), str) and handle_of(event["id"]) == person:
                found.append((number, record.offset))
    if not found:
        return None
    home = found[-1][0]
    return Culprit("events", home, [offset for partition, offset in found if partition == home])


async def _first_failing(most: int, fails_with: Callable[[int], Awaitable[bool]]) -> int:
    """The first of `most` things with which a step fails, if it fails with all of them and not with none."""
    passes, fails = 0, most
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if await fails_with(middle):
            fails = middle
        else:
            passes = middle
    return fails - 1


async def _fails(step: FailedStep, people: Set[str], groups: int) -> bool:
    try:
        await in_thread(step.again, people, groups)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return True
    return False


async def _records_between(
    servers: list[str], partition: TopicPartition, begin: int, end: int
) -> AsyncIterator[Record]:
    """The records of a window in one partition."""
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, partition, begin, end):
            for record in records:
                if record.offset < end:
                    yield record
