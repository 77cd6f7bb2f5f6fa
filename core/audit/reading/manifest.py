"""The manifest of a release as an outsider reads it: every field that the contract names, each of its kind."""

import re
from collections.abc import Mapping
from typing import Any, Final

from shoal.core.audit.finding import Findings, Promise
from shoal.core.audit.reading.strictjson import parse
from shoal.core.policy.policy import Policy

MANIFEST = "a manifest cannot be read"
FORMAT = "a manifest is not of format 1"
MODEL = "a manifest names another model of values than the policy"

READABLE_FORMAT: Final = 1

COUNTS: Final = (
    "people", "rows", "cells", "groups", "formed", "carried", "withheld", "unsampled", "suppressed", "generalized",
    "counterfeits",
)  # fmt: skip
KNOWN_FIELDS: Final = frozenset(
    ("table", "release", "format", "values", "previous", "policy", "content", "engine", "published_at", "max_breach")
) | {"bound", "loss", *COUNTS}

OPTIONAL_FIELDS: Final = frozenset({"previous_policy", "full_every", "shards"})

_LOSSES = ("ncp", "discernibility", "average_group")
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ManifestReader:
    """Reads manifests of one table, and says what is wrong with their form."""

    def __init__(self, policy: Policy, findings: Findings) -> None:
        self._policy, self._findings = policy, findings

    def read(self, number: int, text: bytes) -> Mapping[str, Any] | None:
        """The fields, or None if one is missing or of another kind; what else is wrong is a finding."""
        try:
            raw = parse(text)
        except (ValueError, RecursionError):
            raw = None
        if not isinstance(raw, dict) or not _is_right(raw):
            self._findings.say(Promise.G6, MANIFEST, number)
            return None
        is_other = raw["format"] != READABLE_FORMAT
        self._findings.say(Promise.CONTRACT, FORMAT, number, times=int(is_other))
        self._findings.say(Promise.CONTRACT, MODEL, number, times=int(raw["values"] != self._policy.values))
        return raw


def _is_right(raw: dict[str, Any]) -> bool:
    return (
        raw.keys() >= KNOWN_FIELDS
        and all(type(raw[name]) is int and raw[name] >= 0 for name in ("release", "format", *COUNTS))
        and all(type(raw[name]) in (int, float) for name in ("max_breach", "bound"))
        and all(isinstance(raw[name], str) for name in ("table", "values", "engine"))
        and all(_is_digest(raw[name]) for name in ("policy", "content"))
        and ("previous_policy" not in raw or _is_digest(raw["previous_policy"]))
        and (raw["previous"] is None or _is_digest(raw["previous"]))
        and (raw["published_at"] is None or isinstance(raw["published_at"], str))
        and _is_loss(raw["loss"])
    )


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def _is_loss(loss: object) -> bool:
    return loss is None or (
        isinstance(loss, dict)
        and loss.keys() == set(_LOSSES)
        and all(type(loss[name]) in (int, float) for name in _LOSSES)
    )
