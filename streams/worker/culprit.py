"""Which record stops a release that cannot be planned: found by planning again with fewer of the window's people.

Planning is pure, so it can be repeated. People are added until planning fails. Without the last person added it would
not have failed yet, so the records about this person in this window are named. If planning fails without anybody, the
groups of other publishers are searched in the same way. The search takes some twenty plans, however many people there
are. It names the places of records and says nothing else about them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from aiokafka import TopicPartition

from shoal.core.events.window import Delta
from shoal.core.overlap.external import ExternalGroup
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.topics import Topics
from shoal.streams.thread import in_thread
from shoal.streams.worker.plan_failure import PlanFailedError

_MOST_NAMED: Final = 5
W = TypeVar("W")


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


async def find_culprit(
    failure: PlanFailedError, servers: list[str], policy: Policy, begins: Sequence[int], handle_of: Callable[[str], str]
) -> Culprit | None:
    """None if the release cannot be planned without any event either. `begins` is where the window begins in each
    partition; `handle_of` tells what the window calls a person. Raises KafkaError, ServiceError.
    """
    topics, window = Topics(policy.table), failure.window
    if await fails(failure.again, _with(window, (), ())):
        return None
    if await fails(failure.again, _with(window, ())):
        groups = window.externals
        last = await last_straw(len(groups), lambda count: fails(failure.again, _with(window, (), groups[:count])))
        number, offset = failure.places[last]
        return Culprit("external", number, [offset])
    people = [(number, person) for number, deltas in window.deltas.items() for person in deltas]
    last = await last_straw(len(people), lambda count: fails(failure.again, _with(window, people[:count])))
    number, person = people[last]
    reader, offsets = EventReader(policy), list[int]()
    async for record in records_between(
        servers, TopicPartition(topics.events, number), begins[number], failure.ends[number]
    ):
        event = reader.read(record.value, record.headers)
        if isinstance(event, dict) and isinstance(event.get("id"), str) and handle_of(event["id"]) == person:
            offsets.append(record.offset)
    return Culprit("events", number, offsets) if offsets else None


def records_of(places: Iterable[tuple[int, int]]) -> Culprit | None:
    """A person's records of a window, given by partition and offset: those of the last partition they came by."""
    found = sorted(places)
    if not found:
        return None
    home = found[-1][0]
    return Culprit("events", home, [offset for partition, offset in found if partition == home])


async def last_straw(most: int, fails_with: Callable[[int], Awaitable[bool]]) -> int:
    """The first of `most` things with which planning fails, if it fails with all of them and not with none."""
    passes, fails = 0, most
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if await fails_with(middle):
            fails = middle
        else:
            passes = middle
    return fails - 1


async def fails(again: Callable[[W], None], window: W) -> bool:
    """Whether planning a window raises anything."""
    try:
        await in_thread(again, window)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return True
    return False


def _with(
    window: Window, people: Iterable[tuple[int, str]], externals: Sequence[ExternalGroup] | None = None
) -> Window:
    deltas: dict[int, dict[str, Delta]] = {number: {} for number in window.deltas}
    for number, person in people:
        deltas[number][person] = window.deltas[number][person]
    return Window(window.at, deltas, window.externals if externals is None else externals)


async def records_between(servers: list[str], partition: TopicPartition, begin: int, end: int) -> AsyncIterator[Record]:
    """The records of a window in one partition."""
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, partition, begin, end):
            for record in records:
                if record.offset < end:
                    yield record
