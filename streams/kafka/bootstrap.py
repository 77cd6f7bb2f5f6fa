"""A client's first connection: to a broker that answers, without waiting long for one that does not.

aiokafka asks the given brokers in any order, and waits for each as long as for a request: half a minute. A broker that
hangs, or whose machine is gone, does not refuse a connection; it is silent. Shoal opens many clients, some for a single
question, and each release needs several, one after the other. One silent broker of three made a release take minutes,
while clients that were already connected went on.

`install` changes how every client of this process begins: a broker has five seconds to answer, and brokers that were
silent recently are asked last.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError

_TRY_MS: Final = 5_000
_LATELY_S: Final = 60.0

_silent: dict[str, float] = {}  # brokers that did not answer a new client, and when
_begin = AIOKafkaClient.bootstrap


def install() -> None:
    """From here on every client of aiokafka begins like this. May be called again."""
    AIOKafkaClient.bootstrap = _bootstrap


def in_order(servers: Sequence[str]) -> list[str]:
    """These brokers in the order in which to ask them: any, but the silent ones last."""
    now = time.monotonic()
    mixed = random.sample(servers, len(servers))
    return sorted(mixed, key=lambda server: now - _silent.get(server, -_LATELY_S) < _LATELY_S)


async def _bootstrap(self: Any) -> None:
    """Raises KafkaConnectionError if no broker answers."""
    given, whole_ms = self._bootstrap_servers, self._request_timeout_ms
    servers = given.split(",") if isinstance(given, str) else list(given)
    self._request_timeout_ms = min(_TRY_MS, whole_ms) if len(servers) > 1 else whole_ms
    try:
        for server in in_order(servers):
            self._bootstrap_servers = [server]
            try:
                await _begin(self)
            except KafkaConnectionError:
                _silent[server] = time.monotonic()
            else:
                _silent.pop(server, None)
                return
    finally:
        self._bootstrap_servers, self._request_timeout_ms = given, whole_ms
    raise KafkaConnectionError(f"Unable to bootstrap from {servers}")
