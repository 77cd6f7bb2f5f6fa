"""What other publishers have released, as external events, each of some hundred groups."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.core.events.event import Reject
from shoal.core.overlap.external import parse_external
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.formats import find_group_reader
from shoal.streams.files.formats.format import Line

GROUPS_PER_EVENT = 500

# Reads the published groups under a path. Yields each with the words that say where it stands; raises `InputError`.
GroupReader = Callable[[Policy, Path], Iterable[tuple[str, Any]]]


def read_external(policy: Policy, source: Path, publisher: str) -> Iterator[Line]:
    """External events of a folder or a file. Raises `InputError`, which says where a mistake is and quotes nothing."""
    batch: list[Any] = []
    number = 0
    for place, group in find_group_reader(source)(policy, source):
        read = parse_external({"op": "external", "publisher": publisher, "groups": [group]}, policy)
        if isinstance(read, Reject):
            raise InputError(f"{place} does not fit the policy: {read.field or 'it'} is {read.reason}.")
        batch.append(group)
        if len(batch) == GROUPS_PER_EVENT:
            number += 1
            yield Line(number, {"op": "external", "publisher": publisher, "groups": batch})
            batch = []
    if batch:
        yield Line(number + 1, {"op": "external", "publisher": publisher, "groups": batch})


def read_text(path: Path) -> str:
    """A whole file. Raises `InputError` if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'unknown reason'}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
