"""From a record to the window: the strict way for every event, and a short cut for ordinary ones.

The strict way, `decode_event` and then `Intake.take`, reads anything at all and says what is wrong with it. The short
cut only ever accepts: msgspec decodes straight into types made for the policy, which have fields, kinds and domains in
them, for a fraction of the cost. Whatever it does not like goes the strict way, which alone decides about rejects.

What the short cut accepts, the strict way would accept with the same effect:

- msgspec takes no bool or float for an int, no bytes for text, no unknown field, nothing less and nothing more than one
  event, and no NaN, which is in no domain;
- it compares an int in a float's place with the domain as a float, which is exact below 2^53: where a bound is larger
  there is no short cut;
- it does not mind a key that comes twice, so the keys are counted. They are all known, so as many keys as there are
  different ones means that each is there once. `_has_once_msgpack` and `_has_once_json` say how.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec.structs import astuple

from shoal.core.events.event import Reject, wrong_time
from shoal.core.events.intake import Intake
from shoal.core.events.record import RecordReader, leaf_codes
from shoal.core.policy.policy import Attribute
from shoal.streams.intake.codec import JSON, MSGPACK, content_type, decode_event

_EXACT: Final = 2**53  # below it an int and the float made of it are equal
_MOST_NAMES: Final = 2**16
_MSGPACK_ONLY: Final = (("content-type", MSGPACK.encode()),)
_JSON_ONLY: Final = (("content-type", JSON.encode()),)

Headers = Sequence[tuple[str, bytes]]


class Taker:
    """Takes records into an intake, the strict way."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def take(self, value: bytes | None, headers: Headers, offset: int) -> Reject | None:
        """Accept the event in a record, or say why not."""
        event = decode_event(value, content_type(headers))
        return event if type(event) is Reject else self._intake.take(event, offset)


class QuickTaker(Taker):
    """Takes records into an intake, by the short cut where there is one."""

    def __init__(self, intake: Intake, types: "_Types") -> None:
        super().__init__(intake)
        attributes = intake.policy.attributes
        self._codes = [(at, leaf_codes(one.hierarchy)) for at, one in enumerate(attributes) if one.hierarchy]
        self._floats = [at for at, one in enumerate(attributes) if one.kind == "float" and one.low <= 0 <= one.high]
        self._read_values = RecordReader(intake.policy).read_values
        self._insert, self._update = types.insert, types.update
        known: Any = types.insert | types.update | types.delete
        self._read_msgpack = msgspec.msgpack.Decoder(known).decode
        self._read_json = msgspec.json.Decoder(known).decode
        self._pack = msgspec.msgpack.Encoder().encode

    def take(self, value: bytes | None, headers: Headers, offset: int) -> Reject | None:
        """Accept the event in a record, or say why not."""
        event: Any
        try:
            if headers == _MSGPACK_ONLY:
                event = self._read_msgpack(value)  # type: ignore[arg-type]
                # Most producers write the fields in this order; then what was read gives the same bytes again.
                is_plain = self._pack(event) == value or _has_once_msgpack(value, event)  # type: ignore[arg-type]
            elif not headers or headers == _JSON_ONLY:
                event = self._read_json(value)  # type: ignore[arg-type]
                is_plain = _has_once_json(value, event)  # type: ignore[arg-type]
            else:
                return super().take(value, headers, offset)
        except (ValueError, TypeError):  # TypeError: there is no value
            return super().take(value, headers, offset)
        if not is_plain or (event.at is not None and wrong_time(event.at)):
            return super().take(value, headers, offset)
        kind = type(event)
        if kind is self._insert:
            qid = [*astuple(event.qid)]
            for at, codes in self._codes:
                qid[at] = codes.get(qid[at])
            for at in self._floats:
                qid[at] += 0.0  # -0.0 becomes 0.0
            values = self._read_values(event.sensitive)
            if None not in qid and type(values) is not Reject:
                return self._intake.insert(event.id, tuple(qid), values, None, offset)
        elif kind is self._update:
            patch = self._intake.unchanged if event.qid is None else self._read_patch(astuple(event.qid))
            changed = None if event.sensitive is None else self._read_values(event.sensitive)
            if patch is not None and type(changed) is not Reject:
                return self._intake.update(event.id, patch, changed, None, offset)
        else:
            return self._intake.delete(event.id, offset)
        return super().take(value, headers, offset)

    def _read_patch(self, named: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A patch with leaf codes for labels, as `take` has it for an insert; None if there is no such leaf."""
        patch = [*named]
        for at, codes in self._codes:
            if patch[at] is not None:
                patch[at] = codes.get(patch[at])
        for at in self._floats:
            if patch[at] is not None:
                patch[at] += 0.0
        return tuple(patch) if patch.count(None) == named.count(None) else None


def make_taker(intake: Intake) -> Taker:
    """The quickest way of taking records under an intake's policy."""
    types = _make_types(intake.policy.attributes)
    return Taker(intake) if types is None else QuickTaker(intake, types)


def _has_once_msgpack(value: bytes, event: Any) -> bool:
    """Whether no key came twice in what was read from msgpack.

    A map begins with the number of its keys. The number of `qid` stands behind that key, and if the letters are nowhere
    else in the event, there is no mistaking it.
    """
    fields, names = _count_keys(event)
    if value[0] != 0x80 + fields:
        return False
    return names < 0 or (_qid_head(names) in value and value.count(b"qid") == 1)


def _has_once_json(value: bytes, event: Any) -> bool:
    """The same for JSON: without escapes, there is a colon for each key, and those in texts."""
    fields, names = _count_keys(event)
    colons = fields + max(names, 0) + event.id.count(":") + (event.at or "").count(":")
    return value.count(b":") == colons and b"\\" not in value


def _count_keys(event: Any) -> tuple[int, int]:
    """How many different fields an event has, and how many names its `qid`, -1 if it has none."""
    fields = 1 + sum(value is not None for value in astuple(event))
    qid = getattr(event, "qid", None)
    return fields, -1 if qid is None else sum(value is not None for value in astuple(qid))


def _qid_head(count: int) -> bytes:
    """The key `qid` in msgpack and the beginning of a map of so many keys."""
    return b"\xa3qid" + (bytes((0x80 + count,)) if count < 16 else b"\xde" + count.to_bytes(2))


class _Types(NamedTuple):
    insert: Any
    update: Any
    delete: Any


def _make_types(attributes: Sequence[Attribute]) -> _Types | None:
    """What ordinary events decode into under a policy; None if there is no short cut under it."""
    if len(attributes) >= _MOST_NAMES or any(not one.hierarchy and _is_vast(one) for one in attributes):
        return None
    # Attributes have names that are no names in Python.
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
    insert: list[Any] = [person, ("qid", qid), ("sensitive", labels), at]
    update: list[Any] = [person, ("qid", patch, None), ("sensitive", labels, None), at]
    return _Types(
        msgspec.defstruct("Insert", insert, tag_field="op", tag="insert", **plain),
        msgspec.defstruct("Update", update, tag_field="op", tag="update", **plain),
        msgspec.defstruct("Delete", [person, at], tag_field="op", tag="delete", **plain),
    )


def _is_vast(attribute: Attribute) -> bool:
    return not -_EXACT < attribute.low <= attribute.high < _EXACT


def _kind(attribute: Attribute) -> Any:
    if attribute.hierarchy is not None:
        return str | int
    return Annotated[float if attribute.kind == "float" else int, msgspec.Meta(ge=attribute.low, le=attribute.high)]
