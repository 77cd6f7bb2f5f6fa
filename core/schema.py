"""JSON Schemas (draft 2020-12) of what goes in and what comes out: the policy, the events, the releases.

They say what can be said without a particular policy; labels, ranges and which attributes there are is checked by
`shoal.core.events.record`. They describe everything the format has, including what this version refuses.
"""

from typing import Any, Final

from shoal.core.measure.loss import Loss
from shoal.core.policy.document import PolicyDocument
from shoal.core.policy.strategy import STRATEGIES, Strategy

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_COUNT: Final = {"type": "integer", "minimum": 0}
_POSITIVE: Final = {"type": "integer", "minimum": 1}
_SHA256: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT: Final = {"type": "string", "minLength": 1}
_LABEL: Final = {"anyOf": [_TEXT, {"type": "integer"}]}
_BOUNDS: Final = {
    "type": "object",
    "properties": {"min": {"type": "number"}, "max": {"type": "number"}, "below": {"type": "number"}},
    "required": ["min"],
    "oneOf": [{"required": ["max"]}, {"required": ["below"]}],
    "additionalProperties": False,
}
_NODES: Final = {
    "type": "object",
    "properties": {"nodes": {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}},
    "required": ["nodes"],
    "additionalProperties": False,
}
_REGION: Final = {"type": "object", "additionalProperties": {"oneOf": [_BOUNDS, _NODES]}}
_MULTISET: Final = {"type": "object", "additionalProperties": _POSITIVE}
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
_FIELDS: Final[dict[str, Any]] = {
    "id": _TEXT,
    "qid": {"type": "object", "additionalProperties": {"type": ["string", "number"]}},
    "sensitive": {"anyOf": [_LABEL, {"type": "array", "items": _LABEL, "minItems": 1}]},
    "guard": _GUARD,
    "publisher": _TEXT,
    "groups": {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {
                "region": _REGION,
                "regions": {"type": "array", "items": _REGION, "minItems": 1},
                "sensitive": {**_MULTISET, "minProperties": 1},
            },
            "required": ["sensitive"],
            "oneOf": [{"required": ["region"]}, {"required": ["regions"]}],
            "additionalProperties": False,
        },
    },
    "at": {"type": "string", "description": "ISO 8601"},
}


def policy_schema() -> dict[str, Any]:
    """The policy file."""
    schema = _without_nulls(PolicyDocument.model_json_schema())
    for name in ("CategorySection", "SensitiveSection"):
        schema["$defs"][name]["oneOf"] = [{"required": ["values"]}, {"required": ["hierarchy"]}]
    schema["properties"]["attributes"]["minProperties"] = 1
    del schema["$defs"]["Strategy"]
    schema["$defs"]["PrivacySection"]["properties"]["strategy"] = {
        "oneOf": [_strategy(strategy) for strategy in STRATEGIES.values()]
    }
    return {"$schema": DIALECT, **schema, "title": "Shoal policy"}


def _strategy(strategy: type[Strategy]) -> dict[str, Any]:
    schema = _without_nulls(strategy.model_json_schema())
    return {**schema, "required": ["name", *schema.get("required", ())]}


def event_schema() -> dict[str, Any]:
    """One event."""
    return {
        "$schema": DIALECT,
        "title": "Shoal event",
        "oneOf": [
            _event("insert", required=("id", "qid", "sensitive"), optional=("guard",)),
            _event("update", required=("id",), optional=("qid", "sensitive", "guard")),
            _event("delete", required=("id",)),
            _event("register", required=("id", "qid")),
            _event("deregister", required=("id",)),
            _event("external", required=("publisher", "groups")),
            _event("release"),
        ],
    }


def release_schema() -> dict[str, Any]:
    """One record of the releases topic: a group or, last, the manifest. Fields may be added, never renamed."""
    cell = _record(
        {"cell": _TEXT, "region": _REGION, "rows": _POSITIVE},
        {"case_ids": {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}},
    )
    group = _record(
        {
            "table": _TEXT,
            "release": _POSITIVE,
            "group": {"type": "string", "pattern": "^g[0-9]+$"},
            "formed": _POSITIVE,
            "cells": {"type": "array", "items": cell, "minItems": 1},
            "sensitive": {**_MULTISET, "minProperties": 1},
            "counterfeits": _COUNT,
        }
    )
    loss = _record({name: {"type": "number", "minimum": 0} for name in Loss._fields})
    breach = {"type": "number", "minimum": 0, "maximum": 1}
    manifest = _record(
        {
            "table": _TEXT,
            "release": _POSITIVE,
            "previous": {"anyOf": [_SHA256, {"type": "null"}]},
            "policy": _SHA256,
            "content": _SHA256,
            "engine": _TEXT,
            "published_at": {"type": ["string", "null"]},
            **dict.fromkeys(("rows", "groups", "formed", "carried", "withheld", "unsampled"), _COUNT),
            **dict.fromkeys(("suppressed", "generalized", "counterfeits"), _COUNT),
            "max_breach": breach,
            "bound": breach,
            "loss": {"anyOf": [loss, {"type": "null"}]},
        }
    )
    return {
        "$schema": DIALECT,
        "title": "Shoal release record",
        "oneOf": [{"$ref": "#/$defs/group"}, {"$ref": "#/$defs/manifest"}],
        "$defs": {"group": group, "manifest": manifest},
    }


def _event(op: str, *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = {name: _FIELDS[name] for name in (*required, *optional, "at")}
    return {
        "title": op,
        "type": "object",
        "properties": {"op": {"const": op}, **fields},
        "required": ["op", *required],
        "additionalProperties": False,
    }


def _record(properties: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object that a later version may add fields to."""
    return {"type": "object", "properties": {**properties, **(optional or {})}, "required": list(properties)}


def _without_nulls(schema: Any) -> Any:
    """None in a model means "left out"; in a file null is refused."""
    if isinstance(schema, list):
        return [_without_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without_nulls(value) for key, value in schema.items() if value is not None}
    choices = [item for item in plain.get("anyOf", ()) if item != {"type": "null"}]
    if len(choices) == 1:
        del plain["anyOf"]
        plain |= choices[0]
    return plain
