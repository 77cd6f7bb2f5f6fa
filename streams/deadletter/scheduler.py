"""When dead letters are sent: for every partition that a worker owns, beside its ingest. box.py sends one source's."""

import asyncio
import contextlib
import time
from collections.abc import MutableMapping

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import FencedError, ServiceError
from shoal.streams.kafka.record import Record
from shoal.streams.kafka.refusal import is_refusal
from shoal.streams.log import get_log
from shoal.streams.prometheus import RECONNECTS
from shoal.streams.store.connection import RedisError, is_passing
from shoal.streams.store.store import Store

_LOOK_S = 2.0
_PAUSE_S = 0.5  # before a source that failed is tried again
_LET_GO_S = 5.0


class DeadLetters:
    """The dead letters of every partition that a worker owns."""

    def __init__(self, servers: list[str], store: Store) -> None:
        self._servers, self._store = servers, store
        self._boxes: dict[int, tuple[DeadLetterBox, MutableMapping[int, Record]]] = {}
        self._awake: dict[int, int] = {}  # how often each partition was woken since its queue was seen empty
        self._awake_at: dict[int, float] = {}  # when it was first woken since then
        self._has_work = asyncio.Event()
        self._round = asyncio.Event()
        self._under_way: tuple[int, asyncio.Task[bool]] | None = None
        self._is_refused = False
        self._log = get_log(table=store.table)

    async def add(self, source: TopicPartition, token: str, memory: MutableMapping[int, Record]) -> None:
        """A partition is loaded; rejects of a former owner may be left in it. `memory` has its rejected records."""
        number = source.partition
        await self.drop(number)
        box = DeadLetterBox(self._servers, self._store, source, str(number), token)
        self._boxes[number] = (box, memory)
        self.wake(number)

    async def drop(self, number: int) -> None:
        """Let go of a partition. Letters under way are left for its next owner to find, or to send."""
        box, _ = self._boxes.pop(number, (None, None))
        if self._under_way is not None and self._under_way[0] == number:
            # A producer that is stopped in the middle of a transaction would leave its sender waiting for ever.
            task = self._under_way[1]
            task.cancel()
            await asyncio.wait({task}, timeout=_LET_GO_S)
        if box is not None:
            await box.close()

    def wake(self, number: int) -> None:
        """There are rejects in this partition, or may be."""
        self._awake[number] = self._awake.get(number, 0) + 1
        self._awake_at.setdefault(number, time.monotonic())
        self._has_work.set()

    def waiting_s(self, number: int) -> float:
        """For how long a partition has had rejects that are not letters; 0 if it has none."""
        woken = self._awake_at.get(number)
        return 0.0 if woken is None else time.monotonic() - woken

    def were_refused(self) -> bool:
        """Whether a partition was found to have another owner since this was last asked."""
        was_refused, self._is_refused = self._is_refused, False
        return was_refused

    async def drained(self, number: int) -> None:
        """Return when the rejects of a partition are letters, so that they cannot grow without end."""
        while number in self._awake and number in self._boxes:
            self._round.clear()
            await self._round.wait()

    async def run(self) -> None:
        """Steps 4 and 5, for ever. Raises LostError, GuaranteeError."""
        while True:
            self._has_work.clear()
            if not self._awake:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._has_work.wait(), _LOOK_S)
            if not self._awake:  # a release adds rejects in Redis, of events that came to the wrong partition
                for number in self._boxes:
                    self.wake(number)
            for number, seen in sorted(self._awake.items()):
                if await self._attempt(number) and self._awake.get(number) == seen:
                    del self._awake[number], self._awake_at[number]
                self._round.set()

    async def close(self) -> None:
        for number in list(self._boxes):
            await self.drop(number)

    async def _attempt(self, number: int) -> bool:
        """`_empty` in a task of its own, so that `drop` can end it."""
        task = asyncio.create_task(self._empty(number))
        self._under_way = (number, task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._under_way = None
        return task.cancelled() or task.result()

    async def _empty(self, number: int) -> bool:
        """False if the partition has to be tried again."""
        box, memory = self._boxes.get(number, (None, None))
        if box is None or memory is None:
            return True
        try:
            await box.empty(memory)
        except FencedError:
            self._is_refused = True  # ingest has to notice, too, and in a partition to which nothing comes it would not
            self._log.info("deadletter.fenced", partition=number)
        except (KafkaError, RedisError, ServiceError) as error:
            if (isinstance(error, RedisError) and not is_passing(error)) or is_refusal(error):
                raise
            RECONNECTS.labels("redis" if isinstance(error, RedisError) else "kafka", "deadletter").inc()
            self._log.warning("deadletter.retry", partition=number, error=type(error).__name__)
            await asyncio.sleep(_PAUSE_S)
            return False
        return True
