"""JSON Schemas (draft 2020-12) of what goes in and what comes out: the policy, the events, the releases."""

from typing import Any

from core.document import PolicyDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def policy_schema() -> dict[str, Any]:
    """The policy file."""
    return {"$schema": DIALECT, **_without_nulls(PolicyDocument.model_json_schema()), "title": "Shoal policy"}


def _without_nulls(schema: Any) -> Any:
    """None in a model means "left out"; in a file null is refused."""
    if isinstance(schema, list):
        return [_without_nulls(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without_nulls(value) for key, value in schema.items() if (key, value) != ("default", None)}
    choices = [item for item in plain.get("anyOf", ()) if item != {"type": "null"}]
    if len(choices) == 1:
        del plain["anyOf"]
        plain |= choices[0]
    return plain
