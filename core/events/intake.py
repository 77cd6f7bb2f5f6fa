"""Intake: which events count, and the window that they make.

This is the hot path of ingest, a microsecond or two an event, and nothing is raised. A rejected event leaves no trace.
`take` reads an event and judges it; a caller that has read one already calls `insert`, `upsert`, `update` or `delete`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from shoal.core.events.event import Reason, Reject, is_plain, read_op, wrong_fields, wrong_id
from shoal.core.events.guard import Wish, read_guard
from shoal.core.events.record import RecordReader
from shoal.core.events.window import (
    ABSENT,
    ANEW,
    DEREGISTERED,
    DEREGISTERED_ANEW,
    DEREGISTERED_STATUS,
    ERASED,
    ERASED_STATUS,
    GONE,
    GUARD,
    KIND,
    OFFSETS,
    PATCH,
    PRESENT,
    PUT,
    PUT_ANEW,
    QID,
    REGISTER,
    REGISTER_ANEW,
    STATUS_AFTER,
    Delta,
    held_in,
)
from shoal.core.policy.policy import Policy


class Intake:
    """Judges events one at a time and adds those that count to the window.

    `roster` maps the id of everybody ever accepted to a status, and `held` the ids of holders of permanent values to
    these values; both are kept up to date in place. `window` and `accepted` continue a window begun earlier, whose
    effect is in `roster` and `held` already. `handle_of` turns the id of an event into what the person is called in all
    of these and from here on; as they are, ids never go further than this door (see `core/randomness.py`).
    """

    __slots__ = (
        "_grown",
        "_handlers",
        "_permanent",
        "_read_patch",
        "_read_qid",
        "_read_values",
        "accepted",
        "handle_of",
        "held",
        "policy",
        "roster",
        "touched",
        "unchanged",
        "window",
        "without_home",
    )

    def __init__(
        self,
        policy: Policy,
        roster: dict[str, int],
        window: dict[str, Delta] | None = None,
        accepted: int = 0,
        held: dict[str, tuple[int, ...]] | None = None,
        handle_of: Callable[[str], str] = str,
    ) -> None:
        reader = RecordReader(policy)
        self.policy, self._permanent, self.handle_of = policy, policy.sensitive.permanent, handle_of
        self._read_qid, self._read_patch, self._read_values = reader.read_qid, reader.read_patch, reader.read_values
        self.unchanged = reader.unchanged
        self._handlers = {
            "insert": self._insert,
            "upsert": self._upsert,
            "update": self._update,
            "delete": self._delete,
            "register": self._register,
            "deregister": self._deregister,
            "erase": self._erase,
        }
        self.roster = roster
        self.held: dict[str, tuple[int, ...]] = {} if held is None else held
        self.window: dict[str, Delta] = {} if window is None else window
        self.accepted = accepted  # events of this window
        self.without_home: set[str] = set()  # in the roster, but perhaps at home in another partition
        self.touched: dict[str, Delta] = {}  # deltas made or changed since the last drain
        self._grown: dict[str, int] = {}  # of touched ids with several offsets, how many of these were drained

    def take(self, event: object, offset: int = -1) -> Reject | None:
        """Accept an event, or say why not. `offset` is its place in its partition, where it has one."""
        if type(event) is not dict or type(op := event.get("op")) is not str:
            return _wrong_op(event)
        handler = self._handlers.get(op)
        if handler is None:
            return _wrong_op(event)
        person = event.get("id")
        if type(person) is str and (is_plain(person) or not wrong_id(person)):
            return handler(event, self.handle_of(person), offset)
        return wrong_fields(op, event) or Reject(wrong_id(person) or Reason.EMPTY, op, "id")

    def drain(self) -> dict[str, Delta]:
        """The deltas made or changed since the last call, each with only the offsets that came since.

        So a window that is written down drain by drain, with `overlay`, grows linearly with its events.
        """
        touched, self.touched = self.touched, {}
        for person, drained in self._grown.items():
            kind, qid, values, offsets, guard = self.window[person]
            assert offsets is not None
            touched[person] = (kind, qid, values, offsets[drained:], guard)
        self._grown = {}
        return touched

    def cut(self) -> dict[str, Delta]:
        """End the window and return it. The next one begins empty, with the roster as it is."""
        window, self.window = self.window, {}
        self.accepted = 0
        self.touched, self._grown = {}, {}
        return window

    def forget(self, person: str) -> None:
        """Forget an id that turned out to be at home in another partition."""
        self.roster.pop(person, None)
        self.held.pop(person, None)

    def check_invariants(self) -> None:
        """Raise AssertionError unless the window is as the module says and agrees with the roster. O(window)."""
        assert self.touched.keys() <= self.window.keys()
        assert self._grown.keys() <= self.touched.keys()
        for person, (kind, qid, values, offsets, guard) in self.window.items():
            assert self.roster[person] == STATUS_AFTER[kind]
            assert (qid is not None) == (kind in (PATCH, PUT, REGISTER, PUT_ANEW, REGISTER_ANEW))
            assert qid is None or len(qid) == len(self.unchanged)
            assert qid is None or kind == PATCH or None not in qid
            assert values is not None or kind not in (PUT, PUT_ANEW)
            assert values is None or kind in (PATCH, PUT, PUT_ANEW) or values == self.held[person]
            assert not held_in(values, self._permanent) or set(held_in(values, self._permanent)) == {*self.held[person]}
            assert values is None or (values and list(values) == sorted(set(values)))
            is_patch = values is not None or qid != self.unchanged or offsets is not None or guard is not None
            assert kind != PATCH or is_patch
            assert offsets is None or (offsets and list(offsets) == sorted(set(offsets)))

    # -- events that are read already, about a person by handle -------------------------------------------------------

    def insert(
        self, person: str, qid: tuple[Any, ...], values: tuple[int, ...], guard: Wish | None, offset: int
    ) -> Reject | None:
        """Accept a person's record, or say why not."""
        status = self.roster.get(person)
        if self._permanent and (status is None or status in _MAY_COME):
            values = self._hold(person, values)
        if status is None:
            # What `_note` would do, written out: most of a first load comes through here. A person who is in the window
            # and not in the roster was found to be at home elsewhere in the meantime.
            delta: Delta = (PUT, qid, values, (offset,) if offset >= 0 else None, guard)
            if self.window.setdefault(person, delta) is delta:
                self.touched[person] = delta
                self.roster[person] = PRESENT
                self.accepted += 1
                return None
        elif status not in _MAY_COME:
            return Reject(Reason.ALREADY_PRESENT if status == PRESENT else Reason.DEREGISTERED, "insert", "id")
        self._note(person, PUT, qid, values, status, offset, guard)
        return None

    def update(
        self,
        person: str,
        qid: tuple[Any, ...],
        values: tuple[int, ...] | None,
        guard: Wish | None,
        offset: int,
    ) -> Reject | None:
        """Accept a change of a person's record, or say why not. `qid` has None where nothing changes."""
        status = self.roster.get(person)
        if status != PRESENT:
            return _not_present("update", status)
        if values is not None and self._permanent:
            if not set(self.held.get(person, ())).issubset(values):
                return Reject(Reason.PERMANENT, "update", "sensitive")
            self._hold(person, values)
        before = self.window.get(person)
        if before is not None:
            kind, before_qid, before_values, _, _ = before
            assert before_qid is not None
            if qid is not self.unchanged:
                qid = tuple([old if new is None else new for new, old in zip(qid, before_qid, strict=True)])
            else:
                qid = before_qid
            self._note(person, kind, qid, before_values if values is None else values, status, offset, guard)
        elif values is not None or qid != self.unchanged or guard is not None or person in self.without_home:
            self._note(person, PATCH, qid, values, status, offset, guard)
        else:
            self.accepted += 1
        return None

    def upsert(
        self, person: str, qid: tuple[Any, ...], values: tuple[int, ...], guard: Wish | None, offset: int
    ) -> Reject | None:
        """Accept what is true of a person now, whether or not they are there; they keep their permanent values."""
        status = self.roster.get(person)
        if status == PRESENT:
            return self.update(person, qid, tuple(sorted({*self.held.get(person, ()), *values})), guard, offset)
        if status == DEREGISTERED_STATUS:
            return Reject(Reason.DEREGISTERED, "upsert", "id")
        return self.insert(person, qid, values, guard, offset)

    def delete(self, person: str, offset: int) -> Reject | None:
        """Accept that a person leaves, or say why not."""
        status = self.roster.get(person)
        if status != PRESENT:
            return _not_present("delete", status)
        before = self.window.get(person)
        if before is not None and before[KIND] in (PUT, PUT_ANEW):
            self._note(person, REGISTER, before[QID], self.held.get(person), status, offset)
        else:
            self._note(person, GONE, None, self.held.get(person), status, offset)
        return None

    # -- reading them -------------------------------------------------------------------------------------------------

    def _insert(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        record = self._read_record("insert", event)
        return record if type(record) is Reject else self.insert(person, *record, offset)

    def _upsert(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        record = self._read_record("upsert", event)
        return record if type(record) is Reject else self.upsert(person, *record, offset)

    def _read_record(
        self, op: str, event: dict[Any, Any]
    ) -> tuple[tuple[Any, ...], tuple[int, ...], Wish | None] | Reject:
        """The whole record in an event: quasi-identifiers, values, guard."""
        qid = self._read_qid(event.get("qid"))
        if type(qid) is Reject:
            return wrong_fields(op, event) or qid._replace(op=op)
        values = self._read_values(event.get("sensitive"))
        if type(values) is Reject:
            return wrong_fields(op, event) or values._replace(op=op)
        guard = None if len(event) == 4 else self._read_guard(op, event)
        return guard if isinstance(guard, Reject) else (qid, values, guard)

    def _update(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        known = 2
        qid: tuple[Any, ...] = self.unchanged
        values: tuple[int, ...] | None = None
        if "qid" in event:
            known = 3
            read = self._read_patch(event["qid"])
            if type(read) is Reject:
                return wrong_fields("update", event) or read._replace(op="update")
            qid = read
        if "sensitive" in event:
            known += 1
            read = self._read_values(event["sensitive"])
            if type(read) is Reject:
                return wrong_fields("update", event) or read._replace(op="update")
            values = read
        guard = None if len(event) == known else self._read_guard("update", event)
        if isinstance(guard, Reject):
            return guard
        return self.update(person, qid, values, guard, offset)

    def _read_guard(self, op: str, event: dict[Any, Any]) -> Wish | Reject | None:
        """The guard of an event that has more fields than were read; none of them may be unknown."""
        if wrong := wrong_fields(op, event):
            return wrong
        wish = read_guard(event.get("guard"), self.policy)
        return wish._replace(op=op) if isinstance(wish, Reject) else wish

    def _delete(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        if len(event) != 2 and (wrong := wrong_fields("delete", event)):
            return wrong
        return self.delete(person, offset)

    def _register(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        qid = self._read_qid(event.get("qid"))
        if type(qid) is Reject:
            return wrong_fields("register", event) or qid._replace(op="register")
        if len(event) != 3 and (wrong := wrong_fields("register", event)):
            return wrong
        status = self.roster.get(person)
        if status is not None and status not in _MAY_COME:
            return Reject(Reason.ALREADY_PRESENT if status == PRESENT else Reason.DEREGISTERED, "register", "id")
        self._note(person, REGISTER, qid, self.held.get(person), status, offset)
        return None

    def _deregister(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        if len(event) != 2 and (wrong := wrong_fields("deregister", event)):
            return wrong
        status = self.roster.get(person)
        if status is None or status == ERASED_STATUS:
            return Reject(Reason.UNKNOWN_ID, "deregister", "id")
        if status != ABSENT:
            return Reject(Reason.NOT_ABSENT if status == PRESENT else Reason.DEREGISTERED, "deregister", "id")
        self._note(person, DEREGISTERED, None, self.held.get(person), status, offset)
        return None

    def _erase(self, event: dict[Any, Any], person: str, offset: int) -> Reject | None:
        """Accept that a person is to be forgotten, wherever they are now; twice is as good as once.

        A holder of a redrawn table stays one (docs/privacy.md says why). Somebody deregistered still cannot come back.
        """
        if len(event) != 2 and (wrong := wrong_fields("erase", event)):
            return wrong
        status = self.roster.get(person)
        if status is None:
            return Reject(Reason.UNKNOWN_ID, "erase", "id")
        if self.policy.values == "lasting":
            self.held.pop(person, None)
        kind = DEREGISTERED_ANEW if status == DEREGISTERED_STATUS else ERASED
        self._note(person, kind, None, self.held.get(person), status, offset)
        return None

    def _hold(self, person: str, values: tuple[int, ...]) -> tuple[int, ...]:
        """The values a person has now: these, and all permanent ones they were ever given."""
        held = self.held.get(person, ())
        if held and not set(held).issubset(values):
            values = tuple(sorted({*held, *values}))
        if now := held_in(values, self._permanent):
            self.held[person] = now
        return values

    def _note(
        self,
        person: str,
        kind: int,
        qid: tuple[Any, ...] | None,
        values: tuple[int, ...] | None,
        status: int | None,
        offset: int,
        guard: Wish | None = None,
    ) -> None:
        """Put a delta into the window. Its `qid` and `values` count earlier events in; `guard` is this event's."""
        offsets: Sequence[int] | None = None
        before = self.window.get(person)
        if before is not None:
            if before[KIND] >= ERASED:
                kind = ANEW.get(kind, kind)
            if guard is None and kind not in (ERASED, DEREGISTERED_ANEW):
                guard = before[GUARD]
            if before[OFFSETS] is not None:
                offsets = self._grow(person, before[OFFSETS], offset)
        elif offset >= 0 and (status is None or person in self.without_home):
            offsets = (offset,)
        self.window[person] = self.touched[person] = (kind, qid, values, offsets, guard)
        self.roster[person] = STATUS_AFTER[kind]
        self.accepted += 1

    def _grow(self, person: str, offsets: Sequence[int], offset: int) -> list[int]:
        grown = offsets if type(offsets) is list else [*offsets]
        if person not in self._grown:
            self._grown[person] = 0 if person in self.touched else len(grown)
        grown.append(offset)
        return grown


_MAY_COME = (ABSENT, ERASED_STATUS)


def _wrong_op(event: object) -> Reject:
    read = read_op(event)
    if isinstance(read, Reject):
        return read
    op, _ = read
    return Reject(Reason.WRONG_TOPIC, op, "op")


def _not_present(op: str, status: int | None) -> Reject:
    if status is None or status == ERASED_STATUS:
        return Reject(Reason.UNKNOWN_ID, op, "id")
    return Reject(Reason.NOT_PRESENT if status == ABSENT else Reason.DEREGISTERED, op, "id")
