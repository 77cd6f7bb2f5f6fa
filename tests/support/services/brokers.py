"""Three brokers that are one Kafka: three copies of everything, and a write counts when two of them have it."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.local.kafka import BriefKafka, new_cluster

_COUNT = 3
_COPIES = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}


class Broker(BriefKafka):
    """One of several, each of which is a controller, too. It is ready when enough of the others are."""

    def __init__(self, folder: Path, number: int, cluster: str) -> None:
        super().__init__(folder, heap_mb=256)
        self._number, self._cluster = number, cluster
        self.others: list[Broker] = []

    @property
    def voter(self) -> str:
        return f"{self._number}@127.0.0.1:{self._controller_port}"

    def settings(self, logs: Path) -> str:
        changed = {
            "node.id": self._number,
            "controller.quorum.voters": ",".join(sorted(broker.voter for broker in (self, *self.others))),
            **_COPIES,
        }
        lines = dict(line.split("=", 1) for line in super().settings(logs).splitlines())
        return "\n".join(f"{name}={value}" for name, value in (lines | changed).items())


class Brokers:
    """The three. Those that were killed are started together: one alone does not get ready."""

    def __init__(self, brokers: list[Broker]) -> None:
        self._brokers = brokers

    @property
    def address(self) -> str:
        return ",".join(broker.address for broker in self._brokers)

    @property
    def origin(self) -> str:
        return "native, three brokers"

    def __getitem__(self, number: int) -> Broker:
        return self._brokers[number % _COUNT]

    def restore(self) -> None:
        down = [broker for broker in self._brokers if not broker.is_running]
        with ThreadPoolExecutor(_COUNT) as pool:
            list(pool.map(Broker.restart, down))


@contextlib.contextmanager
def three_brokers() -> Iterator[Brokers]:
    """Started, on throw-away data; stopped and removed at the end. Raises Unavailable."""
    folder, cluster = Path(tempfile.mkdtemp(prefix="shoal-brokers-")), new_cluster()
    brokers = [Broker(folder / str(number), number, cluster) for number in range(1, _COUNT + 1)]
    for broker in brokers:
        broker.others = [other for other in brokers if other is not broker]
    try:
        found = Brokers(brokers)
        found.restore()
        yield found
    finally:
        with ThreadPoolExecutor(_COUNT) as pool:
            list(pool.map(Broker.stop, brokers))
        shutil.rmtree(folder, ignore_errors=True)
