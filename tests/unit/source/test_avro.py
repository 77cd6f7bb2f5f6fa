"""Avro: a record comes out as the same record in Connect's JSON would, or with a reason why it cannot be read."""

import json
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from deploy.local.ports import free_port
from shoal.core.events.event import Reason, Reject
from shoal.streams.errors import InputError
from shoal.streams.files.mapping.mapping import CapturedTable
from shoal.streams.settings import Settings
from shoal.streams.source.avro import Headers, Schemas
from shoal.streams.source.envelope import Change, cut_down, read_change, read_row
from shoal.streams.source.registry import RegistryError, open_registry
from tests.support.services.certificates import make_certificates
from tests.support.services.schemas import Registry, avro, framed

DATE = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
NUMERIC = {
    "type": "bytes", "scale": 1, "precision": 4, "logicalType": "decimal",
    "connect.parameters": {"scale": "1"}, "connect.name": "org.apache.kafka.connect.data.Decimal",
}  # fmt: skip
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "born", "type": DATE},
        {"name": "weight", "type": ["null", NUMERIC], "default": None},
        {"name": "secret", "type": "string"},
    ],
}
# As Debezium writes it: the second side names the type that the first has, in the namespace of both.
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "a-clinic.public.patient",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [{"name": "lsn", "type": ["null", "long"]}, {"name": "snapshot", "type": "string"}],
            },
        },
        {"name": "op", "type": "string"},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
PATIENT = {"id": 7, "born": 3685, "weight": b"\x02\xcb", "secret": "canary"}
CHANGE = {"before": None, "after": PATIENT, "source": {"lsn": 12, "snapshot": "false"}, "op": "u"}
TABLE = CapturedTable(topic="t", id_columns=("id",), columns=frozenset({"id", "born", "weight"}))


class Taken(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(0).serving() as registry:
        registry.put(1, KEY)
        registry.put(2, ENVELOPE)
        yield registry


def open_schemas(address: str, **settings: Any) -> Schemas:
    return Schemas(open_registry(Settings(schema_registry_url=address, **settings)))


async def read(registry: Registry, taken: Taken, path: str = "") -> Any:
    schemas = open_schemas(registry.address + path)
    await schemas.learn([taken])
    return read_change(*taken, TABLE, schemas)


async def test_dates_and_numerics_say_what_they_are(registry: Registry) -> None:
    taken = Taken(framed(1, KEY, {"id": 7}), framed(2, ENVELOPE, CHANGE))
    row = {"id": 7, "born": "1980-02-03", "weight": "71.5"}
    assert await read(registry, taken) == Change("put", '{"id": 7}', (7,), row, 12, None)


@pytest.mark.parametrize("kind", ["globalId", "contentId"])
async def test_apicurios_converter_writes_ids_into_headers(registry: Registry, kind: str) -> None:
    registry.answers[f"/apis/registry/v2/ids/{kind}s/1"] = (200, json.dumps(KEY).encode())
    registry.answers[f"/apis/registry/v2/ids/{kind}s/2"] = (200, json.dumps(ENVELOPE).encode())
    headers = [(f"apicurio.{side}.{kind}", number.to_bytes(8)) for side, number in (("key", 1), ("value", 2))]
    taken = Taken(avro(KEY, {"id": 7}), avro(ENVELOPE, CHANGE), headers)
    change = await read(registry, taken, "/apis/registry/v2")
    assert change.row == {"id": 7, "born": "1980-02-03", "weight": "71.5"}
    # Without headers it writes the global id as eight bytes.
    if kind == "globalId":
        key, value = (b"\0" + number.to_bytes(8) + (raw or b"") for number, raw in ((1, taken.key), (2, taken.value)))
        assert await read(registry, Taken(key, value), "/apis/registry/v2") == change
    else:
        assert await read(registry, taken) == change  # Confluent's API has the same ids


async def test_global_ids_need_apicurios_own_api(registry: Registry) -> None:
    taken = Taken(None, b"x", [("apicurio.value.globalId", (2).to_bytes(8))])
    with pytest.raises(InputError, match="set SHOAL_SCHEMA_REGISTRY_URL to Apicurio's own"):
        await read(registry, taken)


async def test_a_dead_letter_is_json_with_the_named_columns_and_a_first_look_sees_all(registry: Registry) -> None:
    taken = Taken(framed(1, KEY, {"id": 7}), framed(2, ENVELOPE, CHANGE))
    schemas = open_schemas(registry.address)
    await schemas.learn([taken])
    letter = cut_down(taken.value, TABLE, (), schemas)
    assert letter == b'{"op": "u", "after": {"born": 3685, "id": 7, "weight": "Ass="}}'
    found = read_row(taken.key, taken.value, (), schemas)
    assert found is not None
    assert found.row == {"id": 7, "born": "1980-02-03", "weight": "71.5", "secret": "canary"}


async def test_a_tombstone_in_avro_is_nothing(registry: Registry) -> None:
    assert await read(registry, Taken(framed(1, KEY, {"id": 7}), None)) is None


async def test_writers_that_do_not_know_connect_have_logical_types(registry: Registry) -> None:
    columns = {
        "day": ({"type": "int", "logicalType": "date"}, 3685, "1980-02-03"),
        "millis": ({"type": "long", "logicalType": "timestamp-millis"}, 318_384_000_000, "1980-02-03"),
        "number": ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x02\xcb", "71.5"),
        "days": ({"type": "array", "items": ["null", DATE]}, [3685, None], ["1980-02-03", None]),
        "either": (["int", "string"], "text", "text"),
        "real": ("double", float("nan"), "nan"),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _, _) in columns.items()]
    row = {"type": "record", "name": "Value", "fields": fields}
    schema = {"type": "record", "name": "E", "fields": [{"name": "after", "type": row}]}
    registry.put(3, schema)
    value = framed(3, schema, {"after": {name: raw for name, (_, raw, _) in columns.items()}})
    schemas = open_schemas(registry.address)
    await schemas.learn([Taken(None, value)])
    found = read_row(b'{"id": 7}', value, (), schemas)  # a key in JSON beside a value in Avro
    assert found is not None
    assert found.row == {name: expected for name, (_, _, expected) in columns.items()}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (framed(99, KEY, {"id": 7}), Reason.UNKNOWN_SCHEMA),
        (b"\0\0\0", Reason.UNKNOWN_SCHEMA),
        (framed(4, KEY, {"id": 7}), Reason.UNKNOWN_SCHEMA),  # what the registry has is no schema
        (framed(5, KEY, {"id": 7}), Reason.UNKNOWN_SCHEMA),  # it refers to another one
        (framed(2, ENVELOPE, CHANGE)[:-3], Reason.BAD_AVRO),
        (framed(2, ENVELOPE, CHANGE) + b"x", Reason.BAD_AVRO),
        (framed(2, KEY, {"id": 7}), Reason.BAD_AVRO),
        (framed(1, KEY, {"id": 7}), Reason.MISSING_FIELD),
    ],
)
async def test_what_cannot_be_read_is_rejected_with_a_reason(registry: Registry, value: bytes, reason: Reason) -> None:
    registry.put(4, {"type": "no such type"})
    registry.put(5, {"type": "record", "name": "R", "fields": [{"name": "other", "type": "some.Other"}]})
    assert (await read(registry, Taken(None, value))).reason is reason


