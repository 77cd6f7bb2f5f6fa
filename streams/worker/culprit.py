"""Which record stops a release that cannot be planned: found by planning again with fewer of the window's people.

Planning is pure, so it can be tried as often as one likes. People are taken in until it fails: the last one taken in is
somebody without whom it would not have failed yet, and the records about them in this window are named. A person is
found in some twenty plans, however many there are. Records have a place; nothing else of them is ever said.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from aiokafka import TopicPartition

from shoal.core.events.window import Delta
from shoal.core.plan import Window
from shoal.core.policy.policy import Policy
from shoal.streams.intake.formats import EventReader
from shoal.streams.kafka.partition_reader import open_reader, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.topics import Topics
from shoal.streams.thread import in_thread
from shoal.streams.worker.plan_failure import PlanFailedError

_MOST_NAMED: Final = 5


class Culprit(NamedTuple):
    """Where the records are that stop a release; without offsets it is one of what other publishers sent."""

    topic: str
    partition: int
    offsets: Sequence[int]

    @property
    def advice(self) -> str:
        """What an operator is told to do."""
        if not self.offsets:
            return f"it is a record of topic {self.topic} that stops it, to be left out with `shoal skip external …`"
        commands = (f"`shoal skip events {self.partition} {offset}`" for offset in self.offsets[-_MOST_NAMED:])
        one = "the record that stops it" if len(self.offsets) == 1 else "the records that stop it, last one first"
        return f"leave out {one}: {', '.join(reversed(list(commands)))}"


async def find_culprit(
    failure: PlanFailedError, servers: list[str], policy: Policy, begins: Sequence[int], handle_of: Callable[[str], str]
) -> Culprit | None:
    """None if the release cannot be planned without any event either. `begins` is where the window begins in each
    partition; `handle_of` tells what the window calls a person. Raises KafkaError, ServiceError.
    """
    topics, window = Topics(policy.table), failure.window
    if await _fails(failure.again, _with(window, (), has_external=False)):
        return None
    if await _fails(failure.again, _with(window, ())):
        return Culprit(topics.external, 0, ())
    number, person = await _last_straw(failure.again, window)
    reader, offsets = EventReader(policy), list[int]()
    async for record in _records(servers, TopicPartition(topics.events, number), begins[number], failure.ends[number]):
        event = reader.read(record.value, record.headers)
        if isinstance(event, dict) and isinstance(event.get("id"), str) and handle_of(event["id"]) == person:
            offsets.append(record.offset)
    return Culprit(topics.events, number, offsets) if offsets else None


async def _last_straw(again: Callable[[Window], None], window: Window) -> tuple[int, str]:
    """The first of the window's people, and their partition, with whom planning fails."""
    people = [(number, person) for number, deltas in window.deltas.items() for person in deltas]
    passes, fails = 0, len(people)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if await _fails(again, _with(window, people[:middle])):
            fails = middle
        else:
            passes = middle
    return people[fails - 1]


async def _fails(again: Callable[[Window], None], window: Window) -> bool:
    try:
        await in_thread(again, window)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return True
    return False


def _with(window: Window, people: Iterable[tuple[int, str]], *, has_external: bool = True) -> Window:
    deltas: dict[int, dict[str, Delta]] = {number: {} for number in window.deltas}
    for number, person in people:
        deltas[number][person] = window.deltas[number][person]
    return Window(window.at, deltas, window.externals if has_external else ())


async def _records(servers: list[str], partition: TopicPartition, begin: int, end: int) -> AsyncIterator[Record]:
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, partition, begin, end):
            for record in records:
                if record.offset < end:
                    yield record
