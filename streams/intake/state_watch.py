"""Checks that Redis still has the state that a worker began with, by the name that all workers on that state share."""

import time
from collections.abc import Callable
from typing import Final

from shoal.streams.kafka.companions import state_name
from shoal.streams.store.connection import patiently
from shoal.streams.store.store import Store

_LOOK_S: Final = 2.0


class StateWatch:
    """A rebuild under a worker that has nothing to do would go unnoticed, and the worker keep the former name."""

    def __init__(self, store: Store, on_retry: Callable[[BaseException, int], None]) -> None:
        self._store, self._on_retry = store, on_retry
        self._name, self._looked = "", 0.0

    async def name(self) -> str:
        """That of the state as it is now. Raises LostError if Redis knows nothing of the table."""
        self._name, self._looked = await self._read(), time.monotonic()
        return self._name

    async def has_changed(self) -> bool:
        """Whether it has another name now than it had; asks Redis now and then. Raises LostError."""
        if time.monotonic() - self._looked < _LOOK_S:
            return False
        self._looked = time.monotonic()
        return await self._read() != self._name

    async def _read(self) -> str:
        return state_name(await patiently(self._store.created, self._on_retry))
