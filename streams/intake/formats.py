"""Input formats: how an event may be written in a record's value, and which of them a record uses.

A record's `content-type` header names its format; without one it is JSON. Every consumer of events (ingest, rebuild,
the planner for triggers and the external topic) reads records through `EventReader` or `Taker`, so all of them know
the same formats.

To add a format, write a module with a class like `JsonFormat` and add an object of it to `FORMATS`. `quick` may return
None; then every event in the format goes the strict way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from shoal.core.events.event import Reason, Reject
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.intake.event_types import EventTypes
from shoal.streams.intake.json_format import JsonFormat
from shoal.streams.intake.msgpack_format import MsgpackFormat
from shoal.streams.kafka.record_limit import measure

Headers = Sequence[tuple[str, bytes]]
Read = Callable[[bytes], object]
QuickRead = Callable[[bytes], Any]


class InputFormat(Protocol):
    """One way to write an event as bytes."""

    @property
    def name(self) -> str:
        """As `shoal produce --format` calls it."""

    @property
    def media_types(self) -> Sequence[str]:
        """The content types of the format in lower case; producers write the first."""

    def strict(self, policy: Policy) -> Read:
        """A function from a value to the event as a dict, or to a Reject. It must not raise, whatever the bytes are.

        It refuses what the format leaves open: a key that comes twice, text that is not Unicode, more than one value.
        """

    def quick(self, types: EventTypes) -> QuickRead | None:
        """A function from a value to an object of one of the types, or to None where it cannot tell; it may raise
        ValueError or TypeError. What it returns must be what the strict way would accept, with the same effect.
        """

    def write(self, event: Mapping[str, Any]) -> bytes:
        """An event as a producer sends it. Raises ValueError if the format cannot express it."""


JSON: Final = JsonFormat()
MSGPACK: Final = MsgpackFormat()
FORMATS: Final[tuple[InputFormat, ...]] = (JSON, MSGPACK)
DEFAULT: Final[InputFormat] = JSON
"""The format of records without a content type."""


def by_name(name: str) -> InputFormat:
    """Raises InputError for a name that no format has."""
    found = {one.name: one for one in FORMATS}
    if name not in found:
        raise InputError(f"events cannot be sent as {name}; use one of {', '.join(sorted(found))}")
    return found[name]


class EventReader:
    """Reads the event in a record the strict way, under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._by_type = {media: read for one in FORMATS for read in (one.strict(policy),) for media in one.media_types}
        self._default = self._by_type[DEFAULT.media_types[0]]

    def read(self, value: bytes | None, headers: Headers) -> object | Reject:
        """The event, or why there is none. A record without a value is not an event. Never raises.

        One that is too large is not decoded (streams/kafka/record_limit.py).
        """
        if measure(value, headers) is not None:
            return Reject(Reason.TOO_LARGE)
        media_type = content_type(headers)
        read = self._default if media_type is None else self._by_type.get(media_type)
        if read is None:
            return Reject(Reason.UNKNOWN_CONTENT_TYPE)
        return Reject(Reason.NOT_AN_OBJECT) if value is None else read(value)


def format_of(headers: Headers) -> InputFormat | None:
    """The format that a record's headers name; None if there is no such format."""
    media_type = content_type(headers)
    if media_type is None:
        return DEFAULT
    return next((one for one in FORMATS if media_type in one.media_types), None)


def content_type(headers: Headers) -> str | None:
    """The last `content-type` header, in lower case, as media types are compared."""
    for name, value in reversed(headers):
        if name.lower() == "content-type":
            return value.decode(errors="replace").lower()
    return None
