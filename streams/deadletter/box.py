"""Dead letters: each rejected record is sent to the dead-letter topic once, as it was, with the reason in its headers.

The commit that rejects a record writes a reject to Redis (ingest, step 3), so none is forgotten. This module sees to it
that none is sent twice. Each source (a partition of the events or the external topic, or the triggers) has a
transactional id of its own. A new owner of the source initialises that id, which refuses the former owner's open and
later transactions, and only then reads the dead-letter topic from the source's floor to its end: a letter found there
is not sent again. The floor, kept in Redis, is where that topic ended when rejects were last cleared.

Step 4 sends the letters of the rejects in one transaction, step 5 clears those rejects. scheduler.py decides when.

A letter is the whole record, unless that is too large: to be read (SHOAL_MAX_RECORD), or for the dead-letter topic,
which may have been made with another limit than ours. Then it has no key and no value, and its headers tell their size
and digest. So no record keeps its source from going on. Nor does one that was deleted before its letter was sent: the
letter then has nothing but our headers.

Redis may be set back to an earlier state, and then events are judged again whose letters have been sent. A letter that
is found on the topic from the floor on is from before such a setback, or of an owner that died before step 5. As long
as a reject of one of them may still come, the floor stays, and the letters behind it are remembered. A reject comes
with the batch that has its event or, if only the plan can say that a person is at home elsewhere, with the release of
that window. So no reject can come any more when all those offsets are passed, the release of the window that was open
then is applied, and no reject is left. A step 5 that does not find the rejects of step 4 looks at the topic anew.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from shoal.streams.errors import FencedError
from shoal.streams.faults import crash_point
from shoal.streams.kafka.cloud_event import dead_letter_event
from shoal.streams.kafka.partition_reader import open_reader, read_at, read_oldest, read_to_end
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.record_limit import describe, measure
from shoal.streams.kafka.topics import LONGEST_DEAD_LETTER, Topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.log import get_log
from shoal.streams.prometheus import REASONS, REJECTS, SOURCES, word
from shoal.streams.store.records import RejectNote, read_note
from shoal.streams.store.reject_queue import Earlier, RejectQueue
from shoal.streams.store.store import Store

# Letters in one transaction: it stays far below the broker's time limit.
_AT_ONCE = 2_000
# A box of another source waits for the end of transactions that a dead worker left open.
_TRANSACTION_S = 20.0
_SMALLEST_BATCH = 4_096


class DeadLetterBox:
    """The dead letters of one source, for the worker that owns it under `token`."""

    def __init__(self, servers: list[str], store: Store, source: TopicPartition, label: str, token: str) -> None:
        self._servers, self._source, self._label = servers, source, label
        self._queue = RejectQueue(store, label, token)
        self._topics = Topics(store.table)
        self._target = target_of(self._topics)
        self._longest = LONGEST_DEAD_LETTER
        self._transaction: Transaction | None = None
        self._is_closed = False
        self._sent: set[int] = set()  # offsets of the source whose letters stand on the topic from the floor on
        self._floor = 0
        self._found: int | None = None  # the highest offset of letters found on the topic, while rejects may come again
        self._until: int | None = None  # the release after which they cannot any more, once that is known
        self._log = get_log(table=store.table, topic=source.topic, partition=source.partition)

    async def empty(self, memory: MutableMapping[int, Record]) -> int:
        """Send the letters of all rejects and clear the rejects; returns how many letters were sent.

        `memory` has the records that are at hand; the others are read from their topic again. Raises KafkaError and
        RedisError, after which it can be called again; FencedError if the source has another owner; LostError.
        """
        total = 0
        while packed := await self._first():
            if self._transaction is None:
                await self._open()
            rejects = [read_note(raw) for raw in packed]
            unsent = {reject.offset: reject for reject in rejects if reject.offset not in self._sent}
            end: int | None = None
            if unsent:
                letters = await self._letters(unsent, memory)
                end = await self._send(letters)
                if end is None:
                    continue  # the letters are made again, the long ones without their bodies
                self._sent.update(unsent)
                total += len(letters)
                source = word(self._source.topic.rpartition(".")[2], SOURCES)
                for reject in unsent.values():
                    REJECTS.labels(source, word(reject.reason, REASONS)).inc()
            crash_point("ingest.4")
            if await self._clear(packed, end) == "moved":
                await self._stop()
                continue
            crash_point("ingest.5")
            for reject in rejects:
                memory.pop(reject.offset, None)
        if total:
            self._log.info("deadletter.sent", records=total)
        return total

    async def close(self) -> None:
        """For good: an `empty` that is under way begins no other transaction."""
        self._is_closed = True
        await self._stop()

    async def _stop(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.stop()

    async def _clear(self, sent: list[bytes], end: int | None) -> str:
        """Step 5. `end` is where the topic ended after the letters just sent, None if none was."""
        floor = self._floor if end is None else end
        earlier: Earlier | None = None
        if self._found is not None:
            self._until = self._until or await self._last_release(self._found)
            if self._until is None:
                floor = self._floor
            else:
                earlier = Earlier(self._found, self._until)
        word = await self._queue.clear(sent, floor, self._floor, earlier)
        if word == "ok" and floor != self._floor:
            self._floor, self._found, self._until = floor, None, None
            self._sent.clear()
        return word

    async def _last_release(self, offset: int) -> int | None:
        """The release after which no record up to `offset` can be rejected any more; None if it is not known yet."""
        reached = await self._queue.reached()
        return reached.window if reached.next_offset > offset else None

    async def _first(self) -> list[bytes]:
        """The next rejects, packed. If the floor is another one, Redis was set back: look at the topic again."""
        waiting = await self._queue.first(_AT_ONCE)
        if self._transaction is not None and waiting.floor != self._floor:
            await self._stop()
        return waiting.notes

    async def _open(self) -> None:
        """Refuse the former owner of this source, then look at the letters that it sent."""
        self._check_open()
        floor = await self._queue.owned_floor()  # raises if the source is not ours: its owner must not be refused
        producer = self._topics.dead_letter_producer(self._label)
        transaction = Transaction(self._servers, producer, _TRANSACTION_S, max(self._longest, _SMALLEST_BATCH))
        try:
            await transaction.start()
            self._floor = floor
            self._sent = await sent_offsets(self._servers, self._target, self._source, self._floor)
            self._found, self._until = max(self._sent, default=None), None
            self._check_open()  # it may have been closed meanwhile
        except BaseException:
            await transaction.stop()
            raise
        self._transaction = transaction

    def _check_open(self) -> None:
        if self._is_closed:
            raise FencedError

    async def _send(self, letters: list[Message]) -> int | None:
        """Step 4; None if the topic takes no letters as long as one of these."""
        if self._transaction is None:  # the partition was let go of, or loaded again, meanwhile
            raise KafkaError("dead letters were not sent")
        try:
            return await self._transaction.send(
                self._target.topic, self._target.partition, letters, crash="ingest.4.open"
            )
        except (KafkaError, FencedError) as error:
            # The next `_open` sees on the topic whether they were sent. A refusal may also mean that the broker ended a
            # slow transaction; `_open` finds out whether the source is still ours.
            await self._stop()
            if isinstance(error, MessageSizeTooLargeError) and self._longest:
                self._longest //= 16
                self._log.warning("deadletter.shortened", bytes=self._longest)
                return None
            raise KafkaError("dead letters were not sent") from error

    async def _letters(self, rejects: Mapping[int, RejectNote], memory: Mapping[int, Record]) -> list[Message]:
        forgotten = [offset for offset in rejects if offset not in memory]
        read: dict[int, Any] = {}
        if forgotten:
            async with open_reader(self._servers) as consumer:
                read = await read_at(consumer, self._source, forgotten)
        letters = []
        for offset, reject in sorted(rejects.items()):
            record, ours = memory.get(offset) or read.get(offset), _headers(self._topics.table, reject, self._source)
            if record is None:
                self._log.warning("deadletter.gone", offset=offset)
            letters.append(Message(None, None, ours) if record is None else self._letter(record, ours))
        return letters

    def _letter(self, record: Record, ours: list[tuple[str, bytes]]) -> Message:
        """The record as it was and our headers; without its body if that is too large, to be read or for the topic."""
        known = measure(record.value, record.headers, record.key)
        whole = Message(record.key, record.value, (*record.headers, *ours))
        if known is None and _length(whole) <= self._longest:
            return whole
        known = known or describe(record.value, record.headers, record.key)
        return Message(None, None, (*ours, *known.headers()))


def _length(letter: Message) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + headers


def target_of(topics: Topics) -> TopicPartition:
    """Where dead letters go, however many partitions the topic has: one place to look for letters that were sent."""
    return TopicPartition(topics.dead_letter, 0)


async def sent_offsets(servers: list[str], target: TopicPartition, source: TopicPartition, floor: int) -> set[int]:
    """The offsets of `source` that stand on the dead-letter topic from `floor` on, as far as letters are kept."""
    found: set[int] = set()
    async with open_reader(servers) as consumer:
        oldest = await read_oldest(consumer, target)
        async for records in read_to_end(consumer, target, max(floor, oldest)):
            found.update(
                offset for offset in (letter_offset(record.headers, source) for record in records) if offset >= 0
            )
    return found


def letter_offset(headers: Iterable[tuple[str, bytes]], source: TopicPartition) -> int:
    """The offset in `source` of a dead letter's original, -1 if it is of another source."""
    last = dict(headers)  # ours come after the original's own
    if last.get("topic") != source.topic.encode() or last.get("partition") != str(source.partition).encode():
        return -1
    offset = last.get("offset", b"")
    return int(offset) if offset.isdigit() else -1


def _headers(table: str, reject: RejectNote, source: TopicPartition) -> list[tuple[str, bytes]]:
    headers = [("reason", reject.reason.encode())]
    if reject.field is not None:
        headers.append(("field", reject.field.encode()))
    if reject.op is not None:
        headers.append(("op", reject.op.encode()))
    place = (("topic", source.topic), ("partition", str(source.partition)), ("offset", str(reject.offset)))
    event = dead_letter_event(table, source.topic, source.partition, reject.offset)
    return [*headers, *((name, value.encode()) for name, value in place), *event]
