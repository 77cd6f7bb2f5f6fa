"""Events as they arrive: strict JSON, the checks that need no policy, and the reasons to reject one.

A reject names a reason, the op if it is a known one, and a field of the fixed format or of the policy. It never holds
anything the sender wrote: an unknown field's own name is content, so only its parent is named (docs/contract.md,
"Rejects").
"""

import json
import re
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, final

from shoal.core.errors import CoreError
from shoal.core.events.fields import FIELDS, KNOWN, LONGEST_ID, SKIPPABLE


class Reason(StrEnum):
    """Why an event has no effect. Fixed words: they stand in dead letters and `rejects.jsonl`."""

    BAD_JSON = "bad-json"
    BAD_MSGPACK = "bad-msgpack"
    BAD_AVRO = "bad-avro"
    UNKNOWN_SCHEMA = "unknown-schema"  # of a record in Avro: the registry does not have it
    UNKNOWN_CONTENT_TYPE = "unknown-content-type"
    NOT_AN_OBJECT = "not-an-object"
    DUPLICATE_KEY = "duplicate-key"
    UNKNOWN_OP = "unknown-op"
    UNKNOWN_FIELD = "unknown-field"
    MISSING_FIELD = "missing-field"
    WRONG_TYPE = "wrong-type"
    BAD_TEXT = "bad-text"  # an id with a control character or half a surrogate pair, or not in Unicode's form NFC
    TOO_LONG = "too-long"  # an id, or a list with more values than there are
    TOO_LARGE = "too-large"  # a whole record, which is not read
    BAD_TIME = "bad-time"
    OUT_OF_ORDER = "out-of-order"  # a release that names an earlier time than one before it
    EMPTY = "empty"
    MISSING_ATTRIBUTE = "missing-attribute"
    UNKNOWN_ATTRIBUTE = "unknown-attribute"
    OUT_OF_DOMAIN = "out-of-domain"
    UNKNOWN_NODE = "unknown-node"
    NOT_A_LEAF = "not-a-leaf"
    UNKNOWN_ID = "unknown-id"
    NOT_PRESENT = "not-present"
    ALREADY_PRESENT = "already-present"
    NOT_ABSENT = "not-absent"
    DEREGISTERED = "deregistered"
    UNAVAILABLE = "unavailable"  # a column that a database did not send, and that is not known from before
    PERMANENT = "permanent"  # an update that takes a permanent value away
    SKIPPED = "skipped"  # left out by an operator
    TOO_LATE = "too-late"  # a request to leave out what is part of a release already
    REFUSED = "refused"  # a change of policy that is not allowed, or of another policy than the table's
    WRONG_TOPIC = "wrong-topic"
    WRONG_PARTITION = "wrong-partition"


@final
class Reject(NamedTuple):
    """An event that has no effect, and why; `op` and `field` are None where they are not known."""

    reason: Reason
    op: str | None = None
    field: str | None = None


class SkipRequest(NamedTuple):
    """An operator's request to leave one record out: as if it had been rejected."""

    topic: str  # the last part of its name: events, external or triggers
    partition: int
    offset: int


class ReleaseRequest(NamedTuple):
    """A request for a release. Shoal's own timers set `number`: their request is stale once that release is made."""

    at: str | None
    number: int | None = None


class ChangeRequest(NamedTuple):
    """An operator's request for a release with which another policy takes over; both are packed files."""

    at: str | None
    previous: str
    policy: str


_LONGEST_TIME: Final = 64
_LARGEST_OFFSET: Final = 2**53  # Redis counts in floats
_ISO_CHARACTERS = re.compile(r"[0-9TtWwZz:.,+\- ]+", re.ASCII)
_UNSEEN: Final = frozenset(("Cc", "Cs", "Zl", "Zp"))  # control characters, surrogates, line and paragraph separators


class DuplicateKeyError(CoreError):
    """Raised through a decoder by `unique_pairs`; it never leaves the function that decodes."""


class _NotFiniteError(CoreError):
    """NaN or Infinity, which are not JSON."""


