"""Redis connections that pack large commands quickly, find their server, and wait while it is away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import hiredis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from shoal.streams.errors import InputError
from shoal.streams.store.address import CLUSTER, SENTINEL, Access, Address, read_address, without_secret
from shoal.streams.store.finder import Finder, PrimaryFinder, SlotFinder
from shoal.streams.store.refusal import explain, is_elsewhere, is_passing, trouble

_ANSWER_S = 20.0

T = TypeVar("T")


class _QuickPacking:
    """Packs commands with hiredis. redis-py's asyncio connection does it in Python, a microsecond an argument."""

    def pack_command(self, *args: Any) -> list[bytes]:
        name = args[0]
        if isinstance(name, str) and " " in name:
            args = (*name.split(), *args[1:])
        return [hiredis.pack_command(args)]


class _TcpConnection(_QuickPacking, Connection):
    pass


class _TlsConnection(_QuickPacking, SSLConnection):
    pass


class _UnixConnection(_QuickPacking, UnixDomainSocketConnection):
    pass


class _Found:
    """A connection whose server is looked for whenever it is opened."""

    def __init__(self, *, finder: Finder, **options: Any) -> None:
        super().__init__(**options)
        self._finder = finder

    async def _connect(self) -> None:
        self.host, self.port = await self._finder.find()
        await super()._connect()  # type: ignore[misc] # redis-py's, beside this class

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)  # type: ignore[misc] # as above
        except ResponseError as error:
            if not is_elsewhere(error):
                raise
            # It was the primary, or had the slot. The command was not carried out; the next one looks for the server.
            await self.disconnect()  # type: ignore[attr-defined] # as above
            raise RedisConnectionError("the server is another one now") from None


class _FoundTcpConnection(_Found, _TcpConnection):
    pass


class _FoundTlsConnection(_Found, _TlsConnection):
    pass


_QUICK: dict[type, type] = {SSLConnection: _TlsConnection, UnixDomainSocketConnection: _UnixConnection}


def open_redis(url: str, access: Access | None = None, key: bytes = b"") -> "Redis":
    """A client that retries nothing by itself: only the caller knows whether a command may be repeated.

    In a Cluster it is the client of the node that has `key`. Raises InputError.
    """
    access = access or Access()
    address = read_address(url, access)
    options = dict(address.options)
    connection_class = _QUICK.get(options.pop("connection_class", Connection), _TcpConnection)
    finder = _finder(address, access, key)
    if finder is not None:
        options["finder"] = finder
        connection_class = _FoundTlsConnection if address.has_tls else _FoundTcpConnection
    options |= {"socket_timeout": _ANSWER_S, "socket_connect_timeout": 5.0, "retry": Retry(NoBackoff(), 0)}
    return Redis(connection_pool=ConnectionPool(connection_class=connection_class, **options))


def _finder(address: Address, access: Access, key: bytes) -> Finder | None:
    tls = {"ssl": True, **access.tls} if address.has_tls else {}
    if address.kind == SENTINEL:
        asking = {"username": access.sentinel_username, "password": access.sentinel_password, **tls}
        return PrimaryFinder(address.nodes, address.service, asking)
    if address.kind == CLUSTER:
        names = ("username", "password")
        return SlotFinder(address.nodes, key, {name: address.options.get(name) for name in names} | tls)
    return None


async def await_redis(client: "Redis", within_s: float, url: str, table: str = "") -> None:
    """Return when Redis answers. Raises ServiceError if it does not answer within `within_s`, InputError at once if it
    does not let this client in.
    """

    async def ping() -> None:
        await client.ping()

    await await_answer(ping, within_s, url, table)


async def await_answer(action: Callable[[], Awaitable[T]], within_s: float, url: str, table: str = "") -> T:
    """Repeat an action until Redis takes it. Raises as `await_redis` does."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            return await action()
        except (RedisError, OSError) as error:
            said = explain(error, without_secret(url), table)
            is_late = asyncio.get_running_loop().time() >= deadline
            if is_late or isinstance(said, InputError) or not is_passing(error):
                raise said from error
            await asyncio.sleep(0.3)


async def patiently(action: Callable[[], Awaitable[T]], on_retry: Callable[[BaseException, int], None]) -> T:
    """Repeat an action, which must allow it, until Redis takes it; errors that do not pass by themselves are raised."""
    attempt = 0
    while True:
        try:
            return await action()
        except (RedisError, OSError) as error:
            if not is_passing(error):
                raise
            attempt += 1
            on_retry(error, attempt)
            await asyncio.sleep(pause_s(attempt))


def pause_s(attempt: int) -> float:
    """How long to wait after an attempt that failed, the first being 1."""
    return float(min(2.0, 0.1 * 2 ** min(attempt, 5)))


__all__ = [
    "RedisError", "await_answer", "await_redis", "explain", "is_passing", "open_redis", "patiently", "pause_s",
    "trouble", "without_secret",
]  # fmt: skip
