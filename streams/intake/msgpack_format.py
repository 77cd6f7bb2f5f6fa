"""MessagePack, the input format that costs least."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgpack
import msgspec

from shoal.core.events.event import DuplicateKeyError, Reason, Reject, unique_pairs
from shoal.core.policy.policy import Policy
from shoal.streams.intake.event_types import EventTypes, count_keys


class MsgpackFormat:
    """One msgpack object, without keys that come twice."""

    name: Final = "msgpack"
    media_types: Final = ("application/msgpack",)

    def strict(self, policy: Policy) -> Callable[[bytes], object]:  # noqa: ARG002 - msgpack describes itself
        return parse_msgpack

    def quick(self, types: EventTypes) -> Callable[[bytes], Any]:
        decode = msgspec.msgpack.Decoder(types.any).decode
        encode = msgspec.msgpack.Encoder().encode

        def read(value: bytes) -> Any:
            event = decode(value)
            # Most producers write the fields in this order; then encoding the event gives the same bytes again.
            return event if encode(event) == value or has_once(value, event) else None

        return read

    def write(self, event: Mapping[str, Any]) -> bytes:
        try:
            packed: bytes = msgpack.packb(event)
        except (OverflowError, ValueError):
            raise ValueError("it has a number too large to send") from None
        return packed


def parse_msgpack(raw: bytes) -> object | Reject:
    """Read one msgpack object. Text must be UTF-8 and keys text or bytes. Bytes, timestamps and extensions stay as they
    are, which is a wrong type wherever an event has a field for them.
    """
    try:
        found: object = msgpack.unpackb(raw, object_pairs_hook=unique_pairs)
    except DuplicateKeyError:
        return Reject(Reason.DUPLICATE_KEY)
    except (ValueError, msgpack.UnpackException, RecursionError, OverflowError):
        return Reject(Reason.BAD_MSGPACK)
    return found


def has_once(value: bytes, event: Any) -> bool:
    """Whether no key came twice.

    A map begins with the number of its keys. The number of `qid`'s stands behind that key, and if its letters are
    nowhere else in the event, there is no mistaking it.
    """
    fields, names = count_keys(event)
    if value[0] != 0x80 + fields:
        return False
    return names < 0 or (_qid_head(names) in value and value.count(b"qid") == 1)


def _qid_head(count: int) -> bytes:
    """The key `qid` in msgpack and the beginning of a map of so many keys."""
    return b"\xa3qid" + (bytes((0x80 + count,)) if count < 16 else b"\xde" + count.to_bytes(2))
