"""The true table at every release, folded from the events by an interpreter of the auditor's own.

docs/contract.md, "Events". It decides for itself which events count, one at a time and from scratch, and remembers what
the auditor must know: who is present with which record, who is registered where and who ceased to exist, when
somebody's quasi-identifiers or guard last changed, and which permanent values somebody holds whether or not an event
says so. Slow and plain on purpose.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, NamedTuple

from shoal.core.audit.criteria.others import Other, read_others
from shoal.core.audit.reading.names import is_name
from shoal.core.audit.reading.regions import Qid
from shoal.core.audit.reading.strictjson import parse
from shoal.core.policy.hierarchy import Hierarchy
from shoal.core.policy.policy import Attribute, Policy

_FIELDS: Final = {  # op: (what it must have, what it may have)
    "insert": ({"op", "id", "qid", "sensitive"}, {"at", "guard"}),
    "upsert": ({"op", "id", "qid", "sensitive"}, {"at", "guard"}),
    "update": ({"op", "id"}, {"at", "guard", "qid", "sensitive"}),
    "delete": ({"op", "id"}, {"at"}),
    "register": ({"op", "id", "qid"}, {"at"}),
    "deregister": ({"op", "id"}, {"at"}),
    "erase": ({"op", "id"}, {"at"}),
    "release": ({"op"}, {"at"}),
    "external": ({"op", "publisher", "groups"}, {"at"}),
}
_TIME: Final = re.compile(r"[0-9TtWwZz:.,+\- ]{1,64}", re.ASCII)


class Guard(NamedTuple):
    """A guarding node; None is the empty guard, "publish mine as it is". To name the bound of all is a change too."""

    node: int | None
    bound: Fraction
    is_own_bound: bool = False


class Record(NamedTuple):
    """What is true of someone present: quasi-identifiers, values as leaf codes, guard (None: no preference)."""

    qid: Qid
    values: frozenset[int]
    guard: Guard | None


class Asked(NamedTuple):
    """A release is due; `at` is the time its request names."""

    at: str | None


class _Wrong(Exception):
    """An event that has no effect. It never leaves this module, and says nothing."""


def exact(number: float) -> Fraction:
    """A number as its author wrote it: 0.1 is one tenth."""
    return Fraction(repr(number))


class Truth:
    """Folds events. After `cut`, everything public is as of that release.

    `registered` has the quasi-identifiers of everyone registered, present or not; `extinct` are those deregistered;
    `held` the permanent values of everyone who ever had one, present, absent or gone; `erased` those whom the window
    erased, whether or not they came back in it.
    """

    def __init__(self, policy: Policy, first: Policy | None = None) -> None:
        self._policy = policy
        self.known = policy if first is None else first  # by which events are judged now; codes are of `policy`
        self._hierarchy = policy.sensitive.hierarchy
        self._limit = 1 / exact(policy.l)
        self.present: dict[str, Record] = {}
        self.since: dict[str, int] = {}
        self.guarded_since: dict[str, int] = {}
        self.others: list[Other] = []  # what other publishers have released
        self.accepted = 0
        self.rejected: list[int] = []  # line numbers
        self._line = 0
        self._accepted_in_window = 0
        self._asked_at: datetime | None = None
        self.extinct: set[str] = set()
        self.registered: dict[str, Qid] = {}
        self._guards: dict[str, Guard | None] = {}  # of everyone who ever had a record
        self.held: dict[str, frozenset[int]] = {}
        self._qids_before: dict[str, Qid | None] = {}  # of those whose identifiers the window touched, at its start
        self._guards_before: dict[str, Guard | None] = {}
        self._placed: set[str] = set()  # inserted or registered in this window
        self.erased: set[str] = set()
        self._ever_erased: set[str] = set()
        self._is_cut = False  # `erased` is for those who look at the release, until the next window begins

    def take(self, raw: bytes) -> Asked | None:
        """Takes the next line of the events; returns a request if it makes a release."""
        self._line += 1
        if not raw.strip():
            return None
        if self._is_cut:
            self.erased, self._is_cut = set(), False
        try:
            event = _object(raw)
            op = event.get("op")
            if op == "release":
                return self._ask(_check_fields(event, "release").get("at"))
            if op == "external":
                self._publish(event)
            else:
                self._apply(event)
        except _Wrong:
            self.rejected.append(self._line)
            return None
        self.accepted += 1
        self._accepted_in_window += 1
        return Asked(None) if self._accepted_in_window == self.known.triggers.every_events else None

    def _ask(self, at: str | None) -> Asked:
        """A request for a release, which must not name an earlier time than one before it."""
        if at is not None:
            moment = datetime.fromisoformat(at)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            if self._asked_at is not None and moment < self._asked_at:
                raise _Wrong
            self._asked_at = moment
        return Asked(at)

    def take_other(self, raw: bytes) -> bool:
        """Takes an external event from elsewhere than the events; false if it is none."""
        try:
            event = _object(raw)
            if event.get("op") != "external":
                return False
            self._publish(event)
        except _Wrong:
            return False
        return True

    def _publish(self, event: dict[str, Any]) -> None:
        try:
            told = _check_fields(event, "external")
            read_others(told, self.known)  # a label that is new in a later policy was none then
            self.others += read_others(told, self._policy)
        except ValueError:
            raise _Wrong from None

    def cut(self, number: int) -> None:
        """Ends the window: the table is now as release `number` must show it."""
        for person, before in self._qids_before.items():
            if self.registered.get(person) != before:
                self.since[person] = number
        for person, guard in self._guards_before.items():
            if self._guards[person] != guard:
                self.guarded_since[person] = number
        self._qids_before, self._guards_before, self._placed = {}, {}, set()
        self._accepted_in_window = 0
        self._is_cut = True

    def _apply(self, event: dict[str, Any]) -> None:
        op = event.get("op")
        if not isinstance(op, str) or op not in _FIELDS:
            raise _Wrong
        person = _check_fields(event, op)["id"]
        if not is_name(person):
            raise _Wrong
        getattr(self, f"_{op}")(person, event)

    def _insert(self, person: str, event: dict[str, Any]) -> None:
        qid, values, guard = self._qid(event["qid"]), self._values(event["sensitive"]), self._guard(event)
        if person in self.present or person in self.extinct:
            raise _Wrong
        self._move(person, qid)
        self._placed.add(person)
        self._put(person, qid, values | self.held.get(person, frozenset()), guard)

    def _upsert(self, person: str, event: dict[str, Any]) -> None:
        if person not in self.present:
            self._insert(person, event)
            return
        qid, values, guard = self._qid(event["qid"]), self._values(event["sensitive"]), self._guard(event)
        self._move(person, qid)
        self._put(person, qid, values | self.held.get(person, frozenset()), guard)

    def _update(self, person: str, event: dict[str, Any]) -> None:
        patch = self._patch(event["qid"]) if "qid" in event else {}
        values = self._values(event["sensitive"]) if "sensitive" in event else None
        guard = self._guard(event)
        record = self.present.get(person)
        if record is None or (values is not None and not self.held.get(person, frozenset()) <= values):
            raise _Wrong
        qid = tuple(patch.get(place, old) for place, old in enumerate(record.qid))
        self._move(person, qid)
        self._put(person, qid, record.values if values is None else values, guard)

    def _delete(self, person: str, _event: dict[str, Any]) -> None:
        if person not in self.present:
            raise _Wrong
        del self.present[person]
        if person not in self._placed and person in self._qids_before:
            # Moved and gone within a window: nobody ever saw the move, and the net effect is that they went.
            before = self._qids_before.pop(person)
            assert before is not None
            self.registered[person] = before

    def _register(self, person: str, event: dict[str, Any]) -> None:
        qid = self._qid(event["qid"])
        if person in self.present or person in self.extinct:
            raise _Wrong
        self._move(person, qid)
        self._placed.add(person)

    def _deregister(self, person: str, _event: dict[str, Any]) -> None:
        if person in self.present or person not in self.registered:
            raise _Wrong
        self._qids_before.pop(person, None)
        del self.registered[person]
        self.extinct.add(person)

    def _erase(self, person: str, _event: dict[str, Any]) -> None:
        """Somebody erased is unknown again, but for a permanent value of a redrawn table, and may come back; somebody
        deregistered may not, erased or not.
        """
        if person not in self.registered and person not in self.extinct and person not in self._ever_erased:
            raise _Wrong
        self.erased.add(person)
        self._ever_erased.add(person)
        self._qids_before.setdefault(person, self.registered.get(person))
        self.registered.pop(person, None)
        self.present.pop(person, None)
        self._placed.add(person)
        if person in self._guards:
            self._guards_before.setdefault(person, self._guards[person])
            self._guards[person] = None
        if self._policy.values == "lasting":
            self.held.pop(person, None)

    def _move(self, person: str, qid: Qid) -> None:
        self._qids_before.setdefault(person, self.registered.get(person))
        self.registered[person] = qid

    def _put(self, person: str, qid: Qid, values: frozenset[int], guard: "tuple[Guard | None] | None") -> None:
        if person in self._guards:
            self._guards_before.setdefault(person, self._guards[person])
        now = self._guards[person] = self._guards.get(person) if guard is None else guard[0]
        held = values & self._policy.sensitive.permanent
        if held:
            self.held[person] = held
        self.present[person] = Record(qid, values, now)

    def _qid(self, raw: object) -> Qid:
        patch = self._patch(raw)
        if len(patch) < len(self._policy.attributes):
            raise _Wrong
        return tuple(patch[place] for place in range(len(patch)))

    def _patch(self, raw: object) -> Mapping[int, float]:
        """The attributes an event names, by their place in the policy."""
        if not isinstance(raw, dict):
            raise _Wrong
        places = {attribute.name: place for place, attribute in enumerate(self._policy.attributes)}
        if raw.keys() - places:
            raise _Wrong
        return {places[name]: self._value(places[name], value) for name, value in raw.items()}

    def _value(self, place: int, raw: object) -> float:
        attribute, known = self._policy.attributes[place], self.known.attributes[place].hierarchy
        if attribute.hierarchy is None or known is None:
            return _number(attribute, raw)
        return _leaf(attribute.hierarchy, known, raw)

    def _values(self, raw: object) -> frozenset[int]:
        labels = raw if isinstance(raw, list) else [raw]
        if not 0 < len(labels) <= len(self.known.sensitive.hierarchy.leaves):
            raise _Wrong
        known = self.known.sensitive.hierarchy
        return frozenset(_leaf(self._hierarchy, known, label) for label in labels)

    def _guard(self, event: dict[str, Any]) -> "tuple[Guard | None] | None":
        """What an event says about the guard: None for nothing, else the new guard in a tuple of one."""
        raw = event.get("guard")
        if raw is None:
            return None
        if raw == "":
            return (Guard(None, self._limit),)
        limit, is_own = self._limit, False
        if isinstance(raw, dict):
            if "node" not in raw or raw.keys() - {"node", "bound"}:
                raise _Wrong
            if raw["node"] is None and "bound" not in raw:
                return (None,)
            if "bound" in raw:
                bound, is_own = raw["bound"], True
                if type(bound) not in (int, float) or not 0 < bound <= 1 / self._policy.l:
                    raise _Wrong
                limit = min(limit, exact(bound))  # 1/l as a float may be a hair above it
            raw = raw["node"]
        label = _label(raw)
        if label not in self.known.sensitive.hierarchy.node_of:
            raise _Wrong
        return (Guard(self._hierarchy.node_of[label], limit, is_own),)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = parse(raw)
    except (ValueError, RecursionError):
        raise _Wrong from None
    if not isinstance(found, dict):
        raise _Wrong
    return found


def _check_fields(event: dict[str, Any], op: str) -> dict[str, Any]:
    required, optional = _FIELDS[op]
    if not required <= event.keys() <= required | optional:
        raise _Wrong
    if "at" in event:
        at = event["at"]
        if not isinstance(at, str) or not _TIME.fullmatch(at):
            raise _Wrong
        try:
            datetime.fromisoformat(at)
        except ValueError:
            raise _Wrong from None
    return event


def _label(raw: object) -> str:
    if type(raw) is int:
        return str(raw)
    if not isinstance(raw, str):
        raise _Wrong
    return raw


def _leaf(hierarchy: Hierarchy, known: Hierarchy, raw: object) -> int:
    label = _label(raw)
    if label not in known.leaf_code or label not in hierarchy.leaf_code:
        raise _Wrong
    return hierarchy.leaf_code[label]


def _number(attribute: Attribute, raw: object) -> float:
    if type(raw) is not int and (attribute.kind == "int" or type(raw) is not float):
        raise _Wrong
    assert isinstance(raw, int | float)
    if not attribute.low <= raw <= attribute.high:
        raise _Wrong
    return raw if attribute.kind == "int" else raw + 0.0
