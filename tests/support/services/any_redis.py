"""Real Redis servers of other kinds than the plain one: with TLS and users, behind a Sentinel, in a Cluster."""

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis

from deploy.local import Redis
from deploy.local.ports import free_port
from deploy.local.redis import redis_server
from tests.support.services.certificates import Certificates

ADMIN_PASSWORD = "the admin's password"
_BASE = Path(__file__).resolve().parents[3] / "deploy" / "redis" / "redis.conf"
# Far below 16384, and not in the range from which clients get their ports: a node also listens 10000 above its port.
_SLOTS = 16_384


class OtherRedis(Redis):
    """A server with settings of its own, in a file: nothing of it is on a command line."""

    def __init__(self, folder: Path, lines: Iterable[str] = (), port: int | None = None, *, base: bool = True) -> None:
        super().__init__(folder, port)
        self._lines, self._base = list(lines), base

    @property
    def where(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        path = self.folder / "redis.conf"
        if not path.exists():  # a Sentinel writes what it learns into its own
            first = [f"include {_BASE}"] if self._base else []
            ours = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.folder}", "daemonize no"]
            path.write_text("\n".join([*first, *ours, *self._lines]) + "\n")
        return [redis_server(), str(path), *self._mode()]

    def _mode(self) -> list[str]:
        return []

    def is_ready(self) -> bool:
        """It answers, if only to ask who is there; a server that speaks TLS is ready when it listens."""
        if "port 0" in self._lines:
            return True
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.settimeout(0.5)
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False

    def client(self, **options: Any) -> Any:
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=5, **options)


class SentinelServer(OtherRedis):
    """One Sentinel, which decides alone; quickly, for a test."""

    def __init__(self, folder: Path, primary: Redis, name: str) -> None:
        super().__init__(
            folder,
            [
                f"sentinel monitor {name} 127.0.0.1 {primary.port} 1",
                f"sentinel down-after-milliseconds {name} 700",
                f"sentinel failover-timeout {name} 3000",
            ],
            base=False,
        )

    def _mode(self) -> list[str]:
        return ["--sentinel"]


def hand_over(primary: int, replica: int, patience_s: float = 30.0) -> None:
    """The server on the first port hands over to the one on the second, its replica, once that has everything."""
    before: Any
    after: Any
    before, after = (redis.Redis(port=port, socket_timeout=5) for port in (primary, replica))
    deadline = time.monotonic() + patience_s
    _await_replication(after, "master_link_status", "up", deadline)
    _await_replication(before, "slave0", "online", deadline)
    before.execute_command("FAILOVER", "TO", "127.0.0.1", replica)
    _await_replication(after, "role", "master", deadline)
    _await_replication(before, "role", "slave", deadline)


def _await_replication(server: Any, name: str, wanted: str, deadline: float) -> None:
    while not _is_said(server.info("replication").get(name), wanted):
        assert time.monotonic() < deadline, f"{name} did not become {wanted}"
        time.sleep(0.05)


def _is_said(found: Any, wanted: str) -> bool:
    """A primary says several things of a replica, its state among them."""
    return bool((found.get("state") if isinstance(found, dict) else found) == wanted)


def tls_lines(certificates: Certificates, port: int) -> list[str]:
    """TLS only, and only for clients with a certificate."""
    return [
        "port 0",
        f"tls-port {port}",
        f"tls-cert-file {certificates.server}",
        f"tls-key-file {certificates.server_key}",
        f"tls-ca-cert-file {certificates.ca}",
        "tls-auth-clients yes",
    ]


def cluster_port() -> int:
    """A node listens 10000 above its port, too, so its port must be low."""
    while (port := free_port()) > 22_000:
        pass
    return port


def join(nodes: list[OtherRedis]) -> None:
    """Make a Cluster of these nodes, each with an equal part of the slots."""
    clients = [node.client() for node in nodes]
    for number, client in enumerate(clients):
        first, last = number * _SLOTS // len(nodes), (number + 1) * _SLOTS // len(nodes) - 1
        client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for node in nodes[1:]:
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", node.port)
    deadline = time.monotonic() + 20
    while not all(_is_whole(client, len(nodes)) for client in clients):
        assert time.monotonic() < deadline, "the nodes did not become a Cluster"
        time.sleep(0.1)


def _is_whole(client: Any, nodes: int) -> bool:
    found = client.execute_command("CLUSTER INFO")
    text = found if isinstance(found, dict) else dict(line.split(":") for line in found.decode().split("\r\n") if line)
    return bool(text["cluster_state"] == "ok" and text["cluster_known_nodes"] == str(nodes))


def move_slot(slot: int, source: OtherRedis, target: OtherRedis, others: Iterable[OtherRedis]) -> int:
    """Move a slot to another node, as an operator does while clients work; returns the number of keys moved."""
    source_client, target_client = source.client(), target.client()
    source_id, target_id = (
        client.execute_command("CLUSTER MYID").decode() for client in (source_client, target_client)
    )
    target_client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source_id)
    source_client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target_id)
    moved = 0
    while keys := source_client.execute_command("CLUSTER GETKEYSINSLOT", slot, 50):
        source_client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "REPLACE", "KEYS", *keys)
        moved += len(keys)
    for client in (target_client, source_client, *(node.client() for node in others)):
        client.execute_command("CLUSTER SETSLOT", slot, "NODE", target_id)
    return moved


def add_replica(replica: OtherRedis, primary: OtherRedis, others: Iterable[OtherRedis]) -> None:
    """A node of its own becomes a replica of a node of a Cluster, and has everything when this returns."""
    client, deadline = replica.client(), time.monotonic() + 30
    client.execute_command("CLUSTER MEET", "127.0.0.1", primary.port)
    name = primary.client().execute_command("CLUSTER MYID")
    while True:
        try:
            client.execute_command("CLUSTER REPLICATE", name)
        except redis.ResponseError:  # it does not know that node yet
            assert time.monotonic() < deadline, "the replica did not meet its primary"
            time.sleep(0.1)
        else:
            break
    _await_replication(client, "master_link_status", "up", deadline)
    known = client.execute_command("CLUSTER MYID")
    for node in others:  # who decides that it takes over
        while known.decode() not in str(node.client().execute_command("CLUSTER NODES")):
            assert time.monotonic() < deadline, "the nodes did not hear of the replica"
            time.sleep(0.1)


def await_primary(node: OtherRedis, patience_s: float = 30.0) -> None:
    """Until this server is a primary."""
    _await_replication(node.client(), "role", "master", time.monotonic() + patience_s)
