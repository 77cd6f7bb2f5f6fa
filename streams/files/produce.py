"""`shoal produce`: sends the events of a file to the events topic, keyed by the person's id.

Events of one person always go to one partition (the key's murmur2 hash, Kafka's own default), so they stay in order. A
`release` line goes to the triggers topic, and only after Kafka has acknowledged every event before it. So the release
includes every event that stands before it in the file.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from shoal.core.events.event import Reason, Reject, is_before, parse_release
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError, ServiceError, StreamsError
from shoal.streams.files.formats.format import Line
from shoal.streams.files.rejects import Tally
from shoal.streams.intake.formats import JSON, MSGPACK, InputFormat
from shoal.streams.kafka.access import client_options
from shoal.streams.kafka.dead_letters import await_judged, find_end, read_letters
from shoal.streams.kafka.entry import enter, require
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.kafka.release_reader import CommittedRelease, open_releases, wait_for_release
from shoal.streams.kafka.release_search import last_committed
from shoal.streams.kafka.rights import TOPIC, Right, consumer_rights, refused
from shoal.streams.kafka.topics import Topics, connect_within
from shoal.streams.settings import Settings

IN_FLIGHT = 20_000
SHOWN_REFUSALS = 10
MOST_PACKED = 1_000_000  # bytes of the two policies of a change; a broker's default limit is a little more
DELIVERY_S = 45.0  # long enough for a broker to be restarted
STOP_S = 5.0
LETTERS_S = 3.0  # a worker sends dead letters within that time of the batch that has the event
GONE = "Kafka went away before everything was sent; it keeps what it has acknowledged."

T = TypeVar("T")


class Watcher(Protocol):
    """Shows progress."""

    def advance(self, amount: int) -> None: ...

    def say(self, text: str) -> None: ...


@dataclass
class Sent:
    """What was sent. `refused` counts the lines that were not, and `examples` are the first of them in words."""

    events: int = 0
    releases: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)
    rejects: Tally = field(default_factory=Tally)  # the refused lines, by reason
    notes: list[str] = field(default_factory=list)
    letters: Tally = field(default_factory=Tally)  # what was sent and had no effect, where releases were waited for

    def refuse(self, line: Line, why: str) -> None:
        self.refused += 1
        self.rejects.add(line.reject or Reject(Reason.EMPTY), line.number, line.file)
        if len(self.examples) < SHOWN_REFUSALS:
            place = f"line {line.number:,}" + (f" of {line.file}" if line.file else "")
            self.examples.append(f"{place} was not sent: {why}.")


def refusal(event: dict[str, Any]) -> tuple[str, Reject] | None:
    """Why an event cannot be sent, None if it can; whether it is valid is for the worker to say."""
    if event.get("op") == "release":
        request = parse_release(event)
        return (f"it is {request.reason}", request) if isinstance(request, Reject) else None
    name = "publisher" if event.get("op") == "external" else "id"
    key = event.get(name)
    if isinstance(key, str) and key:
        return None
    return f"it has no {name} that is text", Reject(
        Reason.WRONG_TYPE if name in event else Reason.MISSING_FIELD, None, name
    )


class Sender:
    """Sends one table's events and requests for releases."""

    def __init__(self, producer: AIOKafkaProducer, settings: Settings, topics: Topics, wire: InputFormat) -> None:
        self._producer, self._settings, self._topics, self._wire = producer, settings, topics, wire
        self._allowed: set[str] = set()
        self._headers = [("content-type", wire.media_types[0].encode())]
        self._pending: list[asyncio.Future[Any]] = []
        self._places: list[tuple[int, str | None]] = []  # of the pending ones, where they stand in the file
        self.sent: dict[tuple[str, int, int], tuple[int, str | None]] | None = None  # by record, where `remember` asks

    def remember(self) -> None:
        """From now on keep which record each line became."""
        self.sent = {}

    async def send(self, line: Line) -> None:
        """Queues the event of a line. Raises ValueError if it cannot be written in this format or is too large."""
        event, raw = line.event or {}, line.raw
        is_external = event.get("op") == "external"
        topic = self._topics.external if is_external else self._topics.events
        key, value = event["publisher" if is_external else "id"].encode(), self._write(event, raw)
        await self._ask_for(topic)
        try:
            sending = await self._producer.send(topic, value, key=key, headers=self._headers)
        except MessageSizeTooLargeError:
            raise ValueError("it is too large") from None
        self._pending.append(sending)
        if self.sent is not None:
            self._places.append((line.number, line.file))
        if len(self._pending) >= IN_FLIGHT:
            await self.flush()

    async def flush(self) -> None:
        """Waits until Kafka has everything that was sent. Raises `ServiceError` if it does not take it."""
        pending, self._pending = self._pending, []
        # The client itself would try for ever: an idempotent producer must not drop a batch that it may have delivered.
        delivered = await _within(DELIVERY_S, asyncio.gather(*pending))
        if self.sent is not None:
            places, self._places = self._places, []
            for record, place in zip(delivered, places, strict=True):
                self.sent[(record.topic, record.partition, record.offset)] = place

    async def request_release(self, at: str | None) -> int:
        """Asks for a release of everything sent so far. Returns the offset of the request."""
        await self.flush()
        return await self.trigger({"op": "release"} if at is None else {"op": "release", "at": at})

    async def trigger(self, request: Mapping[str, Any]) -> int:
        """Sends a request to the planner. Returns its offset."""
        await self._ask_for(self._topics.triggers)
        sending = self._producer.send_and_wait(self._topics.triggers, json.dumps(request).encode(), partition=0)
        return int((await _within(DELIVERY_S, sending)).offset)

    async def _ask_for(self, topic: str) -> None:
        """Raises InputError if this client may not write to a topic. Asked once, when it first has something to send:
        a program that sends one kind of event needs the right to one topic.
        """
        if topic not in self._allowed:
            if not self._settings.embedded:
                await require(self._settings, self._topics.table, [Right("Write", TOPIC, topic)])
            self._allowed.add(topic)

    def _write(self, event: dict[str, Any], raw: bytes | None) -> bytes:
        return raw.strip() if raw is not None and self._wire is JSON else self._wire.write(event)


