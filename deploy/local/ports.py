"""Chooses TCP ports that no server on this machine uses, and that stay free while a service is down.

The kernel gives outgoing connections a port from a range of its own, the one that bind(0) uses too. It could give one
of them our service's port while the service is down; a client that keeps reconnecting can even connect to itself. So
ports come from below that range.
"""

import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 15_000


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Whether something accepts connections on this loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port(preferred: int | None = None) -> int:
    """The preferred port if it is free, else a random free one. Raises OSError when none is found."""
    if preferred is not None and is_free(preferred):
        return preferred
    for _ in range(200):
        port = random.randrange(_LOWEST, _first_ephemeral())
        if is_free(port):
            return port
    raise OSError("no free TCP port was found on 127.0.0.1")


def _first_ephemeral() -> int:
    try:
        first = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return max(first, _LOWEST + 1_000)
