"""Which errors of Redis pass without help, and a sentence for each of the others.

Workers wait for what ends without anybody changing a setting: an outage, a failover, a full memory, a full disk. What
only an operator can change is said at once. redis-py turns some error codes into classes and strips them from the text.
It leaves others in the text, and scripts of Redis 6 have them in the middle. So both the class and the text are
checked.
"""

import asyncio
import ssl

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    ExecAbortError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from shoal.streams.errors import InputError, ServiceError, StreamsError

_PASSING = (
    RedisConnectionError, RedisTimeoutError, OSError, asyncio.TimeoutError, ReadOnlyError, OutOfMemoryError,
    ClusterDownError, TryAgainError,
)  # fmt: skip
_LASTING = (AuthenticationError, AuthorizationError)  # which redis-py counts as a lost connection
# Redis cannot write just now (no memory, no disk, no primary), and may be able to again soon.
_WORDS = (
    "OOM", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "LOADING", "UNKILLABLE", "BUSY",
    "READONLY",
)  # fmt: skip
_FULL = "is full: give it more memory (maxmemory); it has lost nothing"
_NO_ROOM = "cannot write to its disk: make room there, or look at its log"


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed a little later, without a change of any setting."""
    error = _root(error)
    if isinstance(error, _LASTING):
        return False
    return isinstance(error, _PASSING) or _word(error) is not None


def is_elsewhere(error: ResponseError) -> bool:
    """Whether a server says that another one has to be asked: it is a replica, or has not the slot."""
    return isinstance(error, AskError | ReadOnlyError) or _word(error) == "READONLY"


def trouble(error: BaseException) -> str | None:
    """What an operator has to do before Redis takes a write again; None if waiting may be enough."""
    wants = _wants_room(_root(error))
    return None if wants is None else f"Redis {wants}"


def explain(error: BaseException, where: str, table: str = "") -> StreamsError:
    """What to tell the operator: InputError if waiting cannot help, ServiceError if it may. `where` has no secret."""
    error = _root(error)
    word = _word(error)
    if isinstance(error, _LASTING):
        sentinels = "; a Sentinel's are in SHOAL_REDIS_SENTINEL_PASSWORD" if "+sentinel:" in where else ""
        return InputError(
            f"Redis at {where} does not let this client in: check SHOAL_REDIS_USERNAME and SHOAL_REDIS_PASSWORD, or "
            f"the user and password in SHOAL_REDIS{sentinels}"
        )
    # A refused EXEC is an ended transaction, with the reason in its text.
    if isinstance(error, NoPermissionError) or (isinstance(error, ExecAbortError) and "permission" in str(error)):
        keys = f" and the keys ~{{shoal:{table}}}:*" if table else ""
        return InputError(f"Redis at {where} does not let its user do what it must ({error}): grant the command{keys}")
    if isinstance(error, AskError):  # MOVED, too
        return InputError(f"Redis at {where} is a node of a Cluster: write redis+cluster:// in SHOAL_REDIS")
    if (wants := _wants_room(error)) is not None:
        return ServiceError(f"Redis at {where} {wants}")
    if isinstance(error, ReadOnlyError) or word == "READONLY":
        return ServiceError(
            f"Redis at {where} is a replica, which nobody can write to: name the primary in SHOAL_REDIS, or its "
            "Sentinels with redis+sentinel://"
        )
    if (tls := _tls_error(error)) is not None:
        why = getattr(tls, "verify_message", "") or "no agreement on TLS"
        return InputError(
            f"Redis at {where} and this client do not agree on TLS ({why}): check SHOAL_REDIS_SSL_CA, "
            "SHOAL_REDIS_SSL_CERT and SHOAL_REDIS_SSL_KEY, and that its port speaks TLS"
        )
    if "DB index" in str(error):
        return InputError(f"Redis at {where} does not have that database: change the number at the end of SHOAL_REDIS")
    if is_passing(error):
        is_cut = any(word in str(error) for word in ("closed", "reset"))
        other = ", or write rediss in it if the server speaks TLS" if is_cut else ""
        return ServiceError(f"Redis cannot be reached at {where}: start it, or set SHOAL_REDIS{other}")
    return ServiceError(f"Redis at {where} answers with an error ({type(error).__name__})")


def _wants_room(error: BaseException) -> str | None:
    word = _word(error)
    if isinstance(error, OutOfMemoryError) or word == "OOM":
        return _FULL
    return _NO_ROOM if word == "MISCONF" else None


def _root(error: BaseException) -> BaseException:
    """redis-py wraps what is raised while a connection is opened, as when a Sentinel is asked."""
    cause = error.__cause__
    return _root(cause) if isinstance(error, RedisConnectionError) and isinstance(cause, RedisError) else error


def _word(error: BaseException) -> str | None:
    if not isinstance(error, ResponseError):
        return None
    text = str(error)
    return next((word for word in _WORDS if text.startswith(word) or f"-{word} " in text), None)


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
