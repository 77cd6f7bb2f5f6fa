"""JSON, the default input format."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from shoal.core.events.event import parse_json
from shoal.core.policy.policy import Policy
from shoal.streams.intake.event_types import EventTypes, count_keys


class JsonFormat:
    """RFC 8259, in UTF-8, without keys that come twice."""

    name: Final = "json"
    media_types: Final = (
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=utf-8",
    )

    def strict(self, policy: Policy) -> Callable[[bytes], object]:  # noqa: ARG002 - JSON describes itself
        return parse_json

    def quick(self, types: EventTypes) -> Callable[[bytes], Any]:
        decode = msgspec.json.Decoder(types.any).decode

        def read(value: bytes) -> Any:
            event = decode(value)
            return event if has_once(value, event) else None

        return read

    def write(self, event: Mapping[str, Any]) -> bytes:
        return json.dumps(event).encode()


def has_once(value: bytes, event: Any) -> bool:
    """Whether no key came twice: without escapes there is one colon for each key, and those inside texts."""
    fields, names = count_keys(event)
    colons = fields + max(names, 0) + event.id.count(":") + (event.at or "").count(":")
    return value.count(b":") == colons and b"\\" not in value
