"""Decoding what stands on a topic: JSON or msgpack by the record's content type, strictly, and never raising."""

from collections.abc import Callable, Sequence
from typing import Final

import msgpack

from shoal.core.events.event import DuplicateKeyError, Reason, Reject, parse_json, unique_pairs

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"


def parse_msgpack(raw: bytes) -> object | Reject:
    """Read one msgpack object. Text must be UTF-8 and keys text or bytes; bytes, timestamps and extensions stay what
    they are, which is a wrong type wherever an event expects something.
    """
    try:
        found: object = msgpack.unpackb(raw, object_pairs_hook=unique_pairs)
    except DuplicateKeyError:
        return Reject(Reason.DUPLICATE_KEY)
    except (ValueError, msgpack.UnpackException, RecursionError, OverflowError):
        return Reject(Reason.BAD_MSGPACK)
    return found


_DECODERS: Final[dict[str | None, Callable[[bytes], object]]] = {
    None: parse_json,
    JSON: parse_json,
    f"{JSON}; charset=utf-8": parse_json,
    f"{JSON};charset=utf-8": parse_json,
    MSGPACK: parse_msgpack,
}


def decode_event(value: bytes | None, content_type: str | None) -> object | Reject:
    """The event in a record's value, or why there is none. A record without a value is not an event."""
    decode = _DECODERS.get(content_type)
    if decode is None:
        # Media types are the same in upper and lower case.
        decode = _DECODERS.get(content_type.lower()) if content_type is not None else None
        if decode is None:
            return Reject(Reason.UNKNOWN_CONTENT_TYPE)
    if value is None:
        return Reject(Reason.NOT_AN_OBJECT)
    return decode(value)


def content_type(headers: Sequence[tuple[str, bytes]]) -> str | None:
    """The last `content-type` header, as text; most records have none or the same one."""
    for name, value in reversed(headers):
        if name.lower() == "content-type":
            return _KNOWN_TYPES.get(value) or value.decode(errors="replace")
    return None


_KNOWN_TYPES: Final = {JSON.encode(): JSON, MSGPACK.encode(): MSGPACK}
