"""JSON as the auditor reads it, in releases and events alike: strictly, and without trusting it.

Floats remember their text, because how a region is written is part of the contract.
"""

import json
from typing import Any


class WrittenFloat(float):
    """A float that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "WrittenFloat":
        found = super().__new__(cls, text)
        found.text = text
        return found


class NotStrictError(ValueError):
    """A key that stands twice, or NaN or Infinity, which are not JSON."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotStrictError
    return found


def _refuse(_: str) -> float:
    raise NotStrictError


_PLAIN = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
_WRITTEN = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse, parse_float=WrittenFloat)


def parse(raw: bytes, *, written: bool = False) -> object:
    """Reads one JSON text in UTF-8; with `written`, floats remember how they were written.

    Raises ValueError or RecursionError, whose messages must not be shown: they may quote the text.
    """
    text = raw.decode()
    found: object = (_WRITTEN if written else _PLAIN).decode(text)
    if "\\u" in text:
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair is no text; only an escape can be one
    return found


def frozen(value: object) -> object:
    """A hashable copy that is equal only for what is written alike: 1, 1.0, 1.00 and true differ."""
    if isinstance(value, dict):
        return tuple((key, frozen(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return (None, *map(frozen, value))
    if isinstance(value, WrittenFloat):
        return "float", value.text
    return type(value).__name__, value