def unique_pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """A dict of pairs, for decoders that would otherwise let the last of two equal keys win.

    Raises DuplicateKeyError.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DuplicateKeyError
    return found


def _refuse_constant(_: str) -> float:
    raise _NotFiniteError


_decode = json.JSONDecoder(object_pairs_hook=unique_pairs, parse_constant=_refuse_constant).decode


def parse_json(raw: bytes) -> object | Reject:
    """Read one JSON text, strictly; never raises. A number too large for a float comes back as infinity."""
    try:
        found: object = _decode(raw.decode())
        if b"\\u" in raw:
            # Only an escape can smuggle in half a surrogate pair; UTF-8 itself has none.
            json.dumps(found, ensure_ascii=False).encode()
    except DuplicateKeyError:
        return Reject(Reason.DUPLICATE_KEY)
    except (ValueError, RecursionError, _NotFiniteError):  # ValueError: not UTF-8, not JSON, thousands of digits
        return Reject(Reason.BAD_JSON)
    return found


def read_op(event: object) -> tuple[str, dict[Any, Any]] | Reject:
    """The op of an event and the event itself, if it is an object with a known op."""
    if type(event) is not dict:
        return Reject(Reason.NOT_AN_OBJECT)
    op = event.get("op")
    if type(op) is not str:
        return Reject(Reason.WRONG_TYPE if "op" in event else Reason.MISSING_FIELD, None, "op")
    return (op, event) if op in FIELDS else Reject(Reason.UNKNOWN_OP, None, "op")


def wrong_time(at: object) -> Reason | None:
    """What is wrong with an `at`, which must be ISO 8601."""
    if type(at) is not str:
        return Reason.WRONG_TYPE
    # Python would take any character at all between date and time.
    if len(at) > _LONGEST_TIME or not _ISO_CHARACTERS.fullmatch(at):
        return Reason.BAD_TIME
    try:
        datetime.fromisoformat(at)
    except ValueError:
        return Reason.BAD_TIME
    return None


def moment_of(at: str) -> datetime:
    """The moment that an `at` names; without an offset it is in UTC. For an `at` that nothing is wrong with."""
    found = datetime.fromisoformat(at)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_before(at: str | None, last: str | None) -> bool:
    """Whether a release would name an earlier time than one before it."""
    return at is not None and last is not None and moment_of(at) < moment_of(last)


def read_only(wanted: str, event: object) -> dict[Any, Any] | Reject:
    """The fields of an event with this op; other ops belong on another topic."""
    read = read_op(event)
    if isinstance(read, Reject):
        return read
    op, fields = read
    return fields if op == wanted else Reject(Reason.WRONG_TOPIC, op, "op")


def parse_release(event: object, *, numbered: bool = False) -> ReleaseRequest | Reject:
    """Read a `release` event; other ops are rejected as `wrong-topic`.

    With `numbered` it may name the release that it asks for, as the timers' own requests do.
    """
    op = "release"
    fields = read_only(op, event)
    if isinstance(fields, Reject):
        return fields
    names_one = numbered and "release" in fields
    others = {name: value for name, value in fields.items() if name != "release"} if names_one else fields
    if wrong := wrong_fields(op, others):
        return wrong
    if not names_one:
        return ReleaseRequest(fields.get("at"))
    number = fields["release"]
    if type(number) is not int:
        return Reject(Reason.WRONG_TYPE, op, "release")
    if not 1 <= number < _LARGEST_OFFSET:
        return Reject(Reason.OUT_OF_DOMAIN, op, "release")
    return ReleaseRequest(fields.get("at"), number)


def parse_skip(event: object) -> SkipRequest | Reject:
    """Read a `skip` event; other ops are rejected as `wrong-topic`."""
    op = "skip"
    fields = read_only(op, event)
    if isinstance(fields, Reject):
        return fields
    if wrong := wrong_fields(op, fields):
        return wrong
    if type(fields["topic"]) is not str:
        return Reject(Reason.WRONG_TYPE, op, "topic")
    if fields["topic"] not in SKIPPABLE:
        return Reject(Reason.OUT_OF_DOMAIN, op, "topic")
    for name in ("partition", "offset"):
        if type(fields[name]) is not int:
            return Reject(Reason.WRONG_TYPE, op, name)
        if not 0 <= fields[name] < _LARGEST_OFFSET:
            return Reject(Reason.OUT_OF_DOMAIN, op, name)
    return SkipRequest(fields["topic"], fields["partition"], fields["offset"])


def parse_change(event: object) -> ChangeRequest | Reject:
    """Read a `change` event; other ops are rejected as `wrong-topic`. What is packed in it is not looked at."""
    op = "change"
    fields = read_only(op, event)
    if isinstance(fields, Reject):
        return fields
    if wrong := wrong_fields(op, fields):
        return wrong
    for name in ("previous", "policy"):
        if type(fields[name]) is not str:
            return Reject(Reason.WRONG_TYPE, op, name)
    return ChangeRequest(fields.get("at"), fields["previous"], fields["policy"])


def wrong_fields(op: str, event: dict[Any, Any]) -> Reject | None:
    """What is wrong with the fields of an event: one is unknown or missing, or `at` is no time.

    What the other fields hold is not looked at.
    """
    if not event.keys() <= KNOWN[op]:
        return Reject(Reason.UNKNOWN_FIELD, op)
    for field in FIELDS[op].required:
        if field not in event:
            return Reject(Reason.MISSING_FIELD, op, field)
    if "at" in event and (wrong := wrong_time(event["at"])):
        return Reject(wrong, op, "at")
    return None


def wrong_id(person: object) -> Reason | None:
    """What is wrong with an id: some text of up to 512 bytes without control characters, in form NFC.

    Another form is rejected and not brought into NFC, or two people whom their sender tells apart would become one.
    """
    if type(person) is not str:
        return Reason.WRONG_TYPE
    if not person:
        return Reason.EMPTY
    if len(person) > LONGEST_ID or (not person.isascii() and len(person.encode(errors="surrogatepass")) > LONGEST_ID):
        return Reason.TOO_LONG
    if is_plain(person):
        return None
    if any(unicodedata.category(character) in _UNSEEN for character in person):
        return Reason.BAD_TEXT
    return None if unicodedata.is_normalized("NFC", person) else Reason.BAD_TEXT


def is_plain(person: str) -> bool:
    """Whether text is an id at first glance, as nearly all are: short, ASCII, and nothing invisible in it."""
    return person.isascii() and person.isprintable() and 0 < len(person) <= LONGEST_ID
