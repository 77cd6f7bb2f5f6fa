"""A real Kafka and a real Redis on this machine, without Docker: from Python, or with `python -m deploy.local`."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.local.kafka import Kafka
from deploy.local.redis import Redis
from deploy.local.service import Service, Unavailable

__all__ = ["Kafka", "Local", "Redis", "Service", "Unavailable", "local_services"]


class Local(NamedTuple):
    """The two services Shoal needs."""

    kafka: Kafka
    redis: Redis


@contextlib.contextmanager
def local_services() -> Iterator[Local]:
    """Both on free ports with their data in a temporary folder, stopped and removed at the end. Raises Unavailable."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-"))
    local = Local(Kafka(folder / "kafka"), Redis(folder / "redis"))
    try:
        for service in local:
            service.start()
        yield local
    finally:
        for service in local:
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)
