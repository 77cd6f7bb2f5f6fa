"""Decoding records of a topic: msgpack as strict as JSON, and no content type taken on trust."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.events.event import Reason, Reject, parse_json
from shoal.core.events.intake import Intake
from shoal.streams.errors import InputError
from shoal.streams.intake.formats import FORMATS, EventReader, by_name
from shoal.streams.intake.msgpack_format import parse_msgpack
from tests.support.engines.series import clinic_policy

INSERT: dict[str, Any] = {
    "op": "insert",
    "id": "p17",
    "qid": {"age": 34, "weight": 61.5, "sex": "female", "zip": "z11"},
    "sensitive": ["asthma"],
}
BAD_MSGPACK = Reject(Reason.BAD_MSGPACK)
READER = EventReader(clinic_policy())


def decode_event(value: bytes | None, content_type: str | None) -> object:
    return READER.read(value, [] if content_type is None else [("Content-Type", content_type.encode())])


@pytest.mark.parametrize(
    "content_type",
    [None, "application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON"],
)
def test_json_is_the_default(content_type: str | None) -> None:
    assert decode_event(json.dumps(INSERT).encode(), content_type) == INSERT


@pytest.mark.parametrize("content_type", ["application/msgpack", "Application/MsgPack"])
def test_msgpack_by_its_content_type(content_type: str) -> None:
    assert decode_event(msgpack.packb(INSERT), content_type) == INSERT


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/jsonx", "application/json; charset=latin-1", "avro", " "]
)
def test_an_unknown_content_type_is_refused_whatever_the_bytes(content_type: str) -> None:
    assert decode_event(json.dumps(INSERT).encode(), content_type) == Reject(Reason.UNKNOWN_CONTENT_TYPE)
    assert decode_event(None, content_type) == Reject(Reason.UNKNOWN_CONTENT_TYPE)


@pytest.mark.parametrize("content_type", [None, "application/json", "application/msgpack"])
def test_a_record_without_a_value_is_no_event(content_type: str | None) -> None:
    assert decode_event(None, content_type) == Reject(Reason.NOT_AN_OBJECT)


def test_one_format_is_not_mistaken_for_the_other() -> None:
    assert decode_event(msgpack.packb(INSERT), None) == Reject(Reason.BAD_JSON)
    assert decode_event(json.dumps(INSERT).encode(), "application/msgpack") == BAD_MSGPACK


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",  # never used
        b"\x81",  # cut off
        msgpack.packb(INSERT)[:-1],
        msgpack.packb(INSERT) + b"\xc0",
        b"\x81\x01\x02",  # a number for a key
        b"\x81\xc0\x02",
        b"\x81\x90\x02",
        b"\xa1\xff",  # not UTF-8
        b"\xa3\xed\xa0\x80",  # half a surrogate pair
        b"\xdd\xff\xff\xff\xff",  # a list of four thousand million
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 100_000,
        b"\x91" * 100_000 + b"\xc0",
        b"\xd7\xff\xff\xff\xff\xff\xff\xff\xff\xff",  # a timestamp with too many nanoseconds
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_what_is_not_msgpack_is_refused(raw: bytes) -> None:
    assert parse_msgpack(raw) == BAD_MSGPACK


@pytest.mark.parametrize("raw", [b"\x82\xa1a\x01\xa1a\x01", b"\x91\x81\xa1q\x82\xa1a\x01\xa1a\x02"])
def test_a_key_that_is_there_twice_is_refused_at_any_depth(raw: bytes) -> None:
    assert parse_msgpack(raw) == Reject(Reason.DUPLICATE_KEY)


@given(st.binary(max_size=80))
def test_bytes_of_any_kind_raise_nothing(raw: bytes) -> None:
    parse_msgpack(raw)
    decode_event(raw, None)


@given(st.data())
def test_a_damaged_event_raises_nothing_and_what_comes_through_is_judged(data: st.DataObject) -> None:
    good = data.draw(st.sampled_from([msgpack.packb(INSERT), json.dumps(INSERT).encode()]))
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    for parse in (parse_msgpack, parse_json):
        event = parse(bytes(damaged))
        if not isinstance(event, Reject):
            Intake(clinic_policy(), {}).take(event)


@pytest.mark.parametrize(
    "change",
    [
        {"id": b"p17"},
        {"sensitive": b"asthma"},
        {"sensitive": [b"asthma"]},
        {"op": b"insert"},
        {"qid": {**INSERT["qid"], "sex": b"female"}},
        {"qid": {**INSERT["qid"], "age": msgpack.Timestamp(34)}},
        {"qid": {**INSERT["qid"], "age": msgpack.ExtType(4, b"4")}},
        {"at": msgpack.Timestamp(34)},
    ],
)
def test_bytes_timestamps_and_extensions_stand_for_nothing(change: dict[str, Any]) -> None:
    event = decode_event(msgpack.packb(INSERT | change), "application/msgpack")
    refused = Intake(clinic_policy(), {}).take(event)
    assert refused is not None
    assert refused.reason == Reason.WRONG_TYPE


def _with(fields: dict[Any, Any], key: object, value: object) -> dict[Any, Any]:
    return {**fields, key: value}


def test_bytes_as_keys_are_not_the_fields_they_look_like() -> None:
    event = decode_event(msgpack.packb(_with(INSERT, b"at", "2024-05-01")), "application/msgpack")
    assert Intake(clinic_policy(), {}).take(event) == Reject(Reason.UNKNOWN_FIELD, "insert")
    event = decode_event(msgpack.packb({**INSERT, "qid": _with(INSERT["qid"], b"age", 1)}), "application/msgpack")
    assert Intake(clinic_policy(), {}).take(event) == Reject(Reason.UNKNOWN_ATTRIBUTE, "insert", "qid")


def test_every_format_reads_what_it_writes_and_has_the_same_effect() -> None:
    windows = []
    for one in FORMATS:
        intake = Intake(clinic_policy(), {})
        assert intake.take(decode_event(one.write(INSERT), one.media_types[0])) is None
        windows.append(intake.window)
    assert len(windows) == len(FORMATS) > 1
    assert windows[0] == windows[1]


def test_formats_have_names_and_content_types_of_their_own() -> None:
    assert [by_name(one.name) for one in FORMATS] == list(FORMATS)
    with pytest.raises(InputError, match="json, msgpack"):
        by_name("avro")
    types = [media for one in FORMATS for media in one.media_types]
    assert len(set(types)) == len(types)
    assert [media.lower() for media in types] == types
