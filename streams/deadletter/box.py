"""Dead letters: each rejected record is sent to the dead-letter topic once, as it was, with the reason in its headers.

The mark of a rejected record is written to Redis with the batch that rejected it (ingest, step 3), so none is
forgotten. That none is sent twice is seen to here. Each source (a partition of the events topic, or the triggers) has
a transactional id of its own. Whoever takes over a source initialises that id, which refuses the former owner's open
or later transactions, and only then reads the dead-letter topic from the source's floor to its end: what is there is
not sent again. The floor, kept in Redis, is where that topic ended when marks were last cleared.

Step 4 sends the letters of the marks in one transaction, step 5 clears those marks. When that is done, and again, is
for letters.py to say.

Redis may be set back to an earlier state, and then events are judged again whose letters have been sent. Letters that
are found on the topic from the floor on are of such an earlier life, or of an owner who died before step 5. As long as
one of their marks may still come, the floor stays, and what stands behind it is remembered. A mark comes with the batch
that holds its event, or, if only the plan can say that somebody is at home elsewhere, with the release of that window.
So it is over when all those offsets are passed, the release of the window that was open then is applied, and no mark is
left. A step 5 that does not find what step 4 left looks at the topic anew.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.errors import GuaranteeError
from shoal.streams.faults import crash_point
from shoal.streams.intake.partition import Record
from shoal.streams.kafka.partition_reader import open_reader, read_at, read_to_end
from shoal.streams.kafka.topics import Topics
from shoal.streams.kafka.transaction import Message, Transaction
from shoal.streams.log import get_log
from shoal.streams.store.records import Mark, mark_of
from shoal.streams.store.store import TRIGGERS, FencedError, LostError, Store

# In one transaction. Together they stay far below the broker's limit for a transaction's time.
_AT_ONCE = 2_000
# Whoever takes over another source waits until transactions that a dead worker left open are given up.
_TRANSACTION_S = 20.0


class DeadLetterBox:
    """The dead letters of one source, for the worker that holds its token."""

    def __init__(self, servers: list[str], store: Store, source: TopicPartition, label: str, token: str) -> None:
        self._servers, self._store, self._source = servers, store, source
        self._label, self.token = label, token
        self._topics = Topics(store.table)
        self._target = target_of(self._topics)
        self._transaction: Transaction | None = None
        self._is_closed = False
        self._sent: set[int] = set()  # what stands on the topic from the floor on
        self._floor = 0
        self._found: int | None = None  # the highest offset of an earlier life's letters, while their marks may come
        self._until: int | None = None  # the release that must be applied before they cannot any more
        self._log = get_log(table=store.table, topic=source.topic, partition=source.partition)

    async def empty(self, memory: MutableMapping[int, Record]) -> int:
        """Send what is marked and clear the marks; returns how many letters were sent.

        `memory` has the records that are at hand; the others are read from their topic again. Raises KafkaError and
        RedisError, after which it can be called again, FencedError if the source is somebody else's, LostError.
        """
        total = 0
        while raw := await self._raw_marks():
            if self._transaction is None:
                await self._open()
            marks = [mark_of(packed) for packed in raw]
            unsent = {mark.offset: mark for mark in marks if mark.offset not in self._sent}
            end: int | None = None
            if unsent:
                letters = await self._letters(unsent, memory)
                end = await self._send(letters)
                self._sent.update(unsent)
                total += len(letters)
            crash_point("ingest.4")
            if await self._clear(raw, end) == "moved":
                await self._stop()
                continue
            crash_point("ingest.5")
            for mark in marks:
                memory.pop(mark.offset, None)
        if total:
            self._log.info("deadletter.sent", records=total)
        return total

    async def close(self) -> None:
        """For good: whoever is in the middle of `empty` does not begin another transaction."""
        self._is_closed = True
        await self._stop()

    async def _stop(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.stop()

    async def _clear(self, raw: list[bytes], end: int | None) -> str:
        """Step 5. `end` is where the topic ended after what was sent just now, None if nothing was."""
        floor, found, until = self._floor if end is None else end, "", 0
        if self._found is not None:
            self._until = self._until or await self._release_that_settles(self._found)
            if self._until is None:
                floor = self._floor
            else:
                found, until = str(self._found), self._until
        word = await self._store.order(
            "clear", self._label, self.token, len(raw), floor, self._floor, raw[0], raw[-1], found, until
        )
        if word == "ok" and floor != self._floor:
            self._floor, self._found, self._until = floor, None, None
            self._sent.clear()
        return word

    async def _release_that_settles(self, offset: int) -> int | None:
        """The release after which nothing up to `offset` can be marked any more; None if that is not known yet."""
        fields = [self._next_offset, f"window:{self._label}"]
        next_offset, window = await self._store.redis.hmget(self._store.key("ingest"), fields)
        if int(next_offset or 0) <= offset:
            return None
        return int(window or 0)  # triggers have no window: they are marked at once

    @property
    def _next_offset(self) -> str:
        return "trigger" if self._label == TRIGGERS else f"offset:{self._label}"

    async def _raw_marks(self) -> list[bytes]:
        """The next marks. Should Redis have been set back to an earlier state, the topic is looked at again."""
        pipeline = self._store.redis.pipeline(transaction=True)
        pipeline.lrange(self._store.key(f"rejects:{self._label}"), 0, _AT_ONCE - 1)
        pipeline.hget(self._store.key("ingest"), f"floor:{self._label}")
        marks, floor = await pipeline.execute()
        if self._transaction is not None and int(floor or 0) != self._floor:
            await self._stop()
        return list(marks)

    async def _open(self) -> None:
        """Refuse the former owner of this source, then look at what it sent."""
        self._check_open()
        held, floor = await self._store.redis.hmget(
            self._store.key("ingest"), [f"token:{self._label}", f"floor:{self._label}"]
        )
        if held is None:
            raise LostError
        if held.decode() != self.token:  # not ours any more: its owner's transactions must not be refused
            raise FencedError
        transaction = Transaction(self._servers, self._topics.dead_letter_producer(self._label), _TRANSACTION_S)
        try:
            await transaction.start()
            self._floor = int(floor or 0)
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

    async def _send(self, letters: list[Message]) -> int:
        if self._transaction is None:  # the partition was let go of, or loaded again, in the meantime
            raise KafkaError("dead letters were not sent")
        try:
            return await self._transaction.send(
                self._target.topic, self._target.partition, letters, crash="ingest.4.open"
            )
        except (KafkaError, FencedError) as error:
            # Whether they were sent is seen by looking, after the next start. Being refused may also mean that the
            # broker lost patience with a slow transaction; `_open` finds out whether the source is still ours.
            await self._stop()
            raise KafkaError("dead letters were not sent") from error

    async def _letters(self, marks: Mapping[int, Mark], memory: Mapping[int, Record]) -> list[Message]:
        forgotten = [offset for offset in marks if offset not in memory]
        read: dict[int, Any] = {}
        if forgotten:
            async with open_reader(self._servers) as consumer:
                read = await read_at(consumer, self._source, forgotten)
        letters = []
        for offset, mark in sorted(marks.items()):
            record = memory.get(offset) or read.get(offset)
            if record is None:
                raise GuaranteeError(
                    f"topic {self._source.topic}, partition {self._source.partition}, does not hold offset {offset} "
                    "any more, and the record there was rejected and is not a dead letter yet"
                )
            letters.append(Message(record.key, record.value, (*record.headers, *_headers(mark, self._source))))
        return letters


def target_of(topics: Topics) -> TopicPartition:
    """Where dead letters go, however many partitions the topic was given: one place to look for what was sent."""
    return TopicPartition(topics.dead_letter, 0)


async def sent_offsets(servers: list[str], target: TopicPartition, source: TopicPartition, floor: int) -> set[int]:
    """The offsets of `source` that stand on the dead-letter topic from `floor` on."""
    found: set[int] = set()
    async with open_reader(servers) as consumer:
        async for records in read_to_end(consumer, target, floor):
            found.update(
                offset for offset in (letter_offset(record.headers, source) for record in records) if offset >= 0
            )
    return found


def letter_offset(headers: Iterable[tuple[str, bytes]], source: TopicPartition) -> int:
    """The offset in `source` that a dead letter stands for, -1 if it is of another source."""
    last = dict(headers)  # ours come after the original's own
    if last.get("topic") != source.topic.encode() or last.get("partition") != str(source.partition).encode():
        return -1
    offset = last.get("offset", b"")
    return int(offset) if offset.isdigit() else -1


def _headers(mark: Mark, source: TopicPartition) -> list[tuple[str, bytes]]:
    headers = [("reason", mark.reason.encode())]
    if mark.field is not None:
        headers.append(("field", mark.field.encode()))
    if mark.op is not None:
        headers.append(("op", mark.op.encode()))
    place = (("topic", source.topic), ("partition", str(source.partition)), ("offset", str(mark.offset)))
    return [*headers, *((name, value.encode()) for name, value in place)]
