"""A partition in memory: decoding by a short cut, splitting at a barrier, and the log that a window is kept as."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.event import Reject
from core.intake import Intake
from core.policy import Policy
from streams.codec import MSGPACK, decode_event
from streams.partition import _MOST_LOGGED, Partition, _decode, content_type
from streams.policyfile import load_policy
from streams.records import unpack
from streams.seal import PlainSeal
from tests.table import POLICY, insert

HEADERS = (("content-type", b"application/msgpack"),)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


class Taken:
    def __init__(self, offset: int, event: Any) -> None:
        self.offset = offset
        self.key: bytes | None = None
        self.value: bytes | None = event if isinstance(event, bytes) else json.dumps(event).encode()
        self.headers: Sequence[tuple[str, bytes]] = ()


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"table": "t", **POLICY}))
    return load_policy(path)


def partition(policy: Policy) -> Partition:
    return Partition(0, "token", 0, 1, 0, None, Intake(policy, {}))


@given(VALUES)
def test_the_short_cut_reads_what_the_strict_decoder_reads(value: Any) -> None:
    raw = msgpack.packb(value)
    assert repr(_decode(raw, HEADERS)) == repr(decode_event(raw, MSGPACK))


@given(st.binary(max_size=40))
def test_the_short_cut_never_raises_and_never_differs_on_any_bytes(raw: bytes) -> None:
    assert repr(_decode(raw, HEADERS)) == repr(decode_event(raw, MSGPACK))


@pytest.mark.parametrize(
    "raw",
    [
        b"\x82\xa1a\x01\xa1a\x02",  # the same key twice
        b"\x81\xa3qid\x82\xa1a\x01\xa1a\x01",  # within
        # a duplicate whose removal is made up for by a longer form of a float: lengths agree, bytes do not
        b"\x82\xa1a\xca\x3f\x80\x00\x00\xa1a\xca\x3f\x80\x00\x00",
    ],
)
def test_a_key_that_comes_twice_is_found(raw: bytes) -> None:
    found = _decode(raw, HEADERS)
    assert isinstance(found, Reject)
    assert found.reason == "duplicate-key"


def test_the_last_content_type_counts_whatever_its_case() -> None:
    assert content_type(()) is None
    assert content_type((("Content-Type", b"application/json"), ("x", b"y"))) == "application/json"
    assert content_type((("content-type", b"a"), ("content-type", b"b"))) == "b"
    assert content_type((("content-type", b"\xff"),)) == "\ufffd"


def test_records_are_split_at_the_barrier_even_where_offsets_are_missing(policy: Policy) -> None:
    part = partition(policy)
    records = [Taken(offset, insert(offset)) for offset in (0, 1, 4, 7)]
    assert part.split(records, 8) == (records, (), 8)
    part.barrier = 3
    assert part.split(records, 8) == (records[:2], records[2:], 3)
    part.barrier = 8
    assert part.split(records, 8) == (records, (), 8)


def test_rejected_records_are_marked_and_kept_and_change_nothing(policy: Policy) -> None:
    part = partition(policy)
    batch = part.fold([Taken(0, b"junk"), Taken(1, insert(1)), Taken(2, insert(1))], 3, PlainSeal())
    assert (batch.before, batch.after, batch.accepted) == (0, 3, 1)
    assert [unpack(mark)[:2] for mark in batch.marks] == [(0, "bad-json"), (2, "already-present")]
    assert set(batch.rejected) == {0, 2}
    flat = unpack(batch.entries[0])
    assert flat[::2] == ("p1",)


def test_a_batch_without_effect_writes_nothing_to_the_window(policy: Policy) -> None:
    assert partition(policy).fold([Taken(0, b"junk")], 1, PlainSeal()).entries == []


def test_a_log_that_outgrew_its_window_is_replaced_by_it(policy: Policy) -> None:
    part = partition(policy)
    part.fold([Taken(0, insert(1)), Taken(1, insert(2))], 2, PlainSeal())
    part.logged = _MOST_LOGGED + 4
    changed = {"op": "update", "id": "p1", "qid": {"age": 3}}
    batch = part.fold([Taken(2, changed)], 3, PlainSeal())
    assert batch.entries[0] == b"", "the rest replaces what is there"
    found = unpack(batch.entries[1])
    assert dict(zip(found[::2], found[1::2], strict=True)) == part.intake.window
    assert part.logged == 2
