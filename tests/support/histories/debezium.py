"""Records as Debezium 3.6 writes them for a table of PostgreSQL 15, with and without their schema."""

import json
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
TYPES: dict[str, dict[str, Any]] = {
    "born": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
    "since": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
    "until": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
    "weight": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "1", "connect.decimal.precision": "4"},
    },
    "seen_at": {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "codes": {"type": "array", "items": {"type": "string", "optional": True}},
}


def record(
    op: str,
    key: Row,
    row: Row | None,
    lsn: int | None = 1,
    *,
    snapshot: str = "false",
    before: Row | None = None,
    schemas: bool = False,
) -> tuple[bytes, bytes]:
    """Key and value of one change."""
    source = {
        "version": "3.6.2.Final", "connector": "postgresql", "name": "clinic", "ts_ms": 1_750_000_000_000,
        "snapshot": snapshot, "db": "clinic", "sequence": '["1","2"]', "schema": "public", "table": "patient",
        "txId": 700, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    envelope = {"before": before, "after": row, "source": source, "op": op, "ts_ms": 1_750_000_000_001}
    if not schemas:
        return json.dumps(dict(key)).encode(), json.dumps(envelope, default=dict).encode()
    sides = [_struct(side, row or before or key) for side in ("before", "after")]
    fields = [*sides, {"type": "struct", "fields": [], "field": "source"}, {"type": "string", "field": "op"}]
    schema = {"type": "struct", "fields": fields, "name": "clinic.public.patient.Envelope"}
    wrapped_key = {"schema": _struct(None, key), "payload": dict(key)}
    return json.dumps(wrapped_key).encode(), json.dumps({"schema": schema, "payload": envelope}, default=dict).encode()


def _struct(side: str | None, row: Row) -> dict[str, Any]:
    fields = [{"optional": True, "field": name, **TYPES.get(name, {"type": "string"})} for name in row]
    return {"type": "struct", "fields": fields, "optional": True} | ({} if side is None else {"field": side})