async def test_whatever_stands_in_a_record_it_is_read_or_rejected(registry: Registry) -> None:
    draw, whole = Random(1), framed(2, ENVELOPE, CHANGE)
    schemas = open_schemas(registry.address)
    await schemas.learn([Taken(framed(1, KEY, {"id": 7}), whole)])
    outcomes: Counter[type] = Counter()
    for _ in range(3000):
        spoilt = bytearray(whole[: draw.randrange(5, len(whole) + 1)])
        for _ in range(draw.randrange(4)):
            spoilt[draw.randrange(5, len(spoilt)) if len(spoilt) > 5 else 4] = draw.randrange(256)
        outcomes[type(read_change(framed(1, KEY, {"id": 7}), bytes(spoilt), (), TABLE, schemas))] += 1
    assert outcomes.keys() == {Change, Reject}


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence"),
    [
        (401, b"", InputError, "answers 401: check SHOAL_SCHEMA_REGISTRY_USERNAME and SHOAL_SCHEMA_REGISTRY_PASSWORD"),
        (503, b"", RegistryError, "answers 503: check SHOAL_SCHEMA_REGISTRY_URL"),
        (200, b"<html>", RegistryError, "does not answer in JSON"),
        (200, b"[]", RegistryError, "answers without a schema"),
    ],
)
async def test_a_registry_that_does_not_answer_says_so(
    registry: Registry, status: int, body: bytes, kind: type[Exception], sentence: str
) -> None:
    registry.answers["/schemas/ids/2"] = (status, body)
    with pytest.raises(kind, match=sentence):
        await read(registry, Taken(None, framed(2, ENVELOPE, CHANGE)))


async def test_a_registry_that_is_away_is_named() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(RegistryError, match=f"the schema registry at {address} cannot be reached"):
        await open_schemas(address).learn([Taken(None, framed(2, ENVELOPE, CHANGE))])


async def test_the_password_goes_along_and_nothing_is_asked_twice(registry: Registry) -> None:
    schemas = open_schemas(registry.address, schema_registry_username="me", schema_registry_password="secret")
    for _ in range(2):
        await schemas.learn([Taken(framed(1, KEY, {"id": 7}), None)])
    (asked,) = registry.asked
    assert asked["Authorization"] == "Basic bWU6c2VjcmV0"


async def test_a_registry_must_show_a_certificate_of_the_authority_that_is_set(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.server, made.server_key)
    taken = Taken(framed(1, KEY, {"id": 7}), None)
    with Registry(0, tls).serving() as registry:
        registry.put(1, KEY)
        await open_schemas(registry.address, schema_registry_ssl_ca=made.ca).learn([taken])
        assert len(registry.asked) == 1
        for ca in (made.stranger_ca, None):
            with pytest.raises(RegistryError, match="cannot be reached"):
                await open_schemas(registry.address, schema_registry_ssl_ca=ca).learn([taken])


def test_a_file_without_authorities_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InputError, match=r"SHOAL_SCHEMA_REGISTRY_SSL_CA: .* has no certificates in PEM format"):
        open_schemas("https://nowhere", schema_registry_ssl_ca=tmp_path / "ca.pem")
