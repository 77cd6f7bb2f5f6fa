"""AsyncAPI 3 of a table's topics, made from the same models as the checks and the JSON Schemas.

The worker is the application that it describes: it receives events, other publishers' groups and triggers, and sends
releases and dead letters. What holds under every policy is said; labels and names of attributes are the policy's.
"""

from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from shoal.core.events.event import Reason
from shoal.core.schema import event_schema, release_schema
from shoal.streams.intake.formats import FORMATS
from shoal.streams.kafka.cloud_event import DEAD_LETTER_TYPE, RELEASE_TYPE, SPECVERSION
from shoal.streams.kafka.topics import Topics

ASYNCAPI: Final = "3.0.0"
_BINDING: Final = "0.5.0"

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "string", "pattern": "^[0-9]+$"}
# The channel of an event by its op; all others are about people.
_CHANNEL_OF: Final = {"external": "external", "release": "triggers", "skip": "triggers", "change": "triggers"}
_SENT: Final = ("releases", "deadLetter")
_RELEASES: Final = (
    "Each release in one transaction: cells, groups, what is gone, and last its manifest. With shards "
    "there is a partition for each. The first one also has `sealed`, before any of it can be seen, and the manifest."
)


def describe_topics() -> Json:
    """The whole document, the same for every table."""
    channels = {**_received(), "releases": _releases(), "deadLetter": {"deadLetter": _dead_letter()}}
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Shoal",
            "version": metadata.version("shoal"),
            "description": "Change events about people come in, releases that keep their promises go out.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {name: _channel(name, messages) for name, messages in channels.items()},
        "operations": {
            f"{_action(name)}{name[0].upper()}{name[1:]}": {
                "action": _action(name),
                "channel": {"$ref": f"#/channels/{name}"},
            }
            for name in channels
        },
        "components": {
            "messages": {name: message for messages in channels.values() for name, message in messages.items()}
        },
    }


def _action(channel: str) -> str:
    return "send" if channel in _SENT else "receive"


def _channel(name: str, messages: Iterable[str]) -> Json:
    topics = Topics("{table}")
    address, summary, is_single = {
        "events": (topics.events, "Events about people, keyed by the person's id.", False),
        "external": (topics.external, "What other publishers have published, keyed by the publisher.", False),
        "triggers": (topics.triggers, "Requests for a release, and to leave a record out.", True),
        "releases": (topics.releases, _RELEASES, False),
        "deadLetter": (topics.dead_letter, "Each rejected record once, with the reason in its headers.", True),
    }[name]
    kafka: Json = {"bindingVersion": _BINDING, **({"partitions": 1} if is_single else {})}
    return {
        "address": address,
        "summary": summary,
        "parameters": {"table": {"description": "The table's name, as its policy has it."}},
        "messages": {message: {"$ref": f"#/components/messages/{message}"} for message in messages},
        "bindings": {"kafka": kafka},
    }


def _received() -> dict[str, dict[str, Json]]:
    """The messages that a worker takes, by channel: one for each op."""
    media_types = [media_type for known in FORMATS for media_type in known.media_types]
    found: dict[str, dict[str, Json]] = {"events": {}, "external": {}, "triggers": {}}
    for schema in event_schema()["oneOf"]:
        op = schema["title"]
        found[_CHANNEL_OF.get(op, "events")][op] = {
            "title": op,
            "headers": _headers({"content-type": {"type": "string", "enum": media_types}}),
            "payload": schema,
        }
    return found


def _releases() -> dict[str, Json]:
    """The kinds of records of a release. Only the manifest's, and `sealed`, which announces it, have headers."""
    schemas = release_schema()["$defs"]
    key = {"type": "string", "description": "<table>/<release>"}
    messages = {
        kind: {"title": kind, "payload": schema, "bindings": {"kafka": {"key": key, "bindingVersion": _BINDING}}}
        for kind, schema in schemas.items()
    }
    said = {
        "kind": {"type": "string", "const": "manifest"},
        "offsets": {**_TEXT, "description": "JSON: by partition of the events topic, where the window ended"},
        "external": {**_TEXT, "description": "JSON: the same for the external topic"},
        "trigger": _NUMBER,
    }
    sometimes = {
        "at": {**_TEXT, "description": "the time that the trigger named"},
        "skipped": {**_TEXT, "description": "JSON: by source, the offsets of records that were left out"},
        "policy": {**_TEXT, "description": "the sha256 of what the policy means"},
        "key": {**_TEXT, "description": "a fingerprint of the table's secret"},
        "parts": {
            **_TEXT,
            "description": "JSON, with shards: of each, where its part begins and ends on its partition",
        },
        "ce_time": {**_TEXT, "format": "date-time"},
    }
    content = {"content-type": {"type": "string", "const": "application/json"}}
    headers = _headers({**said, **_cloud_event(RELEASE_TYPE), **content, **sometimes}, sometimes)
    first = {"type": "string", "description": "<table>/<release>/sealed"}
    sealed = {
        "title": "sealed",
        "summary": "The manifest's bytes, with shards, before the parts; readers of releases pass over it.",
        "headers": _headers({**said, "kind": {"type": "string", "const": "sealed"}, **sometimes}, sometimes),
        "payload": schemas["manifest"],
        "bindings": {"kafka": {"key": first, "bindingVersion": _BINDING}},
    }
    return {**messages, "sealed": sealed, "manifest": {**messages["manifest"], "headers": headers}}


def _dead_letter() -> Json:
    sometimes = {
        "field": _TEXT,
        "op": _TEXT,
        "size": {**_TEXT, "description": "of a record too large to be sent: how many bytes it had"},
        "digest": {**_TEXT, "description": "the sha256 of its value"},
    }
    said = {
        "reason": {"type": "string", "enum": [str(reason) for reason in Reason]},
        "topic": _TEXT,
        "partition": _NUMBER,
        "offset": _NUMBER,
    }
    return {
        "title": "dead letter",
        "summary": "The rejected record as it was: its key, its value, its headers, and then these.",
        "headers": _headers({**said, **_cloud_event(DEAD_LETTER_TYPE), **sometimes}, sometimes),
        "payload": {"description": "the bytes of the original, whatever they are"},
    }


def _cloud_event(kind: str) -> dict[str, Json]:
    return {
        "ce_specversion": {"type": "string", "const": SPECVERSION},
        "ce_type": {"type": "string", "const": kind},
        "ce_source": _TEXT,
        "ce_id": _TEXT,
    }


def _headers(properties: Mapping[str, Json], optional: Iterable[str] | None = None) -> Json:
    """Headers of a message: all are optional, or all but some are required."""
    required = [] if optional is None else [name for name in properties if name not in set(optional)]
    return {"type": "object", "properties": dict(properties), **({"required": required} if required else {})}
