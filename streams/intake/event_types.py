"""The types that ordinary events decode into under a policy: its fields, kinds and domains as msgspec structs.

The short cut of ingest (taker.py) decodes into them. It may only accept what the strict way accepts, with the same
effect:

- msgspec takes no bool or float for an int, no bytes for text, no unknown field, nothing less and nothing more than one
  event, and no NaN, which is in no domain;
- it compares an int in a float's place with the domain as a float, which is exact below 2^53: where a bound is larger
  there are no types, and so no short cut;
- it does not mind a key that comes twice, so each format counts the keys. They are all known, so as many keys as there
  are different ones means that each is there once.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from shoal.core.policy.policy import Attribute

_EXACT: Final = 2**53  # below it an int and the float made of it are equal
_MOST_NAMES: Final = 2**16


class EventTypes(NamedTuple):
    """One type for each op that the short cut knows, and their union."""

    insert: Any
    upsert: Any
    update: Any
    delete: Any
    any: Any


def make_types(attributes: Sequence[Attribute]) -> EventTypes | None:
    """The types under a policy's attributes; None if there is no short cut under them."""
    if len(attributes) >= _MOST_NAMES or any(not one.hierarchy and _is_vast(one) for one in attributes):
        return None
    # An attribute's name need not be a name in Python.
    names = {f"column_{at}": one.name for at, one in enumerate(attributes)}
    kinds = [(name, _kind(one)) for name, one in zip(names, attributes, strict=True)]
    plain: dict[str, Any] = {"forbid_unknown_fields": True, "omit_defaults": True, "gc": False}
    try:
        qid = msgspec.defstruct("Qid", kinds, rename=names, **plain)
        patch = msgspec.defstruct("Patch", [(*kind, None) for kind in kinds], rename=names, **plain)
    except ValueError:  # a name that would have to be escaped in JSON
        return None
    person, at = ("id", Annotated[str, msgspec.Meta(min_length=1)]), ("at", str, None)
    labels = str | list[str | int]
    record: list[tuple[str, Any] | tuple[str, Any, Any]] = [person, ("qid", qid), ("sensitive", labels), at]
    insert: Any = msgspec.defstruct("Insert", record, tag_field="op", tag="insert", **plain)
    upsert: Any = msgspec.defstruct("Upsert", record, tag_field="op", tag="upsert", **plain)
    update: Any = msgspec.defstruct(
        "Update",
        [person, ("qid", patch, None), ("sensitive", labels, None), at],
        tag_field="op",
        tag="update",
        **plain,
    )
    delete: Any = msgspec.defstruct("Delete", [person, at], tag_field="op", tag="delete", **plain)
    return EventTypes(insert, upsert, update, delete, insert | upsert | update | delete)


def count_keys(event: Any) -> tuple[int, int]:
    """How many different fields an event has, and how many names its `qid`, -1 if it has none."""
    fields = 1 + sum(value is not None for value in astuple(event))
    qid = getattr(event, "qid", None)
    return fields, -1 if qid is None else sum(value is not None for value in astuple(qid))


def _is_vast(attribute: Attribute) -> bool:
    return not -_EXACT < attribute.low <= attribute.high < _EXACT


def _kind(attribute: Attribute) -> Any:
    if attribute.hierarchy is not None:
        return str | int
    return Annotated[float if attribute.kind == "float" else int, msgspec.Meta(ge=attribute.low, le=attribute.high)]
