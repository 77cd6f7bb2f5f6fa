"""Events as bytes and as requests: nothing that is not strictly JSON gets through, and nothing is raised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.events.event import Reason, Reject, ReleaseRequest, parse_json, parse_release, wrong_id, wrong_time

BAD_JSON = Reject(Reason.BAD_JSON)


def test_reasons_are_kebab_case_words() -> None:
    assert all(str(reason) == reason.name.lower().replace("_", "-") for reason in Reason)


def test_json_is_read() -> None:
    assert parse_json(b' {"a": [1, 2.5, "x", null, true], "\\u00e9": "\\ud83d\\ude00"} ') == {
        "a": [1, 2.5, "x", None, True],
        "é": "😀",
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 01}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b"NaN",
        b'{"a": "\n"}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',  # a surrogate in UTF-8
        '{"a": 1}'.encode("utf-16"),
        '{"a": 1}'.encode("utf-32-le"),
        b'{"a": "\\ud800"}',
        b'{"a": "\\uDFFF"}',
        b'{"\\ud800": 1}',
        b'[["\\ud83d \\ude00"]]',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 5000,
        b"-" + b"1" * 5000,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_not_strictly_json_is_bad_json(raw: bytes) -> None:
    assert parse_json(raw) == BAD_JSON


@pytest.mark.parametrize("raw", [b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": 2}}]'])
def test_a_key_that_is_there_twice_is_refused_at_any_depth(raw: bytes) -> None:
    assert parse_json(raw) == Reject(Reason.DUPLICATE_KEY)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\ud8e0123 nulltrue-.', max_size=60).map(str.encode))
def test_bytes_of_any_kind_raise_nothing(raw: bytes) -> None:
    found = parse_json(raw)
    if not isinstance(found, Reject):
        # whatever came through can be written again, and is then the same; 1e999 alone has become infinity
        again = json.dumps(found, ensure_ascii=False)
        assert parse_json(again.encode()) == (BAD_JSON if "Infinity" in again else found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_all_that_is_json_is_read_back(value: object, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize(
    "at", ["2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01 10:00:00.123456+02:00", "20240501T1000", "2024-W18-3"]
)
def test_iso_8601_times_are_fine(at: str) -> None:
    assert wrong_time(at) is None
    assert parse_release({"op": "release", "at": at}) == ReleaseRequest(at)


@pytest.mark.parametrize(
    "at", ["", "now", "2024-13-01", "2024-05-01x10:00", "2024-05-01T25:00", "2024-05-01\ud80010:00", "٢٠٢٤-05-01", "1"]
)
def test_other_times_are_not(at: str) -> None:
    assert wrong_time(at) == Reason.BAD_TIME


@pytest.mark.parametrize("at", [None, 5, True, 1714557600.0, ["2024-05-01"]])
def test_a_time_is_text(at: object) -> None:
    assert wrong_time(at) == Reason.WRONG_TYPE


@pytest.mark.parametrize(
    ("person", "reason"),
    [
        ("", "empty"),
        (5, "wrong-type"),
        (None, "wrong-type"),
        ("a\udfffb", "bad-text"),
        ("p\x00", "bad-text"),
        ("\x1b[31mp", "bad-text"),
        ("p\x9b1m", "bad-text"),
        ("p\u2028", "bad-text"),
        ("e\u0301", "bad-text"),  # é as two characters; as one it is somebody else
        ("p" * 513, "too-long"),
        ("é" * 257, "too-long"),
        ("p" * 10_000_000, "too-long"),
        ("\ud800" * 400, "too-long"),
    ],
)
def test_an_id_is_text_that_can_be_written_down(person: object, reason: str) -> None:
    assert wrong_id(person) == reason


@pytest.mark.parametrize("person", ["p17", " ", "é", "😀", "ﬀ" * 170, "p" * 512, "é" * 256, "\u202e"])
def test_any_other_text_is_an_id(person: str) -> None:
    assert wrong_id(person) is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"op": "release"}, ReleaseRequest(None)),
        ([], Reject(Reason.NOT_AN_OBJECT)),
        (None, Reject(Reason.NOT_AN_OBJECT)),
        ({}, Reject(Reason.MISSING_FIELD, None, "op")),
        ({"op": None}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({"op": ["release"]}, Reject(Reason.WRONG_TYPE, None, "op")),
        ({"op": "secret words"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({"op": "Release"}, Reject(Reason.UNKNOWN_OP, None, "op")),
        ({"op": "insert"}, Reject(Reason.WRONG_TOPIC, "insert", "op")),
        ({"op": "external"}, Reject(Reason.WRONG_TOPIC, "external", "op")),
        ({"op": "release", "secret": 1}, Reject(Reason.UNKNOWN_FIELD, "release")),
        ({"op": "release", "id": "p17"}, Reject(Reason.UNKNOWN_FIELD, "release")),
        ({"op": "release", "release": 3}, Reject(Reason.UNKNOWN_FIELD, "release")),
        ({"op": "release", "at": None}, Reject(Reason.WRONG_TYPE, "release", "at")),
        ({"op": "release", "at": "soon"}, Reject(Reason.BAD_TIME, "release", "at")),
        ({b"op": "release"}, Reject(Reason.MISSING_FIELD, None, "op")),
    ],
)
def test_a_release_request_has_an_op_and_perhaps_a_time(event: object, expected: object) -> None:
    assert parse_release(event) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (7, ReleaseRequest(None, 7)),
        (0, Reject(Reason.OUT_OF_DOMAIN, "release", "release")),
        (True, Reject(Reason.WRONG_TYPE, "release", "release")),
        (None, Reject(Reason.WRONG_TYPE, "release", "release")),
        (1.0, Reject(Reason.WRONG_TYPE, "release", "release")),
    ],
)
def test_a_timers_request_names_its_release(number: object, expected: object) -> None:
    assert parse_release({"op": "release", "release": number}, numbered=True) == expected