@asynccontextmanager
async def open_sender(
    settings: Settings, policy: Policy, topic: str, wire: InputFormat = MSGPACK
) -> AsyncIterator[Sender]:
    """Connects to Kafka, making the table's topics if they are missing. Raises `ServiceError` if it cannot, and
    `InputError` if Kafka does not let it; `topic` is the one that it will most likely send to.
    """
    servers = settings.kafka_servers
    await enter(settings, policy.table, (), shards=policy.shards)
    producer = AIOKafkaProducer(
        **client_options(servers), enable_idempotence=True, linger_ms=5, max_batch_size=256 * 1024
    )
    try:
        await connect_within(producer.start, settings.connect_s, servers)
    except (StreamsError, KafkaError) as error:
        await producer.stop()
        if is_refusal(error):  # who may write to no topic at all is not even given a producer's number
            raise refused(servers, [Right("Write", TOPIC, topic)]) from error
        raise
    try:
        yield Sender(producer, settings, Topics(policy.table), wire)
    except KafkaError as error:
        if is_refusal(error):  # it was granted a moment ago
            raise refused(servers, [f"Write on the topics of table {policy.table} again"]) from error
        raise ServiceError(GONE) from error
    finally:  # also if it is interrupted while it starts
        with suppress(TimeoutError):  # with a broker that is gone it would wait to send the rest
            await asyncio.wait_for(producer.stop(), STOP_S)


