"""Leaving records out: what `shoal skip` asks for, as the planner and a rebuild do it.

The request is a record on the triggers topic, so that it is there for ever. The planner puts it into effect before the
release that has the record in its window. The manifest of that release says, in a header, which of its records were
left out: a rebuild does the same, whatever was asked for later.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from shoal.core.events.event import Reason, Reject, SkipRequest
from shoal.streams.store.keys import external_label, label_of
from shoal.streams.store.skipped import SkippedRecord

NOT_LEFT_OUT: Final = {  # by the answer of `leave_out`
    "late": Reject(Reason.TOO_LATE, "skip", "offset"),
    "unknown": Reject(Reason.OUT_OF_DOMAIN, "skip", "partition"),
}


def record_of(asked: SkipRequest) -> SkippedRecord:
    """The record that a request names."""
    return SkippedRecord(label_of(asked.topic, asked.partition), asked.offset)


def in_window(
    skipped: Mapping[str, Collection[int]],
    begins: Sequence[int],
    ends: Sequence[int],
    external_begins: Sequence[int],
    external_ends: Sequence[int],
) -> dict[str, list[int]]:
    """Those records, by label, that one window would have had."""
    windows = {str(number): pair for number, pair in enumerate(zip(begins, ends, strict=True))}
    for number, end in enumerate(external_ends):
        begin = external_begins[number] if number < len(external_begins) else 0
        windows[external_label(number)] = (begin, end)
    found = {
        label: sorted(offset for offset in skipped.get(label, ()) if begin <= offset < end)
        for label, (begin, end) in windows.items()
    }
    return {label: offsets for label, offsets in found.items() if offsets}
