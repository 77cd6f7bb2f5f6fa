"""What a policy means, whatever its file looks like: all that decides what is promised, planned and written.

A table is bound to the meaning of its policy. Comments, the order of keys, the names of files, defaults written out and
whatever `FREE` lists may differ. The order of attributes and of leaves is part of the meaning: regions are runs in it.
"""

import hashlib
import json
from dataclasses import fields
from typing import Any, Final

from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Policy, Sensitive
from shoal.core.policy.strategy import Strategy

FREE: Final = frozenset({"triggers", "snapshot", "digest"})
"""The fields of a policy that change neither a promise nor a plan. Any other field is bound, a new one too."""

LATER: Final = {"shards": 1, "full_every": 1}
"""Fields that came later, with the value at which a policy means what it meant without them."""


def meaning_of(policy: Policy) -> str:
    """The sha256 of what a policy means, in hexadecimal. O(labels)."""
    named = {field.name: getattr(policy, field.name) for field in fields(policy) if field.name not in FREE}
    bound = {name: _plain(value) for name, value in named.items() if name not in LATER or value != LATER[name]}
    return hashlib.sha256(json.dumps(bound, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A part of a policy as JSON."""
    if isinstance(value, Hierarchy):
        return [value.labels, value.parent]
    if isinstance(value, Strategy):
        return value.model_dump()
    if isinstance(value, Sensitive):
        kinds = [sorted(value.hierarchy.leaves[code] for code in codes) for codes in (value.open, value.permanent)]
        return [value.name, _plain(value.hierarchy), *kinds]
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value
