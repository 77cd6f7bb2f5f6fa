"""A real Kafka Connect with Debezium's connector for PostgreSQL, in one small process of its own."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from deploy.local.jars import connect_jars, converter_jars
from deploy.local.registry import Registry
from deploy.local.service import Service, Unavailable

_LOG4J = Path(__file__).with_name("log4j.properties")
_SIDES = ("key", "value")
_WORKER = """\
bootstrap.servers={kafka}
listeners=http://127.0.0.1:{port}
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=200
plugin.discovery=service_load
"""


class Connect(Service):
    """One connector, `connector`, with the settings that it is given. Its offsets are in its folder.

    Without another converter it writes JSON with schemas.
    """

    name = "connect"
    ready_within_s = 90.0

    def __init__(
        self,
        folder: Path,
        kafka: str,
        connector: Mapping[str, str],
        port: int | None = None,
        *,
        watched: bool = True,
        converter: "Converter | None" = None,
        heap_mb: int = 192,
    ) -> None:
        super().__init__(folder, port, watched=watched)
        self.connector = dict(connector)
        self._kafka, self._heap_mb = kafka, heap_mb
        self.converter = to_json(schemas=True) if converter is None else converter

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable(
                "Kafka Connect needs Java 17 or later, which is not installed (package `default-jre-headless`)"
            )
        worker, connector = self.folder / "worker.properties", self.folder / "connector.properties"
        settings = self.converter.settings
        converters = {f"{side}.converter{name}": value for side in _SIDES for name, value in settings.items()}
        common = _WORKER.format(kafka=self._kafka, port=self.port, folder=self.folder)
        worker.write_text(common + _properties(converters))
        connector.write_text(_properties(self.connector))
        heap = [f"-Xms{self._heap_mb // 4}m", f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        quiet = f"-Dlog4j.configuration={_LOG4J.as_uri()}"
        classpath = ":".join(f"{folder}/*" for folder in (connect_jars(), *self.converter.jars))
        return [java, *heap, quiet, "-cp", classpath, program, str(worker), str(connector)]

    def is_ready(self) -> bool:
        """The connector and its task run."""
        try:
            where = f"{self.address}/connectors/{self.connector['name']}/status"
            with urllib.request.urlopen(where, timeout=2) as said:  # noqa: S310 - an address of our own
                status = json.load(said)
        except (OSError, ValueError, urllib.error.URLError):
            return False
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return len(states) > 1 and set(states) == {"RUNNING"}

    def forget_offsets(self) -> None:
        """Have the next start take a snapshot again, as after a loss of Connect's own state."""
        (self.folder / "offsets").unlink(missing_ok=True)


class Converter(NamedTuple):
    """How Connect writes keys and values: the class and its settings, and folders with jars that it needs besides."""

    settings: Mapping[str, str]
    jars: tuple[Path, ...] = ()


def to_json(*, schemas: bool) -> Converter:
    """JSON, with a schema around every record or without."""
    return Converter({"": "org.apache.kafka.connect.json.JsonConverter", ".schemas.enable": str(schemas).lower()})


def to_avro(registry: Registry, *, own_ids: bool = False) -> Converter:
    """Avro, with ids as Confluent's converter writes them or, with `own_ids`, in headers, as Apicurio's does. Raises
    Unavailable.
    """
    ids = {} if own_ids else {"use-id": "contentId", "as-confluent": "true", "headers.enabled": "false"}
    settings = {"url": registry.address, "auto-register": "true", "find-latest": "true", **ids}
    names = {f".apicurio.registry.{name}": value for name, value in settings.items()}
    return Converter({"": "io.apicurio.registry.utils.converter.AvroConverter", **names}, (converter_jars(),))


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def debezium(name: str, database: str, tables: str, **settings: str) -> dict[str, str]:
    """Settings of a connector that follows these tables of a PostgreSQL, with topics that begin with `name`.

    `database` is the server's address and the database's name: postgresql://user@host:port/name
    """
    where = urlsplit(database)
    return {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": where.hostname or "",
        "database.port": str(where.port),
        "database.user": where.username or "",
        "database.password": where.password or "",
        "database.dbname": where.path.removeprefix("/"),
        "topic.prefix": name,
        "table.include.list": tables,
        "publication.autocreate.mode": "filtered",
        "slot.name": name.replace("-", "_").replace(".", "_"),
        "skipped.operations": "none",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