async def _within(limit_s: float, waiting: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(waiting, limit_s)
    except TimeoutError:
        raise ServiceError(GONE) from None


async def produce(
    settings: Settings,
    policy: Policy,
    lines: Iterable[Line],
    watcher: Watcher,
    *,
    wire: InputFormat = MSGPACK,
    wait_s: float | None = None,
) -> Sent:
    """Sends every line. With `wait_s` it waits for each release before it sends the next line, as `replay` does."""
    sent = Sent()
    async with AsyncExitStack() as stack:
        sender = await stack.enter_async_context(open_sender(settings, policy, Topics(policy.table).events, wire))
        reader, letters_from = None, None
        if wait_s is not None:
            if not settings.embedded:  # the demo looks for dead letters itself
                letters_from = await _letters_end(settings, policy, sent)
                sender.remember()
            reader = await stack.enter_async_context(
                open_releases(settings.kafka_servers, policy.table, settings.connect_s)
            )
        for line in lines:
            wrong = None if line.refusal or not line.event else refusal(line.event)
            why = line.refusal or (None if wrong is None else wrong[0])
            if wrong is not None:
                line = line._replace(reject=wrong[1])
            watcher.advance(1)
            if why is not None or line.event is None:
                sent.refuse(line, why or "it is empty")
                continue
            if line.event.get("op") == "release":
                offset = await sender.request_release(line.event.get("at"))
                if reader is not None and wait_s is not None:
                    await wait_for_release(reader, offset, wait_s)
                sent.releases += 1
                watcher.say(f"{sent.releases} releases asked for")
                continue
            try:
                await sender.send(line)
                sent.events += 1
            except ValueError as error:
                sent.refuse(line._replace(reject=Reject(Reason.TOO_LARGE)), str(error))
        await sender.flush()
        if letters_from is not None and wait_s is not None and sender.sent:
            await _report_letters(settings, policy, sender.sent, letters_from, wait_s, sent)
    return sent


async def _letters_end(settings: Settings, policy: Policy, sent: Sent) -> int | None:
    """Where the dead letters end; None if this client may not read them, which is noted."""
    try:
        return await find_end(settings, policy.table)
    except InputError as error:
        sent.notes.append(f"what was rejected is not reported: {error}")
        return None


async def _report_letters(
    settings: Settings,
    policy: Policy,
    places: Mapping[tuple[str, int, int], tuple[int, str | None]],
    start: int,
    wait_s: float,
    sent: Sent,
) -> None:
    """Waits until workers have judged what was sent, and counts what had no effect."""
    topic, ends = Topics(policy.table).events, dict[int, int]()
    for name, partition, offset in places:
        if name == topic:
            ends[partition] = max(offset + 1, ends.get(partition, 0))
    if not await await_judged(settings, policy.table, ends, wait_s):
        raise ServiceError(f"no worker has taken all that was sent within {wait_s:g} seconds: is a worker running?")
    await asyncio.sleep(LETTERS_S)
    async for letter in read_letters(settings, policy.table, start):
        if letter.origin in places:
            line, file = places[letter.origin]
            sent.letters.count(letter.reason, letter.op, letter.field, line, file)


async def request_release(
    settings: Settings, policy: Policy, at: str | None, wait_s: float | None
) -> CommittedRelease | None:
    """Asks for one release, at `at` or now; with `wait_s` returns it when it is published."""
    async with open_sender(settings, policy, Topics(policy.table).triggers) as sender:
        at = at or await _now(settings, policy.table)
        offset = await sender.request_release(at)
    if wait_s is None:
        return None
    async with open_releases(settings.kafka_servers, policy.table, settings.connect_s) as reader:
        return await wait_for_release(reader, offset, wait_s)


async def _now(settings: Settings, table: str) -> str:
    """Now, but not before the time that the last release has named: a clock may have been ahead then.

    A client that may not read releases takes its own clock's word.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        if not settings.embedded:
            await require(settings, table, consumer_rights(table))
    except InputError:
        return now
    last = await last_committed(settings.kafka_servers, table)
    named = None if last is None else json.loads(last.value).get("published_at")
    return str(named) if is_before(now, named) else now


async def request_change(settings: Settings, policy: Policy, previous: str, changed: str) -> None:
    """Asks the planner for a release with which another policy takes over; both are packed. Raises InputError if they
    are too large for one record.
    """
    size, most = len(previous) + len(changed), min(settings.max_record, MOST_PACKED)
    if size > most:
        raise InputError(
            f"the two policies take {size:,} bytes packed, and one record of the triggers topic has room for {most:,}: "
            "a policy with hierarchies this large cannot be changed"
        )
    async with open_sender(settings, policy, Topics(policy.table).triggers) as sender:
        at = await _now(settings, policy.table)
        await sender.trigger({"op": "change", "at": at, "previous": previous, "policy": changed})


async def request_skip(settings: Settings, policy: Policy, topic: str, partition: int, offset: int) -> None:
    """Asks the planner to leave one record out. `topic` is the last part of its name."""
    async with open_sender(settings, policy, Topics(policy.table).triggers) as sender:
        await sender.trigger({"op": "skip", "topic": topic, "partition": partition, "offset": offset})
