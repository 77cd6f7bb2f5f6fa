"""The true table at every release that events make, as the auditor's own interpreter of events sees it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.core.audit import Truth
from shoal.core.audit.reading.truth import Record
from shoal.core.policy.policy import Policy
from shoal.streams.files.lines import open_lines


class Snapshot(NamedTuple):
    """The table at a release, or, with number None, after the last event. It changes when the next one is asked for."""

    number: int | None
    table: Mapping[str, Record]
    accepted: int  # events so far
    rejected: int


def fold_events(policy: Policy, lines: Iterable[bytes]) -> Iterator[Snapshot]:
    """Yields the table at every release these lines make, and last as it is after all of them."""
    truth, number = Truth(policy), 0
    for line in lines:
        asked = truth.take(line)
        if asked is not None:
            number += 1
            truth.cut(number)
            yield Snapshot(number, truth.present, truth.accepted, len(truth.rejected))
    yield Snapshot(None, truth.present, truth.accepted, len(truth.rejected))


def read_lines(sources: Sequence[str]) -> Iterator[bytes]:
    """The lines of these files, one after the other; `-` is standard input. Raises `InputError`."""
    for source in sources:
        with open_lines(source) as lines:
            for block in lines.blocks():
                yield from block
                lines.done(block)
