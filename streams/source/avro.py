"""Reads records in Avro whose schema a registry has: from bytes to what Connect's JSON has, and its schema.

A record is a zero byte, the id of its schema, and Avro's bytes; Apicurio's converter, unless told otherwise, writes the
id into a header, and then there are Avro's bytes alone. Only the schema says where a column begins, so the
whole record is decoded; of it the mapping's columns are taken, as from JSON. Everything comes out as Connect's JSON
writes it, bytes in base64 among it, with the schema in Connect's form beside it. Whatever reads JSON with schemas then
reads this.

Nothing of Avro's own logical types is used: Connect says in `connect.name` what a column means, and fastavro would turn
values into dates and decimals of Python's before anybody has looked at them.
"""

import asyncio
import base64
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from shoal.core.events.event import Reason
from shoal.streams.errors import InputError
from shoal.streams.files.extra import import_extra
from shoal.streams.source.registry import Registry, SchemaId

Headers = Sequence[tuple[str, bytes]]
_MAGIC: Final = b"\0"
_HEADER: Final = "apicurio."
_EXTRA: Final = "avro"
# Other writers than Connect have no `connect.name`.
_LOGICAL: Final = {
    "date": "org.apache.kafka.connect.data.Date",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
}


class Unreadable(Exception):
    """A record that cannot be read, and why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Writer(NamedTuple):
    """How records of one schema are read, and the schema in Connect's form."""

    read: Callable[[io.BytesIO], Any]
    described: Mapping[str, Any]


class Record(Protocol):
    """As much of aiokafka's records as is looked at."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Headers: ...


class Schemas:
    """The schemas that records were written with, by id. `learn` gets them, `decode` uses them."""

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry
        self._writers: dict[SchemaId | None, _Writer] = {}

    async def learn(self, records: Iterable[Record]) -> None:
        """Get the schemas of these records that are not known. One that the registry does not have stays unknown.

        Raises RegistryError if it cannot be asked, InputError if there is none or it lets nobody in.
        """
        for record in records:
            for side, raw in (("key", record.key), ("value", record.value)):
                in_avro = self.split(raw, record.headers, side)
                if in_avro is not None and in_avro[0] not in self._writers:
                    await self._learn(in_avro[0])

    async def _learn(self, wanted: SchemaId | None) -> None:
        if self._registry is None:
            raise InputError(
                "a captured topic has records in Avro: set SHOAL_SCHEMA_REGISTRY_URL to the registry with their schemas"
            )
        schema = None if wanted is None else await asyncio.to_thread(self._registry.fetch, wanted)
        writer = None if schema is None else _read_schema(schema)
        if writer is not None:
            self._writers[wanted] = writer

    def split(self, raw: bytes | None, headers: Headers, side: str) -> tuple[SchemaId | None, bytes] | None:
        """The id of a key's or value's schema, None if it has none, and Avro's bytes; None if it is not in Avro."""
        if raw is None:
            return None
        for name, value in headers:
            if name.startswith(_HEADER) and name in (f"{_HEADER}{side}.globalId", f"{_HEADER}{side}.contentId"):
                return SchemaId(name.rpartition(".")[2], int.from_bytes(value)), raw
        if not raw.startswith(_MAGIC):
            return None
        prefix = None if self._registry is None else self._registry.read_prefix(raw)
        return prefix or (None, b"")

    def decode(self, wanted: SchemaId | None, raw: bytes) -> tuple[Any, Mapping[str, Any]]:
        """A record and its schema. Raises Unreadable."""
        writer = self._writers.get(wanted)
        if writer is None:
            raise Unreadable(Reason.UNKNOWN_SCHEMA)
        stream = io.BytesIO(raw)
        try:
            value = writer.read(stream)
        except Exception:  # noqa: BLE001 - fastavro does not say what it raises for bytes that are no record
            raise Unreadable(Reason.BAD_AVRO) from None
        if stream.read(1):
            raise Unreadable(Reason.BAD_AVRO)
        return _as_json(value), writer.described


def _read_schema(schema: Any) -> _Writer | None:
    """None for something that is no schema, or that refers to others."""
    fastavro = import_extra("fastavro", _EXTRA)
    try:
        parsed = fastavro.parse_schema(_bare(schema))
        read = partial(fastavro.schemaless_reader, writer_schema=parsed, reader_schema=None)
        return _Writer(read, _describe(schema, "", {}))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError, ValueError):
        return None


def _bare(schema: Any) -> Any:
    """A schema without logical types."""
    if isinstance(schema, dict):
        return {name: _bare(value) for name, value in schema.items() if name != "logicalType"}
    return [_bare(item) for item in schema] if isinstance(schema, list) else schema


def _describe(schema: Any, namespace: str, named: dict[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A schema in the form of Connect's JSON, as far as dates and numerics need it."""
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != "null"]
        return _describe(kinds[0], namespace, named) if len(kinds) == 1 else {}
    if isinstance(schema, str):
        return named.get(_full_name(schema, namespace), {})
    kind = schema["type"]
    if not isinstance(kind, str):
        return _describe(kind, namespace, named)
    described: dict[str, Any] = {
        "name": schema.get("connect.name") or _LOGICAL.get(schema.get("logicalType")),
        "parameters": schema.get("connect.parameters") or {"scale": schema.get("scale", 0)},
    }
    if kind == "array":
        described["items"] = _describe(schema["items"], namespace, named)
    if kind == "record":
        name = _full_name(schema["name"], schema.get("namespace", namespace))
        named[name] = described
        inside = name.rpartition(".")[0]
        described["fields"] = [
            {**_describe(field["type"], inside, named), "field": field["name"]} for field in schema["fields"]
        ]
    return described


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
