"""The dead letters of every partition a worker holds, sent beside its ingest; one source's are in deadletter.py."""

import asyncio
import contextlib
from collections.abc import MutableMapping

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.errors import ServiceError
from shoal.streams.intake.partition import Record
from shoal.streams.log import get_log
from shoal.streams.store.connection import is_passing
from shoal.streams.store.store import FencedError, RedisError, Store

_LOOK_S = 2.0
_PAUSE_S = 0.5  # before what failed is tried again
_LET_GO_S = 5.0


class DeadLetters:
    """The dead letters of every partition that a worker holds, sent beside its ingest."""

    def __init__(self, servers: list[str], store: Store) -> None:
        self._servers, self._store = servers, store
        self._boxes: dict[int, tuple[DeadLetterBox, MutableMapping[int, Record]]] = {}
        self._marked: dict[int, int] = {}
        self._has_marks = asyncio.Event()
        self._round = asyncio.Event()
        self._under_way: tuple[int, asyncio.Task[bool]] | None = None
        self._log = get_log(table=store.table)

    async def hold(self, source: TopicPartition, token: str, memory: MutableMapping[int, Record]) -> None:
        """A partition is loaded; marks may be left in it from before. `memory` is where its rejected records are."""
        number = source.partition
        await self.drop(number)
        box = DeadLetterBox(self._servers, self._store, source, str(number), token)
        self._boxes[number] = (box, memory)
        self.mark(number)

    async def drop(self, number: int) -> None:
        """Let go of a partition. What is being sent for it is left to its next owner to find, or to send."""
        box, _ = self._boxes.pop(number, (None, None))
        if self._under_way is not None and self._under_way[0] == number:
            # A producer that is stopped in the middle of a transaction would let its sender wait for ever.
            task = self._under_way[1]
            task.cancel()
            await asyncio.wait({task}, timeout=_LET_GO_S)
        if box is not None:
            await box.close()

    def mark(self, number: int) -> None:
        """There are marks in this partition, or may be."""
        self._marked[number] = self._marked.get(number, 0) + 1
        self._has_marks.set()

    async def drained(self, number: int) -> None:
        """Return when the marks of a partition are letters: they must not grow without end."""
        while number in self._marked and number in self._boxes:
            self._round.clear()
            await self._round.wait()

    async def run(self) -> None:
        """Steps 4 and 5, for ever. Raises LostError, GuaranteeError."""
        while True:
            self._has_marks.clear()
            if not self._marked:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._has_marks.wait(), _LOOK_S)
            if not self._marked:  # a release marks the events that came to the wrong partition, in Redis
                for number in self._boxes:
                    self.mark(number)
            for number, seen in sorted(self._marked.items()):
                if await self._attempt(number) and self._marked.get(number) == seen:
                    del self._marked[number]
                self._round.set()

    async def close(self) -> None:
        for number in list(self._boxes):
            await self.drop(number)

    async def _attempt(self, number: int) -> bool:
        """`_empty`, in a task of its own, so that `drop` can end it. False if it is to be tried again."""
        task = asyncio.create_task(self._empty(number))
        self._under_way = (number, task)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            self._under_way = None
        return task.cancelled() or task.result()

    async def _empty(self, number: int) -> bool:
        """False if it is to be tried again."""
        box, memory = self._boxes.get(number, (None, None))
        if box is None or memory is None:
            return True
        try:
            await box.empty(memory)
        except FencedError:
            self._log.info("deadletter.fenced", partition=number)  # the commit of a batch will notice as well
        except (KafkaError, RedisError, ServiceError) as error:
            if isinstance(error, RedisError) and not is_passing(error):
                raise
            self._log.warning("deadletter.retry", partition=number, error=type(error).__name__)
            await asyncio.sleep(_PAUSE_S)
            return False
        return True
