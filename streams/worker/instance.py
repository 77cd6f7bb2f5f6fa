"""A worker's name, the same after a restart. Its shards wait for it as long as a session lasts.

If a second member joins under the same name, Kafka lets it replace the first. The first would join again and replace
the second, and so on. So each worker writes to Redis that the name is its own. A worker that finds another worker's
mark there ends.
"""

import re
import secrets
import socket
import time
from typing import Final

from shoal.streams.errors import InputError
from shoal.streams.settings import Settings
from shoal.streams.store.instances import claim_instance, read_instance
from shoal.streams.store.store import Store

_LOOK_S: Final = 1.0
_LONGEST: Final = 200


def instance_of(settings: Settings) -> str | None:
    """SHOAL_INSTANCE, or the host and the port, which no two workers share; None without either."""
    if settings.instance is not None:
        return settings.instance
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:_LONGEST]
    return f"{host}-{settings.web_port}" if settings.web_port else None


class Instance:
    """The claim of one worker to its name."""

    def __init__(self, store: Store, name: str | None) -> None:
        self._store, self.name = store, name
        self._mark, self._has_claimed, self._looked = secrets.token_hex(8), False, 0.0

    async def claim(self) -> None:
        """Called before joining the group. Raises InputError if this worker had the name and another has it now."""
        if self._has_claimed:
            await self.check(soon=True)
        if self.name is not None:
            await claim_instance(self._store, self.name, self._mark)
            self._has_claimed = True

    async def check(self, *, soon: bool = False) -> None:
        """Asks Redis now and then, or `soon`. Raises InputError if another worker has the name now."""
        if self.name is None or (not soon and time.monotonic() - self._looked < _LOOK_S):
            return
        self._looked = time.monotonic()
        if await read_instance(self._store, self.name) not in (None, self._mark):
            raise InputError(
                f"another worker of table {self._store.table} was started as instance {self.name}: give each worker "
                "its own SHOAL_INSTANCE"
            )
