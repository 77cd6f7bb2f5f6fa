"""Finding the server that has a table: the primary that Sentinels name, or the node of a Cluster that has its slot.

A connection asks whenever it is opened, and is closed as soon as its server says that it is not, or no longer, the one.
Nothing is repeated here: only the caller knows whether a command may be repeated, and it waits as for any outage.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

_ASK_S = 3.0
Node = tuple[str, int]


class Finder(Protocol):
    """Knows where the server is now."""

    async def find(self) -> Node:
        """Raises redis.exceptions.ConnectionError while nobody knows."""


class PrimaryFinder:
    """Asks Sentinels, the one that answered last first."""

    def __init__(self, sentinels: Sequence[Node], service: str, options: dict[str, Any]) -> None:
        self._sentinels, self._service, self._options = list(sentinels), service, options

    async def find(self) -> Node:
        refusal: RedisError | None = None
        for node in list(self._sentinels):
            try:
                async with _client(node, self._options) as client:
                    found = await client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", self._service)
            except (RedisError, OSError) as error:
                refusal = refusal or (error if isinstance(error, AuthenticationError | NoPermissionError) else None)
                continue
            if found:
                self._sentinels.remove(node)
                self._sentinels.insert(0, node)
                host, port = (_text(part) for part in found)
                return host, int(port)
        raise refusal or RedisConnectionError(f"no Sentinel knows a primary named {self._service}")


class SlotFinder:
    """Asks nodes of a Cluster which one has the slot of a key. A node that they name is also asked the next time."""

    def __init__(self, nodes: Sequence[Node], key: bytes, options: dict[str, Any]) -> None:
        self._named, self._slot, self._options = tuple(nodes), key_slot(key), options
        self._known: tuple[Node, ...] = ()

    async def find(self) -> Node:
        refusal: RedisError | None = None
        for node in dict.fromkeys((*self._known, *self._named)):
            try:
                async with _client(node, self._options) as client:
                    ranges = await client.execute_command("CLUSTER SLOTS")
            except (RedisError, OSError) as error:
                refusal = refusal or (error if isinstance(error, AuthenticationError | NoPermissionError) else None)
                continue
            owners = list(_owners(ranges, node[0]))
            self._known = tuple(owner for _, _, owner in owners)
            for first, last, owner in owners:
                if first <= self._slot <= last:
                    return owner
        raise refusal or RedisConnectionError(f"no node of the Cluster has slot {self._slot}")


def _owners(ranges: Any, asked: str) -> Iterator[tuple[int, int, Node]]:
    """(first slot, last slot, primary) of each range; redis-py gives a list, or a dictionary, by its version."""
    if isinstance(ranges, dict):
        for (first, last), nodes in ranges.items():
            host, port = nodes["primary"][:2]
            yield int(first), int(last), (_text(host) or asked, int(port))
        return
    for first, last, primary, *_ in ranges:
        yield int(first), int(last), (_text(primary[0]) or asked, int(primary[1]))


@contextlib.asynccontextmanager
async def _client(node: Node, options: dict[str, Any]) -> AsyncIterator[Any]:
    client: Any = Redis(
        host=node[0], port=node[1], socket_timeout=_ASK_S, socket_connect_timeout=_ASK_S,
        retry=Retry(NoBackoff(), 0), **options,
    )  # fmt: skip
    try:
        yield client
    finally:
        await client.aclose()


def _text(part: Any) -> str:
    return part.decode() if isinstance(part, bytes) else str(part or "")
