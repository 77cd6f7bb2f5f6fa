"""Envelopes: what a record says about a row, of the columns that the mapping names and no others."""

import json
from typing import Any

import pytest

from shoal.core.events.event import Reason, Reject
from shoal.streams.files.mapping.mapping import CapturedTable
from shoal.streams.source.envelope import Change, Snapshot, cut_down, read_change
from tests.support.histories.debezium import record

TABLE = CapturedTable(topic="t", id_columns=("id",), columns=frozenset({"id", "born", "weight"}))
KEY = {"id": 7}
ROW = {"id": 7, "born": 3685, "weight": "Ass=", "secret": "canary"}


def read(pair: tuple[bytes | None, bytes | None]) -> Any:
    return read_change(*pair, (), TABLE)


def test_a_row_has_the_named_columns_and_nothing_else() -> None:
    change = read(record("c", KEY, ROW, 12))
    assert change == Change("put", '{"id": 7}', (7,), {"id": 7, "born": 3685, "weight": "Ass="}, 12, None)
    assert "canary" not in repr(change)


def test_with_a_schema_dates_and_numerics_say_what_they_are() -> None:
    change = read(record("u", KEY, ROW, 12, schemas=True))
    assert change.row == {"id": 7, "born": "1980-02-03", "weight": "71.5"}
    assert change.key == '{"id": 7}'


@pytest.mark.parametrize("schemas", [False, True])
def test_a_delete_has_its_key_and_nulls(schemas: bool) -> None:
    nulls = dict.fromkeys(ROW) | KEY
    change = read(record("d", KEY, None, 12, before=nulls, schemas=schemas))
    assert change == Change("gone", '{"id": 7}', (7,), None, 12, None)


def test_a_delete_of_a_row_whose_key_does_not_name_the_person_names_nobody() -> None:
    nulls = {"id": None, "number": 3}
    assert read(record("d", {"number": 3}, None, before=nulls)).id_values is None
    assert read(record("d", {"number": 3}, None, before={"id": 7, "number": 3})).id_values == (
        7,
    )  # REPLICA IDENTITY FULL


def test_tombstones_are_nothing() -> None:
    assert read((b'{"id": 7}', None)) is None
    assert read((b'{"schema": null, "payload": {"id": 7}}', b'{"schema": null, "payload": null}')) is None


def test_truncate_has_no_key() -> None:
    _, value = record("t", KEY, None, 12)
    assert read((None, value)) == Change("truncated", "", None, None, 12, None)


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("first", Snapshot("12/700", False, False)),
        ("true", Snapshot("12/700", False, False)),
        ("last_in_data_collection", Snapshot("12/700", True, False)),
        ("last", Snapshot("12/700", True, True)),
        ("incremental", None),
    ],
)
def test_rows_of_a_snapshot_say_which_and_whether_it_is_the_last(marker: str, expected: Snapshot | None) -> None:
    change = read(record("r", KEY, ROW, 12, snapshot=marker))
    assert (change.kind, change.lsn, change.snapshot) == ("put", None, expected)


def envelope(**changes: Any) -> bytes:
    return json.dumps(json.loads(record("c", KEY, ROW)[1]) | changes).encode()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"{}", b"not json", Reject(Reason.BAD_JSON)),
        (b"{", envelope(), Reject(Reason.BAD_JSON)),
        (b"{}", b"[" * 100_000, Reject(Reason.BAD_JSON)),
        (b"{}", b"[1]", Reject(Reason.NOT_AN_OBJECT)),
        (b"{}", b"{}", Reject(Reason.MISSING_FIELD, None, "op")),
        (b"{}", envelope(op=1), Reject(Reason.MISSING_FIELD, None, "op")),
        (b"{}", envelope(source=None), Reject(Reason.MISSING_FIELD, None, "source")),
        (b'{"id": 7}', envelope(op="x"), Reject(Reason.UNKNOWN_OP, None, "op")),
        (b'{"id": 7}', envelope(after=None), Reject(Reason.MISSING_FIELD, None, "after")),
        (b'{"id": 7}', envelope(source={"lsn": "12"}), Reject(Reason.WRONG_TYPE, None, "source")),
        (None, envelope(), Reject(Reason.MISSING_FIELD, None, "key")),
        (b"{}", envelope(), Reject(Reason.MISSING_FIELD, None, "key")),
        (b"7", envelope(), Reject(Reason.MISSING_FIELD, None, "key")),
        (b'{"id": 7}', b" " * 2_000_000, Reject(Reason.TOO_LARGE)),
    ],
)
def test_what_is_no_envelope_is_rejected(key: bytes | None, value: bytes, expected: Reject) -> None:
    assert read((key, value)) == expected


def test_a_dead_letter_has_the_named_columns_and_nothing_else() -> None:
    _, value = record("u", KEY, ROW, before=ROW, schemas=True)
    letter = cut_down(value, TABLE)
    assert letter is not None
    kept = {"id": 7, "born": 3685, "weight": "Ass="}
    assert json.loads(letter) == {"op": "u", "before": kept, "after": kept}
    assert cut_down(b"not json", TABLE) is None
    assert cut_down(None, TABLE) is None
