"""Redis connections that pack large commands quickly, and which errors of Redis may pass by themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import hiredis
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from shoal.streams.errors import InputError, ServiceError

_ANSWER_S = 20.0
# Redis cannot write just now (no memory, no disk, no master), and may be able to again soon.
_PASSING = ("OOM", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "LOADING", "UNKILLABLE", "BUSY")

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


_QUICK: dict[type, type] = {SSLConnection: _TlsConnection, UnixDomainSocketConnection: _UnixConnection}


def open_redis(url: str) -> "Redis":
    """A client that retries nothing by itself: only the caller knows whether a command may be repeated."""
    try:
        options: dict[str, Any] = dict(parse_url(url))
    except ValueError:
        raise InputError(
            "SHOAL_REDIS is not an address of a Redis; write redis://host:port/database or unix:///path"
        ) from None
    connection_class = _QUICK.get(options.pop("connection_class", Connection), _TcpConnection)
    options |= {"socket_timeout": _ANSWER_S, "socket_connect_timeout": 5.0, "retry": Retry(NoBackoff(), 0)}
    pool = ConnectionPool(connection_class=connection_class, **options)
    return Redis(connection_pool=pool)


async def await_redis(client: "Redis", within_s: float, url: str) -> None:
    """Return when Redis answers. Raises ServiceError if it does not answer within `within_s`."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            if asyncio.get_running_loop().time() >= deadline or not is_passing(error):
                raise ServiceError(
                    f"Redis cannot be reached at {without_secret(url)}: start it, or set SHOAL_REDIS"
                ) from error
            await asyncio.sleep(0.3)
        else:
            return


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed a little later."""
    if isinstance(error, RedisConnectionError | RedisTimeoutError | ReadOnlyError | OSError | asyncio.TimeoutError):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_PASSING)


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
            await asyncio.sleep(min(2.0, 0.1 * 2 ** min(attempt, 5)))


def without_secret(url: str) -> str:
    """An address without its password, as it may be shown."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


__all__ = ["RedisError", "await_redis", "is_passing", "open_redis", "patiently", "without_secret"]
