"""How large records may be: no batch is decompressed beyond a limit, and a record that is too large is never decoded.

aiokafka decompresses a batch in one piece, whatever comes out of it: a megabyte of gzip can be a gigabyte. `set_limit`
puts decoders with a limit in their place. A batch that would be larger is not read. Each of its offsets comes as a
record without key and value, *marked* with what is known of it. The name of the mark's header is drawn for each
process, so that no producer can send one.

There is one limit for a process because aiokafka has one set of decoders. Every reader of what others send asks
`measure` before it decodes a record.
"""

import secrets
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from types import ModuleType
from typing import Any, Final, NamedTuple

from aiokafka.consumer import fetcher
from aiokafka.record import default_records, legacy_records

DEFAULT_LIMIT: Final = 1 << 20
BATCH_FACTOR: Final = 64
"""A batch may come to as many bytes as this many of the largest records. Events seldom shrink to less than a 30th."""

_MARK: Final = f"shoal-too-large-{secrets.token_hex(8)}"
_XERIAL: Final = b"\x82SNAPPY\x00"  # snappy in blocks, as Kafka's own clients write it
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")

_limits = {"record": DEFAULT_LIMIT}


class Size(NamedTuple):
    """What is known of a record that nobody reads; `digest` is the sha256 of its value, in hexadecimal.

    Of a batch that is not read, `size` ends in + and the digest is that of the compressed batch.
    """

    size: str
    digest: str

    def headers(self) -> list[tuple[str, bytes]]:
        """For its dead letter."""
        return [("size", self.size.encode()), ("digest", self.digest.encode())]


class _TooLargeError(Exception):
    """A batch is not read. It never leaves this module."""

    def __init__(self, digest: str = "") -> None:
        super().__init__()
        self.digest = digest


def set_limit(record_bytes: int) -> None:
    """From here on no reader of this process takes larger records."""
    _limits["record"] = record_bytes
    for batch in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):
        _limit_decoders(sys.modules[batch.__module__])
    fetcher.PartitionRecords = _LimitedRecords


def measure(value: bytes | None, headers: Sequence[tuple[str, bytes]], key: bytes | None = None) -> Size | None:
    """What is known of a record that is too large, None if it is not."""
    return describe(value, headers, key) if len(value or b"") + len(key or b"") > room_beside(headers) else None


def describe(value: bytes | None, headers: Sequence[tuple[str, bytes]], key: bytes | None) -> Size:
    """The same of any record, for a dead letter that cannot have its body."""
    marks = [known.decode() for name, known in headers if name == _MARK]
    if marks:
        return Size(*marks[0].split())
    size = len(value or b"") + len(key or b"") + _length(headers)
    return Size(str(size), sha256(value or b"").hexdigest())


def room_beside(headers: Sequence[tuple[str, bytes]]) -> int:
    """How long key and value may be beside these headers; less than nothing if they are too long, or marked."""
    return -1 if any(name == _MARK for name, _ in headers) else _limits["record"] - _length(headers)


def _length(headers: Sequence[tuple[str, bytes]]) -> int:
    return sum(len(name) + len(value or b"") for name, value in headers)


# -- decoders ---------------------------------------------------------------------------------------------------------


def _limit_decoders(module: ModuleType) -> None:
    for codec in _CODECS:
        name = f"{codec}_decode"
        known = getattr(module, name, None)
        if known is not None and not isinstance(known, _Limited):
            setattr(module, name, _Limited(known, codec))


class _Limited:
    """A decoder that gives up where more comes out than a batch may have."""

    def __init__(self, decode: Callable[[Any], bytes], codec: str) -> None:
        self._decode, self._codec = decode, codec

    def __call__(self, payload: Any) -> bytes:
        raw, limit = bytes(payload), BATCH_FACTOR * _limits["record"]
        try:
            if self._codec == "gzip":
                return _gunzip(raw, limit)
            if self._codec == "snappy":
                _check_snappy(raw, limit)
                return self._decode(raw)
            return _decompress(self._codec, raw, limit, self._decode)
        except _TooLargeError:
            raise _TooLargeError(sha256(raw).hexdigest()) from None


def _gunzip(payload: bytes, limit: int) -> bytes:
    found, rest = b"", payload
    while rest:
        stream = zlib.decompressobj(wbits=31)
        found += stream.decompress(rest, limit + 1 - len(found))
        if len(found) > limit:
            raise _TooLargeError
        if not stream.eof:
            raise EOFError("the compressed batch ends too early")
        rest = stream.unused_data
    return found


def _check_snappy(payload: bytes, limit: int) -> None:
    """Each block of snappy begins with the size that it comes to."""
    total, at = 0, 16
    if not payload.startswith(_XERIAL):
        total = _varint(payload)
    else:
        while at + 4 <= len(payload):
            (length,) = struct.unpack_from("!i", payload, at)
            total += _varint(payload[at + 4 : at + 9])
            at += 4 + max(0, length)
    if total > limit:
        raise _TooLargeError


def _varint(raw: bytes) -> int:
    found = 0
    for place, byte in enumerate(raw[:5]):
        found |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return found


def _decompress(codec: str, payload: bytes, limit: int, decode: Callable[[Any], bytes]) -> bytes:
    """lz4 and zstd into a buffer, a larger one each time it is too small."""
    try:
        import cramjam
    except ImportError:
        return decode(payload)  # says which library is missing
    room = 8 * len(payload) + 65_536
    while True:
        buffer = bytearray(min(room, limit + 1))
        try:
            size = getattr(cramjam, codec).decompress_into(payload, buffer)
        except cramjam.DecompressionError:
            if len(buffer) > limit:
                raise _TooLargeError from None
            room *= 8
            continue
        if size > limit:
            raise _TooLargeError
        return bytes(memoryview(buffer)[:size])


# -- records of a batch that is not read ------------------------------------------------------------------------------


class _Marked(NamedTuple):
    """In place of a record that is not read, with what aiokafka asks of a record."""

    offset: int
    headers: Sequence[tuple[str, bytes]]
    timestamp: int = -1
    timestamp_type: int = 0
    key: bytes | None = None
    value: bytes | None = None
    checksum: int | None = None


class _Batch:
    """A batch of aiokafka, of which the records come, or, if it is too large, as many marked ones."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            records = iter(self._batch)
            record = next(records, None)
        except _TooLargeError as error:
            yield from self._marked(error.digest)
            return
        while record is not None:  # a batch can be gone through once, and `yield from` would begin again
            yield record
            record = next(records, None)

    def _marked(self, digest: str) -> Iterator[_Marked]:
        known = f"{BATCH_FACTOR * _limits['record']}+ {digest}".encode()
        for offset in range(self._batch.base_offset, self._batch.next_offset):
            yield _Marked(offset, ((_MARK, known),))


class _Batches:
    """aiokafka's reader of batches, each wrapped."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    def next_batch(self) -> _Batch:
        return _Batch(self._records.next_batch())


class _LimitedRecords(fetcher.PartitionRecords):
    """The records of one partition in an answer of the broker."""

    def __init__(self, tp: Any, records: Any, *rest: Any) -> None:
        super().__init__(tp, _Batches(records), *rest)
