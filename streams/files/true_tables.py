"""The true table at every release that events make, as the auditor's own interpreter of events reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from shoal.core.audit import Truth
from shoal.core.audit.reading.truth import Record
from shoal.core.policy.policy import Policy


class Snapshot(NamedTuple):
    """The table at a release, or, with number None, after the last event.

    `table` is the interpreter's own and changes when the next snapshot is asked for.
    """

    number: int | None
    table: Mapping[str, Record]
    accepted: int  # events so far
    rejected: int


def tables_at_releases(policy: Policy, lines: Iterable[bytes]) -> Iterator[Snapshot]:
    """Yields the table at every release that these lines of JSON make, and last as it is after all of them."""
    truth, number = Truth(policy), 0
    for line in lines:
        asked = truth.take(line)
        if asked is not None:
            number += 1
            truth.cut(number)
            yield Snapshot(number, truth.present, truth.accepted, len(truth.rejected))
    yield Snapshot(None, truth.present, truth.accepted, len(truth.rejected))
