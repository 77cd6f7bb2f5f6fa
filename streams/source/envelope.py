"""Reads Debezium's envelopes: from a record of a captured table's topic to what happened to one row.

JSON comes with a schema around every record (`{"schema": …, "payload": …}`) or without; both are read, and Avro, whose
schemas are in a registry (streams/source/avro.py). Of a row only the columns that the mapping names are taken.

| record   | is                                                                                        |
|----------|-------------------------------------------------------------------------------------------|
| op c, u  | the row as it is now                                                                      |
| op r     | the row as a snapshot found it; `source.snapshot` says whether it was the last            |
| op d     | a deleted row. By default PostgreSQL sends its key and nothing else                       |
| op t     | TRUNCATE: no row is left. Debezium skips it unless `skipped.operations` says otherwise    |
| no value | a tombstone after a delete, for compaction: nothing happened                              |

A change of a row's key is a delete of the old one and a create of the new one. `source.lsn` grows with every change of
a row, so a change that comes again is told by it.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from shoal.core.events.event import Reason, Reject
from shoal.streams.files.mapping.mapping import CapturedTable
from shoal.streams.files.mapping.moments import plain
from shoal.streams.kafka.record_limit import measure
from shoal.streams.source.avro import Headers, Schemas, Unreadable

_decode = msgspec.json.Decoder().decode
_LAST: Final = ("last", "last_in_data_collection")
_NONE: Final = ("false", "null", "None")


class Snapshot(NamedTuple):
    """Which snapshot a row belongs to, and whether it is the last row of its table, or of all tables."""

    identity: str
    is_last: bool
    is_last_of_all: bool


class Change(NamedTuple):
    """What happened to one row; `key` is its primary key as text, `row` None if it is gone.

    `id_values` are the columns of the person's id, None where the record does not have them. `lsn` is None for rows of
    a snapshot, which has no order among the changes of a row.
    """

    kind: Literal["put", "gone", "truncated"]
    key: str
    id_values: tuple[Any, ...] | None
    row: Mapping[str, Any] | None
    lsn: int | None
    snapshot: Snapshot | None


def read_change(
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    table: CapturedTable,
    schemas: Schemas | None = None,
) -> Change | Reject | None:
    """The change in a record, why it is none, or None for a tombstone. Never raises. Avro is read with `schemas`."""
    if measure(value, headers, key) is not None:
        return Reject(Reason.TOO_LARGE)
    if value is None:
        return None
    try:
        envelope, schema = _open(value, headers, "value", schemas)
        key_row, key_schema = _open(key, headers, "key", schemas)
    except Unreadable as error:
        return Reject(error.reason)
    if envelope is None:
        return None
    if type(envelope) is not dict:
        return Reject(Reason.NOT_AN_OBJECT)
    return _read(envelope, schema, key_row, key_schema, table)


class KeyedRow(NamedTuple):
    """A whole row, with its key."""

    key: Mapping[str, Any]
    row: Mapping[str, Any]


def read_row(
    key: bytes | None, value: bytes | None, headers: Headers = (), schemas: Schemas | None = None
) -> KeyedRow | None:
    """All columns of a row, for somebody who looks at a topic before there is a mapping; None if there is no row."""
    try:
        envelope, schema = _open(value, headers, "value", schemas)
        key_row, _ = _open(key, headers, "key", schemas)
    except Unreadable:
        return None
    if not isinstance(envelope, dict) or not isinstance(envelope.get("after"), dict) or not isinstance(key_row, dict):
        return None
    after = envelope["after"]
    table = CapturedTable(topic="", id_columns=(), columns=frozenset(after))
    row = _columns(after, _side(schema, "after"), table)
    return KeyedRow(key_row, {name: row[name] for name in after})


def cut_down(
    value: bytes | None, table: CapturedTable, headers: Headers = (), schemas: Schemas | None = None
) -> bytes | None:
    """A record with the columns that the mapping names and nothing else, for a dead letter; None if it is unreadable.
    What came in Avro is written in JSON.
    """
    try:
        envelope, _ = _open(value, headers, "value", schemas)
    except Unreadable:
        return None
    if type(envelope) is not dict:
        return None
    kept: dict[str, Any] = {"op": envelope.get("op")}
    for side in ("before", "after"):
        row = envelope.get(side)
        if isinstance(row, dict):
            kept[side] = {name: row[name] for name in sorted(table.columns & row.keys())}
    return json.dumps(kept).encode()


def _open(
    raw: bytes | None, headers: Headers, side: str, schemas: Schemas | None
) -> tuple[Any, Mapping[str, Any] | None]:
    """A key or a value, in JSON or Avro, and its schema. Raises Unreadable."""
    if raw is None:
        return None, None
    in_avro = None if schemas is None else schemas.split(raw, headers, side)
    if schemas is not None and in_avro is not None:
        return schemas.decode(*in_avro)
    try:
        return _unwrap(_decode(raw))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise Unreadable(Reason.BAD_JSON) from None


def _unwrap(document: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """A document without the schema around it, and the schema."""
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        schema = document["schema"]
        return document["payload"], schema if isinstance(schema, dict) else None
    return document, None


def _read(
    envelope: Mapping[str, Any],
    schema: Mapping[str, Any] | None,
    key_row: Any,
    key_schema: Mapping[str, Any] | None,
    table: CapturedTable,
) -> Change | Reject:
    op, source = envelope.get("op"), envelope.get("source")
    if type(op) is not str or not isinstance(source, dict):
        return Reject(Reason.MISSING_FIELD, None, "op" if type(op) is not str else "source")
    lsn = source.get("lsn") if op != "r" else None
    if lsn is not None and type(lsn) is not int:
        return Reject(Reason.WRONG_TYPE, None, "source")
    if op == "t":
        return Change("truncated", "", None, None, lsn, None)
    if op not in ("c", "r", "u", "d"):
        return Reject(Reason.UNKNOWN_OP, None, "op")
    if not isinstance(key_row, dict) or not key_row:
        return Reject(Reason.MISSING_FIELD, None, "key")
    snapshot = _snapshot(source) if op == "r" else None
    text = json.dumps(key_row, sort_keys=True, ensure_ascii=False)
    if op == "d":
        # By default PostgreSQL sends the key alone, and Debezium writes null for everything else.
        before = _columns(envelope.get("before"), _side(schema, "before"), table)
        known = {name: value for name, value in before.items() if value is not None}
        return Change("gone", text, _id_values(known | _columns(key_row, key_schema, table), table), None, lsn, None)
    if not isinstance(envelope.get("after"), dict):
        return Reject(Reason.MISSING_FIELD, None, "after")
    row = _columns(envelope["after"], _side(schema, "after"), table)
    return Change("put", text, _id_values(row, table), row, lsn, snapshot)


def _columns(row: Any, schema: Mapping[str, Any] | None, table: CapturedTable) -> dict[str, Any]:
    """The named columns of a row, in a form that needs no schema."""
    if not isinstance(row, dict):
        return {}
    fields = {field.get("field"): field for field in (schema or {}).get("fields") or () if isinstance(field, dict)}
    return {name: plain(row[name], fields.get(name)) for name in table.columns & row.keys()}


def _side(schema: Mapping[str, Any] | None, side: str) -> Mapping[str, Any] | None:
    """The schema of `before` or `after`."""
    fields = (schema or {}).get("fields") or ()
    return next((field for field in fields if isinstance(field, dict) and field.get("field") == side), None)


def _id_values(row: Mapping[str, Any], table: CapturedTable) -> tuple[Any, ...] | None:
    if not all(column in row for column in table.id_columns):
        return None
    return tuple(row[column] for column in table.id_columns)


def _snapshot(source: Mapping[str, Any]) -> Snapshot | None:
    """None for a row of an incremental snapshot, which says nothing of the rows that it does not have."""
    marker = str(source.get("snapshot")).lower()
    if marker == "incremental" or marker in _NONE:
        return None
    return Snapshot(f"{source.get('lsn')}/{source.get('txId')}", marker in _LAST, marker == "last")
