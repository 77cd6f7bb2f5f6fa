"""The fields of events: which op has which, and what each may hold, as JSON Schema.

A new field begins here. Its op is checked for it from then on (`wrong_fields`) and the published schema shows it. A
field whose content needs a policy to be judged also needs a reader, as `guard.py` is one, and a place in a delta.
"""

from typing import Any, Final, NamedTuple

from shoal.core.policy.section import LARGEST_COUNT

LONGEST_ID: Final = 512  # bytes of UTF-8
SKIPPABLE: Final = frozenset(("events", "external", "triggers"))  # topics of which a record can be left out

TEXT: Final = {"type": "string", "minLength": 1}
ID: Final = {**TEXT, "maxLength": LONGEST_ID, "description": "at most 512 bytes, no control characters, form NFC"}
POSITIVE: Final = {"type": "integer", "minimum": 1}
MULTISET: Final = {"type": "object", "additionalProperties": POSITIVE}

_LABEL: Final = {"anyOf": [TEXT, {"type": "integer"}]}
_BOUNDS: Final = {
    "type": "object",
    "properties": {"min": {"type": "number"}, "max": {"type": "number"}, "below": {"type": "number"}},
    "required": ["min"],
    "oneOf": [{"required": ["max"]}, {"required": ["below"]}],
    "additionalProperties": False,
}
_NODES: Final = {
    "type": "object",
    "properties": {"nodes": {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}},
    "required": ["nodes"],
    "additionalProperties": False,
}
REGION: Final = {"type": "object", "additionalProperties": {"oneOf": [_BOUNDS, _NODES]}}

_GUARD: Final = {
    "anyOf": [
        {"type": ["string", "integer", "null"]},
        {
            "type": "object",
            "properties": {
                "node": {"type": ["string", "integer", "null"]},
                "bound": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            },
            "required": ["node"],
            "additionalProperties": False,
        },
    ]
}
_GROUP: Final = {
    "type": "object",
    "properties": {
        "region": REGION,
        "regions": {"type": "array", "items": REGION, "minItems": 1},
        "sensitive": {
            "type": "object",
            "additionalProperties": {**POSITIVE, "maximum": LARGEST_COUNT},
            "minProperties": 1,
        },
    },
    "required": ["sensitive"],
    "oneOf": [{"required": ["region"]}, {"required": ["regions"]}],
    "additionalProperties": False,
}

SCHEMAS: Final[dict[str, Any]] = {
    "id": ID,
    "qid": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
    "sensitive": {"anyOf": [_LABEL, {"type": "array", "items": _LABEL, "minItems": 1}]},
    "guard": _GUARD,
    "publisher": ID,
    "groups": {"type": "array", "minItems": 1, "items": _GROUP},
    "topic": {"enum": sorted(SKIPPABLE)},
    "partition": {"type": "integer", "minimum": 0},
    "offset": {"type": "integer", "minimum": 0},
    "previous": {"type": "string", "description": "a policy file with its hierarchy files, packed"},
    "policy": {"type": "string", "description": "the one that takes its place, packed"},
    "at": {"type": "string", "description": "ISO 8601"},
}


class Fields(NamedTuple):
    """The fields of one op besides `op` itself: those an event must have, and those it may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...]


FIELDS: Final[dict[str, Fields]] = {
    "insert": Fields(("id", "qid", "sensitive"), ("guard", "at")),
    "upsert": Fields(("id", "qid", "sensitive"), ("guard", "at")),
    "update": Fields(("id",), ("qid", "sensitive", "guard", "at")),
    "delete": Fields(("id",), ("at",)),
    "register": Fields(("id", "qid"), ("at",)),
    "deregister": Fields(("id",), ("at",)),
    "erase": Fields(("id",), ("at",)),
    "external": Fields(("publisher", "groups"), ("at",)),
    "release": Fields((), ("at",)),
    "skip": Fields(("topic", "partition", "offset"), ("at",)),
    "change": Fields(("previous", "policy"), ("at",)),
}
KNOWN: Final = {op: frozenset(("op", *fields.required, *fields.optional)) for op, fields in FIELDS.items()}
