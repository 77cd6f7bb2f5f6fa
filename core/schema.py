"""JSON Schemas (draft 2020-12) of what goes in and what comes out: the policy, the events, the releases.

They say what holds under every policy. Labels, ranges and the names of attributes depend on the policy;
`core/events/record.py` checks them.
"""

from typing import Any, Final

from shoal.core.events.fields import FIELDS, MULTISET, POSITIVE, REGION, SCHEMAS, TEXT, Fields
from shoal.core.measure.loss import Loss
from shoal.core.policy.document import PolicyDocument
from shoal.core.policy.strategy import STRATEGIES, Strategy
from shoal.core.published.manifest import FORMAT

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_COUNT: Final = {"type": "integer", "minimum": 0}
_KINDS: Final = ("c", "g", "[cg]")
_SHA256: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def policy_schema() -> dict[str, Any]:
    """The policy file."""
    schema = without_nulls(PolicyDocument.model_json_schema())
    for name in ("CategorySection", "SensitiveSection"):
        schema["$defs"][name]["oneOf"] = [{"required": ["values"]}, {"required": ["hierarchy"]}]
    schema["properties"]["attributes"]["minProperties"] = 1
    del schema["$defs"]["Strategy"]
    schema["$defs"]["PrivacySection"]["properties"]["strategy"] = {
        "oneOf": [_strategy(strategy) for strategy in STRATEGIES.values()]
    }
    return {"$schema": DIALECT, **schema, "title": "Shoal policy"}


def _strategy(strategy: type[Strategy]) -> dict[str, Any]:
    schema = without_nulls(strategy.model_json_schema())
    return {**schema, "required": ["name", *schema.get("required", ())]}


def event_schema() -> dict[str, Any]:
    """One event."""
    return {
        "$schema": DIALECT,
        "title": "Shoal event",
        "oneOf": [_event(op, fields) for op, fields in FIELDS.items()],
    }


def release_schema() -> dict[str, Any]:
    """One record of the releases topic: a cell, a group, what is gone or, last, the manifest (docs/contract.md,
    "Releases"). With shards all but the manifest stand on the parts topic.

    A later version may add fields and never renames one.
    """
    cell_id, group_id, any_id = ({"type": "string", "pattern": f"^(s[0-9]+-)?{kind}[0-9]+$"} for kind in _KINDS)
    cell = _record({"table": TEXT, "release": POSITIVE, "cell": cell_id, "region": REGION, "people": POSITIVE})
    case_ids = {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}
    group = _record(
        {
            "table": TEXT,
            "release": POSITIVE,
            "group": group_id,
            "formed": POSITIVE,
            "changed": POSITIVE,
            "cells": {
                "type": "object",
                "propertyNames": cell_id,
                "additionalProperties": {"anyOf": [POSITIVE, case_ids]},
                "minProperties": 1,
            },
            "sensitive": {**MULTISET, "minProperties": 1},
        },
        {"counterfeits": _COUNT, "vacant": _COUNT},
    )
    group["oneOf"] = [{"required": ["counterfeits"]}, {"required": ["vacant"]}]  # redrawn values, and lasting ones
    ids = {"type": "array", "items": any_id, "minItems": 1, "maxItems": 1000, "uniqueItems": True}
    gone = _record({"table": TEXT, "release": POSITIVE, "gone": ids})
    shard = _record(
        {
            "shard": _COUNT,
            "region": REGION,
            "full": {"type": "boolean"},
            **dict.fromkeys(("cells", "groups", "gone", "people"), _COUNT),
            "digest": _SHA256,
        }
    )
    loss = _record({name: {"type": "number", "minimum": 0} for name in Loss._fields})
    breach = {"type": "number", "minimum": 0, "maximum": 1}
    manifest = _record(
        {
            "table": TEXT,
            "release": POSITIVE,
            "format": {"const": FORMAT},
            "values": {"enum": ["lasting", "redrawn"]},
            "previous": {"anyOf": [_SHA256, {"type": "null"}]},
            "policy": _SHA256,
            "content": _SHA256,
            "engine": TEXT,
            "published_at": {"type": ["string", "null"]},
            **dict.fromkeys(("people", "rows", "cells", "groups", "formed", "carried"), _COUNT),
            **dict.fromkeys(("withheld", "unsampled", "suppressed", "waiting"), _COUNT),
            **dict.fromkeys(("generalized", "counterfeits", "vacant"), _COUNT),
            "max_breach": breach,
            "bound": breach,
            "loss": {"anyOf": [loss, {"type": "null"}]},
        },
        {"previous_policy": _SHA256, "full_every": POSITIVE, "shards": {"type": "array", "items": shard}},
    )
    return {
        "$schema": DIALECT,
        "title": "Shoal release record",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in ("cell", "group", "gone", "manifest")],
        "$defs": {"cell": cell, "group": group, "gone": gone, "manifest": manifest},
    }


def _event(op: str, fields: Fields) -> dict[str, Any]:
    return {
        "title": op,
        "type": "object",
        "properties": {"op": {"const": op}, **{name: SCHEMAS[name] for name in (*fields.required, *fields.optional)}},
        "required": ["op", *fields.required],
        "additionalProperties": False,
    }


def _record(properties: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """An object that a later version may add fields to."""
    return {"type": "object", "properties": {**properties, **(optional or {})}, "required": list(properties)}


def without_nulls(schema: Any) -> Any:
    """None in a model means "left out"; in a file null is refused."""
    if isinstance(schema, list):
        return [without_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: without_nulls(value) for key, value in schema.items() if value is not None}
    choices = [item for item in plain.get("anyOf", ()) if item != {"type": "null"}]
    if len(choices) == 1:
        del plain["anyOf"]
        plain |= choices[0]
    return plain
