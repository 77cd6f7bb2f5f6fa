"""Shoal republishes changing tables about people, release after release, without giving anyone away.

In a notebook or a script:

    import shoal

    policy = shoal.load_policy("policy.yaml")
    run = shoal.replay(policy, "events.jsonl", "out", private="private")
    last = run.releases[-1]
    last.rows(), last.values(), last.manifest
    shoal.audit(policy, "out", private="private", events=["events.jsonl"]).is_kept

The names in `__all__` are the public interface. Everything else, all of `shoal.core` and `shoal.streams` included, is
private and may change with any version. docs/contract.md says what files and topics contain. Nothing is imported
before it is used, so `import shoal` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.core.audit import Report
    from shoal.core.measure.count import Count
    from shoal.core.policy.policy import Policy
    from shoal.notebook import (
        Release,
        Releases,
        Replay,
        audit,
        load_policy,
        read_release,
        read_releases,
        read_topic,
        replay,
    )
    from shoal.streams.errors import GuaranteeError, InputError, StreamsError
    from shoal.streams.files.frames import Frames

__version__ = "0.1.0"

__all__ = [
    "Count",
    "Frames",
    "GuaranteeError",
    "InputError",
    "Policy",
    "Release",
    "Releases",
    "Replay",
    "Report",
    "StreamsError",
    "__version__",
    "audit",
    "load_policy",
    "read_release",
    "read_releases",
    "read_topic",
    "replay",
]

_ELSEWHERE = {
    "GuaranteeError": "shoal.streams.errors",
    "InputError": "shoal.streams.errors",
    "StreamsError": "shoal.streams.errors",
    "Count": "shoal.core.measure.count",
    "Frames": "shoal.streams.files.frames",
    "Policy": "shoal.core.policy.policy",
    "Report": "shoal.core.audit",
}


if not TYPE_CHECKING:  # a type checker sees the imports above, and reports any other name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'shoal' has no attribute {name!r}")
        found = getattr(import_module(_ELSEWHERE.get(name, "shoal.notebook")), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
