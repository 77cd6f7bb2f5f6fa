"""No record and no batch of records becomes larger in memory than the settings allow."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from shoal.core.events.event import Reason, Reject
from shoal.core.events.intake import Intake
from shoal.core.policy.policy import build_policy
from shoal.streams.deadletter.box import DeadLetterBox
from shoal.streams.intake.formats import EventReader
from shoal.streams.intake.taker import Taker, make_taker
from shoal.streams.kafka import record_limit
from shoal.streams.kafka.record_limit import DEFAULT_LIMIT, describe, measure, set_limit
from tests.support.root import ROOT

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
EVENT = b'{"op":"insert","id":"p","qid":{"age":3},"sensitive":"flu"}'
POLICY = build_policy(
    {
        "table": "t",
        "attributes": {"age": {"type": "int", "min": 0, "max": 9}},
        "sensitive": {"name": "d", "values": ["flu", "gout", "ulcer", "cold"]},
        "privacy": {"k": 2, "l": 2},
    },
    {},
    b"",
)


@pytest.fixture(autouse=True)
def limit() -> Iterator[int]:
    set_limit(10_000)
    yield 10_000
    set_limit(DEFAULT_LIMIT)


def batch_of(codec: int, *values: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for offset, value in enumerate(values):
        builder.append(offset, 0, b"k", value, [("h", b"1")])
    return bytes(builder.build())


def records_of(batch: bytes) -> list[Any]:
    return list(record_limit._Batches(MemoryRecords(batch)).next_batch())


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_an_ordinary_batch_is_read_as_it_is(codec: int) -> None:
    if codec in (SNAPPY, LZ4, ZSTD):
        pytest.importorskip("cramjam")
    found = records_of(batch_of(codec, EVENT, b"x" * 9_000, b""))
    assert [(record.offset, record.value) for record in found] == [(0, EVENT), (1, b"x" * 9_000), (2, b"")]
    assert all(measure(record.value, record.headers, record.key) is None for record in found)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_grows_too_large_is_not_read(codec: int) -> None:
    if codec in (SNAPPY, LZ4, ZSTD):
        pytest.importorskip("cramjam")
    batch = batch_of(codec, EVENT, b"\0" * 5_000_000, EVENT)
    found = records_of(batch)
    assert [(record.offset, record.key, record.value) for record in found] == [(n, None, None) for n in range(3)]
    for record in found:
        size = measure(record.value, record.headers)
        assert size is not None
        assert size.size == "640000+"
        assert size.digest == sha256(batch[61:]).hexdigest()


def test_a_record_that_is_too_large_is_known_by_size_and_digest() -> None:
    value = b"x" * 10_001
    assert measure(value, ()) == describe(value, (), None) == ("10001", sha256(value).hexdigest())
    assert measure(value[1:], ()) is None
    assert measure(value[1:], (("h", b""),)) is not None
    assert measure(b"", (("h", b"x" * 10_000),)) is not None
    assert measure(b"x", (), b"k" * 10_000) is not None


@pytest.mark.parametrize("make", [Taker, make_taker])
def test_ingest_rejects_what_is_too_large_without_reading_it(make: Any) -> None:
    taker = make(Intake(POLICY, {}))
    padded = EVENT + b" " * 10_000
    assert taker.take(padded, (), 0) == Reject(Reason.TOO_LARGE)
    assert taker.take(EVENT, (("content-type", b"application/json"), ("h", b"x" * 9_990)), 1) == Reject(
        Reason.TOO_LARGE
    )
    (marked, *_) = records_of(batch_of(GZIP, b"\0" * 5_000_000))
    assert taker.take(marked.value, marked.headers, 2) == Reject(Reason.TOO_LARGE)
    assert taker.take(EVENT, (), 3) is None
    assert EventReader(POLICY).read(padded, ()) == Reject(Reason.TOO_LARGE)


def test_nobody_can_send_the_mark_of_a_batch_that_was_not_read() -> None:
    """Its name is another one in every process."""
    ask = "from shoal.streams.kafka.record_limit import _MARK; print(_MARK)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.strip() != record_limit._MARK


def test_a_bomb_costs_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    batch = batch_of(GZIP, b"\0" * 100_000_000)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(records_of(batch)) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - max(before, built) < 20_000  # kB


class _Whole:
    """A record as a box gets it."""

    def __init__(self, value: bytes | None, headers: Any = ()) -> None:
        self.offset, self.key, self.value, self.headers = 0, b"k", value, headers


def test_a_letter_is_the_record_unless_that_is_too_large() -> None:
    box: Any = DeadLetterBox.__new__(DeadLetterBox)
    box._longest = 5_000
    ours = [("reason", b"bad-json")]
    small = box._letter(_Whole(b"x" * 4_000, (("h", b"1"),)), ours)
    assert small == (b"k", b"x" * 4_000, (("h", b"1"), *ours))
    long = b"x" * 6_000
    for value in (long, b"x" * 20_000):
        letter = box._letter(_Whole(value), ours)
        size = str(len(value) + 1).encode()
        assert letter == (None, None, (*ours, ("size", size), ("digest", sha256(value).hexdigest().encode())))
