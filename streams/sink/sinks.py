"""The sinks that `shoal releases --out` knows, by scheme."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.sink.folder import FolderSink
from shoal.streams.sink.release_sink import ReleaseSink

SINKS: Final[dict[str, Callable[[str, Policy], ReleaseSink]]] = {
    "folder": lambda target, policy: FolderSink(Path(target), policy),
}
"""By scheme, how a sink is made of what follows `scheme://` and the table's policy."""

_DEFAULT: Final = "folder"


def open_sink(target: str, policy: Policy) -> ReleaseSink:
    """The sink that `scheme://target` names; without a scheme it is a folder. Raises InputError for another scheme."""
    scheme, colon, rest = target.partition("://")
    if not colon:
        scheme, rest = _DEFAULT, target
    if scheme not in SINKS:
        raise InputError(f"releases cannot be written to {scheme}://; use one of {', '.join(sorted(SINKS))}")
    return SINKS[scheme](rest, policy)
