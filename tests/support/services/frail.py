"""A Kafka and a Redis that a test may starve of room and cut off: small disks below, a wire in front of each.

The broker has two listeners. Workers reach it through the wire; the test itself, which must be able to send and to
judge whatever it has done to the wire, by the other.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.local import Local, Redis, Unavailable
from deploy.local.kafka import BriefKafka
from deploy.local.ports import free_port
from tests.support.services.proxy import Proxy

_BLOCK = b"\0" * (1 << 16)
_MOUNT_S = 20


class SmallDisk:
    """A file system in memory, at a folder. Its owner has to be root. A context manager; raises Unavailable."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder, self._megabytes = folder, megabytes
        self._filler = folder / "filler"

    def __enter__(self) -> "SmallDisk":
        self.folder.mkdir(parents=True, exist_ok=True)
        size = ["-o", f"size={self._megabytes}m"]
        done = subprocess.run(
            ["mount", "-t", "tmpfs", *size, "tmpfs", str(self.folder)], capture_output=True, timeout=_MOUNT_S,
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Unavailable("a small disk has to be mounted, which only root may")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, timeout=_MOUNT_S, check=False)

    def fill(self) -> None:
        """Not a byte is left."""
        with contextlib.suppress(OSError), self._filler.open("ab", buffering=0) as filler:
            while True:
                filler.write(_BLOCK)

    @property
    def free_share(self) -> float:
        found = shutil.disk_usage(self.folder)
        return found.free / found.total

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


class FrailKafka(BriefKafka):
    """A broker with a second listener, which tells its clients to come by the wire."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, heap_mb=384)
        self.wire = Proxy(free_port())

    @property
    def wired_address(self) -> str:
        return f"127.0.0.1:{self.wire.port}"

    def settings(self, logs: Path) -> str:
        more = {
            "listeners=": f",WIRED://127.0.0.1:{self.wire.target}",
            "advertised.listeners=": f",WIRED://{self.wired_address}",
        }
        lines = [
            line + next((text for name, text in more.items() if line.startswith(name)), "")
            for line in super().settings(logs).splitlines()
        ]
        plain = ",".join(f"{name}:PLAINTEXT" for name in ("CONTROLLER", "PLAINTEXT", "WIRED"))
        return "\n".join([*lines, f"listener.security.protocol.map={plain}"])


class Frail(NamedTuple):
    """Both services, their disks and their wires."""

    kafka: FrailKafka
    redis: Redis
    kafka_disk: SmallDisk
    redis_disk: SmallDisk
    kafka_wire: Proxy
    redis_wire: Proxy

    @property
    def address(self) -> str:
        return f"{self.kafka.address}, {self.redis.address}"

    @property
    def origin(self) -> str:
        return "native, on small disks"

    @property
    def services(self) -> Local:
        return Local(self.kafka, self.redis)

    @property
    def wired(self) -> dict[str, str]:
        """The settings of a worker that goes by the wires."""
        return {"KAFKA": self.kafka.wired_address, "REDIS": f"redis://127.0.0.1:{self.redis_wire.port}/0"}

    def restore(self) -> None:
        """Room on the disks, whole wires, and both services at work."""
        for disk in (self.kafka_disk, self.redis_disk):
            disk.make_room()
        for wire in (self.kafka_wire, self.redis_wire):
            wire.heal()
        for service in self.services:
            if service.is_running:
                service.resume()
            else:
                service.restart()


@contextlib.contextmanager
def frail_services() -> Iterator[Frail]:
    """Started, on throw-away data; stopped and removed at the end. Raises Unavailable."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-frail-"))
    kafka, redis = FrailKafka(folder / "kafka"), Redis(folder / "redis")
    try:
        with (
            SmallDisk(folder / "kafka" / "logs", 1024) as kafka_disk,
            SmallDisk(folder / "redis", 512) as redis_disk,
            kafka.wire as kafka_wire,
            Proxy(redis.port) as redis_wire,
            kafka,
            redis,
        ):
            yield Frail(kafka, redis, kafka_disk, redis_disk, kafka_wire, redis_wire)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
