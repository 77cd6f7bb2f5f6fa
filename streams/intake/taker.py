"""From a record to the window: the strict path for every event, and a fast path for ordinary ones.

The strict way, `EventReader.read` and then `Intake.take`, reads any bytes at all and says what is wrong with them. The
short cut only ever accepts: a format decodes straight into types made for the policy (event_types.py), for a fraction
of the cost. An event that the short cut does not accept goes the strict way, which alone decides about rejects.

Ingest and rebuild both take records this way.
"""

from typing import Any

from msgspec.structs import astuple

from shoal.core.events.event import Reject, is_plain, wrong_time
from shoal.core.events.intake import Intake
from shoal.core.events.record import RecordReader, leaf_codes
from shoal.streams.intake.event_types import EventTypes, make_types
from shoal.streams.intake.formats import FORMATS, EventReader, Headers, QuickRead, format_of
from shoal.streams.kafka.record_limit import room_beside


class Taker:
    """Takes records into an intake, the strict way."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._read = EventReader(intake.policy).read

    def take(self, value: bytes | None, headers: Headers, offset: int) -> Reject | None:
        """Accept the event in a record, or say why not."""
        event = self._read(value, headers)
        return event if type(event) is Reject else self._intake.take(event, offset)


class QuickTaker(Taker):
    """Takes records into an intake, by the short cut where there is one."""

    def __init__(self, intake: Intake, types: EventTypes) -> None:
        super().__init__(intake)
        attributes = intake.policy.attributes
        self._codes = [(at, leaf_codes(one.hierarchy)) for at, one in enumerate(attributes) if one.hierarchy]
        self._floats = [at for at, one in enumerate(attributes) if one.kind == "float" and one.low <= 0 <= one.high]
        self._read_values = RecordReader(intake.policy).read_values
        self._insert, self._upsert, self._update = types.insert, types.upsert, types.update
        self._handle_of = intake.handle_of
        self._by_format = {one.name: one.quick(types) or _no_short_cut for one in FORMATS}
        self._headers: Headers | None = None  # of the record before, and the quick reader of its format
        self._quick: QuickRead = _no_short_cut
        self._room = 0  # how long a value may be beside these headers

    def take(self, value: bytes | None, headers: Headers, offset: int) -> Reject | None:
        """Accept the event in a record, or say why not."""
        if headers != self._headers:  # a producer writes the same headers on all its records
            self._choose(headers)
        if value is None or len(value) > self._room:
            return super().take(value, headers, offset)
        try:
            event = self._quick(value)
        except (ValueError, TypeError):
            return super().take(value, headers, offset)
        if event is None or not is_plain(event.id) or (event.at is not None and wrong_time(event.at)):
            return super().take(value, headers, offset)
        kind = type(event)
        if kind is self._insert or kind is self._upsert:
            qid = [*astuple(event.qid)]
            for at, codes in self._codes:
                qid[at] = codes.get(qid[at])
            for at in self._floats:
                qid[at] += 0.0  # -0.0 becomes 0.0
            values = self._read_values(event.sensitive)
            if None not in qid and type(values) is not Reject:
                put = self._intake.insert if kind is self._insert else self._intake.upsert
                return put(self._handle_of(event.id), tuple(qid), values, None, offset)
        elif kind is self._update:
            patch = self._intake.unchanged if event.qid is None else self._read_patch(astuple(event.qid))
            changed = None if event.sensitive is None else self._read_values(event.sensitive)
            if patch is not None and type(changed) is not Reject:
                return self._intake.update(self._handle_of(event.id), patch, changed, None, offset)
        else:
            return self._intake.delete(self._handle_of(event.id), offset)
        return super().take(value, headers, offset)

    def _choose(self, headers: Headers) -> None:
        found = format_of(headers)
        self._headers, self._room = headers, room_beside(headers)
        self._quick = _no_short_cut if found is None else self._by_format[found.name]

    def _read_patch(self, named: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A patch with leaf codes for labels, as `take` makes it for an insert; None if there is no such leaf."""
        patch = [*named]
        for at, codes in self._codes:
            if patch[at] is not None:
                patch[at] = codes.get(patch[at])
        for at in self._floats:
            if patch[at] is not None:
                patch[at] += 0.0
        return tuple(patch) if patch.count(None) == named.count(None) else None


def _no_short_cut(_value: bytes) -> None:
    return None


def make_taker(intake: Intake) -> Taker:
    """The quickest way of taking records under an intake's policy."""
    types = make_types(intake.policy.attributes)
    return Taker(intake) if types is None else QuickTaker(intake, types)
