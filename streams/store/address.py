"""Where Redis is and how a client is let in: SHOAL_REDIS read once, with the settings beside it.

| SHOAL_REDIS                                       | means |
|---------------------------------------------------|-------|
| `redis://[user:password@]host:port/database`      | one server; `rediss://` with TLS |
| `unix:///path`                                    | one server, by a socket |
| `redis+sentinel://host:port,host:port/name/database` | the primary that these Sentinels know by that name |
| `redis+cluster://host:port,host:port`             | a Cluster, found through any of these nodes |

`rediss+sentinel` and `rediss+cluster` speak TLS. A table's keys share a hash tag, so a Cluster keeps a table on one
node.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio.connection import parse_url

from shoal.streams.errors import InputError
from shoal.streams.settings import Settings

SENTINEL, CLUSTER, SINGLE = "sentinel", "cluster", "single"
_PORTS = {SENTINEL: 26379, CLUSTER: 6379}
_FORMS = (
    "redis://host:port/database, unix:///path, redis+sentinel://host:port,host:port/name/database or "
    "redis+cluster://host:port,host:port"
)


@dataclass(frozen=True)
class Access:
    """What the settings say besides the address. It wins over what the address says."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def tls(self) -> dict[str, Any]:
        """For redis-py; without an authority of its own, the system's count."""
        found = {"ssl_ca_certs": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        return {name: str(path) for name, path in found.items() if path is not None}


@dataclass(frozen=True)
class Address:
    """`nodes` are Sentinels, or nodes of a Cluster; `options` are redis-py's, for connections to the server itself."""

    kind: str
    has_tls: bool
    options: dict[str, Any] = field(repr=False)
    nodes: tuple[tuple[str, int], ...] = ()
    service: str = ""


def access_of(settings: Settings) -> Access:
    """The settings that concern Redis."""
    password, sentinel_password = settings.redis_password, settings.redis_sentinel_password
    return Access(
        settings.redis_username,
        None if password is None else password.get_secret_value(),
        settings.redis_sentinel_username,
        None if sentinel_password is None else sentinel_password.get_secret_value(),
        settings.redis_ssl_ca,
        settings.redis_ssl_cert,
        settings.redis_ssl_key,
    )


def read_address(url: str, access: Access) -> Address:
    """Raises InputError, which does not quote the address: it may have a password."""
    try:
        found = _read(url)
    except ValueError:
        raise InputError(f"SHOAL_REDIS is not an address of a Redis; write {_FORMS}") from None
    options = dict(found.options)
    if access.username is not None:
        options["username"] = access.username
    if access.password is not None:
        options["password"] = access.password
    if found.has_tls:
        options |= access.tls
    return Address(found.kind, found.has_tls, options, found.nodes, found.service)


def without_secret(url: str) -> str:
    """An address as it may be shown: without user, password and options, any of which may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _read(url: str) -> Address:
    scheme, _, kind = urlsplit(url).scheme.partition("+")
    if not kind:
        return Address(SINGLE, scheme == "rediss", {**parse_url(url)})
    parts = urlsplit(url)
    if scheme not in ("redis", "rediss") or kind not in _PORTS or parts.query or parts.fragment:
        raise ValueError(kind)
    user, _, hosts = parts.netloc.rpartition("@")
    nodes = tuple(_node(host, _PORTS[kind]) for host in hosts.split(","))
    username, _, password = user.partition(":")
    options: dict[str, Any] = {}
    if username:
        options["username"] = unquote(username)
    if password:
        options["password"] = unquote(password)
    path = [unquote(part) for part in parts.path.split("/") if part]
    if kind == CLUSTER and path not in ([], ["0"]):
        raise ValueError("a Cluster has one database")
    if kind == SENTINEL and len(path) not in (1, 2):
        raise ValueError("the name is missing")
    if kind == SENTINEL and len(path) == 2:
        options["db"] = int(path[1])
    return Address(kind, scheme == "rediss", options, nodes, path[0] if kind == SENTINEL else "")


def _node(text: str, port: int) -> tuple[str, int]:
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):  # an IPv6 address without a port
        host, number = text, str(port)
    if not host:
        raise ValueError("a host is missing")
    return host.strip("[]"), int(number)
