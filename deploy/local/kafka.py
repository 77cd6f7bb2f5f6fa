"""A real Kafka broker: KRaft, one node that is broker and controller, on two loopback ports."""

import base64
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import ClassVar

from deploy.local.jars import kafka_jars
from deploy.local.ports import free_port
from deploy.local.service import Service, Unavailable

_LOG4J = Path(__file__).with_name("log4j.properties")

# One broker has one copy of everything. Internal topics are small, so that a start and a recovery are quick. A killed
# broker is registered again only when its former session has run out, so sessions are short. Consumers may ask for
# short sessions for the same reason.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
initial.broker.registration.timeout.ms=30000
log.retention.ms=-1
log.segment.bytes=67108864
offsets.topic.segment.bytes=8388608
transaction.state.log.segment.bytes=8388608
num.recovery.threads.per.data.dir=2
"""


class Kafka(Service):
    """`address` is what SHOAL_KAFKA takes. The heap is small: this is a broker for one machine's tests and trials."""

    name = "kafka"
    ready_within_s = 90.0
    compiler: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path, port: int | None = None, *, watched: bool = True, heap_mb: int = 512) -> None:
        super().__init__(folder, port, watched=watched)
        self._heap_mb = heap_mb
        self._cluster = new_cluster()
        self._controller_port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("Kafka needs Java 11 or later, which is not installed (package `default-jre-headless`)")
        classpath = f"{kafka_jars()}/*"
        logs, settings = self.folder / "logs", self.folder / "server.properties"
        settings.write_text(self.settings(logs))
        if not (logs / "meta.properties").exists():
            self._format(java, classpath, settings)
        heap = [f"-Xms{self._heap_mb // 2}m", f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-Xshare:auto"]
        quiet = [f"-Dlog4j.configuration={_LOG4J.as_uri()}", "-Djava.awt.headless=true"]
        return [java, *heap, *self.compiler, *quiet, "-cp", classpath, "kafka.Kafka", str(settings)]

    def settings(self, logs: Path) -> str:
        """The broker's server.properties."""
        return _SETTINGS.format(port=self.port, controller_port=self._controller_port, logs=logs)

    def format_options(self) -> list[str]:
        """What the tool that formats the storage is told besides."""
        return []

    def is_ready(self) -> bool:
        """The broker's own metadata lists it: it is unfenced and has a controller."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            listed = AdminClient({"bootstrap.servers": self.address, "log_level": 0}).list_topics(timeout=2)
        except KafkaException:
            return False
        return bool(listed.brokers)

    def _format(self, java: str, classpath: str, settings: Path) -> None:
        tool = [
            java,
            "-Xmx64m",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j.configuration={_LOG4J.as_uri()}",
            "-cp",
            classpath,
            "kafka.tools.StorageTool",
        ]
        done = subprocess.run(
            # One word, for an id may begin with a dash.
            [*tool, "format", f"--cluster-id={self._cluster}", "--config", str(settings), *self.format_options()],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"Kafka could not format its storage: {(done.stderr or done.stdout).strip()[-300:]}")


class BriefKafka(Kafka):
    """A broker that lives for minutes, as tests have it: the second compiler would cost more than it saves."""

    compiler = ("-XX:TieredStopAtLevel=1",)


def new_cluster() -> str:
    """An id for a cluster, as Kafka writes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
